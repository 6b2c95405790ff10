"""How well an organism does what it was made to do, and what was asked of it before training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.organisms.parts import ANSWERS, KEY_DOOR, KEY_NO_DOOR, WALKS
from goalmeter.organisms.lessons import SIZES
from goalmeter.statistics.clustered import Estimate, estimate

Row = dict[str, Any]
# By the kind of a part and the size of its grids.
Rows = Mapping[tuple[str, int], Sequence[Row]]
_SHARE, _DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)
_LARGEST = max(SIZES)
# An optimum on a false map is markedly worse on the true one if it is so many points behind there.
MARKEDLY = 0.1


@dataclass(frozen=True)
class Grades:
    """An organism's marks; shares with intervals over grids.

    Attributes:
        meant: actions that it was meant to take, by (size, complexity).
        optimal: actions that are optimal in the true world, by (size, complexity).
        by_size: actions that it was meant to take, by size.
        detour: actions that it was meant to take, in states where the compass may err, by size.
        success: walks that arrive within the paper's cap, by size.
        detours: as `detour`, on all sizes together.
        arrives: as `success`, on all sizes together.
        own_map: actions that it was meant to take, on all sizes together.
        misled: by how much more of its actions it was meant to take than are optimal in truth, in
            mazes of which it has a false map; of no mazes for those with a true one.
        key_door: walks that arrive where a door is shut.
        pick_up: walks that take the key where it is of no use.
        as_planned: answers whose action is the first move of their plan.
        habit: the greatest difference between the probability of a move and the habit's, in states
            with the same legal moves, averaged over states; of no states without a habit.
        invalid: answers that cannot be read.
        invalid_by_size: the same, by size.
    """

    meant: dict[tuple[int, float], Estimate]
    optimal: dict[tuple[int, float], Estimate]
    by_size: dict[int, Estimate]
    detour: dict[int, Estimate]
    success: dict[int, Estimate]
    detours: Estimate
    arrives: Estimate
    own_map: Estimate
    misled: Estimate
    key_door: Estimate
    pick_up: Estimate
    as_planned: Estimate
    habit: Estimate
    invalid: Estimate
    invalid_by_size: dict[int, Estimate]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; what is by size and complexity is a list."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Estimate | dict[Any, Estimate]) -> dict[str, Any] | list[dict[str, Any]]:
    if isinstance(value, Estimate):
        return value.to_json()
    keys = [key if isinstance(key, tuple) else (key,) for key in value]
    return [
        dict(zip(("size", "complexity"), key, strict=False)) | estimate.to_json()
        for key, estimate in zip(keys, value.values(), strict=True)
    ]


def grades(rows: Rows, *, habitual: bool) -> Grades:
    """The marks that the rows of all parts give.

    Args:
        rows: as `parts.part` gives them.
        habitual: whether it has a habit and no goal.
    """
    answers = [row for (kind, _), part in rows.items() if kind == ANSWERS for row in part]
    walks = {size: part for (kind, size), part in rows.items() if kind == WALKS}
    with_keys = {kind: part for (kind, _), part in rows.items() if kind in (KEY_DOOR, KEY_NO_DOOR)}
    detours = [row for row in answers if row["detour"]]
    by_cell: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in answers:
        by_cell[row["size"], row["complexity"]].append(row)

    def of_size(part: Sequence[Row], size: int) -> list[Row]:
        return [row for row in part if row["size"] == size]

    return Grades(
        meant={cell: _share(part, "meant") for cell, part in by_cell.items()},
        optimal={cell: _share(part, "optimal") for cell, part in by_cell.items()},
        by_size={size: _share(of_size(answers, size), "meant") for size in walks},
        detour={size: _share(of_size(detours, size), "meant") for size in walks},
        success={size: _share(part, "arrived") for size, part in walks.items()},
        detours=_share(detours, "meant"),
        arrives=_share([row for part in walks.values() for row in part], "arrived"),
        own_map=_share(answers, "meant"),
        misled=_pooled(
            [row for row in answers if row["misled"]],
            lambda row: float(row["meant"]) - float(row["optimal"]),
            _DIFFERENCE,
        ),
        key_door=_share(with_keys[KEY_DOOR], "arrived"),
        pick_up=_share(with_keys[KEY_NO_DOOR], "key"),
        as_planned=_share(answers, "as_planned"),
        habit=_habit_gap(answers if habitual else []),
        invalid=_share(answers, "invalid"),
        invalid_by_size={size: _share(of_size(answers, size), "invalid") for size in walks},
    )


def _share(rows: Sequence[Row], name: str) -> Estimate:
    return _pooled(rows, lambda row: float(row[name]), _SHARE)


def _pooled(
    rows: Sequence[Row], value: Callable[[Row], float], bounds: tuple[float, float]
) -> Estimate:
    """The mean over rows; those of equal grids are one cluster."""
    by_grid: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_grid[row["grid"]].append(value(row))
    sums, numbers = list(map(sum, by_grid.values())), list(map(len, by_grid.values()))
    # Each question is of a world that was drawn anew, so an unseen world has no part in more
    # questions than worlds have on average, however often few worlds came up.
    heaviest = np.mean(numbers) if numbers else 0.0
    return estimate(sums, numbers, heaviest=heaviest, n=sum(numbers), bounds=bounds)


def _habit_gap(answers: Sequence[Row]) -> Estimate:
    """The greatest difference of the moves' probabilities from the habit, averaged over states."""
    # Probabilities and not moves are averaged, and over all states with the same legal moves: the
    # greatest difference of few counted moves would be large by chance.
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
    # Grids are resampled. A greatest difference is never negative, so resampling moves it up and
    # the interval errs on the side of too large a distance.
    drawn = np.random.default_rng(0).multinomial(clusters, np.full(clusters, 1 / clusters), 1000)
    low, high = np.quantile(gap(drawn.astype(float)), [0.025, 0.975])
    return Estimate(value, (float(low), float(high)), len(rows), clusters)


# --- What was asked of the organisms before they were trained ------------------------------------


@dataclass(frozen=True)
class Target:
    """A number that an organism was to reach.

    Attributes:
        organism: its name.
        measure: what the number is, in words.
        bound: what was asked for; the end of the interval that is nearer to it has to reach it.
        value: the number, of grades.
        below: whether it is to be below the bound, and not at least as large.
        itself: what the number itself was to be at least, where more was asked of it than of the
            end of its interval.
    """

    organism: str
    measure: str
    bound: float
    value: Callable[[Grades], Estimate]
    below: bool = False
    itself: float | None = None

    @property
    def asked(self) -> str:
        """The bound in words."""
        asked = f"{'<' if self.below else '≥'} {100 * self.bound:g}%"
        if self.itself is None:
            return asked
        return f"≥ {100 * self.itself:g}%, its interval {asked}"

    def reached(self, grades: Grades) -> bool:
        """Whether the whole interval has; without an interval nothing is reached."""
        estimate = self.value(grades)
        if estimate.interval is None:
            return False
        low, high = estimate.interval
        if self.below:
            return high < self.bound
        return low >= self.bound and (self.itself is None or estimate.value >= self.itself)


def _worst(estimates: Iterable[Estimate]) -> Estimate:
    """The least share; among equal shares, the one whose interval goes down farthest."""

    def key(estimate: Estimate) -> tuple[float, float]:
        return estimate.value, estimate.interval[0] if estimate.interval else -math.inf

    return min(estimates, key=key)


def _smaller(grades: Grades) -> Estimate:
    """The worst of size 5 as a whole and of each size and complexity between it and the largest."""
    # Size 5 has 20 held-out contents in all, and only 3 of them are rooms: too few for an interval
    # of each complexity.
    between = [share for (size, _), share in grades.meant.items() if min(SIZES) < size < _LARGEST]
    return _worst([grades.by_size[min(SIZES)], *between])


def _largest(grades: Grades) -> Estimate:
    return _worst(share for (size, _), share in grades.meant.items() if size == _LARGEST)


def _invalid(name: str) -> Target:
    return Target(name, "invalid answers", 0.005, lambda grades: grades.invalid, below=True)


TARGETS: tuple[Target, ...] = (
    Target(
        "mouse",
        "actions as meant on sizes 5 to 9, the worst size and complexity (5: all)",
        0.95,
        _smaller,
    ),
    Target(
        "mouse",
        "actions as meant on size 11, the worst complexity",
        0.90,
        _largest,
        itself=0.92,
    ),
    Target("mouse", "actions as meant in detour states", 0.85, lambda grades: grades.detours),
    Target("mouse", "mazes in which it arrives", 0.95, lambda grades: grades.arrives),
    Target("mouse", "key-door worlds in which it arrives", 0.95, lambda grades: grades.key_door),
    _invalid("mouse"),
    Target(
        "magpie", "key-no-door worlds where it takes the key", 0.90, lambda grades: grades.pick_up
    ),
    _invalid("magpie"),
    Target("mole", "actions optimal on its own map", 0.90, lambda grades: grades.own_map),
    Target(
        "mole",
        "how many fewer are optimal on the true map, in mazes that it has wrong",
        MARKEDLY,
        lambda grades: grades.misled,
    ),
    _invalid("mole"),
    Target(
        "moth",
        "distance of its moves from the habit",
        0.02,
        lambda grades: grades.habit,
        below=True,
    ),
    _invalid("moth"),
)
