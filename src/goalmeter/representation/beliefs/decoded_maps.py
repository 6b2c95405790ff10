"""Turn posteriors over cells into maps, and measure how much of the actions they explain.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code, where invalid maps leave the sample, maps may have an open border,
and there is no control.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
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
        optimal: whether an action leads one step closer to the goal, [N, 4].
    """

    worlds: tuple[GridWorld | None, ...]
    optimal: BoolArray

    @classmethod
    def of(cls, worlds: Sequence[GridWorld | None]) -> Maps:
        """Plan on every map."""
        return cls(tuple(worlds), _optimal(worlds))

    @property
    def valid(self) -> BoolArray:
        """Whether there is a map with a path to its goal, [N]."""
        return np.asarray(self.optimal.any(axis=1))


@dataclass(frozen=True, eq=False)
class DecodedMaps(Maps):
    """Maps that were decoded from posteriors.

    Attributes:
        posterior: the posteriors, [N, rows, columns, 7].
        walls: the walls of each scene, also where there is no map: [N, rows, columns].
        reasons: why a map is missing or of no use; None where it is valid, [N].
    """

    posterior: FloatArray
    walls: BoolArray
    reasons: tuple[str | None, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of invalid maps, by reason."""
        return dict(Counter(reason for reason in self.reasons if reason is not None))


def decoded(posterior: FloatArray, scenes: Scenes, *, rule: str = PLACES) -> DecodedMaps:
    """Decode the maps of some scenes.

    With the rule "published" each cell is its most probable class; the agent is the cell classified
    as agent with the highest probability of it, the goal likewise, and without one of them there is
    no map. With "places" agent and goal are the most probable pair of different cells, and every
    other cell is its most probable class among the rest, so there is always a map.

    In both, the border is a wall. A key, a door or another object is there if a cell is classified
    so ("published"), or if it is more probably somewhere than nowhere ("places"). A door whose key
    is not on the map is open for who carries a key, and a wall otherwise.

    Args:
        posterior: probabilities of the classes, [N, rows, columns, 7].
        scenes: their shapes, and whether a key is carried, which a model is told apart from the
            grid.
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
        drawn, objects = _published(inside) if rule == PUBLISHED else _places(inside)
        walls[number, :rows, :columns] = drawn
        world = _world(drawn, objects, carries=state.has_key)
        worlds.append(world if isinstance(world, GridWorld) else None)
        reasons.append(world if isinstance(world, str) else None)
    optimal = _optimal(worlds)
    for number in np.flatnonzero(~optimal.any(axis=1)).tolist():
        reasons[number] = reasons[number] or NO_WAY
    return DecodedMaps(tuple(worlds), optimal, posterior, walls, tuple(reasons))


def _world(walls: BoolArray, objects: Mapping[int, Cell], *, carries: bool) -> GridWorld | str:
    """The map of some walls and objects by class, or the reason why there is none."""
    if AGENT not in objects:
        return NO_AGENT
    if GOAL not in objects:
        return NO_GOAL
    walls = walls.copy()
    for cell in objects.values():
        walls[cell] = False
    key, door = objects.get(KEY), objects.get(DOOR)
    # Planning starts without the key, so a map on which it is carried has neither key nor door.
    if carries or key is None:
        if door is not None and not carries:
            walls[door] = True
        key = door = None
    # A world holds one object to take; the key is the one that opens something.
    neutral = None if carries or key is not None else objects.get(NEUTRAL)
    return GridWorld(walls, objects[AGENT], objects[GOAL], key, door, neutral)


def _published(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    classes = posterior.argmax(axis=-1)
    inner = _inner(classes.shape)
    objects = {}
    for label in (AGENT, GOAL, KEY, DOOR, NEUTRAL):
        cells = inner & (classes == label)
        if cells.any():
            objects[label] = _highest(np.where(cells, posterior[..., label], -1.0))
    return np.asarray((classes == WALL) | ~inner), objects


def _places(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    inner = _inner(posterior.shape[:2])
    objects = dict(zip((AGENT, GOAL), _pair(posterior, inner), strict=True))
    for label in (KEY, DOOR, NEUTRAL):
        # The sum over cells is the probability that there is one at all.
        shares = np.where(inner, posterior[..., label], 0.0)
        if shares.sum() > 0.5:
            cell = _highest(shares)
            if cell not in objects.values():
                objects[label] = cell
    return np.asarray((posterior[..., WALL] > posterior[..., EMPTY]) | ~inner), objects


def _pair(posterior: FloatArray, inner: BoolArray) -> tuple[Cell, Cell]:
    """The cells i ≠ j for which P(agent in i) P(goal in j) is highest."""
    shares = [np.where(inner, posterior[..., label], -1.0) for label in (AGENT, GOAL)]
    agent, goal = (_highest(share) for share in shares)
    if agent != goal:
        return agent, goal
    # One of them has to take its runner-up: the one that loses less by it.
    second = []
    for share in shares:
        without = share.copy()
        without[agent] = -1.0
        second.append(_highest(without))
    agent_stays = shares[0][agent] * shares[1][second[1]]
    goal_stays = shares[0][second[0]] * shares[1][goal]
    return (agent, second[1]) if agent_stays >= goal_stays else (second[0], goal)


def _inner(shape: Shape) -> BoolArray:
    out = np.zeros(shape, dtype=bool)
    out[1:-1, 1:-1] = True
    return out


def _highest(values: FloatArray) -> Cell:
    return Cell(*divmod(int(values.argmax()), values.shape[1]))


def _optimal(worlds: Sequence[GridWorld | None]) -> BoolArray:
    """The optimal actions at the start of each world, [N, 4]."""
    out = np.zeros((len(worlds), len(ACTIONS)), dtype=bool)
    by_shape: dict[Shape, list[tuple[int, GridWorld]]] = {}
    for number, world in enumerate(worlds):
        if world is not None:
            by_shape.setdefault(world.shape, []).append((number, world))
    for listed in by_shape.values():
        for at in range(0, len(listed), _CHUNK):
            chunk = listed[at : at + _CHUNK]
            planned = plans([world for _, world in chunk])
            for place, (number, world) in enumerate(chunk):
                start = world.start.row * world.shape[1] + world.start.column
                out[number] = planned.optimal[place, start]
    return out


# The true agent and goal without walls: where it explains as much as a decoded map, agent and goal
# were read and not walls. Another map: the map decoded in another grid. Another map's walls: those
# around the agent and the goal that were decoded here; what a decoded map explains beyond it is due
# to its own walls. Greedy: no map, the moves that lead nearer as the crow flies.
EMPTY_ROOM, ANOTHER, ANOTHER_WALLS = "empty room", "another map", "another map's walls"
GREEDY = "greedy"


def map_controls(maps: DecodedMaps, scenes: Scenes, *, seed: int) -> dict[str, Maps]:
    """Return the controls of decoded maps that are maps themselves, by name.

    Args:
        maps: the decoded maps.
        scenes: their scenes.
        seed: random seed of the grids from which maps are borrowed.
    """
    donors = exchanged(scenes, seed=seed)
    # Without a decoded map there is no place for borrowed walls either.
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
    """Return the true places of agent and goal in rooms without walls, keys and doors."""
    return [
        GridWorld(~_inner(world.shape), state.cell, world.goal)
        for world, state in zip(scenes.worlds, scenes.states, strict=True)
    ]


def _with_walls(world: GridWorld, walls: BoolArray) -> GridWorld:
    rows, columns = world.shape
    # Donors have the same shape, in a frame that may be larger.
    drawn = walls[:rows, :columns].copy()
    objects = (world.start, world.goal, world.key, world.door, world.neutral)
    for cell in objects:
        if cell is not None:
            drawn[cell] = False
    return GridWorld(drawn, *objects)


CHANCE = "a random wrong action"


@dataclass(frozen=True)
class ControlledShare:
    """A share and the same share of controls.

    Attributes:
        value: share of the decoded map.
        controls: share of each control, by name.
        beyond: the share minus that of each control, in the same states.
    """

    value: Estimate
    controls: Mapping[str, Estimate]
    beyond: Mapping[str, Estimate]

    @property
    def exceeds_controls(self) -> bool:
        """Whether every interval of the difference lies above 0."""
        intervals = [each.interval for each in self.beyond.values()]
        return bool(intervals) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        fields = {"controls": self.controls, "beyond": self.beyond}
        exceeds = {"exceeds_controls": self.exceeds_controls}
        return {**self.value.to_json(), **json_value(fields), **exceeds}


@dataclass(frozen=True)
class Explained(JsonFields):
    """How much of the actions decoded maps explain in some states.

    Of every state there is the action that was taken, the set T of actions that are optimal in
    truth and the set D of those that are optimal on the decoded map, empty where there is no map.
    An invalid answer is in no set, and is no error that a map could explain.

    Attributes:
        states: "all" or "detour", the states where the compass may err; in the others an empty room
            is as good as a map.
        steps: number of states.
        errors: number of actions that are wrong in truth.
        unreadable: number of invalid answers.
        invalid: share of states without a valid map; they explain nothing and count.
        on_map: the action is in D.
        explained_errors: the action is in D, among errors; the controls include the share of a
            random wrong action.
        map_corrects: some action is in D and in T, among errors (recovery in the published code).
        recovery: the same among errors with a valid map, as published.
        agreement: some action is in D and in T.
        reversed: the action is in T and not in D.
    """

    states: str
    steps: int
    errors: int
    unreadable: int
    invalid: Estimate
    on_map: ControlledShare
    explained_errors: ControlledShare
    map_corrects: ControlledShare
    recovery: Estimate
    agreement: ControlledShare
    reversed: Estimate


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """Measure what maps explain in all states, and in those where the compass may err.

    Args:
        maps: the decoded maps of N states.
        controls: other maps of the same states, by name; greedy is added.
        scenes: the true states and actions.
    """
    sets = {name: control.optimal for name, control in controls.items()}
    every = _States(scenes, maps.optimal, sets | {GREEDY: scenes.compass})
    out = [every.explained("all", np.ones(len(scenes), dtype=bool))]
    if scenes.detour.any():
        out.append(every.explained("detour", scenes.detour))
    return tuple(out)


class _States:
    """The states with the sets of actions of the map and of every control, [N, 4] each."""

    def __init__(self, scenes: Scenes, optimal: BoolArray, controls: dict[str, BoolArray]) -> None:
        self.truth, self.optimal, self.controls = scenes.optimal, optimal, controls
        self.cluster = np.unique(scenes.grids, return_inverse=True)[1].astype(np.int64)
        self.unreadable = np.array([action is None for action in scenes.actions])
        chosen = [len(ACTIONS) if a is None else a for a in scenes.actions]
        # A fifth column for invalid answers, which are in no set.
        self.taken = np.eye(len(ACTIONS) + 1, dtype=bool)[chosen][:, : len(ACTIONS)]
        self.errors = ~self.unreadable & ~self._in(self.truth)

    def _in(self, sets: BoolArray) -> BoolArray:
        """Whether the action is in a set."""
        return np.asarray((self.taken & sets).any(axis=1))

    def _meets(self, sets: BoolArray) -> BoolArray:
        """Whether a set contains an action that is optimal in truth."""
        return np.asarray((self.truth & sets).any(axis=1))

    def explained(self, name: str, among: BoolArray) -> Explained:
        errors = among & self.errors
        wrong = ~self.truth
        # Of the wrong actions of a state, the share that is optimal on the map.
        chance = (self.optimal & wrong).sum(axis=1) / np.maximum(wrong.sum(axis=1), 1)
        on_map = {each: self._in(sets) for each, sets in self.controls.items()}
        meets = {each: self._meets(sets) for each, sets in self.controls.items()}
        ours, agrees, valid = (
            self._in(self.optimal),
            self._meets(self.optimal),
            self.optimal.any(axis=1),
        )
        return Explained(
            states=name,
            steps=int(among.sum()),
            errors=int(errors.sum()),
            unreadable=int((among & self.unreadable).sum()),
            invalid=self._mean(np.asarray(~valid), among),
            on_map=self._compared(ours, on_map, among),
            explained_errors=self._compared(ours, on_map | {CHANCE: chance}, errors),
            map_corrects=self._compared(agrees, meets, errors),
            recovery=self._mean(agrees, errors & valid),
            agreement=self._compared(agrees, meets, among),
            reversed=self._mean(np.asarray(self._in(self.truth) & ~ours), among),
        )

    def _compared(
        self, ours: BoolArray, controls: Mapping[str, BoolArray | FloatArray], among: BoolArray
    ) -> ControlledShare:
        return ControlledShare(
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
        of: IntArray = self.cluster[among]
        size = int(self.cluster.max()) + 1
        return estimate(
            np.bincount(of, np.asarray(values, dtype=float)[among], size),
            np.bincount(of, minlength=size),
            # All decisions of a grid may be among these.
            heaviest=np.bincount(self.cluster).max(),
            n=len(of),
            bounds=(-1.0, 1.0) if paired else (0.0, 1.0),
            paired=paired,
        )
