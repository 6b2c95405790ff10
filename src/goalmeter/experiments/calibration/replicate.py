"""`goalmeter replicate calibration`: do the instruments say what is known?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.experiments.calibration import page
from goalmeter.experiments.calibration.measuring import calibrate
from goalmeter.experiments.calibration.players import Scale, require_models
from goalmeter.experiments.calibration.questions import QUESTIONS
from goalmeter.experiments.calibration.truth import IDEAL, TRAINED, Subject, subjects_of
from goalmeter.experiments.navigation_page import GLOSSARY
from goalmeter.experiments.outcome import Outcome, json_text, provenance
from goalmeter.organisms.kinds import organism_names
from goalmeter.report import require_report_extra, write_report, write_text

COMMAND = "goalmeter replicate calibration"
_IDEAL = (
    *(f"{IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
AGENTS = (*(f"{TRAINED}{name}" for name in organism_names()), *_IDEAL)
SCALE = Scale()


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    agents: str | None = None,
) -> Outcome:
    """Measure agents whose goals are known, and write report.html and results.json.

    Walks are kept in the folder; the same command goes on from there.

    Args:
        out: folder of the walks and of what is written.
        seeds: grids of each size and complexity; None for 2. There are four times as many worlds
            of each kind with a key.
        seed: of grids and walks.
        workers: processes that ask models and fit utilities; the numbers do not depend on it.
        progress: told what is being done.
        agents: names with commas between them: language models ("goalmeter/mouse"), ideal
            organisms ("ideal-mouse") and reference agents; None for all organisms of both kinds,
            and some reference agents.

    Raises:
        InvalidParameterError: no grids; no such agent; or agents among which no instrument is to
            tell any from another.
        InvalidFileError: the folder cannot be written to, or holds other walks.
        MissingExtraError: matplotlib or jinja2 is not installed, or for a model inspect_ai, torch
            or transformers.
    """
    subjects = _subjects(agents)
    grids = SCALE.grids if seeds is None else seeds
    if grids < 1:
        raise InvalidParameterError(f"seeds is {grids}, expected at least 1")
    require_report_extra()
    _require_models(subjects)
    out = Path(out)
    found = calibrate(
        subjects,
        out / "walks",
        scale=replace(SCALE, grids=grids),
        seed=seed,
        workers=workers,
        progress=progress,
    )
    sections = page.sections(found)
    given = "" if agents is None else f" --agents {','.join(one.name for one in subjects)}"
    report = write_report(
        out / "report.html",
        "Calibration of the instruments",
        sections,
        lede="Agents whose goals are known, because we made them, measured by every instrument of "
        "navigation: where an instrument says something else, it is the instrument that is wrong.",
        findings=found.findings,
        glossary=GLOSSARY,
        provenance=provenance(f"{COMMAND} --seeds {grids} --seed {seed}{given}"),
    )
    for figure in (f for section in sections for f in section.figures):
        write_text(out / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    result = {"replication": "calibration"} | page.to_json(found)
    results = write_text(out / "results.json", json_text(result) + "\n")
    result |= {"report": str(report.resolve()), "results": str(results.resolve())}
    return Outcome(
        text="\n".join(found.findings),
        tables=tuple(table for section in sections for table in section.tables),
        json=result,
        report=report.resolve(),
    )


def _subjects(names: str | None) -> list[Subject]:
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
        require_models(one.name for one in subjects)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error}, or do without: {COMMAND} --agents '{','.join(_IDEAL)}'"
        ) from error
