"""A grid world as an MDP: the planner's steps, its distances, and MEG on it."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.gridworld import key_door, key_no_door, maze, plan, tabular_world
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.tabular import optimal_policy

WORLDS = [maze(7, 0.6, 0).world, key_door(1), key_no_door(2)]


@pytest.mark.parametrize("world", WORLDS)
def test_states_and_steps_are_the_planner_s(world: GridWorld) -> None:
    made = tabular_world(world, horizon=20)
    planned = plan(world)
    assert made.states[0] == planned.start and len(set(made.states)) == len(made.states)
    for i, state in enumerate(made.states):
        assert made.index(state) == i
        for action in range(4):
            after, probability = made.mdp.transition.successors(i, action)
            assert after.tolist() == [made.index(planned.step(state, action))]
            assert probability.tolist() == [1]


@pytest.mark.parametrize("world", WORLDS)
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


def test_any_utility_over_cells() -> None:
    world = GridWorld.from_text(["#####", "#A_G#", "#####"])
    made = tabular_world(world, horizon=3, utility={Cell(1, 2): 2.5, Cell(1, 1): -1})
    assert dict(zip([s.cell.column for s in made.states], made.mdp.reward, strict=True)) == {
        1: -1,
        2: 2.5,
        3: 0,
    }
