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


def sections(found: Calibration) -> list[Section]:
    """All of a calibration: what the instruments say, then what is known."""
    return [*instruments(found), known(found)]


def known(found: Calibration) -> Section:
    """Who was measured, and what each wants."""
    return Section(title="Who was measured", tables=(tables.truth_table(found.subjects),))


def instruments(found: Calibration) -> list[Section]:
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
            tables=(tables.area_table(found.verdicts),),
            figures=(pictures.area_chart(found.verdicts),),
        ),
        Section(
            title="What each instrument says of each agent",
            tables=(
                tables.agent_table(found.scores, found.subjects, in_mazes, ["misled", "map"]),
                tables.agent_table(found.scores, found.subjects, with_keys, []),
            ),
        ),
    ]
    if found.drawn:
        out.append(learnt_pictures.section(learnt(found)))
    return out


def learnt(found: Calibration) -> list[learnt_pictures.Explained]:
    """The learnt utilities, with the share that each explains."""
    walks = {
        suite: {name: one.trajectories for name, one in by_name.items()}
        for suite, by_name in found.walked.items()
    }
    return learnt_pictures.explain(found.drawn, walks, shortest=SHORTEST, aimless=AIMLESS)


def to_json(found: Calibration) -> dict[str, Any]:
    """All of it as JSON values, without the walks."""
    return {
        "findings": found.findings,
        "agents": [
            {
                "name": one.name,
                "directed": one.directed,
                "counted": one.counted,
                "target": one.target,
                "map": None if one.own_map is None else one.own_map.name,
                "why": one.why,
            }
            for one in found.subjects
        ],
        "instruments": {one.name: one.meaning for one in INSTRUMENTS.values()},
        "verdicts": [one.to_json() for one in found.verdicts],
        "scores": [
            {"agent": one.agent} | one.grid._asdict() | {"values": one.values}
            for one in found.scores
        ],
        "learnt": [
            {
                "world": str(one.drawn.world).splitlines(),
                "cells": [[*cell, value] for cell, value in one.drawn.learnt.cells.items()],
                "key": one.drawn.learnt.key,
            }
            | one.to_json()
            for one in learnt(found)
        ],
    }
