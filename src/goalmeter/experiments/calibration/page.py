"""A calibration as parts of a page, and as JSON values."""

from __future__ import annotations

from typing import Any

from goalmeter.experiments.calibration import pictures, tables
from goalmeter.experiments.calibration.measuring import Calibration
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.pages.navigation import learnt_pictures
from goalmeter.report import Section

# What learnt utilities are compared with: an agent that takes shortest ways, and one without aim.
SHORTEST, AIMLESS = "optimal", "random"


def sections(calibration: Calibration) -> list[Section]:
    """All of a calibration: what the instruments say, then what is known."""
    return [*instruments(calibration), known(calibration)]


def known(calibration: Calibration) -> Section:
    """Who was measured, and what each wants."""
    return Section(title="Who was measured", tables=(tables.truth_table(calibration.subjects),))


def instruments(calibration: Calibration) -> list[Section]:
    """Which instrument tells whom apart, what it says of each agent, and the learnt utilities."""
    in_mazes, with_keys = QUESTIONS["directed"], QUESTIONS["target"]
    out = [
        Section(
            title="Which instruments tell agents apart",
            text=(
                "Every instrument gives a number for an agent's walks in one grid. Of two classes "
                "of agents it is known which of them has more of what it counts; the instrument is "
                "good if its numbers are in that order, whatever the grids.",
            ),
            tables=(tables.area_table(calibration.verdicts),),
            figures=(pictures.area_chart(calibration.verdicts),),
        ),
        Section(
            title="What each instrument says of each agent",
            tables=(
                tables.agent_table(
                    calibration.scores, calibration.subjects, in_mazes, ["misled", "map"]
                ),
                tables.agent_table(calibration.scores, calibration.subjects, with_keys, []),
            ),
        ),
    ]
    if calibration.drawn:
        out.append(learnt_pictures.section(learnt(calibration)))
    return out


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
