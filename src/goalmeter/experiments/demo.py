"""`goalmeter demo`: the main job on the embedded agents, ending in one page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter.experiments import (
    frozen_lake,
    ledger,
    logged,
    mouse,
    mouse_page,
    reflection_page,
)
from goalmeter.experiments.formats import nats, percent
from goalmeter.experiments.meg_cliffworld import compute, page
from goalmeter.experiments.meg_cliffworld.tables import policy_row
from goalmeter.experiments.outcome import Outcome, json_text, provenance
from goalmeter.reflection import Reflection
from goalmeter.reflection import measure as self_reflection
from goalmeter.report import Section, require_report_extra, write_report, write_text

TITLE = "How goal-directed are these agents?"
LEDE = (
    "Policies of known quality in small worlds, measured by maximum entropy "
    "goal-directedness (MEG): towards their reward, and towards whatever goal would explain them "
    "best. Then agents in environments that simulate them: self-reflection. Each number comes "
    "with its bound or interval, and with the ends of its scale."
)

# Agents whose self-reflection is measured, each beside its reality check; few steps and seeds, so
# that it takes seconds.
REFLECTING = tuple(
    name
    for agent in ("random", "constant", "naive", "q-learner")
    for name in (agent, f"rc({agent})")
)
REFLECTION_STEPS, REFLECTION_SEEDS = 150, 5


def demo(
    out: str | Path, *, seed: int = 0, progress: Callable[[str], None] | None = None
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json.

    Without Gymnasium that part of the page says how to install it.

    Args:
        out: folder to write to.
        seed: of the sampled trajectories, and the first of the reflection trials; everything else
            is exact.
        progress: told what is being done.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
        InvalidFileError: the folder cannot be written to.
    """
    tell = progress or (lambda line: None)
    require_report_extra()
    by_length = compute.measure(compute.difficulty(), tell)
    noisy = compute.measure(compute.noise(baselines=True), tell)
    by_noise = [m for m in noisy if m.setting.epsilon in compute.EPSILONS]
    tell(frozen_lake.NAME)
    lake, lake_section = _lake()
    tell("logged trajectories")
    logs = logged.measure(seed)
    tell("causal models")
    mice = mouse.measure()
    reflections = []
    for name in REFLECTING:
        tell(f"self-reflection, {name}")
        run = range(seed, seed + REFLECTION_SEEDS)
        reflections.append(self_reflection(name, REFLECTION_STEPS, run))
    tell("report")
    published = ledger.load("meg-cliffworld/")
    sections = [
        page.world_section(),
        page.noise_section(by_noise, published, baselines=noisy),
        page.difficulty_section(by_length, published),
        page.occupancy_section(by_length),
        page.goals_section([by_length[0], by_length[-1], by_noise[0], by_noise[4]]),
        page.evidence_section(by_noise[0]),
        lake_section,
        logged.section(logs),
        *mouse_page.sections(mice),
    ]
    reflecting = reflection_page.sections(reflections)
    result: dict[str, Any] = {
        "cliff_world": {
            "epsilon": [policy_row(m).to_json() for m in noisy],
            "goal_length": [policy_row(m).to_json() for m in by_length],
        },
        "frozen_lake": None if lake is None else [row.to_json() for row in lake.rows],
        "logged": [row.to_json() for row in logs],
        "mouse": mice.to_json(),
        "reflection": [_reflection(measured) for measured in reflections],
    }
    report = write_report(
        Path(out) / "report.html",
        TITLE,
        [*sections, *reflecting],
        lede=LEDE,
        findings=[
            *page.findings(by_length, noisy),
            *_findings(lake, logs),
            *mouse_page.findings(mice),
            *reflection_page.findings(reflections),
        ],
        glossary=page.GLOSSARY | mouse_page.GLOSSARY | reflection_page.GLOSSARY,
        provenance=provenance(f"goalmeter demo --seed {seed}"),
    ).resolve()
    results = write_text(Path(out) / "results.json", json_text(result) + "\n").resolve()
    result |= {"report": str(report), "results": str(results)}
    # A terminal has no room for every agent in every environment; the page has.
    shown = [table for section in sections for table in section.tables]
    tables = (*shown, *reflection_page.short_tables(reflections))
    return Outcome(tables=tables, json=result, report=report)


def _lake() -> tuple[frozen_lake.FrozenLake | None, Section]:
    try:
        lake = frozen_lake.measure()
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    return lake, frozen_lake.section(lake)


def _reflection(measured: Reflection) -> dict[str, Any]:
    """The measurement without its trials, of which there are hundreds."""
    found = measured.to_json()
    found["environments"] = [
        {"name": name, "opposite": opposite, "reward_per_step": reward}
        for (name, opposite), reward in measured.by_environment().items()
    ]
    return found


def _findings(lake: frozen_lake.FrozenLake | None, logs: list[logged.Logged]) -> list[str]:
    lines = []
    if lake is not None:
        best, worst = lake.rows[0], lake.rows[-1]
        lines.append(
            f"In FrozenLake some utility over states explains {percent(best.unknown.fraction)} "
            f"of the optimal policy's decisions that can matter, and "
            f"{percent(worst.unknown.fraction)} of the uniform one's."
        )
    first = logs[0]
    low, high = first.estimate.interval
    lines.append(
        f"{first.estimate.n} logged episodes of the ε = {logged.EPSILON:g} agent give "
        f"{nats(first.estimate.corrected)} nats towards its reward "
        f"({first.estimate.confidence:.0%} interval {low:.2f} to {high:.2f}); the exact value "
        f"is {nats(first.exact.value)}."
    )
    return lines
