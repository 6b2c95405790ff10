"""`goalmeter demo`: the main job on the embedded agents, ending in one page.

The organisms come first: walks, measures, and the calibration of the instruments with them. Then
what else can be measured, in worlds where the answers are exact.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter.commands.dry_run import shown
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments import ledger
from goalmeter.experiments.demo import (
    beliefs,
    frozen_lake,
    logged,
    mouse,
    mouse_page,
    organisms,
    organisms_page,
)
from goalmeter.experiments.meg_cliffworld import compute, page
from goalmeter.experiments.meg_cliffworld.compute import Measured
from goalmeter.experiments.meg_cliffworld.tables import policy_row
from goalmeter.pages.meg.tables import GLOSSARY
from goalmeter.pages.part import Part, all_findings, all_sections, all_terms
from goalmeter.pages.reflection.page import part_of as reflection_part
from goalmeter.reflection import Reflection
from goalmeter.reflection import measure as self_reflection
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.forecast import forecast as cost_of_reflection
from goalmeter.report import Section, require_report_extra
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, together, unmeasured

TITLE = "How goal-directed are these agents?"
LEDE = (
    "What an agent does shows what it wants, if the instruments that read it can be trusted. Four "
    "small language models whose goals are known, because we made them, walk through grid worlds "
    "and are measured by every instrument; where one says something else, it is the instrument "
    "that is wrong. Then maximum entropy goal-directedness (MEG) in worlds where it is exact, from "
    "logs and in a causal model, and agents in environments that simulate them."
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
    out: str | Path,
    *,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json.

    Walks are kept in the folder; the same command goes on from there. Without Gymnasium, or what
    language models need, the page says how to install it.

    Args:
        out: folder to write to.
        seed: of the grid worlds and walks, of sampled trajectories, and the first of the
            reflection trials; everything else is exact.
        on: where language models are asked about maps and utilities are fitted; with processes,
            language models walk there too.
        progress: told what is being done.
    """
    tell = progress or (lambda line: None)
    require_report_extra()
    walks, believed = _folders(Path(out), seed)
    results = organisms.measure(walks, seed=seed, on=on, progress=progress)
    read = beliefs.measure(believed, seed=seed, on=on, progress=progress)
    by_length = compute.measure(compute.difficulty(), tell)
    noisy = compute.measure(compute.noise(baselines=True), tell)
    tell(frozen_lake.NAME)
    lake, lake_section = _lake()
    tell("logged trajectories")
    logs = logged.measure(seed)
    tell("causal models")
    mice = mouse.measure()
    reflections = []
    for name in REFLECTING:
        tell(f"self-reflection, {name}")
        reflections.append(self_reflection(name, REFLECTION_STEPS, _seeds(seed)))
    tell("report")
    parts = [
        organisms_page.part(results),
        beliefs.part(read),
        _cliff_world(by_length, noisy),
        Part(sections=(lake_section, logged.section(logs))),
        mouse_page.part(mice),
        reflection_part(reflections),
    ]
    findings = all_findings(parts)
    # A terminal is for what it comes to; every table is in the report.
    summary = [TITLE, *(f"- {finding.plain}" for finding in findings), "All of it, with tables:"]
    return write_outcome(
        out,
        TITLE,
        all_sections(parts),
        {
            "organisms": results.to_json(),
            "beliefs": None if isinstance(read, str) else [each.to_json() for each in read],
            "cliff_world": {
                "epsilon": [policy_row(m).to_json() for m in noisy],
                "goal_length": [policy_row(m).to_json() for m in by_length],
            },
            "frozen_lake": None if lake is None else [row.to_json() for row in lake.rows],
            "logged": [row.to_json() for row in logs],
            "mouse": mice.to_json(),
            "reflection": [_reflection(measured) for measured in reflections],
        },
        command=f"goalmeter demo --seed {seed}",
        lede=LEDE,
        findings=findings,
        glossary=all_terms(parts),
        tables=(),
        text="\n".join(map(_wrapped, summary)),
        figures=False,
    )


def dry_run(out: str | Path, *, seed: int = 0, on: str = HERE) -> Outcome:
    """What `demo` will cost: all but causal models, logs and the page, which take seconds."""
    require_report_extra()
    walks, believed = _folders(Path(out), seed)
    settings = [*compute.difficulty(), *compute.noise(baselines=True)]
    played = [
        cost_of_reflection(name, steps=REFLECTION_STEPS, seeds=_seeds(seed), environments=BATTERY)
        for name in REFLECTING
    ]
    not_kept = "trials of self-reflection are made in this process, timed on some, and not kept"
    told: list[Forecast] = [
        *organisms.forecasts(walks, seed=seed, on=on),
        unmeasured(
            beliefs.study_of(seed),
            "how many answers a question takes, and how long, is not known before; there is none "
            "without what language models need",
            on=on,
            out=believed,
        ),
        compute.forecast(settings),
        together("self-reflection", played, disk=None, assumed=(not_kept,)),
    ]
    return shown(told)


def _folders(out: Path, seed: int) -> tuple[Path, Path]:
    # Walks and answers with another seed are other runs.
    return out / "walks" / f"seed-{seed}", out / "beliefs" / f"seed-{seed}"


def _seeds(seed: int) -> range:
    return range(seed, seed + REFLECTION_SEEDS)


def _cliff_world(by_length: Sequence[Measured], noisy: Sequence[Measured]) -> Part:
    """CliffWorld with its most telling finding; the others stand in its tables."""
    by_noise = [m for m in noisy if m.setting.epsilon in compute.EPSILONS]
    published = ledger.load("meg-cliffworld/")
    return Part(
        sections=(
            replace(page.world_section(), title="A world where MEG is exact: CliffWorld"),
            page.noise_section(by_noise, published, baselines=noisy),
            page.difficulty_section(by_length, published),
            page.occupancy_section(by_length),
            page.goals_section([by_length[0], by_length[-1], by_noise[0], by_noise[4]]),
            page.evidence_section(by_noise[0]),
        ),
        findings=page.findings(by_length, noisy)[:1],
        glossary=GLOSSARY,
    )


def _lake() -> tuple[frozen_lake.FrozenLake | None, Section]:
    try:
        lake = frozen_lake.measure()
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    return lake, frozen_lake.section(lake)


def _wrapped(line: str) -> str:
    """A line of the summary, in lines that fit a terminal."""
    return textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False)


def _reflection(measured: Reflection) -> dict[str, Any]:
    """The measurement without its trials, of which there are hundreds."""
    environments = [
        {"name": name, "opposite": opposite, "reward_per_step": reward}
        for (name, opposite), reward in measured.by_environment().items()
    ]
    return measured.to_json() | {"environments": environments}
