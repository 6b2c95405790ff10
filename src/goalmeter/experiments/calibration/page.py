"""A calibration as parts of a page, and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from goalmeter.experiments.calibration import tables
from goalmeter.experiments.calibration.measuring import Calibration
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.verdicts import Verdict
from goalmeter.pages.navigation import learnt_pictures
from goalmeter.report import Figure, Section
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number

# What learnt utilities are compared with: an agent that takes shortest ways, and one without aim.
SHORTEST, AIMLESS = "optimal", "random"


def sections(calibration: Calibration) -> list[Section]:
    """Which instrument tells whom apart, what it says of each agent, and who was measured."""
    scores, subjects = calibration.scores, calibration.subjects
    in_mazes, with_keys = QUESTIONS["directed"], QUESTIONS["target"]
    parts = [
        Section(
            title="Which instruments tell agents apart",
            text=(
                "Every instrument gives a number for an agent's walks in one grid. Of two classes "
                "of agents it is known which of them has more of what it counts; the instrument is "
                "good if its numbers are in that order, whatever the grids.",
            ),
            tables=(tables.area_table(calibration.verdicts),),
            figures=(area_chart(calibration.verdicts),),
        ),
        Section(
            title="What each instrument says of each agent",
            tables=(
                tables.agent_table(scores, subjects, in_mazes, ["misled", "map"]),
                tables.agent_table(scores, subjects, with_keys, []),
            ),
        ),
    ]
    if calibration.drawn:
        parts.append(learnt_pictures.section(learnt(calibration)))
    who = Section(title="Who was measured", tables=(tables.truth_table(subjects),))
    return [*parts, who]


def area_chart(verdicts: Sequence[Verdict]) -> Figure:
    """The areas of the two main questions beside each other."""
    questions = [n for n in ("directed", "target") if any(v.question == n for v in verdicts)]
    judged = [verdict for verdict in verdicts if verdict.judged and verdict.question in questions]
    names = list(dict.fromkeys(verdict.instrument for verdict in judged))
    by_place = {(verdict.instrument, verdict.question): verdict.area for verdict in judged}
    # An instrument that is made for one of the questions only has a gap in the other's panel.
    panels = []
    for question in questions:
        areas = [by_place.get((name, question)) for name in names]
        panels.append(
            DotPanel(
                title=QUESTIONS[question].title,
                x_label="area under the curve",
                series=(Dots.of("all counted agents", areas),),
                band=(0.5, 0.9),
            )
        )
    areas_in_words = "; ".join(
        f"{QUESTIONS[verdict.question].title}: {INSTRUMENTS[verdict.instrument].title} "
        f"{number(verdict.area.value, 2)}"
        for verdict in judged
        if not np.isnan(verdict.area.value)
    )
    return Figure(
        svg=dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels),
        alt=f"Areas under the curve. {areas_in_words}.",
        caption="Areas under the curve of the instruments made for each question. Bars: 95%, by "
        "grid. Shaded: from chance to 0.9.",
        wide=True,
    )


def learnt(calibration: Calibration) -> list[learnt_pictures.Explained]:
    """The learnt utilities, with the share that each explains."""
    walks = {
        suite: {name: agent.trajectories for name, agent in by_name.items()}
        for suite, by_name in calibration.walked.items()
    }
    return learnt_pictures.explain(calibration.drawn, walks, shortest=SHORTEST, aimless=AIMLESS)


def to_json(calibration: Calibration) -> dict[str, Any]:
    """All of it as JSON values, without the walks."""
    return {
        "findings": calibration.findings,
        "agents": [
            {
                "name": row.name,
                "directed": row.directed,
                "counted": row.counted,
                "target": row.target,
                "map": None if row.own_map is None else row.own_map.name,
                "why": row.why,
            }
            for row in calibration.subjects
        ],
        "instruments": {row.name: row.meaning for row in INSTRUMENTS.values()},
        "verdicts": [row.to_json() for row in calibration.verdicts],
        "scores": [
            {"agent": row.agent} | row.grid._asdict() | {"values": row.values}
            for row in calibration.scores
        ],
        "learnt": [
            {
                "world": str(row.drawn.world).splitlines(),
                "cells": [[*cell, value] for cell, value in row.drawn.learnt.cells.items()],
                "key": row.drawn.learnt.key,
            }
            | row.to_json()
            for row in learnt(calibration)
        ],
    }
