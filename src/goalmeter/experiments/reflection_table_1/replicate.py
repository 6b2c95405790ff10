"""`goalmeter replicate reflection-table-1`: Table 1 on self-reflection, ours beside theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, require
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.reflection_table_1 import compute, page
from goalmeter.experiments.reflection_table_1.compute import COMMAND, NEURAL, STEPS, Row
from goalmeter.experiments.reflection_table_1.effects import Estimate, effects
from goalmeter.pages.reflection import page as reflection_page
from goalmeter.pages.reflection.pairs import verdict
from goalmeter.reflection.result import interval_json
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
    agents: str = "scripted",
    steps: int | None = None,
) -> Outcome:
    """Measure agents of Table 1 and write report.html, results.json and figures/*.svg.

    The runs are kept in `out`/runs, one an agent and length; what is there already is not run
    again, and a run that was interrupted goes on. `seeds` None is 10, but 2 of neural agents for
    1000 steps. `agents` to run now are "scripted", "neural", "all", or names with commas between
    them; the others are shown as the ledger has them. `steps` runs one length of trials only.
    """
    # All options are looked at before anything is played, which may take hours.
    names = _checked(agents, seeds, steps)
    require_report_extra()
    rows = compute.table(
        names,
        Path(out),
        lengths=STEPS if steps is None else (steps,),
        seeds=seeds,
        seed=seed,
        on=on,
        progress=progress,
    )
    ran = [row.result for row in rows if row.result is not None]
    shown = [result for result in ran if result.steps == min(r.steps for r in ran)]
    sections = [*page.sections(rows), *reflection_page.sections(shown)]
    chosen = {"seeds": seeds, "steps": steps}
    options = "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)
    return write_outcome(
        out,
        "Self-reflection of agents: Table 1, reproduced",
        sections,
        _json(rows),
        command=f"{COMMAND} --agents {agents}{options} --seed {seed}",
        lede="Table 1 of Extending Environments To Measure Self-Reflection In Reinforcement "
        "Learning, recomputed: agents and their reality checks in 25 environments that simulate "
        f"them and their opposites. What follows the table is of {shown[0].steps} steps.",
        findings=[*reflection_page.ended_early(ran), *page.findings(rows)],
        glossary=reflection_page.GLOSSARY,
        tables=(table for section in sections[:2] for table in section.tables),
    )


def _json(rows: list[Row]) -> dict[str, Any]:
    return {
        "replication": "reflection-table-1",
        "rows": [_row(row, row.number) for row in rows],
        "reality_check": [
            {
                "agent": effect.agent,
                "steps": effect.steps,
                "paired": effect.paired,
                "ours": _estimate(effect.ours),
                "published": _estimate(effect.theirs),
            }
            for effect in effects(rows)
        ],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "difference": estimate.value,
        "stderr": estimate.error,
        "interval": interval_json(estimate.interval),
        "verdict": verdict(estimate.interval),
    }


def _row(row: Row, number: Number) -> dict[str, Any]:
    result = row.result
    return {
        "agent": row.agent,
        "steps": row.steps,
        "printed": number.published,
        "published": number.theirs,
        "published_stderr": number.published_error,
        "ours": number.ours if number.ran else None,
        "stderr": number.error if number.ran else None,
        "seeds": number.seeds,
        "z": number.z,
        "verdict": number.verdict,
        "verdict_on_print": number.verdict_on_print or number.verdict,
        "margin": None if number.margin is None else number.margin.within,
        "run_now": result is not None,
        "measure": None if result is None else result.measure,
        "ended_early": None if result is None else len(result.failures),
    }


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    agents: str = "scripted",
    steps: int | None = None,
) -> list[Forecast]:
    """What `replicate` with these arguments will cost, a forecast a run."""
    return compute.forecasts(
        _checked(agents, seeds, steps),
        out,
        lengths=STEPS if steps is None else (steps,),
        seeds=seeds,
        seed=seed,
        on=on,
    )


def _checked(agents: str, seeds: int | None, steps: int | None) -> tuple[str, ...]:
    """The names of the agents, if all options can be used."""
    names = compute.chosen(agents)
    if seeds is not None and seeds < 2:
        raise InvalidParameterError(f"seeds is {seeds}, expected at least 2, for a standard error")
    if steps is not None and steps not in STEPS:
        raise InvalidParameterError(
            f"steps is {steps}, expected {' or '.join(map(str, STEPS))}, the lengths of Table 1"
        )
    if set(names) & set(NEURAL):
        require("stable_baselines3", extra="sb3", feature="Measuring the neural agents")
    return names
