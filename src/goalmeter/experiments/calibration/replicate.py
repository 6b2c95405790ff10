"""`goalmeter replicate calibration`: do the instruments say what is known?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments.calibration import page
from goalmeter.experiments.calibration.measuring import calibrate
from goalmeter.experiments.calibration.measuring import forecasts as walks_forecasts
from goalmeter.experiments.calibration.players import Scale, require_models
from goalmeter.experiments.calibration.population import page as population_page
from goalmeter.experiments.calibration.population.measuring import PopulationScale
from goalmeter.experiments.calibration.population.measuring import forecast as population_forecast
from goalmeter.experiments.calibration.population.result import (
    calibrate_population,
    population_seeds,
)
from goalmeter.experiments.calibration.questions import QUESTIONS
from goalmeter.experiments.calibration.truth import IDEAL, TRAINED, Subject, subjects_of
from goalmeter.organisms.kinds import organism_names
from goalmeter.pages.navigation.page import GLOSSARY
from goalmeter.report import require_report_extra, write_text
from goalmeter.report.markdown import in_markdown
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast

COMMAND = "goalmeter replicate calibration"
_IDEAL = (
    *(f"{IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
AGENTS = (*(f"{TRAINED}{name}" for name in organism_names()), *_IDEAL)
SCALE = Scale()
POPULATION = PopulationScale()
NOBODY = "none"
WALKS = "walks"


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
    agents: str | None = None,
) -> Outcome:
    """Measure agents whose goals are known, and write report.html and results.json.

    Two populations of simulated agents walk anew each time. The walks of organisms and reference
    agents are kept in the folder; the same command goes on from there.

    Args:
        out: folder of the walks and of what is written.
        seeds: grids of each size and complexity; None for 2. There are four times as many worlds
            of each kind with a key, and for the populations as many mazes as are given, or 6.
        seed: of grids and walks, and of the populations.
        on: where populations walk and utilities are fitted, and with processes models are asked;
            the numbers do not depend on it.
        progress: told what is being done.
        agents: names with commas between them: language models ("goalmeter/mouse"), ideal
            organisms ("ideal-mouse") and reference agents; None for all organisms of both kinds,
            and some reference agents; "none" for the populations alone.
    """
    subjects = _subjects(agents)
    grids = _checked(seeds)
    require_report_extra()
    _require_models(subjects)
    out = Path(out)
    population = calibrate_population(
        _population(seeds),
        seed=seed,
        on=on,
        progress=progress,
    )
    sections = population_page.sections(population)
    findings = came_of_it = population_page.findings(population)
    result: dict[str, Any] = {"replication": "calibration", "population": population.to_json()}
    if subjects:
        calibration = calibrate(
            subjects,
            out / WALKS,
            scale=replace(SCALE, grids=grids),
            seed=seed,
            on=on,
            progress=progress,
        )
        sections += page.sections(calibration)
        findings = [*findings, *calibration.findings]
        result |= page.to_json(calibration)
    result["findings"] = findings
    names = ",".join(subject.name for subject in subjects) or NOBODY
    chosen = "" if agents is None else f" --agents {names}"
    count = "" if seeds is None else f" --seeds {seeds}"
    tables = tuple(table for section in sections for table in section.tables)
    write_text(out / "tables.md", in_markdown(tables, {"What came of the aims": came_of_it}))
    return write_outcome(
        out,
        "Calibration of the instruments",
        sections,
        result,
        command=f"{COMMAND}{count} --seed {seed}{chosen}",
        lede="Agents whose goals are known, because we made them, measured by the instruments of "
        "navigation: where an instrument says something else, it is the instrument that is wrong.",
        findings=findings,
        glossary=GLOSSARY,
        text="\n".join(findings),
    )


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    agents: str | None = None,
) -> list[Forecast]:
    """Estimate the cost of `replicate`: two populations and single agents."""
    subjects, grids = _subjects(agents), _checked(seeds)
    _require_models(subjects)
    told = [
        population_forecast(_population(seeds), seed=each, on=on) for each in population_seeds(seed)
    ]
    if subjects:
        scale = replace(SCALE, grids=grids)
        told += walks_forecasts(subjects, out / WALKS, scale=scale, seed=seed, on=on)
    return told


def _checked(seeds: int | None) -> int:
    """How many grids of each size and complexity, if it can be so many."""
    grids = SCALE.grids if seeds is None else seeds
    if grids < 1:
        raise InvalidParameterError(f"seeds is {grids}, expected at least 1")
    return grids


def _population(seeds: int | None) -> PopulationScale:
    return POPULATION if seeds is None else replace(POPULATION, grids=seeds)


def _subjects(names: str | None) -> list[Subject]:
    if names == NOBODY:
        return []
    subjects = subjects_of(AGENTS if names is None else names.split(","))
    if not any(
        any(map(question.first, subjects)) and any(map(question.second, subjects))
        for question in QUESTIONS.values()
        if not question.control
    ):
        raise InvalidParameterError(
            f"agents is {names!r}, expected some that are to be told apart: a goal-directed one "
            f"and an aimless one, such as optimal,random, or one that wants the goal and one that "
            f"wants the key, such as optimal,key-seeker"
        )
    return subjects


def _require_models(subjects: list[Subject]) -> None:
    try:
        require_models(subject.name for subject in subjects)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error}, or do without: {COMMAND} --agents '{','.join(_IDEAL)}'"
        ) from error
