"""Turn posteriors over cells into maps, and measure how much of the actions they explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.planner import plans
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation.probes.comparison import exchanged
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
from goalmeter.statistics.clusters import Estimate, estimate

# --- Decoded --------------------------------------------------------------------------------------
# Two rules make a map of a posterior:
#
# - "published": each cell is its most probable class. The agent is the cell classified as agent
# with
#   the highest probability of it, the goal likewise; further such cells are empty. Without one of
#   them there is no map.
# - "places": agent and goal are the most probable pair of different cells, whatever is most
# probable
#   there; every other cell is its most probable class among the rest. There is always a map.
#
# In both, cells that the world does not have and its border are walls, as in every grid world, so
# that objects are looked for inside. A key, a door or another object is there if a cell is
# classified so ("published"), or if it is more probably somewhere than nowhere ("places"). A door
# whose key is not on the map is open ground to who carries a key, and a wall to others.
#
# The posterior is kept: what a map leaves out, it still has.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code for the rules on ties; its maps may have an open border.

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


# --- Map controls ---------------------------------------------------------------------------------
# - empty room: the true agent and goal, no walls. Its shortest ways are right nearly everywhere, so
# a
#   decoded map that explains no more shows that agent and goal were read, not walls.
# - another map: the map decoded in another grid, agent and goal included.
# - another map's walls: the same walls around the agent and the goal that were decoded here. What a
#   decoded map explains beyond it is due to its own walls.
# - greedy: no map at all, the moves that lead nearer as the crow flies.

EMPTY_ROOM, ANOTHER, ANOTHER_WALLS = "empty room", "another map", "another map's walls"
GREEDY = "greedy"


def map_controls(maps: DecodedMaps, scenes: Scenes, *, seed: int) -> dict[str, Maps]:
    """The controls that are maps, by name.

    Args:
        maps: what was decoded.
        scenes: of them.
        seed: of which grid lends which its map.
    """
    donors = exchanged(scenes, seed=seed)
    # Where nothing was decoded here there is no place for borrowed walls either.
    borrowed = [
        None if world is None else _with_walls(world, maps.walls[donor])
        for world, donor in zip(maps.worlds, donors.tolist(), strict=True)
    ]
    return {
        EMPTY_ROOM: Maps.of(empty_rooms(scenes)),
        ANOTHER: Maps(tuple(maps.worlds[i] for i in donors), maps.optimal[donors]),
        ANOTHER_WALLS: Maps.of(borrowed),
    }


def empty_rooms(scenes: Scenes) -> list[GridWorld]:
    """The true places of agent and goal in a room without walls, keys and doors."""
    out = []
    for world, state in zip(scenes.worlds, scenes.states, strict=True):
        walls = np.ones(world.shape, dtype=bool)
        walls[1:-1, 1:-1] = False
        out.append(GridWorld(walls, state.cell, world.goal))
    return out


def _with_walls(world: GridWorld, walls: BoolArray) -> GridWorld:
    """A map with other walls, open where its objects are."""
    rows, columns = world.shape
    # Donors have the same shape, in a frame that may be larger.
    drawn = walls[:rows, :columns].copy()
    objects = (world.start, world.goal, world.key, world.door, world.neutral)
    for cell in objects:
        if cell is not None:
            drawn[cell] = False
    return GridWorld(drawn, *objects)


# --- Explained ------------------------------------------------------------------------------------
# Of every state there is the action that was taken, the set T of actions that are optimal in truth
# and the set D of those that are optimal on the decoded map, empty where there is no map:
#
#     on map           the action is in D
#     explained error  the action is not in T but in D, of actions that are not in T
#         map corrects     some action is in D and in T, of actions that are not in T (the published
#     code
#                      calls this recovery)
#     agreement        some action is in D and in T
#     reversed         the action is in T but not in D
#
# Invalid maps explain nothing and stay in the denominator; an answer that could not be read is in
# no set, and is no error that a map could explain. States where the compass may err are shown
# apart: in the others an empty room is as good as a map. Beside explained errors there is chance,
# the share that a random wrong action would have: a map on which much is optimal explains much.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code, where invalid maps leave the sample and there is no control.

CHANCE = "a random wrong action"
UNIT, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class Compared:
    """A share beside its controls.

    Attributes:
        value: of the decoded map.
        controls: the same share of each control, by name.
        beyond: the share less that of each control, in the same states.
    """

    value: Estimate
    controls: Mapping[str, Estimate]
    beyond: Mapping[str, Estimate]

    @property
    def exceeds_controls(self) -> bool:
        """Whether it is above every control with an interval of the difference above 0."""
        intervals = [each.interval for each in self.beyond.values()]
        return bool(intervals) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return self.value.to_json() | {
            "controls": {name: each.to_json() for name, each in self.controls.items()},
            "beyond": {name: each.to_json() for name, each in self.beyond.items()},
            "exceeds_controls": self.exceeds_controls,
        }


@dataclass(frozen=True)
class Explained:
    """What the decoded maps explain in some states.

    Attributes:
        states: "all" or "detour".
        steps: how many states there are.
        errors: how many of the actions are wrong in truth.
        unreadable: how many answers were none.
        invalid: share of states without a valid map.
        on_map: see above, like all that follow.
        explained_errors: among errors.
        map_corrects: among errors.
        recovery: map corrects as published, among errors in states with a valid map.
        agreement: among all states.
        reversed: among all states.
    """

    states: str
    steps: int
    errors: int
    unreadable: int
    invalid: Estimate
    on_map: Compared
    explained_errors: Compared
    map_corrects: Compared
    recovery: Estimate
    agreement: Compared
    reversed: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        counts = ("states", "steps", "errors", "unreadable")
        shares = (
            *("invalid", "on_map", "explained_errors", "map_corrects"),
            *("recovery", "agreement", "reversed"),
        )
        return {name: getattr(self, name) for name in counts} | {
            name: getattr(self, name).to_json() for name in shares
        }


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """All states, and those where the compass may err if there are any.

    Args:
        maps: what was decoded, of N states.
        controls: other maps of the same states, by name; greedy is added.
        scenes: the truth, and what the agent did.
    """
    sets = {name: control.optimal for name, control in controls.items()}
    every = _States(scenes, maps.optimal, sets | {GREEDY: scenes.compass})
    out = [every.explained("all", np.ones(len(scenes), dtype=bool))]
    # Where the compass cannot err, an empty room explains as much as any map.
    if scenes.detour.any():
        out.append(every.explained("detour", scenes.detour))
    return tuple(out)


class _States:
    """What is true of each state, [N] each, for the map and for every control."""

    def __init__(self, scenes: Scenes, optimal: BoolArray, controls: dict[str, BoolArray]) -> None:
        self.truth, self.optimal, self.controls = scenes.optimal, optimal, controls
        self.cluster = np.unique(scenes.grids, return_inverse=True)[1].astype(np.int64)
        self.unreadable = np.array([action is None for action in scenes.actions])
        chosen = [len(ACTIONS) if a is None else a for a in scenes.actions]
        # A fifth column for answers that could not be read, which are in no set.
        self.taken = np.eye(len(ACTIONS) + 1, dtype=bool)[chosen][:, : len(ACTIONS)]
        self.errors = ~self.unreadable & ~self._in(self.truth)

    def _in(self, sets: BoolArray) -> BoolArray:
        """Whether the action is in a set."""
        return np.asarray((self.taken & sets).any(axis=1))

    def _meets(self, sets: BoolArray) -> BoolArray:
        """Whether a set has a truly optimal action."""
        return np.asarray((self.truth & sets).any(axis=1))

    def explained(self, name: str, among: BoolArray) -> Explained:
        errors = among & self.errors
        wrong = ~self.truth
        # Of the wrong actions of a state, the share that is optimal on the map.
        chance = (self.optimal & wrong).sum(axis=1) / np.maximum(wrong.sum(axis=1), 1)
        on_map = {each: self._in(sets) for each, sets in self.controls.items()}
        meets = {each: self._meets(sets) for each, sets in self.controls.items()}
        ours, valid = self._in(self.optimal), self.optimal.any(axis=1)
        reversed_ = np.asarray(self._in(self.truth) & ~ours)
        return Explained(
            states=name,
            steps=int(among.sum()),
            errors=int(errors.sum()),
            unreadable=int((among & self.unreadable).sum()),
            invalid=self._mean(np.asarray(~valid), among),
            on_map=self._compared(ours, on_map, among),
            explained_errors=self._compared(ours, on_map | {CHANCE: chance}, errors),
            map_corrects=self._compared(self._meets(self.optimal), meets, errors),
            recovery=self._mean(self._meets(self.optimal), errors & valid),
            agreement=self._compared(self._meets(self.optimal), meets, among),
            reversed=self._mean(reversed_, among),
        )

    def _compared(
        self, ours: BoolArray, controls: Mapping[str, BoolArray | FloatArray], among: BoolArray
    ) -> Compared:
        return Compared(
            self._mean(ours, among),
            {name: self._mean(each, among) for name, each in controls.items()},
            {
                name: self._mean(ours.astype(float) - each, among, paired=True)
                for name, each in controls.items()
            },
        )

    def _mean(
        self, values: BoolArray | FloatArray, among: BoolArray, *, paired: bool = False
    ) -> Estimate:
        # Grids without such a state have nothing to say and are left out.
        of: IntArray = self.cluster[among]
        size = int(self.cluster.max()) + 1
        return estimate(
            np.bincount(of, np.asarray(values, dtype=float)[among], size),
            np.bincount(of, minlength=size),
            # All decisions of a grid may be such as these.
            heaviest=np.bincount(self.cluster).max(),
            n=len(of),
            bounds=DIFFERENCE if paired else UNIT,
            paired=paired,
        )
