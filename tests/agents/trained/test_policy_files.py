"""Policy files over the states of a grid world's MDP: they walk as the policy that was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import FloatArray
from goalmeter.agents import Ability, agent
from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.agents.trained_policies import reachable
from goalmeter.commands.meg import measure_mdp
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import Draws, maze
from goalmeter.gridworld.planner import State, planned
from goalmeter.tabular.arrays import save_policy

WORLD = maze(5, 1.0, seed=0).world
STATES = reachable(WORLD)


def greedy_table() -> FloatArray:
    """The reference agent `greedy` over the MDP's states, [S, 4]."""
    greedy, plan = navigator("greedy"), planned(WORLD)
    assert isinstance(greedy, Memoryless)
    return greedy.policy(plan)[[plan.number(state) for state in STATES]]


def test_a_table_walks_as_the_agent_that_it_was_written_from(tmp_path: Path) -> None:
    save_policy(greedy_table(), tmp_path / "p.npz")
    who = agent(f"policy:{tmp_path / 'p.npz'}")
    assert who.abilities == (Ability.HISTORY, Ability.GRID, Ability.TABLE)
    walker, greedy = who.in_grids(), navigator("greedy")
    assert isinstance(walker, Memoryless) and isinstance(greedy, Memoryless)
    rows = [planned(WORLD).number(state) for state in STATES]
    ours, theirs = (who.policy(planned(WORLD)) for who in (walker, greedy))
    np.testing.assert_array_equal(ours[rows], theirs[rows])
    # Where nobody comes, behind the goal, it is uniform; what is no state has no policy.
    exists = theirs.sum(axis=1) > 0
    np.testing.assert_array_equal(ours.sum(axis=1) > 0, exists)
    behind = exists.copy()
    behind[rows] = False
    assert behind.any() and (ours[behind] == 0.25).all()


def test_its_meg_is_that_of_the_policy(tmp_path: Path) -> None:
    world = tabular_world(WORLD, horizon=12).mdp
    save_policy(greedy_table(), tmp_path / "p.npz")
    world.to_npz(tmp_path / "w.npz")
    expected = gm.meg.known_utility(world, greedy_table())
    for spelled in (tmp_path / "p.npz", f"policy:{tmp_path / 'p.npz'}"):
        outcome = measure_mdp(tmp_path / "w.npz", policy=spelled)
        assert outcome.json["meg"] == expected.value
    with pytest.raises(InvalidPolicyError, match=r"is a policy for \d+ states and 4 actions"):
        gm.cliff_world(goal_length=1).to_npz(tmp_path / "w.npz")
        measure_mdp(tmp_path / "w.npz", policy=f"policy:{tmp_path / 'p.npz'}")


def test_a_policy_that_depends_on_the_step_walks_by_its_steps(tmp_path: Path) -> None:
    table = np.zeros((3, len(STATES), 4))
    for step, action in enumerate((1, 0, 2)):
        table[step, :, action] = 1.0
    save_policy(table, tmp_path / "p.npz")
    who = agent(f"policy:{tmp_path / 'p.npz'}")
    assert who.abilities == (Ability.GRID, Ability.TABLE)
    walk = who.in_grids().begin(WORLD, Draws(0))
    assert [walk.act(State(WORLD.start)).action for _ in range(3)] == [1, 0, 2]
    with pytest.raises(InvalidParameterError, match=r"for 3 steps, .* step 4; limit .* --cap 3"):
        walk.act(State(WORLD.start))


def test_other_worlds_are_refused(tmp_path: Path) -> None:
    save_policy(greedy_table(), tmp_path / "p.npz")
    walker = agent(f"policy:{tmp_path / 'p.npz'}").in_grids()
    with pytest.raises(InvalidParameterError, match=r"for \d+ states, but this grid of 9 x 9 has"):
        walker.begin(maze(9, 1.0, seed=0).world, Draws(0))
    save_policy(np.full((4, 2), 0.5), tmp_path / "two.npz")
    who = agent(f"policy:{tmp_path / 'two.npz'}")
    assert Ability.GRID not in who.abilities
    mind = who.at_histories().begin(2, 4)
    mind.perceive(1.0, 3)
    fork = mind.fork()
    assert mind.act() == fork.act() in (0, 1)
    with pytest.raises(InvalidParameterError, match="2 actions and 4 observations, but the env"):
        who.at_histories().begin(2, 5)
