"""Pictures of how agents behave in grid worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.navigation_results import Measured
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.measures.behaviour import DistanceRow
from goalmeter.navigation.record import Trajectory
from goalmeter.report import Figure
from goalmeter.report.curves import STROKES, Curve, curve_chart
from goalmeter.report.figures import MUTED
from goalmeter.report.heat_map import Panel, heat_map, short
from goalmeter.report.walk_map import Move, walk_map

# Fewer decisions at a distance than this make no point of a curve.
LEAST_STEPS = 10
_STROKES = (":", "--", "-.")
EVERYWHERE, DETOURS = "accuracy", "accuracy_detour"


def surface(results: Sequence[Measured], name: str) -> Figure:
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
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=[f"size {size}" for size in sizes],
            columns=[f"complexity {complexity:g}" for complexity in complexities],
            label="share of optimal actions",
            limit=1.0,
        ),
        alt=f"Share of optimal actions by size and complexity of the maze, of {agents}; the "
        "numbers are in the tables.",
        caption="The accuracy surface. In detour states a compass may err; a room without walls "
        "has none.",
        wide=True,
    )


def by_distance(results: Sequence[Measured], name: str) -> Figure:
    """Accuracy against the distance to the goal, all agents in the same axes."""
    curves: list[Curve] = []
    measured = [result for result in results if not result.reference]
    for result in results:
        rows = _distance_rows(result)
        own = measured.index(result) if result in measured else None
        curves.append(
            Curve(
                # In a legend a dollar sign would begin a formula.
                label=short(result.agent).replace("$", r"\$"),
                x=[row.distance for row in rows],
                y=[row.accuracy.value for row in rows],
                low=_ends(rows, 0) if own is not None else None,
                high=_ends(rows, 1) if own is not None else None,
                colour=MUTED if own is None else STROKES[own % len(STROKES)][0],
                stroke="-" if own is not None else _STROKES[len(curves) % len(_STROKES)],
            )
        )
    return Figure(
        svg=curve_chart(
            name,
            curves,
            x_label="distance to the goal, steps",
            y_label="share of optimal actions",
            size=(6.4, 3.8),
        ),
        alt="Share of optimal actions by distance to the goal: "
        + "; ".join(_in_words(result) for result in results),
        caption="Accuracy by the distance to the goal at which a decision was made, for distances "
        f"with at least {LEAST_STEPS} decisions. Grey: reference agents. Bands: 95%, by "
        "grid.",
    )


def replay(walk: Trajectory, name: str, title: str) -> Figure:
    """One walk, step by step."""
    world, states = walk.world, walk.states()
    letters = {world.start: "S", world.goal: "G"}
    letters |= {place: letter for place, letter in ((world.key, "K"), (world.door, "D")) if place}
    moves = [
        Move(here.cell, after.cell, step.is_optimal, step.action is not None)
        for step, here, after in zip(walk.steps, states, states[1:], strict=False)
    ]
    wrong = sum(not step.is_optimal for step in walk.steps)
    return Figure(
        svg=walk_map(name, world.walls, {_place(c): text for c, text in letters.items()}, moves),
        alt=f"A walk of {len(walk.steps)} steps, {wrong} of them not optimal, that ended with "
        f"{walk.outcome!r}; the steps are in the table.",
        caption=f"{title}: {len(walk.steps)} steps where {walk.distance} are enough, {wrong} not "
        f"optimal (dashed); {walk.outcome}.",
    )


def _surface(
    result: Measured, kind: str, sizes: Sequence[int | None], complexities: Sequence[float | None]
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


def _distance_rows(result: Measured) -> list[DistanceRow]:
    """Of the grids as they were generated, under the first condition."""
    condition = result.overall[0].condition
    return [
        row
        for row in result.behaviour.by_distance
        if row.transform is None and row.condition == condition and row.accuracy.n >= LEAST_STEPS
    ]


def _ends(rows: Sequence[DistanceRow], end: int) -> list[float]:
    return [(row.accuracy.interval or (row.accuracy.value,) * 2)[end] for row in rows]


def _in_words(result: Measured) -> str:
    rows = _distance_rows(result)
    if not rows:
        return f"{result.agent}: too few decisions"
    ends = [rows[0], rows[-1]]
    said = " and ".join(f"{row.accuracy.value:.0%} at {row.distance}" for row in ends)
    return f"{result.agent}: {said}"


def _place(cell: Cell) -> tuple[int, int]:
    return cell.row, cell.column
