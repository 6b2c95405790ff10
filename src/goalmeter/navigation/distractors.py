"""Effects of distractors: wrong moves towards useless objects, and prompt and object factors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import WITHOUT_KEY, open_moves, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.prompts import PROMPT, TEMPLATES
from goalmeter.navigation.steps import DIFFERENCE, INVALID, Grids, Observed, Walks, observed
from goalmeter.navigation.suite_definition import KEY, NEUTRAL
from goalmeter.statistics.clusters import Estimate, estimate

# --- Wrong moves ----------------------------------------------------------------------------------
# Many wrong moves lead towards the key (or neutral object) by chance. Their share is compared with
# random wrong answers among the four actions, and with those *of the same kind* (a move, or a bump
# into a wall). Source: section 4.3 of the paper; the chance levels are an addition.


@dataclass(frozen=True)
class TowardsKey(JsonFields):
    """Share of wrong actions without the key that lead towards it."""

    share: Estimate  # share among all wrong actions without the key
    share_by_walk: Estimate  # mean over walks with wrong actions, as published
    chance: Estimate  # share for a random wrong answer of the four actions
    excess: Estimate  # share less chance
    chance_of_kind: Estimate  # share for a random wrong answer of the same kind, move or bump
    excess_of_kind: Estimate


def towards_key(grids: Grids) -> TowardsKey:
    """Estimate the share of wrong actions without the key that lead towards it."""
    among, towards, chance, of_kind = _wrong_actions(grids.seen)
    paired: dict[str, Any] = {"among": among, "bounds": DIFFERENCE, "paired": True}
    return TowardsKey(
        share=grids.steps(towards, among=among),
        share_by_walk=grids.walks(grids.seen.means(towards, among)),
        chance=grids.steps(chance, among=among),
        excess=grids.steps(towards - chance, **paired),
        chance_of_kind=grids.steps(of_kind, among=among),
        excess_of_kind=grids.steps(towards - of_kind, **paired),
    )


def _wrong_actions(seen: Observed) -> tuple[BoolArray, BoolArray, FloatArray, FloatArray]:
    """Return four columns over all steps, [M] each; the first masks where the others are valid."""
    tables = [
        [table[seen.state[seen.steps_of(number)]] for table in _action_masks(walk.world)]
        for number, walk in enumerate(seen.trajectories)
    ]
    leads, moves = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    acted = np.minimum(seen.action, INVALID - 1)[:, None]
    moved = np.take_along_axis(moves, acted, axis=1)
    wrong = ~seen.optimal
    of_kind = _share(leads & wrong, wrong & (moves == moved))
    return (
        # Whether the action is wrong, without the key, and whether it leads one step closer to it.
        (seen.layer == WITHOUT_KEY) & ~seen.correct & (seen.action != INVALID),
        np.take_along_axis(leads, acted, axis=1)[:, 0],
        # The share that does among wrong actions, and among wrong actions of the same kind.
        _share(leads & wrong, wrong),
        np.where(moved[:, 0], of_kind, 0.0),
    )


@lru_cache(maxsize=512)
def _action_masks(world: GridWorld) -> tuple[BoolArray, BoolArray]:
    """Return masks [states, 4]: actions one step closer to the object, and actions that move."""
    plan = planned(world)
    return grid_agents.towards_thing(plan), open_moves(plan)


def _share(part: BoolArray, whole: BoolArray) -> FloatArray:
    return np.asarray((part & whole).sum(axis=1) / np.maximum(whole.sum(axis=1), 1))


# --- Factors --------------------------------------------------------------------------------------
# Effects of a prompt that mentions keys, and of a key compared with a neutral object in its place.
# Each grid comes in all four combinations; effects are differences of means within a grid.

PICK_UP, TOWARDS, OBJECT = "pick_up", "towards", "object"

Levels = tuple[Any, Any]


@dataclass(frozen=True)
class Factors(JsonFields):
    """Effects of two conditions on a measure, over grids with walks in all four combinations."""

    measure: str  # one of `MEASURES`
    factors: tuple[str, str]  # names of the two conditions
    levels: tuple[Levels, Levels]  # an effect is the second level less the first
    cells: tuple[tuple[float, float], tuple[float, float]]  # means over grids, [first, second]
    effects: tuple[Estimate, Estimate]  # effect of each condition, averaged over the other
    interaction: Estimate  # difference in the effect of one between the levels of the other
    grids: int


@dataclass(frozen=True)
class Contrast(JsonFields):
    """Effect of one condition, over grids with walks at both levels; fields as in `Factors`."""

    measure: str
    factor: str
    levels: Levels
    cells: tuple[float, float]
    effect: Estimate
    grids: int


def condition_effects(trajectories: Walks) -> tuple[Factors | Contrast, ...]:
    """Estimate the effects of prompt and object, as far as they vary, on every measure."""
    seen = observed(trajectories)
    vary = []
    for name in (PROMPT, OBJECT):
        with suppress(InvalidTrajectoryError):
            _levels(seen, name)
            vary.append(name)
    out = []
    for measure in MEASURES if vary else ():
        with suppress(InvalidTrajectoryError):  # no grid has walks in every combination
            out.append(factors(seen, *vary, measure=measure))
    return tuple(out)


def factors(trajectories: Walks, *names: str, measure: str = PICK_UP) -> Factors | Contrast:
    """Estimate the effects of one or two conditions on a measure, by default prompt and object."""
    seen, names = observed(trajectories), names or (PROMPT, OBJECT)
    levels: Any = tuple(_levels(seen, name) for name in names)
    means = _cell_means(seen, names, levels, measure)

    def effect(values: FloatArray, differences: int = 1) -> Estimate:
        # Shares are in [0, 1], their excess in [-1, 1].
        most = differences * (2.0 if measure == TOWARDS else 1.0)
        return estimate(values, bounds=(-most, most), paired=True)

    cells = means.mean(axis=0).tolist()
    of_first = means[:, 1] - means[:, 0]
    if len(names) == 1:
        return Contrast(measure, names[0], levels[0], tuple(cells), effect(of_first), len(means))
    of_second = means[:, :, 1] - means[:, :, 0]
    both = means[:, 1, 1] - means[:, 1, 0] - means[:, 0, 1] + means[:, 0, 0]
    return Factors(
        measure,
        (names[0], names[1]),
        levels,
        (tuple(cells[0]), tuple(cells[1])),
        (effect(of_first.mean(axis=1)), effect(of_second.mean(axis=1))),
        effect(both, differences=2),
        len(means),
    )


def _levels(seen: Observed, name: str) -> Levels:
    """Return the two values of a condition; raises InvalidTrajectoryError for other numbers."""
    values = list(dict.fromkeys(value for value in _values_of(seen, name) if value is not None))
    if len(values) != 2:
        listed = " or ".join(repr(json.loads(value)) for value in values) or "missing"
        raise InvalidTrajectoryError(f"{name} is {listed}, expected two different values")
    # The second level is the key, or the prompt that mentions keys, in any order of trajectories.
    if name == OBJECT:
        return NEUTRAL, KEY

    def mentions_keys(value: Any) -> bool:
        return value in tuple(TEMPLATES) and TEMPLATES[value].mentions_keys

    first, second = sorted(map(json.loads, values), key=mentions_keys)
    return first, second


def _cell_means(
    seen: Observed, names: Sequence[str], levels: Sequence[Levels], measure: str
) -> FloatArray:
    """Return the mean over walks of each combination, [grids, 2, ...], one axis per condition."""
    values, grids, means = _MEASURE_OF[measure](seen), Grids(seen), []
    labels = [*zip(*(_values_of(seen, name) for name in names), strict=True)]
    for corner in product(*([json.dumps(level) for level in pair] for pair in levels)):
        is_there = [label == corner for label in labels]
        means.append(grids.means(np.where(is_there, values, np.nan)))
    complete = ~np.isnan(means).any(axis=0)
    if not complete.any():
        raise InvalidTrajectoryError(
            f"no grid has walks in all combinations of {' and '.join(names)}"
        )
    return np.transpose(means)[complete].reshape(-1, *(2,) * len(names))


def _values_of(seen: Observed, name: str) -> list[str | None]:
    """Return the condition's value of each trajectory, as JSON; None in worlds without object."""
    if name == OBJECT:
        return [None if thing is None else json.dumps(thing) for thing in seen.objects]
    conditions = [json.loads(kind.condition) for kind in seen.kinds]
    for condition in conditions:
        if name not in condition:
            raise InvalidTrajectoryError(
                f"{name!r} is not a condition of every trajectory; one has only "
                f"{', '.join(condition) or 'none'}"
            )
    return [json.dumps(conditions[kind][name]) for kind in seen.kind]


def _excess_of_kind(seen: Observed) -> FloatArray:
    """Return the excess over wrong answers of the same kind, of each walk; NaN without any."""
    among, towards, _, of_kind = _wrong_actions(seen)
    # In worlds with a door, fetching the key is optimal.
    worlds = [walk.world for walk in seen.trajectories]
    none = [world.thing is None or world.door is not None for world in worlds]
    return np.where(none, np.nan, seen.means(towards - of_kind, among))


# Measure of each trajectory, NaN where it has none, [N].
_MEASURE_OF: dict[str, Callable[[Observed], FloatArray]] = {
    PICK_UP: lambda seen: np.where([thing is None for thing in seen.objects], np.nan, seen.taken),
    TOWARDS: _excess_of_kind,
    "success": lambda seen: seen.arrived.astype(float),
    "accuracy": lambda seen: seen.accuracy,
}
MEASURES = tuple(_MEASURE_OF)
