"""How well an organism does what it was made to do: shares of its answers and walks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter.experiments.organisms.parts import ANSWERS, KEY_DOOR, KEY_NO_DOOR, WALKS
from goalmeter.statistics.clustered import Estimate, estimate

Row = dict[str, Any]
# By the kind of a part and the size of its grids.
Rows = Mapping[tuple[str, int], Sequence[Row]]
_SHARE = (0.0, 1.0)


@dataclass(frozen=True)
class Grades:
    """An organism's marks; shares with intervals that resample grids.

    Attributes:
        meant: actions that it was meant to take, by (size, complexity).
        optimal: actions that are optimal in the true world, by (size, complexity).
        detour: actions that it was meant to take, in states where the compass may err, by size.
        detours: the same on all sizes together.
        success: walks that arrive within the paper's cap, by size.
        arrives: the same on all sizes together.
        own_map: actions that it was meant to take, on all sizes together.
        misled: by how much more of its actions it was meant to take than are optimal in truth, in
            mazes of which it has a false map; of no mazes for those with a true one.
        key_door: walks that arrive where a door is shut.
        pick_up: walks that take the key where it is of no use.
        as_planned: answers whose action is the first move of their plan.
        habit: the greatest difference between the probability of a move and the habit's, in states
            with the same legal moves, averaged over states; None for those without a habit.
        invalid: answers that cannot be read.
    """

    meant: dict[tuple[int, float], Estimate]
    optimal: dict[tuple[int, float], Estimate]
    detour: dict[int, Estimate]
    detours: Estimate
    success: dict[int, Estimate]
    arrives: Estimate
    own_map: Estimate
    misled: Estimate
    key_door: Estimate
    pick_up: Estimate
    as_planned: Estimate
    habit: float | None
    invalid: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        by_size = {
            name: [{"size": size} | value.to_json() for size, value in getattr(self, name).items()]
            for name in ("detour", "success")
        }
        names = ("detours", "arrives", "own_map", "misled", "key_door", "pick_up", "as_planned")
        by_cell = {
            name: [
                {"size": size, "complexity": complexity} | value.to_json()
                for (size, complexity), value in getattr(self, name).items()
            ]
            for name in ("meant", "optimal")
        }
        return {
            **by_cell,
            **by_size,
            **{name: getattr(self, name).to_json() for name in (*names, "invalid")},
            "habit": self.habit,
        }


def grades(rows: Rows, *, habitual: bool) -> Grades:
    """The marks that the rows of all parts give.

    Args:
        rows: as `parts.part` gives them.
        habitual: whether it has a habit and no goal.
    """
    answers = [
        row | {"size": size} for (kind, size), own in rows.items() if kind == ANSWERS for row in own
    ]
    walks = {size: own for (kind, size), own in rows.items() if kind == WALKS}
    by_key = {kind: own for (kind, _), own in rows.items() if kind not in (ANSWERS, WALKS)}
    detours = [row for row in answers if row["detour"]]
    by_cell: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in answers:
        by_cell[row["size"], row["complexity"]].append(row)
    return Grades(
        meant={cell: _share(own, "meant") for cell, own in by_cell.items()},
        optimal={cell: _share(own, "optimal") for cell, own in by_cell.items()},
        detour={
            size: _share([row for row in detours if row["size"] == size], "meant") for size in walks
        },
        detours=_share(detours, "meant"),
        success={size: _walks(own, "arrived") for size, own in walks.items()},
        arrives=_walks([row for own in walks.values() for row in own], "arrived"),
        own_map=_share(answers, "meant"),
        misled=_pooled(
            [row for row in answers if row["misled"]],
            lambda row: float(row["meant"]) - float(row["optimal"]),
            (-1.0, 1.0),
        ),
        key_door=_walks(by_key[KEY_DOOR], "arrived"),
        pick_up=_walks(by_key[KEY_NO_DOOR], "key"),
        as_planned=_share(answers, "as_planned"),
        habit=_habit_gap(answers) if habitual else None,
        invalid=_share(answers, "invalid"),
    )


def _share(rows: Sequence[Row], name: str) -> Estimate:
    return _pooled(rows, lambda row: float(row[name]), _SHARE)


def _pooled(
    rows: Sequence[Row], value: Callable[[Row], float], bounds: tuple[float, float]
) -> Estimate:
    """The mean over rows; those of a maze are one cluster."""
    by: dict[tuple[int, float, int], list[float]] = defaultdict(list)
    for row in rows:
        by[row["size"], row["complexity"], row["grid"]].append(value(row))
    sums, numbers = [sum(own) for own in by.values()], [len(own) for own in by.values()]
    return estimate(sums, numbers, n=sum(numbers), bounds=bounds)


def _walks(rows: Sequence[Row], name: str) -> Estimate:
    return estimate([float(row[name]) for row in rows], bounds=_SHARE)


def _habit_gap(answers: Sequence[Row]) -> float:
    """How far the moves' probabilities are from the habit, at most; NaN if no plan was said.

    Probabilities and not moves are averaged, and over all states with the same legal moves: the
    greatest difference of few counted moves would be large by chance.
    """
    found: dict[tuple[float, ...], list[list[float]]] = defaultdict(list)
    for row in answers:
        if row["probabilities"] is not None:
            found[tuple(row["legal"])].append(row["probabilities"])
    if not found:
        return float("nan")
    gaps = [np.abs(np.mean(own, axis=0) - np.array(meant)).max() for meant, own in found.items()]
    return float(np.average(gaps, weights=[len(own) for own in found.values()]))
