"""Exact values of memoryless agents: against definitions, samples, and an independent count."""

from __future__ import annotations

import numpy as np
import pytest
from navigation.walked import walked
from oracles import navigation as oracle

from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, plan, two_paths
from goalmeter.navigation.behaviour import behaviour, exact

WORLDS = {
    **{f"maze {c}": maze(7, c, 3).world for c in (0, 0.4, 1)},
    "key door": key_door(0),
    "key no door": key_no_door(3),
    "neutral": key_no_door(3).with_(key=None, neutral=key_no_door(3).key),
    "two paths": two_paths(1).world,
    "closed cell": GridWorld.from_text(["######", "#A_G##", "####_#", "######"]),
}


def policy(name: str, world: GridWorld) -> np.ndarray:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    return agent.policy(plan(world))


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("name", ["optimal", "greedy", "random", "key-seeker", "boltzmann(1.5)"])
def test_against_the_definition(name: str, world: GridWorld) -> None:
    picture, agent = str(world).splitlines(), oracle.AGENTS[name]
    measured = exact(policy(name, world), plan(world), cap=12)
    accuracy, detour = oracle.whole_grid(picture, agent)
    assert measured.accuracy == pytest.approx(accuracy)
    assert measured.accuracy_detour == pytest.approx(detour, nan_ok=True)
    arrived, key = oracle.chances(picture, agent, 12)
    assert measured.success == pytest.approx(arrived)
    if world.thing is None:
        assert np.isnan(measured.key)
    else:
        assert measured.key == pytest.approx(key)


def test_samples_agree() -> None:
    walks = walked("boltzmann(1)", sizes=(7,), complexities=(0.5,), grids=3, trajectories=300)
    (row,) = behaviour(walks).cells
    worlds = {walk.seed: walk for walk in walks}
    agent = navigator("boltzmann(1)")
    assert isinstance(agent, Memoryless)
    chances = [
        exact(agent.policy(plan(w.world)), plan(w.world), cap=w.cap).success
        for w in worlds.values()
    ]
    spread = np.sqrt(sum(c * (1 - c) for c in chances) / 300) / 3
    assert abs(row.success.value - np.mean(chances)) < 4 * spread


def test_greedy_falls_with_complexity_and_random_is_a_little_over_half() -> None:
    def average(name: str, complexity: float) -> float:
        worlds = [maze(11, complexity, seed).world for seed in range(6)]
        return float(np.mean([exact(policy(name, w), plan(w), cap=1).accuracy for w in worlds]))

    compass = [average("greedy", c) for c in (0, 0.4, 0.8, 1)]
    assert compass[0] == 1 and compass == sorted(compass, reverse=True)
    assert compass[-1] < 0.75
    assert 0.5 < average("random", 1) < 0.6
