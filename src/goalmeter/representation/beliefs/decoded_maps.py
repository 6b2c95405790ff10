"""Turn posteriors over cells into maps, and measure how much of the actions they explain.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code, where invalid maps leave the sample, maps may have an open border,
and there is no control.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.planner import State, plan
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation import scenes as classes
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.scenes import AGENT, GOAL, Scenes, Shape, mean_over_grids
from goalmeter.statistics.clusters import Estimate

NO_AGENT = "no cell is classified as the agent"
NO_GOAL = "no cell is classified as the goal"
NO_WAY = "the goal cannot be reached on it"
_OBJECTS = (classes.KEY, classes.DOOR, classes.NEUTRAL)


@dataclass(frozen=True, eq=False)
class Maps:
    """A map of each of N scenes, on which the agent is where the map has it."""

    # The start is the agent's place; None where there is no map, [N].
    worlds: tuple[GridWorld | None, ...]
    optimal: BoolArray  # whether an action leads one step closer to the goal, [N, 4]

    @classmethod
    def of(cls, worlds: Sequence[GridWorld | None]) -> Maps:
        """Plan on every map."""
        optimal = np.zeros((len(worlds), len(ACTIONS)), dtype=bool)
        for number, world in enumerate(worlds):
            if world is not None:
                optimal[number, list(plan(world).optimal_actions(State(world.start)))] = True
        return cls(tuple(worlds), optimal)

    @property
    def valid(self) -> BoolArray:
        """Whether there is a map with a path to its goal, [N]."""
        return np.asarray(self.optimal.any(axis=1))


@dataclass(frozen=True, eq=False)
class DecodedMaps(Maps):
    """Maps that were decoded from posteriors."""

    posterior: FloatArray  # the posteriors, [N, rows, columns, 7]
    walls: BoolArray  # the walls of each scene, also where there is no map: [N, rows, columns]
    reasons: tuple[str | None, ...]  # why a map is missing or invalid; None where it is valid, [N]

    @property
    def counts(self) -> dict[str, int]:
        """The number of invalid maps, by reason."""
        return dict(Counter(reason for reason in self.reasons if reason is not None))


def decoded(posterior: FloatArray, scenes: Scenes, *, rule: str = "places") -> DecodedMaps:
    """Decode the maps of some scenes.

    Posteriors are [N, rows, columns, 7]. With the rule "published" each cell is its most probable
    class; the agent is the cell classified as agent with the highest probability of it, the goal
    likewise, and without one of them there is no map. With "places" agent and goal are the most
    probable pair of different cells, and every other cell is its most probable class among the
    rest, so there is always a map.

    In both, the border is a wall. A key, a door or another object is there if a cell is classified
    so ("published"), or if it is more probably somewhere than nowhere ("places"). A door whose key
    is not on the map is open for who carries a key, which a model is told apart from the grid, and
    a wall otherwise.
    """
    rules = {"published": _published, "places": _places}
    if rule not in rules:
        raise InvalidParameterError(f"rule is {rule!r}, expected 'published' or 'places'")
    worlds: list[GridWorld | None] = []
    reasons: list[str | None] = []
    walls = np.ones(scenes.labels.shape, dtype=bool)
    for number, (world, state) in enumerate(zip(scenes.worlds, scenes.states, strict=True)):
        rows, columns = world.shape
        drawn, objects = rules[rule](posterior[number, :rows, :columns])
        walls[number, :rows, :columns] = drawn
        missing = NO_AGENT if AGENT not in objects else NO_GOAL if GOAL not in objects else None
        reasons.append(missing)
        worlds.append(None if missing else _world(drawn, objects, carries=state.has_key))
    maps = Maps.of(worlds)
    for number in np.flatnonzero(~maps.valid).tolist():
        reasons[number] = reasons[number] or NO_WAY
    return DecodedMaps(maps.worlds, maps.optimal, posterior, walls, tuple(reasons))


def _world(walls: BoolArray, objects: Mapping[int, Cell], *, carries: bool) -> GridWorld:
    """Return the map of some walls and objects by class."""
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
    shares = np.where(inner[..., None], posterior, -1.0)
    agent, goal = _highest(shares[..., AGENT]), _highest(shares[..., GOAL])
    if agent == goal:
        # One of them has to take its runner-up: the one that loses less by it.
        others = shares.copy()
        others[agent] = -1.0
        next_agent, next_goal = _highest(others[..., AGENT]), _highest(others[..., GOAL])
        agent_stays = shares[agent][AGENT] * shares[next_goal][GOAL]
        goal_stays = shares[next_agent][AGENT] * shares[goal][GOAL]
        agent, goal = (agent, next_goal) if agent_stays >= goal_stays else (next_agent, goal)
    objects = {AGENT: agent, GOAL: goal}
    for label in _OBJECTS:
        # The sum over cells is the probability that there is one at all.
        probable = np.where(inner, posterior[..., label], 0.0).sum() > 0.5
        if probable and (cell := _highest(shares[..., label])) not in objects.values():
            objects[label] = cell
    is_wall = posterior[..., classes.WALL] > posterior[..., classes.EMPTY]
    return np.asarray(is_wall | ~inner), objects


def _inner(shape: Shape) -> BoolArray:
    out = np.zeros(shape, dtype=bool)
    out[1:-1, 1:-1] = True
    return out


def _highest(values: FloatArray) -> Cell:
    return Cell(*divmod(int(values.argmax()), values.shape[1]))


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
    # Without a decoded map there is no place for borrowed walls either.
    borrowed = list(maps.worlds)
    for number, world in enumerate(maps.worlds):
        if world is not None:
            # Donors have the same shape, in a frame that may be larger.
            rows, columns = world.shape
            walls = maps.walls[donors[number], :rows, :columns].copy()
            for cell in (world.start, world.goal, world.key, world.door, world.neutral):
                if cell is not None:
                    walls[cell] = False
            borrowed[number] = replace(world, walls=walls)
    return {
        EMPTY_ROOM: empty_rooms(scenes),
        ANOTHER: Maps(tuple(maps.worlds[i] for i in donors), maps.optimal[donors]),
        ANOTHER_WALLS: Maps.of(borrowed),
    }


def empty_rooms(scenes: Scenes) -> Maps:
    """Return the true places of agent and goal in rooms without walls, keys and doors."""
    pairs = zip(scenes.worlds, scenes.states, strict=True)
    return Maps.of([GridWorld(~_inner(w.shape), state.cell, w.goal) for w, state in pairs])


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
    explained_errors: ControlledShare  # the same among errors; a control is a random wrong action
    # Some action is in D and in T, among errors (recovery in the published code).
    map_corrects: ControlledShare
    recovery: Estimate  # the same among errors with a valid map, as published
    agreement: ControlledShare  # some action is in D and in T
    reversed: Estimate  # the action is in T and not in D


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """Measure what maps explain in all states, and in those where the compass may err.

    `controls` are other maps of the same N states, by name; greedy is added.
    """
    taken = np.array(scenes.actions, dtype=object)[:, None] == np.arange(len(ACTIONS))
    unreadable = ~taken.any(axis=1)
    truth, wrong = scenes.optimal, ~scenes.optimal
    # For the decoded map and each control: whether the action is optimal on it, and whether some
    # action is optimal both on it and in truth.
    sets = {"": maps.optimal} | {name: control.optimal for name, control in controls.items()}
    sets[GREEDY] = scenes.compass
    on_map, corrects = (
        {name: np.asarray((actions & each).any(axis=1)) for name, each in sets.items()}
        for actions in (taken, truth)
    )
    right = (taken & truth).any(axis=1)
    # Of the wrong actions of a state, the share that is optimal on the map.
    chance = (maps.optimal & wrong).sum(axis=1) / np.maximum(wrong.sum(axis=1), 1)
    mean = partial(mean_over_grids, grids=scenes.grids)

    def compared(shares: Mapping[str, BoolArray | FloatArray], among: BoolArray) -> ControlledShare:
        others = {name: each for name, each in shares.items() if name}
        beyond = {name: shares[""].astype(float) - each for name, each in others.items()}
        return ControlledShare(
            mean(shares[""], among=among),
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
            on_map=compared(on_map, among),
            explained_errors=compared(on_map | {CHANCE: chance}, errors),
            map_corrects=compared(corrects, errors),
            recovery=mean(corrects[""], among=errors & maps.valid),
            agreement=compared(corrects, among),
            reversed=mean(right & ~on_map[""], among=among),
        )

    states = {"all": np.ones(len(scenes), dtype=bool), "detour": scenes.detour}
    return tuple(of_states(name, among) for name, among in states.items() if among.any())
