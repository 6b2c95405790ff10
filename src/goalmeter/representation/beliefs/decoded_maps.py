"""Turn posteriors over cells into maps, and measure how much of the actions they explain.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code, where invalid maps leave the sample, maps may have an open border,
and there is no control.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.planner import plans
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation import scenes as classes
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.scenes import AGENT, GOAL, Scenes, Shape, mean_over_grids
from goalmeter.statistics.clusters import Estimate

PUBLISHED, PLACES = "published", "places"
NO_AGENT = "no cell is classified as the agent"
NO_GOAL = "no cell is classified as the goal"
NO_WAY = "the goal cannot be reached on it"
_OBJECTS = (classes.KEY, classes.DOOR, classes.NEUTRAL)
# Worlds that are planned for together.
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Maps:
    """A map of each of N scenes, on which the agent is where the map has it."""

    # The start is the agent's place; None where there is no map, [N].
    worlds: tuple[GridWorld | None, ...]
    optimal: BoolArray  # whether an action leads one step closer to the goal, [N, 4]

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
    """Maps that were decoded from posteriors."""

    posterior: FloatArray  # the posteriors, [N, rows, columns, 7]
    walls: BoolArray  # the walls of each scene, also where there is no map: [N, rows, columns]
    # Why a map is missing or of no use; None where it is valid, [N].
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
    made: list[GridWorld | str] = []
    walls = np.ones(scenes.labels.shape, dtype=bool)
    for number, (world, state) in enumerate(zip(scenes.worlds, scenes.states, strict=True)):
        rows, columns = world.shape
        inside = posterior[number, :rows, :columns]
        drawn, objects = _published(inside) if rule == PUBLISHED else _places(inside)
        walls[number, :rows, :columns] = drawn
        made.append(_world(drawn, objects, carries=state.has_key))
    maps = Maps.of([each if isinstance(each, GridWorld) else None for each in made])
    reasons = (
        each if isinstance(each, str) else None if valid else NO_WAY
        for each, valid in zip(made, maps.valid, strict=True)
    )
    return DecodedMaps(maps.worlds, maps.optimal, posterior, walls, tuple(reasons))


def _world(walls: BoolArray, objects: Mapping[int, Cell], *, carries: bool) -> GridWorld | str:
    """The map of some walls and objects by class, or the reason why there is none."""
    if AGENT not in objects:
        return NO_AGENT
    if GOAL not in objects:
        return NO_GOAL
    walls = walls.copy()
    for cell in objects.values():
        walls[cell] = False
    key, door, neutral = map(objects.get, _OBJECTS)
    # Planning starts without the key, so a map on which it is carried has neither key nor door.
    if carries or key is None:
        if door is not None and not carries:
            walls[door] = True
        key = door = None
    # A world holds one object to take; the key is the one that opens something.
    if carries or key is not None:
        neutral = None
    return GridWorld(walls, objects[AGENT], objects[GOAL], key, door, neutral)


def _published(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    called, inner = posterior.argmax(axis=-1), _inner(posterior.shape[:2])
    cells = {label: inner & (called == label) for label in (AGENT, GOAL, *_OBJECTS)}
    objects = {
        label: _highest(np.where(there, posterior[..., label], -1.0))
        for label, there in cells.items()
        if there.any()
    }
    return np.asarray((called == classes.WALL) | ~inner), objects


def _places(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    inner = _inner(posterior.shape[:2])
    objects = dict(zip((AGENT, GOAL), _pair(posterior, inner), strict=True))
    for label in _OBJECTS:
        # The sum over cells is the probability that there is one at all.
        shares = np.where(inner, posterior[..., label], 0.0)
        if shares.sum() > 0.5 and (cell := _highest(shares)) not in objects.values():
            objects[label] = cell
    is_wall = posterior[..., classes.WALL] > posterior[..., classes.EMPTY]
    return np.asarray(is_wall | ~inner), objects


def _pair(posterior: FloatArray, inner: BoolArray) -> tuple[Cell, Cell]:
    """The cells i ≠ j for which P(agent in i) P(goal in j) is highest."""
    agents, goals = (np.where(inner, posterior[..., label], -1.0) for label in (AGENT, GOAL))
    agent, goal = _highest(agents), _highest(goals)
    if agent != goal:
        return agent, goal
    # One of them has to take its runner-up: the one that loses less by it.
    elsewhere = np.ones(inner.shape, dtype=bool)
    elsewhere[agent] = False
    others = [_highest(np.where(elsewhere, shares, -1.0)) for shares in (agents, goals)]
    agent_stays = agents[agent] * goals[others[1]] >= agents[others[0]] * goals[goal]
    return (agent, others[1]) if agent_stays else (others[0], goal)


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
CHANCE = "a random wrong action"


def map_controls(maps: DecodedMaps, scenes: Scenes, *, seed: int) -> dict[str, Maps]:
    """Return control maps of decoded maps by name; the seed decides which grids lend maps."""
    donors = exchanged(scenes, seed=seed)
    borrowed: list[GridWorld | None] = []
    for world, donor in zip(maps.worlds, donors.tolist(), strict=True):
        # Without a decoded map there is no place for borrowed walls either.
        if world is None:
            borrowed.append(None)
            continue
        rows, columns = world.shape
        # Donors have the same shape, in a frame that may be larger.
        walls = maps.walls[donor, :rows, :columns].copy()
        objects = (world.start, world.goal, world.key, world.door, world.neutral)
        for cell in objects:
            if cell is not None:
                walls[cell] = False
        borrowed.append(GridWorld(walls, *objects))
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


@dataclass(frozen=True)
class ControlledShare:
    """A share and the same share of controls."""

    value: Estimate  # share of the decoded map
    controls: Mapping[str, Estimate]  # share of each control, by name
    beyond: Mapping[str, Estimate]  # the share minus that of each control, in the same states

    @property
    def exceeds_controls(self) -> bool:
        """Whether every interval of the difference lies above 0."""
        return bool(self.beyond) and all(
            each.interval is not None and each.interval[0] > 0 for each in self.beyond.values()
        )

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
    """

    # "all" or "detour", the states where the compass may err; in the others an empty room is as
    # good as a map.
    states: str
    steps: int  # number of states
    errors: int  # number of actions that are wrong in truth
    unreadable: int  # number of invalid answers
    invalid: Estimate  # share of states without a valid map; they explain nothing and count
    on_map: ControlledShare  # the action is in D
    # The action is in D, among errors; the controls include the share of a random wrong action.
    explained_errors: ControlledShare
    # Some action is in D and in T, among errors (recovery in the published code).
    map_corrects: ControlledShare
    recovery: Estimate  # the same among errors with a valid map, as published
    agreement: ControlledShare  # some action is in D and in T
    reversed: Estimate  # the action is in T and not in D


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """Measure what maps explain in all states, and in those where the compass may err.

    `controls` are other maps of the same N states, by name; greedy is added.
    """

    def meets(first: BoolArray, second: BoolArray) -> BoolArray:
        return np.asarray((first & second).any(axis=1))

    truth, wrong = scenes.optimal, ~scenes.optimal
    sets = {name: control.optimal for name, control in controls.items()}
    sets[GREEDY] = scenes.compass
    taken = np.array(
        [[each == action for action in range(len(ACTIONS))] for each in scenes.actions]
    )
    unreadable = ~taken.any(axis=1)
    right, ours = meets(taken, truth), meets(taken, maps.optimal)
    agrees = meets(truth, maps.optimal)
    on_map = {name: meets(taken, each) for name, each in sets.items()}
    corrects = {name: meets(truth, each) for name, each in sets.items()}
    # Of the wrong actions of a state, the share that is optimal on the map.
    chance = (maps.optimal & wrong).sum(axis=1) / np.maximum(wrong.sum(axis=1), 1)
    mean = partial(mean_over_grids, grids=scenes.grids)

    def compared(
        ours: BoolArray, others: Mapping[str, BoolArray | FloatArray], among: BoolArray
    ) -> ControlledShare:
        beyond = {name: ours.astype(float) - each for name, each in others.items()}
        return ControlledShare(
            mean(ours, among=among),
            {name: mean(each, among=among) for name, each in others.items()},
            {name: mean(each, among=among, paired=True) for name, each in beyond.items()},
        )

    def of_states(name: str, among: BoolArray) -> Explained:
        errors = among & ~unreadable & ~right
        return Explained(
            states=name,
            steps=int(among.sum()),
            errors=int(errors.sum()),
            unreadable=int((among & unreadable).sum()),
            invalid=mean(~maps.valid, among=among),
            on_map=compared(ours, on_map, among),
            explained_errors=compared(ours, on_map | {CHANCE: chance}, errors),
            map_corrects=compared(agrees, corrects, errors),
            recovery=mean(agrees, among=errors & maps.valid),
            agreement=compared(agrees, corrects, among),
            reversed=mean(right & ~ours, among=among),
        )

    out = [of_states("all", np.ones(len(scenes), dtype=bool))]
    if scenes.detour.any():
        out.append(of_states("detour", scenes.detour))
    return tuple(out)
