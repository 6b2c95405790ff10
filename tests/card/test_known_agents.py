"""Headlines of cards at the quick scale, on agents whose goals are known, are right or open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import goalmeter as gm
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.goals import NOTHING, OPEN

pytestmark = pytest.mark.slow
GOAL = "pursues the goal"


def corridor() -> gm.TabularMDP:
    """A corridor of nine cells with a reward at its right end."""
    moves = [[max(cell - 1, 0), min(cell + 1, 8)] for cell in range(9)]
    transition = np.zeros((9, 2, 9))
    for cell, ends in enumerate(moves):
        transition[cell, [0, 1], ends] = 1.0
    return gm.TabularMDP(transition, np.eye(9)[8], horizon=16, initial=4)


def test_a_policy_that_was_trained_to_reach_the_goal(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    gymnasium = pytest.importorskip("gymnasium")
    maze = gymnasium.make("goalmeter/Maze-v0", size=7, complexity=0.5, reward="step", max_steps=40)
    settings = {"n_steps": 512, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.95, "seed": 0}
    environment = gymnasium.wrappers.FlattenObservation(maze)
    model = sb3.PPO("MlpPolicy", environment, device="cpu", **settings)
    model.learn(20_000)  # about a minute
    model.save(tmp_path / "ppo.zip")
    card = gm.measure(f"sb3:{tmp_path / 'ppo.zip'}", scale="quick", out=tmp_path / "card")
    assert card.verdict.startswith(GOAL) or card.verdict == OPEN, card
    success = card.row("success")
    assert success is not None and success.n == 20
    reasons = {each.measure: each.reason for each in card.not_run}
    assert "reflection" in reasons and "interventions" not in reasons


def test_a_function_that_walks_at_random(tmp_path: Path) -> None:
    def drift(world: GridWorld, state: State) -> list[float]:
        return [0.25] * 4

    card = gm.measure(drift, scale="quick", out=tmp_path)
    assert card.verdict in (NOTHING, OPEN), card
    meg = card.row("meg")
    assert meg is not None and meg.lower is not None and meg.lower <= 0


def test_a_function_that_takes_the_shortest_path(tmp_path: Path) -> None:
    def direct(world: GridWorld, state: State) -> list[float]:
        best = planned(world).optimal_actions(state)
        return [float(action in best) / len(best) if best else 0.25 for action in range(4)]

    card = gm.measure(direct, scale="quick", out=tmp_path)
    assert card.verdict in (GOAL, OPEN), card


def test_tabular_policies() -> None:
    worlds = {"cliff": gm.cliff_world(), "corridor": corridor()}
    for name, world in worlds.items():
        optimal = gm.measure(gm.optimal_policy(world), world=world, scale="quick")
        assert optimal.verdict == "pursues the reward", (name, optimal)
        uniform = gm.measure(gm.uniform_policy(world), world=world, scale="quick")
        assert uniform.verdict == NOTHING, (name, uniform)
    opposite = gm.measure(np.eye(2)[np.zeros(9, dtype=int)], world=worlds["corridor"])
    assert opposite.verdict not in ("pursues the reward", NOTHING), opposite
