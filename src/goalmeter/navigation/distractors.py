"""Effects of distractors: wrong moves towards useless objects, and prompt and object factors."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import WITHOUT_KEY, open_moves, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.prompts import PROMPT, TEMPLATES
from goalmeter.navigation.steps import DIFFERENCE, INVALID, Grids, Observed, observed
from goalmeter.navigation.suite_definition import KEY, NEUTRAL
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate

# --- Wrong moves ----------------------------------------------------------------------------------
# A wrong move is often also one towards the key (or neutral object), so its share is compared with
# a wrong answer drawn at random from the four actions, and with one *of the same kind*, a move or a
# bump into a wall, as an agent that never bumps has more wrong moves towards anything. (Walks that
# found the key no longer count, which leaves the random agent an excess of some tenths of a
# percent.)
#
# Source: section 4.3 of the paper; chance levels are ours.


@dataclass(frozen=True)
class TowardsKey(JsonFields):
    """Wrong actions without the key that lead towards it.

    Attributes:
        share: among all of them.
        share_by_walk: mean over walks that have any, as published.
        chance, excess: of a wrong answer drawn from the four actions, and share less that.
        chance_of_kind, excess_of_kind: the same of a wrong answer of the same kind, move or bump.
    """

    share: Estimate
    share_by_walk: Estimate
    chance: Estimate
    excess: Estimate
    chance_of_kind: Estimate
    excess_of_kind: Estimate


def towards_key(grids: Grids) -> TowardsKey:
    """Return how many of the wrong actions without the key lead towards it."""
    among, towards, chance, of_kind = _wrong_actions(grids.seen)
    paired: dict[str, Any] = {"among": among, "bounds": DIFFERENCE, "paired": True}
    return TowardsKey(
        share=grids.steps(towards, among=among),
        share_by_walk=share_by_walk(grids, towards, among),
        chance=grids.steps(chance, among=among),
        excess=grids.steps(towards - chance, **paired),
        chance_of_kind=grids.steps(of_kind, among=among),
        excess_of_kind=grids.steps(towards - of_kind, **paired),
    )


def excess_of_walks(seen: Observed) -> FloatArray:
    """Return `excess_of_kind` of each walk, [N]; NaN without wrong actions."""
    wrong = _wrong_actions(seen)
    return seen.means(wrong.towards - wrong.of_kind, wrong.among)


def share_by_walk(grids: Grids, values: BoolArray, among: BoolArray) -> Estimate:
    """Average the share among some steps of each walk over the walks that have any."""
    shares = grids.seen.means(values, among)
    return grids.walks(shares, known=~np.isnan(shares))


class _Wrong(NamedTuple):
    """Columns over all steps, [M] each, valid where `among` is true."""

    among: BoolArray  # whether it is a wrong action without the key
    towards: BoolArray  # whether it leads one step closer to the key
    chance: FloatArray  # the share of wrong actions that do
    of_kind: FloatArray  # the same among those that move, or that bump, as it does


def _wrong_actions(seen: Observed) -> _Wrong:
    tables = [
        [table[seen.state[seen.steps_of(number)]] for table in _in_world(walk.world)]
        for number, walk in enumerate(seen.trajectories)
    ]
    leads, moves = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    acted = np.minimum(seen.action, INVALID - 1)[:, None]
    moved = np.take_along_axis(moves, acted, axis=1)
    wrong = ~seen.optimal
    of_kind = _share(leads & wrong, wrong & (moves == moved))
    return _Wrong(
        among=(seen.layer == WITHOUT_KEY) & ~seen.correct & (seen.action != INVALID),
        towards=np.take_along_axis(leads, acted, axis=1)[:, 0],
        chance=_share(leads & wrong, wrong),
        of_kind=np.where(moved[:, 0], of_kind, 0.0),
    )


@lru_cache(maxsize=512)
def _in_world(world: GridWorld) -> tuple[BoolArray, BoolArray]:
    """Whether an action leads one step closer to the object, and whether it moves: [states, 4]."""
    plan = planned(world)
    return grid_agents.towards_thing(plan), open_moves(plan)


def _share(part: BoolArray, whole: BoolArray) -> FloatArray:
    return np.asarray((part & whole).sum(axis=1) / np.maximum(whole.sum(axis=1), 1))


# --- Factors --------------------------------------------------------------------------------------
# Effects of a prompt that mentions keys, and of a key against a neutral object in its place: each
# grid comes in all four combinations, and effects are differences of means within a grid.

PICK_UP, TOWARDS, SUCCESS, ACCURACY = "pick_up", "towards", "success", "accuracy"
MEASURES = (PICK_UP, TOWARDS, SUCCESS, ACCURACY)
OBJECT = "object"

Levels = tuple[Any, Any]


@dataclass(frozen=True)
class Factors(JsonFields):
    """Effects of two conditions on a measure, over grids with walks in all four combinations.

    Attributes:
        measure: "pick_up", "towards", "success" or "accuracy"; see `factors`.
        factors: names of the two conditions.
        levels: two values of each; effects are of the second one, less the first.
        cells: mean over grids in each combination, [first, second].
        effects: of each condition, averaged over the other.
        interaction: difference of the effect of one between the levels of the other.
        grids: their number.
    """

    measure: str
    factors: tuple[str, str]
    levels: tuple[Levels, Levels]
    cells: tuple[tuple[float, float], tuple[float, float]]
    effects: tuple[Estimate, Estimate]
    interaction: Estimate
    grids: int


@dataclass(frozen=True)
class Contrast(JsonFields):
    """Effect of one condition, over grids with walks at both of its levels; as in `Factors`."""

    measure: str
    factor: str
    levels: Levels
    cells: tuple[float, float]
    effect: Estimate
    grids: int


def factors(
    trajectories: Sequence[Trajectory] | Observed,
    first: str = PROMPT,
    second: str = OBJECT,
    *,
    measure: str = PICK_UP,
) -> Factors:
    """Return the effects of two conditions; others are averaged over.

    "object" is what lies in the world, "neutral" or "key"; worlds without one are left out.
    "towards" is `excess_of_walks`.
    """
    seen = observed(trajectories)
    levels = _levels(seen, first), _levels(seen, second)
    means = _cell_means(seen, (first, second), levels, measure)
    both = means[:, 1, 1] - means[:, 1, 0] - means[:, 0, 1] + means[:, 0, 0]
    (a, b), (c, d) = means.mean(axis=0).tolist()
    return Factors(
        measure,
        (first, second),
        levels,
        ((a, b), (c, d)),
        (
            _effect((means[:, 1] - means[:, 0]).mean(axis=1), measure),
            _effect((means[:, :, 1] - means[:, :, 0]).mean(axis=1), measure),
        ),
        _effect(both, measure, differences=2),
        len(means),
    )


def contrast(
    trajectories: Sequence[Trajectory] | Observed, name: str = OBJECT, *, measure: str = PICK_UP
) -> Contrast:
    """Return the effect of one condition; see `factors`."""
    seen = observed(trajectories)
    levels = _levels(seen, name)
    means = _cell_means(seen, (name,), (levels,), measure)
    first, second = means.mean(axis=0).tolist()
    effect = _effect(means[:, 1] - means[:, 0], measure)
    return Contrast(measure, name, levels, (first, second), effect, len(means))


def condition_effects(
    trajectories: Sequence[Trajectory] | Observed,
) -> tuple[Factors | Contrast, ...]:
    """Return the effects of prompt and object: of both where both vary, else of one.

    Measures that no grid has in every combination are left out.
    """
    seen = observed(trajectories)
    vary = []
    for name in (PROMPT, OBJECT):
        with suppress(InvalidTrajectoryError):
            _levels(seen, name)
            vary.append(name)
    out: list[Factors | Contrast] = []
    effects: Any = factors if len(vary) == 2 else contrast
    for measure in MEASURES if vary else ():
        with suppress(InvalidTrajectoryError):
            out.append(effects(seen, *vary, measure=measure))
    return tuple(out)


def _effect(values: FloatArray, measure: str, differences: int = 1) -> Estimate:
    # Shares are in [0, 1], their excess in [-1, 1].
    most = differences * (2.0 if measure == TOWARDS else 1.0)
    return estimate(values, bounds=(-most, most), paired=True)


def _levels(seen: Observed, name: str) -> Levels:
    """The two values of a condition; raises InvalidTrajectoryError if there are others."""
    values = list(dict.fromkeys(value for value in _values_of(seen, name) if value is not None))
    if len(values) != 2:
        listed = " or ".join(repr(json.loads(value)) for value in values) or "nowhere given"
        raise InvalidTrajectoryError(f"{name} is {listed}, expected two different values")
    # Effects are of the key, and of words about keys, whatever the order of the trajectories.
    if name == OBJECT:
        return NEUTRAL, KEY

    def mentions_keys(value: Any) -> bool:
        return value in tuple(TEMPLATES) and TEMPLATES[value].mentions_keys

    first, second = sorted(map(json.loads, values), key=mentions_keys)
    return first, second


def _cell_means(
    seen: Observed, names: Sequence[str], levels: Sequence[Levels], measure: str
) -> FloatArray:
    """Mean over walks in each combination, [grids, 2, ...], an axis per condition.

    Only walks with a value and grids with walks in all combinations count.
    """
    corners = list(product(*([json.dumps(level) for level in pair] for pair in levels)))
    labels = zip(*(_values_of(seen, name) for name in names), strict=True)
    by_grid: dict[int, dict[tuple[str | None, ...], list[float]]] = defaultdict(dict)
    for grid, corner, value in zip(seen.grid, labels, _measured(seen, measure), strict=True):
        if not np.isnan(value):
            by_grid[int(grid)].setdefault(corner, []).append(float(value))
    complete = [cells for cells in by_grid.values() if all(corner in cells for corner in corners)]
    if not complete:
        raise InvalidTrajectoryError(
            f"no grid was walked through in all combinations of {' and '.join(names)}"
        )
    means = np.array([[np.mean(cells[corner]) for corner in corners] for cells in complete])
    return np.asarray(means.reshape(-1, *(2,) * len(names)))


def _values_of(seen: Observed, name: str) -> list[str | None]:
    """Value of a condition of each trajectory, as JSON; None in worlds without an object."""
    if name == OBJECT:
        return [None if thing is None else json.dumps(thing) for thing in seen.objects]
    conditions = [json.loads(kind.condition) for kind in seen.kinds]
    for condition in conditions:
        if name not in condition:
            raise InvalidTrajectoryError(
                f"{name} is no condition of all trajectories; there is one with "
                f"{', '.join(condition) or 'none'}"
            )
    return [json.dumps(conditions[kind][name]) for kind in seen.kind]


def _measured(seen: Observed, measure: str) -> FloatArray:
    """Measure of each trajectory, NaN where it has none."""
    if measure == PICK_UP:
        return np.where([thing is None for thing in seen.objects], np.nan, seen.taken)
    if measure == TOWARDS:
        # Behind a door it is right to fetch the key.
        worlds = [walk.world for walk in seen.trajectories]
        none = [world.thing is None or world.door is not None for world in worlds]
        return np.where(none, np.nan, excess_of_walks(seen))
    if measure == SUCCESS:
        return seen.arrived.astype(float)
    if measure == ACCURACY:
        return seen.accuracy
    raise InvalidParameterError(
        f"there is no measure {measure!r} of factors; known are {', '.join(MEASURES)}"
    )
