"""Navigators play Gymnasium's episodes: the same moves as where they walk by themselves."""

from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.agents import agent, play
from goalmeter.gridworld.planner import planned

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("minigrid")


def test_an_optimal_agent_takes_the_shortest_way() -> None:
    env = gymnasium.make("goalmeter/Maze-v0", size=7, complexity=1.0, reward="step")
    episodes = play(agent("optimal").in_grids(), env, episodes=3, seed=4)
    assert len({episode.world for episode in episodes}) == 3
    for episode in episodes:
        assert episode.terminated
        assert len(episode.actions) == planned(episode.world).distance == -episode.total_reward


def test_an_agent_that_remembers_plays_through_wrappers_and_is_the_same_again() -> None:
    make = "goalmeter/KeyDoor-v0"
    env = gymnasium.wrappers.FlattenObservation(gymnasium.make(make, max_steps=30))
    first = play(agent("wall-follower").in_grids(), env, episodes=2, seed=1)
    assert first == play(agent("wall-follower").in_grids(), env, episodes=2, seed=1)
    assert all(episode.terminated or len(episode.actions) == 30 for episode in first)


def test_other_environments_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="is no grid world, so greedy cannot play it"):
        play(agent("greedy").in_grids(), gymnasium.make("FrozenLake-v1"))
