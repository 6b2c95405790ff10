"""Two conditions crossed: is it the words, the thing, or both together?

A prompt that speaks of keys draws an agent to a key, and so may a key that nothing is said of. Four
conditions tell them apart: each grid is walked through with and without the words, with a
key and with a neutral thing in its place. Effects are differences of means within a grid, so that
grids that invite a detour cancel out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._types import FloatArray
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.statistics.clustered import Estimate, estimate

MEASURES = ("pick_up", "success", "accuracy")


@dataclass(frozen=True)
class Factors:
    """The effects of two conditions on a measure, over grids walked through in all four cells.

    Attributes:
        measure: "pick_up", "success" or "accuracy".
        factors: names of the two conditions.
        levels: the two values of each; effects are of the second one, less the first.
        cells: mean over grids in each combination, [first, second].
        effects: of the first condition and of the second, each averaged over the other.
        interaction: by how much the effect of the one is greater at the second level of the other.
        grids: how many.
    """

    measure: str
    factors: tuple[str, str]
    levels: tuple[tuple[Any, Any], tuple[Any, Any]]
    cells: tuple[tuple[float, float], tuple[float, float]]
    effects: tuple[Estimate, Estimate]
    interaction: Estimate
    grids: int

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "measure": self.measure,
            "factors": list(self.factors),
            "levels": [list(levels) for levels in self.levels],
            "cells": [list(row) for row in self.cells],
            "effects": [effect.to_json() for effect in self.effects],
            "interaction": self.interaction.to_json(),
            "grids": self.grids,
        }


def factors(
    trajectories: Sequence[Trajectory] | Observed,
    first: str = "prompt",
    second: str = "object",
    *,
    measure: str = "pick_up",
    confidence: float = 0.95,
) -> Factors:
    """The effects of two conditions.

    Args:
        trajectories: with two values of each condition; other conditions are averaged over.
        first: name of one condition.
        second: name of the other.
        measure: "pick_up" (what lies on the key's cell counts as the key), "success" or "accuracy".
        confidence: nominal coverage of intervals.

    Raises:
        InvalidTrajectoryError: a condition is missing or has other than two values, or no grid was
            walked through in all four combinations.
    """
    seen = trajectories if isinstance(trajectories, Observed) else observed(trajectories)
    conditions = [json.loads(kind.condition) for kind in seen.kinds]
    levels = tuple(_levels(conditions, name) for name in (first, second))
    values: dict[int, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for grid, kind, value in zip(seen.grid, seen.kind, _values(seen, measure), strict=True):
        if not np.isnan(value):
            given = conditions[kind]
            cell = levels[0].index(given[first]), levels[1].index(given[second])
            values[int(grid)][cell].append(float(value))
    corners = list(product((0, 1), (0, 1)))
    whole = [cells for cells in values.values() if len(cells) == len(corners)]
    if not whole:
        raise InvalidTrajectoryError(
            f"no grid was walked through in all four combinations of {first} and {second}"
        )
    means = np.array([[np.mean(cells[c]) for c in corners] for cells in whole]).reshape(-1, 2, 2)
    of_first = (means[:, 1] - means[:, 0]).mean(axis=1)
    of_second = (means[:, :, 1] - means[:, :, 0]).mean(axis=1)
    both = means[:, 1, 1] - means[:, 1, 0] - means[:, 0, 1] + means[:, 0, 0]
    (a, b), (c, d) = means.mean(axis=0).tolist()
    return Factors(
        measure,
        (first, second),
        (levels[0], levels[1]),
        ((a, b), (c, d)),
        (estimate(of_first, confidence=confidence), estimate(of_second, confidence=confidence)),
        estimate(both, confidence=confidence),
        len(whole),
    )


def _levels(conditions: list[dict[str, Any]], name: str) -> tuple[Any, Any]:
    found: list[Any] = []
    for condition in conditions:
        if name not in condition:
            raise InvalidTrajectoryError(
                f"{name} is no condition of all trajectories; there is one with "
                f"{', '.join(condition) or 'none'}"
            )
        if condition[name] not in found:
            found.append(condition[name])
    if len(found) != 2:
        raise InvalidTrajectoryError(
            f"{name} is {' or '.join(map(repr, found))}, expected two different values"
        )
    return found[0], found[1]


def _values(seen: Observed, measure: str) -> FloatArray:
    """The measure of each trajectory, NaN where it has none."""
    if measure == "pick_up":
        return np.array([float(walk.states()[-1].has_key) for walk in seen.trajectories])
    if measure == "success":
        return seen.arrived.astype(float)
    if measure == "accuracy":
        return seen.accuracy
    raise InvalidParameterError(
        f"there is no measure {measure!r} of factors; known are {', '.join(MEASURES)}"
    )
