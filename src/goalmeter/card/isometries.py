"""Mazes and their rotations and reflections, which are equally difficult, as a measure of a card.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents" (iso-difficulty transforms).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from goalmeter.agents.abilities import Ability
from goalmeter.card.grids import error_rate, forecast_of_plans, played, sizes_of, source_of
from goalmeter.card.measured import FULL, QUICK, STANDARD, CardSettings, Measure, Measured
from goalmeter.card.records import PAIRED, CardRow
from goalmeter.card.subject import Subject
from goalmeter.gridworld.world import TRANSFORMS
from goalmeter.navigation.agent_walks import walk_plan
from goalmeter.navigation.frames import MARGIN, SHORTFALL, invariance
from goalmeter.navigation.measure import navigation_of, references
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.steps import DIFFERENCE
from goalmeter.navigation.suites import ISOMETRIES
from goalmeter.pages import navigation as pages
from goalmeter.report import Section
from goalmeter.report.numbers import points
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import Verdict, verdict

NAME = ISOMETRIES.name
MAZES = {STANDARD: 15, FULL: 40}  # of each size
_FRAMES = tuple(name for name, each in TRANSFORMS.items() if each.isometry)
# Two walks through each maze show how often an agent agrees with itself.
OPTIONS: dict[str, Any] = {"complexities": (0.5,), "trajectories": 2, "transforms": _FRAMES}
# An agent that does not see the frame, and one that does: a mirrored right-hand rule is another.
_BASELINES = ("optimal", "wall-follower")
ROWS = {  # what changes -> row and title
    "accuracy": ("frame_accuracy", "Optimal moves, rotated or mirrored minus original mazes"),
    "success": ("frame_success", "Goal reached, rotated or mirrored minus original mazes"),
    SHORTFALL: ("frame_dependence", "Agreement with itself within minus across frames"),
}
_WORDS = {
    Verdict.EQUAL: f"equivalent within ±{100 * MARGIN:g} points",
    Verdict.ABOVE: "higher",
    Verdict.BELOW: "lower",
    Verdict.UNTOLD: "inconclusive",
}


def _reason(subject: Subject, settings: CardSettings) -> str:
    if not {Ability.GRID, Ability.TEXT}.intersection(subject.abilities):
        return f"requires {Ability.GRID} or {Ability.TEXT}"
    return "not run at the quick scale" if settings.scale == QUICK else ""


def plan_of(name: str, sizes: Sequence[int], scale: str, seed: int) -> WalkPlan:
    """Return the walks of an agent through mazes and their rotations and reflections."""
    grids = MAZES[scale]
    options: dict[str, Any] = OPTIONS | {"sizes": sizes, "grids": grids, "seed": seed}
    return walk_plan(name, ISOMETRIES.name, **options)


def _plan(subject: Subject, settings: CardSettings) -> WalkPlan:
    return plan_of(subject.name, sizes_of(subject), settings.scale, settings.seed)


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    return forecast_of_plans(NAME, [_plan(subject, settings)], subject, settings)


def _run(subject: Subject, settings: CardSettings) -> Measured:
    plan = _plan(subject, settings)
    (walked,) = played(NAME, [plan], subject, settings)
    agent = navigation_of(walked)
    beside = references(plan, [agent.agent], names=_BASELINES, progress=settings.tell)
    changes = invariance(agent.seen)
    marks = {each.agent: estimates(invariance(each.seen)) for each in beside}
    source = source_of(NAME, plan, settings)
    rows = [
        CardRow.of_estimate(
            mean,
            id=ROWS[change][0],
            measure=NAME,
            title=ROWS[change][1],
            of="mazes",
            method=PAIRED,
            baselines={name: each[change].value for name, each in marks.items()},
            error_rate=error_rate(settings.scale, ROWS[change][0]),
            margin=MARGIN,
            source=source,
            note=f"{verdict_on(change, mean)}; difference {points(mean)} points",
        )
        for change, mean in estimates(changes).items()
    ]
    table = pages.frames_table([agent, *beside], anchor="card-frames")
    return Measured(
        rows=[row for row in rows if row.value is not None],
        sections=[Section(title="Rotated and mirrored mazes", tables=(table,))],
        items={
            ROWS[what][0]: {maze: (change, 1.0) for maze, change in by_maze.items()}
            for what, by_maze in changes.items()
            if what in ROWS
        },
        trials=len(agent.seen.trajectories),
        citations=("arghal2026behavioural",),
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)


def verdict_on(what: str, found: Estimate) -> str:
    """Return the verdict on a change with the frame, in words."""
    judgement = verdict(found.interval, MARGIN)
    # The expected shortfall is half the squared distance of two policies: never below 0.
    is_impossible = what == SHORTFALL and judgement is Verdict.BELOW
    return _WORDS[Verdict.UNTOLD if is_impossible else judgement]


def estimates(changes: Mapping[str, Mapping[str, float]]) -> dict[str, Estimate]:
    """Return the mean of each change of `invariance` over mazes."""
    return {
        what: estimate(np.array([*changes[what].values()]), bounds=DIFFERENCE, paired=True)
        for what in ROWS
    }
