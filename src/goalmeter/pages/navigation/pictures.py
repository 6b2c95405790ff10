"""Pictures of how agents behave in grid worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.navigation.measures.behaviour import DistanceRow
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import condition_in_words, say
from goalmeter.report import Figure
from goalmeter.report.charts.colours import MUTED
from goalmeter.report.charts.curves import STROKES, Curve, curve_chart
from goalmeter.report.charts.heat_map import Panel, heat_map, short
from goalmeter.report.charts.walk_map import Move, walk_map
from goalmeter.report.numbers import percent

# Fewer decisions at a distance, or from fewer grids, make no point of a curve.
LEAST_STEPS, LEAST_GRIDS = 10, 3
_STROKES = {"optimal": "-", "greedy": "--", "random": ":", "key-seeker": "-."}
_FEW = 3  # columns of a surface that stands beside other pictures
EVERYWHERE, DETOURS = "accuracy", "accuracy_detour"


def surface(results: Sequence[Navigation], name: str) -> Figure:
    """Accuracy by size and complexity: everywhere and in detour states, agent by agent."""
    first = results[0].cells
    sizes = list(dict.fromkeys(row.size for row in first))
    complexities = list(dict.fromkeys(row.complexity for row in first))
    panels = []
    for result in results:
        kinds = [EVERYWHERE] if result.reference else [EVERYWHERE, DETOURS]
        for kind in kinds:
            title = short(result.agent) + (", detour states" if kind == DETOURS else "")
            panels.append(Panel(title=title, values=_surface(result, kind, sizes, complexities)))
    row = results[0].cells[0]
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=[f"size {size}" for size in sizes],
            columns=[f"complexity {complexity:g}" for complexity in complexities],
            label="share of optimal actions",
            limit=1.0,
            signed=False,
        ),
        **say("surface", agents=agents, grids=row.grids, walks=row.trajectories / row.grids),
        wide=len(complexities) > _FEW,
    )


def by_distance(results: Sequence[Navigation], name: str) -> Figure:
    """Accuracy against the distance to the goal, all agents in the same axes."""
    curves: list[Curve] = []
    measured = [result for result in results if not result.reference]
    for result in results:
        rows = _distance_rows(result)
        place = measured.index(result) if result in measured else None
        curves.append(
            Curve(
                # In a legend a dollar sign would begin a formula.
                label=short(result.agent),
                x=[row.distance for row in rows],
                y=[row.accuracy.value for row in rows],
                low=_ends(rows, 0) if place is not None else None,
                high=_ends(rows, 1) if place is not None else None,
                # Reference agents are grey, so strokes tell them apart; the others have colours.
                colour=MUTED if place is None else STROKES[place % len(STROKES)][0],
                stroke="-" if place is not None else _STROKES[result.agent],
            )
        )
    return Figure(
        svg=curve_chart(
            name,
            curves,
            x_label="distance to the goal, steps",
            y_label="share of optimal actions",
            # A little above 1, or the line of an agent without fault is cut in half.
            limits=(0.0, 1.03),
            size=(6.4, 3.8),
        ),
        alt="Share of optimal actions by distance to the goal: "
        + "; ".join(_in_words(result) for result in results),
        caption="Accuracy by the distance to the goal at which a decision was made. A point needs "
        f"at least {LEAST_STEPS} decisions in {LEAST_GRIDS} grids. "
        + " ".join(_numbers_of(result) for result in measured)
        + _condition(results[0])
        + " Grey lines are reference agents in the same grids. Bands are 95% intervals over "
        "grids.",
    )


def replay(walk: Trajectory, name: str, title: str) -> Figure:
    """One walk, step by step."""
    world, states = walk.world, walk.states()
    letters: dict[tuple[int, int], str] = {world.start: "S", world.goal: "G"}
    marks = ((world.key, "K"), (world.door, "D"), (world.neutral, "N"))
    letters |= {place: letter for place, letter in marks if place}
    moves = [
        Move(before.cell, after.cell, step.is_optimal, step.action is not None)
        for step, before, after in zip(walk.steps, states, states[1:], strict=False)
    ]
    wrong = sum(not step.is_optimal for step in walk.steps)
    return Figure(
        svg=walk_map(name, world.walls, letters, moves),
        alt=f"A walk of {len(walk.steps)} steps, {wrong} of them not optimal, that ended with "
        f"{walk.outcome!r}; the steps are in the table.",
        caption=f"{title}: {len(walk.steps)} steps where {walk.distance} would do, {wrong} of them "
        f"not optimal (dashed). {_ended(walk)}",
    )


def _ended(walk: Trajectory) -> str:
    """How a walk ended, in a sentence."""
    known = {"arrived": "It arrived.", "cap": "It was stopped at the limit of steps."}
    return known.get(walk.outcome, f"It ended with: {walk.outcome}.")


def _surface(
    result: Navigation, kind: str, sizes: Sequence[int | None], complexities: Sequence[float | None]
) -> FloatArray:
    """[sizes, complexities]; the mean where a cell has several conditions."""
    out = np.full((len(sizes), len(complexities)), np.nan)
    for at in np.ndindex(out.shape):
        values = [
            getattr(row, kind).value
            for row in result.cells
            if (row.size, row.complexity) == (sizes[at[0]], complexities[at[1]])
        ]
        known = [value for value in values if not np.isnan(value)]
        out[at] = np.mean(known) if known else np.nan
    return out


def _distance_rows(result: Navigation) -> list[DistanceRow]:
    """Of the grids as they were generated, under the first condition."""
    condition = result.overall[0].condition
    return [
        row
        for row in result.behaviour.by_distance
        if row.transform is None
        and row.condition == condition
        and row.accuracy.n >= LEAST_STEPS
        and row.accuracy.clusters >= LEAST_GRIDS
    ]


def _ends(rows: Sequence[DistanceRow], end: int) -> list[float]:
    return [(row.accuracy.interval or (row.accuracy.value,) * 2)[end] for row in rows]


def _condition(result: Navigation) -> str:
    """Which one is shown, where there are several."""
    conditions = list(dict.fromkeys(row.condition for row in result.overall))
    if len(conditions) == 1:
        return ""
    first = condition_in_words(conditions[0]).removeprefix(", ")
    return f" Of {len(conditions)} conditions the first: {first}."


def _numbers_of(result: Navigation) -> str:
    """How many decisions the points of a curve rest on."""
    points = [row.accuracy for row in _distance_rows(result)]
    if not points:
        return f"Of {result.agent} no distance has that many."
    steps, grids = [point.n for point in points], [point.clusters for point in points]
    return (
        f"Each point of {result.agent} rests on {min(steps)} to {max(steps)} decisions in "
        f"{min(grids)} to {max(grids)} grids."
    )


def _in_words(result: Navigation) -> str:
    rows = _distance_rows(result)
    if not rows:
        return f"{result.agent}: too few decisions"
    ends = [rows[0], rows[-1]]
    shares = " and ".join(f"{percent(row.accuracy.value, 0)} at {row.distance}" for row in ends)
    return f"{result.agent}: {shares}"
