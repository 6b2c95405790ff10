"""Exact values of memoryless agents: against definitions, samples, and an independent count."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import navigation as oracle

from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, plan, two_paths
from goalmeter.navigation.behaviour import exact

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
