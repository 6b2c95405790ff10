"""`goalmeter replicate tempting-button`: do the recurrent DQN's rewards tend to +0.5 a turn?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments.tempting_button import compute, page
from goalmeter.experiments.tempting_button.tables import summary
from goalmeter.report import require_report_extra
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
    steps: int = compute.STEPS,
) -> Outcome:
    """Play TemptingButton with the published settings and write report.html and results.json.

    The trials are kept in the folder as they are finished; the same command goes on from there.
    `seeds` None is 10, some 15 minutes on two cores; `steps` are percepts, the first included.

    Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section
    3.2, and the authors' TemptingButtonExperiment at e4dd0d0.
    """
    count = _checked(seeds, steps)
    require_report_extra()
    out = Path(out)
    traces = compute.play(
        out,
        compute.PLAYERS,
        steps=steps,
        seeds=range(seed, seed + count),
        on=on,
        progress=progress,
    )
    sections = page.sections(traces)
    findings = page.findings(traces)
    result = {
        "replication": "tempting-button",
        "steps": steps,
        "seeds": list(range(seed, seed + count)),
        "findings": findings,
        "agents": [
            {"key": player.key, "name": player.label}
            | player.arguments
            | summary(traces[player.key])
            for player in compute.PLAYERS
        ],
    }
    return write_outcome(
        out,
        "The tempting button, reproduced",
        sections,
        result,
        command=f"goalmeter replicate tempting-button --seeds {count} --seed {seed}",
        lede="Section 3.2 of Extending Environments To Measure Self-Reflection In Reinforcement "
        "Learning: a recurrent DQN that is said to learn never to push a button.",
        findings=findings,
        glossary=page.GLOSSARY,
        tables=page.tables(traces),
        text="\n".join(findings),
    )


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    steps: int = compute.STEPS,
) -> list[Forecast]:
    """What `replicate` with these arguments will cost; some trials are played to see it."""
    over = range(seed, seed + _checked(seeds, steps))
    return compute.forecasts(out, compute.PLAYERS, steps=steps, seeds=over, on=on)


def _checked(seeds: int | None, steps: int) -> int:
    """How many seeds, if they and the steps can be so many."""
    count = compute.SEEDS if seeds is None else seeds
    for name, value, least in (("seeds", count, 1), ("steps", steps, 2)):
        if value < least:
            raise InvalidParameterError(f"{name} is {value}, expected at least {least}")
    return count
