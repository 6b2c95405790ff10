"""`goalmeter replicate calibration`: do the instruments say what is known?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.experiments.calibration import pictures, tables
from goalmeter.experiments.calibration.findings import findings as findings_of
from goalmeter.experiments.calibration.judged import Verdict, verdicts
from goalmeter.experiments.calibration.pictures import Drawn
from goalmeter.experiments.calibration.players import SUITES, plan_for, play
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.scores import Score, scores
from goalmeter.experiments.calibration.truth import IDEAL, Subject, subject
from goalmeter.experiments.navigation_page import GLOSSARY
from goalmeter.experiments.outcome import Outcome, json_text, provenance
from goalmeter.organisms.kinds import organism_names
from goalmeter.report import Section, require_report_extra, write_report, write_text

COMMAND = "goalmeter replicate calibration"
AGENTS = (
    *(f"{IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
GRIDS = 2  # of each size and complexity; a minute on two cores


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
        workers: processes that fit utilities; the numbers do not depend on it.
        progress: told what is being done.
        agents: names with commas between them: reference agents, ideal organisms ("ideal-mouse")
            and language models ("goalmeter/mouse"); None for the first two kinds.

    Raises:
        InvalidParameterError: no grids; no such agent; or agents among which no instrument is to
            tell any from another.
        InvalidFileError: the folder cannot be written to, or holds other walks.
        MissingExtraError: matplotlib or jinja2 is not installed, or inspect_ai for a model.
    """
    subjects = _subjects(agents)
    grids = GRIDS if seeds is None else seeds
    if grids < 1:
        raise InvalidParameterError(f"seeds is {grids}, expected at least 1")
    require_report_extra()
    out = Path(out)
    found: list[Score] = []
    drawn: list[Drawn] = []
    # Others have no class in the question that these fits, which take longest, are made for.
    learners = [one.name for one in subjects if one.directed and one.own_map is None]
    for suite in SUITES:
        walks = {
            one.name: play(
                plan_for(one.name, suite, grids=grids, seed=seed), out, progress
            ).trajectories
            for one in subjects
        }
        found += scores(suite, walks, learners=learners, workers=workers, progress=progress)
        drawn += pictures.learnt_of(suite, walks, subjects)
    judged = verdicts(found, subjects)
    findings = findings_of(found, judged, subjects, drawn)
    sections = _sections(found, judged, subjects, drawn)
    given = "" if agents is None else f" --agents {','.join(one.name for one in subjects)}"
    report = write_report(
        out / "report.html",
        "Calibration of the instruments",
        sections,
        lede="Agents whose goals are known, because we made them, measured by every instrument of "
        "navigation: where an instrument says something else, it is the instrument that is wrong.",
        findings=findings,
        glossary=GLOSSARY,
        provenance=provenance(f"{COMMAND} --seeds {grids} --seed {seed}{given}"),
    )
    for figure in (f for section in sections for f in section.figures):
        write_text(out / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    result = _json(found, judged, subjects, drawn, findings)
    results = write_text(out / "results.json", json_text(result) + "\n")
    result |= {"report": str(report.resolve()), "results": str(results.resolve())}
    return Outcome(
        text="\n".join(findings),
        tables=tuple(table for section in sections for table in section.tables),
        json=result,
        report=report.resolve(),
    )


def _subjects(names: str | None) -> list[Subject]:
    given = AGENTS if names is None else names.split(",")
    subjects = list({one.name: one for one in map(subject, given)}.values())
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


def _sections(
    found: Sequence[Score],
    judged: Sequence[Verdict],
    subjects: Sequence[Subject],
    drawn: Sequence[Drawn],
) -> list[Section]:
    in_mazes, with_keys = QUESTIONS["directed"], QUESTIONS["target"]
    out = [
        Section(
            title="Which instrument tells whom apart",
            tables=(tables.area_table(judged),),
            figures=(pictures.area_chart(judged),),
        ),
        Section(
            title="One row an agent",
            tables=(
                tables.agent_table(found, subjects, in_mazes, ["misled", "map"]),
                tables.agent_table(found, subjects, with_keys, []),
            ),
        ),
        Section(title="Who was measured", tables=(tables.truth_table(subjects),)),
    ]
    if drawn:
        maps = tuple(pictures.utility_map(one) for one in drawn)
        learnt = Section(title="What they seem to want", text=(pictures.MEANING,), figures=maps)
        out.insert(2, learnt)
    return out


def _json(
    found: Sequence[Score],
    judged: Sequence[Verdict],
    subjects: Sequence[Subject],
    drawn: Sequence[Drawn],
    findings: Sequence[str],
) -> dict[str, Any]:
    return {
        "replication": "calibration",
        "findings": list(findings),
        "agents": [
            {
                "name": one.name,
                "directed": one.directed,
                "target": one.target,
                "map": None if one.own_map is None else one.own_map.name,
                "why": one.why,
            }
            for one in subjects
        ],
        "instruments": {one.name: one.meaning for one in INSTRUMENTS.values()},
        "verdicts": [one.to_json() for one in judged],
        "scores": [
            {"agent": one.agent} | one.grid._asdict() | {"values": one.values} for one in found
        ],
        "learnt": [
            {
                "agent": one.agent,
                "suite": one.suite,
                "world": str(one.world).splitlines(),
                "cells": [[*cell, value] for cell, value in one.learnt.cells.items()],
                "key": one.learnt.key,
                "share": one.learnt.share,
            }
            for one in drawn
        ],
    }
