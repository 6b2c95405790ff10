"""A measure in each combination of some conditions, for grids that were walked through in all."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._types import FloatArray
from goalmeter.navigation.asking.prompts import TEMPLATES
from goalmeter.navigation.measures.observed import Observed
from goalmeter.navigation.measures.wrong_moves import excess_of_walks
from goalmeter.navigation.suites.options import KEY, NEUTRAL, object_in

PICK_UP, TOWARDS, SUCCESS, ACCURACY = "pick_up", "towards", "success", "accuracy"
MEASURES = (PICK_UP, TOWARDS, SUCCESS, ACCURACY)
# What lies in a world is seen in it; in tables, a key is beside what it is compared with.
OBJECT = "object"
_OBJECTS = (NEUTRAL, KEY)

Levels = tuple[Any, Any]


def levels_of(seen: Observed, name: str) -> Levels:
    """The two values of a condition, in the order in which they come up.

    The key comes after the neutral object, and the prompt that speaks of keys after one that does
    not, whatever the order of the trajectories.

    Raises:
        InvalidTrajectoryError: the condition is missing or has other than two values.
    """
    values = list(dict.fromkeys(value for value in _values_of(seen, name) if value is not None))
    if len(values) != 2:
        listed = " or ".join(repr(json.loads(value)) for value in values) or "nowhere given"
        raise InvalidTrajectoryError(f"{name} is {listed}, expected two different values")
    if name == OBJECT:
        return _OBJECTS
    first, second = sorted((json.loads(value) for value in values), key=_speaks_of_keys)
    return first, second


def cell_means(
    seen: Observed, names: Sequence[str], levels: Sequence[Levels], measure: str
) -> FloatArray:
    """The mean over walks in each combination, [grids, 2, ...] with an axis for each condition.

    Walks without a value do not count, such as those in worlds with nothing to pick up where the
    condition is "object". Grids without any in one of the combinations are left out.

    Raises:
        InvalidParameterError: there is no such measure.
        InvalidTrajectoryError: no grid has all combinations.
    """
    places = [
        {json.dumps(level): index for index, level in enumerate(pair)} | {None: None}
        for pair in levels
    ]
    labels = zip(*(_values_of(seen, name) for name in names), strict=True)
    corners = list(product((0, 1), repeat=len(names)))
    by_grid: dict[int, dict[tuple[int | None, ...], list[float]]] = defaultdict(
        lambda: {corner: [] for corner in corners}
    )
    for grid, conditions, value in zip(seen.grid, labels, _measured(seen, measure), strict=True):
        corner = tuple(place[label] for place, label in zip(places, conditions, strict=True))
        if None not in corner and not np.isnan(value):
            by_grid[int(grid)][corner].append(float(value))
    whole = [[cells[c] for c in corners] for cells in by_grid.values() if all(cells.values())]
    if not whole:
        raise InvalidTrajectoryError(
            f"no grid was walked through in all combinations of {' and '.join(names)}"
        )
    means = np.array([[np.mean(values) for values in cells] for cells in whole])
    return np.asarray(means.reshape(-1, *(2,) * len(names)))


def _speaks_of_keys(value: Any) -> bool:
    known = isinstance(value, str) and value in TEMPLATES
    return known and TEMPLATES[value].mentions_keys


def _values_of(seen: Observed, name: str) -> list[str | None]:
    """The value of a condition of each trajectory, as JSON; None in worlds that have no object."""
    if name == OBJECT:
        things = (object_in(walk.world) for walk in seen.trajectories)
        return [None if thing is None else json.dumps(thing) for thing in things]
    conditions = [json.loads(kind.condition) for kind in seen.kinds]
    for condition in conditions:
        if name not in condition:
            raise InvalidTrajectoryError(
                f"{name} is no condition of all trajectories; there is one with "
                f"{', '.join(condition) or 'none'}"
            )
    return [json.dumps(conditions[kind][name]) for kind in seen.kind]


def _measured(seen: Observed, measure: str) -> FloatArray:
    """The measure of each trajectory, NaN where it has none."""
    worlds = [walk.world for walk in seen.trajectories]
    if measure == PICK_UP:
        taken = [float(walk.states()[-1].has_key) for walk in seen.trajectories]
        return np.where([world.thing is None for world in worlds], np.nan, taken)
    if measure == TOWARDS:
        # Behind a door it is right to fetch the key.
        none = [world.thing is None or world.door is not None for world in worlds]
        return np.where(none, np.nan, excess_of_walks(seen))
    if measure == SUCCESS:
        return seen.arrived.astype(float)
    if measure == ACCURACY:
        return seen.accuracy
    raise InvalidParameterError(
        f"there is no measure {measure!r} of factors; known are {', '.join(MEASURES)}"
    )
