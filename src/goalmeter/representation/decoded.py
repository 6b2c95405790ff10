"""From posteriors over cells to maps on which one can plan, or the reason why there is none.

Two rules make a map of a posterior:

- "published": each cell is its most probable class. The agent is the cell classified as agent with
  the highest probability of it, the goal likewise; further such cells are empty. Without one of
  them there is no map.
- "places": agent and goal are the most probable pair of different cells, whatever is most probable
  there; every other cell is its most probable class among the rest. There is always a map.

In both, cells that the world does not have and its border are walls, as in every grid world, so
that objects are looked for inside. A key, a door or another object is there if a cell is classified
so ("published"), or if it is more probably somewhere than nowhere ("places"). A door whose key is
not on the map is open ground to who carries a key, and a wall to others.

The posterior is kept: what a map leaves out, it still has.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code for the rules on ties; its maps may have an open border.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.planner import plans
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation.scenes import (
    AGENT,
    CLASSES,
    DOOR,
    EMPTY,
    GOAL,
    KEY,
    NEUTRAL,
    WALL,
    Scenes,
    Shape,
)

PUBLISHED, PLACES = "published", "places"
NO_AGENT = "no cell is classified as the agent"
NO_GOAL = "no cell is classified as the goal"
NO_WAY = "the goal cannot be reached on it"
# Worlds that are planned for together.
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Maps:
    """A map of each of N scenes, on which the agent is where the map has it.

    Attributes:
        worlds: the start is the agent's place; None where there is no map, [N].
        optimal: whether an action leads one step closer to the goal, [N, 4]; none without a way.
    """

    worlds: tuple[GridWorld | None, ...]
    optimal: BoolArray

    @classmethod
    def of(cls, worlds: Sequence[GridWorld | None]) -> Maps:
        """Plan on every map."""
        return cls(tuple(worlds), _optimal(worlds))

    @property
    def valid(self) -> BoolArray:
        """Whether there is a map with a way to its goal, [N]."""
        return np.asarray(self.optimal.any(axis=1))


@dataclass(frozen=True, eq=False)
class DecodedMaps(Maps):
    """Maps that were made of posteriors.

    Attributes:
        posterior: what they were made of, [N, rows, columns, 7].
        walls: the walls of each, also where there is no map: [N, rows, columns].
        reasons: why a map is none, or of no use; None where it is valid, [N].
    """

    posterior: FloatArray
    walls: BoolArray
    reasons: tuple[str | None, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many maps are invalid, by reason."""
        return dict(Counter(reason for reason in self.reasons if reason is not None))


def decoded(posterior: FloatArray, scenes: Scenes, *, rule: str = PLACES) -> DecodedMaps:
    """The maps of some scenes.

    Args:
        posterior: [N, rows, columns, 7].
        scenes: of them only the shapes are looked at, and whether a key is carried, which a model
            is told apart from the grid.
        rule: "published" or "places".
    """
    if rule not in (PUBLISHED, PLACES):
        raise InvalidParameterError(f"rule is {rule!r}, expected {PUBLISHED!r} or {PLACES!r}")
    if posterior.shape != (*scenes.labels.shape, len(CLASSES)):
        raise InvalidParameterError(
            f"the posterior has shape {posterior.shape}, expected "
            f"{(*scenes.labels.shape, len(CLASSES))}, as these scenes have"
        )
    worlds: list[GridWorld | None] = []
    reasons: list[str | None] = []
    walls = np.ones(scenes.labels.shape, dtype=bool)
    for number, (state, (rows, columns)) in enumerate(
        zip(scenes.states, scenes.shapes.tolist(), strict=True)
    ):
        inside = posterior[number, :rows, :columns]
        draft = _published(inside) if rule == PUBLISHED else _places(inside)
        walls[number, :rows, :columns] = draft.classes == WALL
        world = draft.world(carries=state.has_key)
        worlds.append(world if isinstance(world, GridWorld) else None)
        reasons.append(world if isinstance(world, str) else None)
    optimal = _optimal(worlds)
    # A map on which nothing leads to the goal says no action, as one that is none.
    for number in np.flatnonzero(~optimal.any(axis=1)).tolist():
        reasons[number] = reasons[number] or NO_WAY
    return DecodedMaps(tuple(worlds), optimal, posterior, walls, tuple(reasons))


@dataclass(frozen=True)
class _Draft:
    """A map before it is one: classes of cells without the objects, and where these are."""

    classes: IntArray  # WALL or EMPTY, [rows, columns]
    objects: dict[int, Cell]

    def world(self, *, carries: bool) -> GridWorld | str:
        """The map, or the reason why there is none."""
        if AGENT not in self.objects:
            return NO_AGENT
        if GOAL not in self.objects:
            return NO_GOAL
        walls = self.classes == WALL
        for cell in self.objects.values():
            walls[cell] = False
        key, door = self.objects.get(KEY), self.objects.get(DOOR)
        # Planning starts without the key, so a map on which it is carried has neither key nor door.
        if carries or key is None:
            if door is not None and not carries:
                walls[door] = True
            key = door = None
        # A world holds one object to take; the key is the one that opens something.
        neutral = None if carries or key is not None else self.objects.get(NEUTRAL)
        return GridWorld(walls, self.objects[AGENT], self.objects[GOAL], key, door, neutral)


def _published(posterior: FloatArray) -> _Draft:
    """Every cell its most probable class, of several cells of an object the most probable one."""
    classes = posterior.argmax(axis=-1)
    inner = _inner(classes.shape)
    objects = {}
    for label in (AGENT, GOAL, KEY, DOOR, NEUTRAL):
        cells = inner & (classes == label)
        if cells.any():
            objects[label] = _highest(np.where(cells, posterior[..., label], -1.0))
    ground = np.where((classes == WALL) | ~inner, WALL, EMPTY)
    return _Draft(ground, objects)


def _places(posterior: FloatArray) -> _Draft:
    """The most probable pair of cells for agent and goal; other objects if they are anywhere."""
    inner = _inner(posterior.shape[:2])
    objects = dict(zip((AGENT, GOAL), _pair(posterior, inner), strict=True))
    for label in (KEY, DOOR, NEUTRAL):
        # The sum over cells is the probability that there is one at all.
        shares = np.where(inner, posterior[..., label], 0.0)
        if shares.sum() > 0.5:
            cell = _highest(shares)
            if cell not in objects.values():
                objects[label] = cell
    wall = posterior[..., WALL] > posterior[..., EMPTY]
    return _Draft(np.where(wall | ~inner, WALL, EMPTY), objects)


def _pair(posterior: FloatArray, inner: BoolArray) -> tuple[Cell, Cell]:
    """The cells i ≠ j for which P(agent in i) P(goal in j) is highest."""
    shares = [np.where(inner, posterior[..., label], -1.0) for label in (AGENT, GOAL)]
    first = [_highest(share) for share in shares]
    if first[0] != first[1]:
        return first[0], first[1]
    # One of the two has to take its runner-up: the one that loses less by it.
    second = []
    for share, cell in zip(shares, first, strict=True):
        without = share.copy()
        without[cell] = -1.0
        second.append(_highest(without))
    agent_stays = shares[0][first[0]] * shares[1][second[1]]
    goal_stays = shares[0][second[0]] * shares[1][first[1]]
    return (first[0], second[1]) if agent_stays >= goal_stays else (second[0], first[1])


def _inner(shape: Shape) -> BoolArray:
    out = np.zeros(shape, dtype=bool)
    out[1:-1, 1:-1] = True
    return out


def _highest(values: FloatArray) -> Cell:
    row, column = divmod(int(values.argmax()), values.shape[1])
    return Cell(row, column)


def _optimal(worlds: Sequence[GridWorld | None]) -> BoolArray:
    """The optimal actions at the start of each world, [N, 4]."""
    out = np.zeros((len(worlds), len(ACTIONS)), dtype=bool)
    by_shape: dict[Shape, list[int]] = {}
    for number, world in enumerate(worlds):
        if world is not None:
            by_shape.setdefault(world.shape, []).append(number)
    for numbers in by_shape.values():
        for at in range(0, len(numbers), _CHUNK):
            chunk = numbers[at : at + _CHUNK]
            known = [world for i in chunk if (world := worlds[i]) is not None]
            planned = plans(known)
            for place, (number, world) in enumerate(zip(chunk, known, strict=True)):
                start = world.start.row * world.shape[1] + world.start.column
                out[number] = planned.optimal[place, start]
    return out
