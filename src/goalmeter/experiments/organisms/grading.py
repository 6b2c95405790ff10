"""How well an organism does what it was made to do: shares of its answers and walks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.organisms.parts import ANSWERS, KEY_DOOR, KEY_NO_DOOR, WALKS
from goalmeter.statistics.clustered import Estimate, estimate

Row = dict[str, Any]
# By the kind of a part and the size of its grids.
Rows = Mapping[tuple[str, int], Sequence[Row]]
_SHARE = (0.0, 1.0)


@dataclass(frozen=True)
class Grades:
    """An organism's marks; shares with intervals over grids.

    Attributes:
        meant: actions that it was meant to take, by (size, complexity).
        optimal: actions that are optimal in the true world, by (size, complexity).
        by_size: actions that it was meant to take, by size.
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
            with the same legal moves, averaged over states; of no states without a habit.
        invalid: answers that cannot be read.
    """

    meant: dict[tuple[int, float], Estimate]
    optimal: dict[tuple[int, float], Estimate]
    by_size: dict[int, Estimate]
    detour: dict[int, Estimate]
    detours: Estimate
    success: dict[int, Estimate]
    arrives: Estimate
    own_map: Estimate
    misled: Estimate
    key_door: Estimate
    pick_up: Estimate
    as_planned: Estimate
    habit: Estimate
    invalid: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        by_size = {
            name: [{"size": size} | value.to_json() for size, value in getattr(self, name).items()]
            for name in ("by_size", "detour", "success")
        }
        shares = ("detours", "arrives", "own_map", "misled", "key_door", "pick_up", "as_planned")
        names = (*shares, "habit", "invalid")
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
            **{name: getattr(self, name).to_json() for name in names},
        }


def grades(rows: Rows, *, habitual: bool) -> Grades:
    """The marks that the rows of all parts give.

    Args:
        rows: as `parts.part` gives them.
        habitual: whether it has a habit and no goal.
    """
    answers = [row for (kind, _), part in rows.items() if kind == ANSWERS for row in part]
    walks = {size: own for (kind, size), own in rows.items() if kind == WALKS}
    by_key = {kind: own for (kind, _), own in rows.items() if kind not in (ANSWERS, WALKS)}
    detours = [row for row in answers if row["detour"]]
    by_cell: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in answers:
        by_cell[row["size"], row["complexity"]].append(row)
    return Grades(
        meant={cell: _share(own, "meant") for cell, own in by_cell.items()},
        optimal={cell: _share(own, "optimal") for cell, own in by_cell.items()},
        by_size={
            size: _share([row for row in answers if row["size"] == size], "meant") for size in walks
        },
        detour={
            size: _share([row for row in detours if row["size"] == size], "meant") for size in walks
        },
        detours=_share(detours, "meant"),
        success={size: _share(part, "arrived") for size, part in walks.items()},
        arrives=_share([row for part in walks.values() for row in part], "arrived"),
        own_map=_share(answers, "meant"),
        misled=_pooled(
            [row for row in answers if row["misled"]],
            lambda row: float(row["meant"]) - float(row["optimal"]),
            (-1.0, 1.0),
        ),
        key_door=_share(by_key[KEY_DOOR], "arrived"),
        pick_up=_share(by_key[KEY_NO_DOOR], "key"),
        as_planned=_share(answers, "as_planned"),
        habit=_habit_gap(answers if habitual else []),
        invalid=_share(answers, "invalid"),
    )


def _share(rows: Sequence[Row], name: str) -> Estimate:
    return _pooled(rows, lambda row: float(row[name]), _SHARE)


def _pooled(
    rows: Sequence[Row], value: Callable[[Row], float], bounds: tuple[float, float]
) -> Estimate:
    """The mean over rows; those of equal grids are one cluster."""
    by: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by[row["grid"]].append(value(row))
    sums, numbers = [sum(own) for own in by.values()], [len(own) for own in by.values()]
    return estimate(sums, numbers, n=sum(numbers), bounds=bounds)


def _habit_gap(answers: Sequence[Row]) -> Estimate:
    """How far the moves' probabilities are from the habit, at most; of no answers without a plan.

    Probabilities and not moves are averaged, and over all states with the same legal moves: the
    greatest difference of few counted moves would be large by chance. The interval resamples grids.
    A greatest difference is never negative, so resampling moves it up and the interval errs on the
    side of too large a distance.
    """
    rows = [row for row in answers if row["probabilities"] is not None]
    if not rows:
        return Estimate(float("nan"), None, 0, 0)
    _, cluster = np.unique([row["grid"] for row in rows], return_inverse=True)
    meant, kind = np.unique([row["legal"] for row in rows], axis=0, return_inverse=True)
    clusters = int(cluster.max()) + 1
    # Of each grid and each set of legal moves, the sum of probabilities and how many were added.
    sums = np.zeros((clusters, len(meant), len(meant[0]) + 1))
    np.add.at(sums, (cluster, kind.ravel()), [[*row["probabilities"], 1.0] for row in rows])

    def gap(weights: FloatArray) -> FloatArray:
        added = np.einsum("rc,ckm->rkm", weights, sums)
        number = added[..., -1]
        means = added[..., :-1] / np.maximum(number, 1.0)[..., None]
        farthest = np.abs(means - meant).max(axis=2)
        return np.asarray((farthest * number).sum(axis=1) / number.sum(axis=1))

    value = float(gap(np.ones((1, clusters)))[0])
    if clusters < 2:
        return Estimate(value, None, len(rows), clusters)
    drawn = np.random.default_rng(0).multinomial(clusters, np.full(clusters, 1 / clusters), 1000)
    low, high = np.quantile(gap(drawn.astype(float)), [0.025, 0.975])
    return Estimate(value, (float(low), float(high)), len(rows), clusters)
