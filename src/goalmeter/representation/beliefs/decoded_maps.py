"""Decode maps from posteriors over cells, and measure how many actions they explain.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code, which excludes invalid maps, allows open borders and has no
control.
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
    """Maps of N scenes, each with the position of the agent."""

    # The start is the agent's cell; None if there is no map, [N].
    worlds: tuple[GridWorld | None, ...]
    optimal: BoolArray  # whether each action leads one step closer to the goal, [N, 4]

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
        """Mask of scenes that have a map with a path to its goal, [N]."""
        return np.asarray(self.optimal.any(axis=1))


@dataclass(frozen=True, eq=False)
class DecodedMaps(Maps):
    """Maps decoded from posteriors."""

    posterior: FloatArray  # posteriors, [N, rows, columns, 7]
    walls: BoolArray  # decoded walls, also of scenes without a map, [N, rows, columns]
    reasons: tuple[str | None, ...]  # why a map is missing or invalid; None if it is valid, [N]

    @property
    def counts(self) -> dict[str, int]:
        """Number of invalid maps by reason."""
        return dict(Counter(reason for reason in self.reasons if reason is not None))


def decoded(posterior: FloatArray, scenes: Scenes, *, rule: str = "places") -> DecodedMaps:
    """Decode the maps of scenes from posteriors, [N, rows, columns, 7].

    With the rule "published", each cell gets its most probable class. The agent is at the cell
    with the highest agent probability among those classified as agent, the goal likewise; without
    one of them there is no map. With "places", agent and goal are at the most probable pair of
    different cells and every other cell gets its most probable remaining class, so there is always
    a map.

    With both rules, the border is a wall. A key, door or other object is present if a cell is
    classified as it ("published"), or if it is somewhere with a probability above 1/2 ("places").
    A door whose key is not on the map is open if the agent carries a key, which the prompt states
    separately from the grid, and a wall otherwise.
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
    """Return the map with these walls and objects by class."""
    walls = walls.copy()
    for cell in objects.values():
        walls[cell] = False
    key, door, neutral = map(objects.get, _OBJECTS)
    # Plans start without the key, so a map for an agent that carries it has neither key nor door.
    if carries or key is None:
        if door is not None and not carries:
            walls[door] = True
        key = door = None
    # A world has at most one object to pick up; the key takes precedence.
    if carries or key is not None:
        neutral = None
    return GridWorld(walls, objects[AGENT], objects[GOAL], key, door, neutral)


def _published(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    predicted, inner = posterior.argmax(axis=-1), _inner(posterior.shape[:2])
    cells = {label: inner & (predicted == label) for label in (AGENT, GOAL, *_OBJECTS)}
    objects = {
        label: _highest(np.where(mask, posterior[..., label], -1.0))
        for label, mask in cells.items()
        if mask.any()
    }
    return np.asarray((predicted == classes.WALL) | ~inner), objects


def _places(posterior: FloatArray) -> tuple[BoolArray, dict[int, Cell]]:
    inner = _inner(posterior.shape[:2])
    shares = np.where(inner[..., None], posterior, -1.0)
    agent, goal = _highest(shares[..., AGENT]), _highest(shares[..., GOAL])
    if agent == goal:
        # The object that loses less probability moves to its second-best cell.
        others = shares.copy()
        others[agent] = -1.0
        next_agent, next_goal = _highest(others[..., AGENT]), _highest(others[..., GOAL])
        agent_stays = shares[agent][AGENT] * shares[next_goal][GOAL]
        goal_stays = shares[next_agent][AGENT] * shares[goal][GOAL]
        agent, goal = (agent, next_goal) if agent_stays >= goal_stays else (next_agent, goal)
    objects = {AGENT: agent, GOAL: goal}
    for label in _OBJECTS:
        # The sum over cells is the probability that the object exists.
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


# Empty room: the true agent and goal without walls; if it explains as much as a decoded map, only
# agent and goal were decoded. Another map: the map decoded in another grid. Another map's walls:
# those walls with the agent and goal decoded here; anything a decoded map explains beyond them is
# due to its own walls. Greedy: no map, moves that reduce the distance if walls are ignored.
EMPTY_ROOM, ANOTHER, ANOTHER_WALLS = "empty room", "another map", "another map's walls"
GREEDY = "greedy"
CHANCE = "a random wrong action"


def map_controls(maps: DecodedMaps, scenes: Scenes, *, seed: int) -> dict[str, Maps]:
    """Return control maps of decoded maps by name; the seed chooses the other grids."""
    donors = exchanged(scenes, seed=seed)
    # Without a decoded map there is no control either.
    borrowed = list(maps.worlds)
    for number, world in enumerate(maps.worlds):
        if world is not None:
            # Donors have the same shape in a frame that may be larger.
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
    """Return maps with the true agent and goal and without walls, keys and doors."""
    pairs = zip(scenes.worlds, scenes.states, strict=True)
    return Maps.of([GridWorld(~_inner(w.shape), state.cell, w.goal) for w, state in pairs])


@dataclass(frozen=True)
class ControlledShare:
    """Share for decoded maps and for their controls."""

    value: Estimate  # share for decoded maps
    controls: Mapping[str, Estimate]  # share for each control, by name
    beyond: Mapping[str, Estimate]  # share minus that of each control, in the same states

    @property
    def exceeds_controls(self) -> bool:
        """Whether the intervals of all differences lie above 0."""
        return bool(self.beyond) and all(
            each.interval is not None and each.interval[0] > 0 for each in self.beyond.values()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields = {"controls": self.controls, "beyond": self.beyond}
        exceeds = {"exceeds_controls": self.exceeds_controls}
        return {**self.value.to_json(), **json_value(fields), **exceeds}


@dataclass(frozen=True)
class Explained(JsonFields):
    """How many actions decoded maps explain in a set of states.

    In each state, T is the set of actions that are optimal on the true map and D the set of those
    that are optimal on the decoded map, empty without a map. An invalid answer is in neither set
    and is not an error that a map could explain.
    """

    # "all", or "detour": states in which the compass may err; in the others an empty room is as
    # good as a map.
    states: str
    steps: int  # number of states
    errors: int  # number of actions that are not in T
    unreadable: int  # number of invalid answers
    invalid: Estimate  # share of states without a valid map, which count as unexplained
    on_map: ControlledShare  # share of states whose action is in D
    explained_errors: ControlledShare  # the same among errors; a control is a random wrong action
    # Share of errors with an action in both D and T (recovery in the published code).
    map_corrects: ControlledShare
    recovery: Estimate  # the same among errors with a valid map, as published
    agreement: ControlledShare  # share of states with an action in both D and T
    reversed: Estimate  # share of states whose action is in T but not in D


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """Measure how many actions maps explain in all states and where the compass may err.

    `controls` are other maps of the same N states, by name; "greedy" is added.
    """
    chosen = np.array(scenes.actions, dtype=object)[:, None] == np.arange(len(ACTIONS))
    unreadable = ~chosen.any(axis=1)
    truth, wrong = scenes.optimal, ~scenes.optimal
    # For the decoded map and each control: whether the action is optimal on it, and whether an
    # action is optimal both on it and on the true map.
    sets = {"": maps.optimal} | {name: control.optimal for name, control in controls.items()}
    sets[GREEDY] = scenes.compass
    on_map, corrects = (
        {name: np.asarray((actions & each).any(axis=1)) for name, each in sets.items()}
        for actions in (chosen, truth)
    )
    right = (chosen & truth).any(axis=1)
    # Share of the wrong actions of a state that are optimal on the map.
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
