"""Shortest plans and the MDP of a world, against literal steps."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import grid_world as oracle

from goalmeter.gridworld import tabular_world
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, State, plan, plans
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.tabular import optimal_policy


def neutral(world: GridWorld) -> GridWorld:
    return world.with_(key=None, neutral=world.key)


WORLDS = {
    **{f"maze {c} {s}": maze(9, c, s).world for c in (0, 0.4, 1) for s in range(2)},
    **{f"key door {s}": key_door(s) for s in range(4)},
    "key door, 9 rooms": key_door(5, rooms=3),
    "key no door": key_no_door(0),
    **{f"two paths {s}": two_paths(s).world for s in range(2)},
    "neutral": neutral(key_no_door(0)),
    "neutral, two paths": neutral(two_paths(0).world),
    "key beside the door": GridWorld.from_text(["#######", "#A_KDG#", "#######"]),
    "key behind the door": GridWorld.from_text(["#######", "#A_DKG#", "#######"]),
    "out of reach": GridWorld.from_text(["#######", "#A_#_G#", "#######"]),
}


def ours(state: oracle.State) -> State:
    row, column, has_key, door_open = state
    layer = DOOR_OPEN if door_open else WITH_KEY if has_key else WITHOUT_KEY
    return State(Cell(row, column), layer)


@pytest.mark.parametrize("name", WORLDS)
def test_steps_distances_gaps_and_optimal_actions(name: str) -> None:
    world = WORLDS[name]
    picture = str(world).splitlines()
    planned = plan(world)
    expected = oracle.distances(picture)
    goal = oracle.find(picture, "G")
    for state, distance in expected.items():
        at = ours(state)
        assert planned.distance_from(at) == (-1 if distance is None else distance)
        if state[:2] == goal:
            assert planned.optimal_actions(at) == ()
            assert all(planned.step(at, a) == at for a in range(4))
            continue
        after = [oracle.step(picture, state, a) for a in range(4)]
        assert [planned.step(at, a) for a in range(4)] == [ours(s) for s in after]
        best = [
            a
            for a, s in enumerate(after)
            if distance is not None and expected[s] is not None and expected[s] == distance - 1
        ]
        assert planned.optimal_actions(at) == tuple(best)
        for action, s in enumerate(after):
            to = expected[s]
            gap = -1 if distance is None or to is None else to + 1 - distance
            assert planned.gap(at, action) == gap


def test_many_worlds_at_once_are_each_by_itself() -> None:
    worlds = [maze(9, 0.8, s).world for s in range(5)] + [key_door(s) for s in range(5)]
    together = plans(worlds)
    for i, world in enumerate(worlds):
        alone = plan(world).plans
        for name in ("successors", "distances", "gaps", "optimal"):
            assert np.array_equal(getattr(together, name)[i], getattr(alone, name)[0])


AS_MDPS = [maze(7, 0.6, 0).world, key_door(1), key_no_door(2)]


@pytest.mark.parametrize("world", AS_MDPS)
def test_states_and_steps_are_the_planner_s(world: GridWorld) -> None:
    made = tabular_world(world, horizon=20)
    planned = plan(world)
    assert made.states[0] == planned.start and len(set(made.states)) == len(made.states)
    moves = made.mdp.transition.to_dense()
    for i, state in enumerate(made.states):
        assert made.index(state) == i
        for action in range(4):
            assert moves[i, action, made.index(planned.step(state, action))] == 1


@pytest.mark.parametrize("world", AS_MDPS)
def test_the_optimal_policy_is_the_planner_s(world: GridWorld) -> None:
    """With 1 a step in the goal, whoever arrives as early as can be gets the most."""
    planned = plan(world)
    made = tabular_world(world, horizon=planned.distance + 1)
    policy = optimal_policy(made.mdp)
    at = planned.start
    for step in range(planned.distance):
        row = policy[step] if policy.ndim == 3 else policy
        chosen = np.flatnonzero(row[made.index(at)])
        assert set(chosen) <= set(planned.optimal_actions(at))
        at = planned.step(at, int(chosen[0]))
    assert at.cell == world.goal
