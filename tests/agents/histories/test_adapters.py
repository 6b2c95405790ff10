"""The two forms of an agent are adapters of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from reflection.histories import CHECKED, SCRIPTED, answers, few_examples, histories
from reflection.simple_agents import as_function

from goalmeter.agents.history import FunctionAgent, History, Percept, RealityCheck
from goalmeter.agents.registry import history_agent as agent
from goalmeter.reflection.environments import find
from goalmeter.reflection.trial import run_trial


def reader(history: History, n_actions: int, n_observations: int) -> int:
    """Reads every part of the history that is promised to users."""
    total = sum(int(percept.reward * 2) + percept.observation for percept in history.percepts)
    total += sum((i + 1) * action for i, action in enumerate(history.actions))
    return (total + 3 * len(history.percepts)) % n_actions


def test_a_function_sees_the_history_as_it_is_documented() -> None:
    seen = []

    def spy(history: History, n_actions: int, n_observations: int) -> int:
        seen.append((history, n_actions, n_observations))
        return 1

    mind = FunctionAgent(spy).begin(4, 5)
    mind.perceive(0, 2)
    assert mind.act() == 1
    mind.take(3)
    mind.perceive(-1, 4)
    assert mind.act() == 1
    assert seen == [
        (History((Percept(0, 2),), ()), 4, 5),
        (History((Percept(0, 2), Percept(-1, 4)), (3,)), 4, 5),
    ]
    assert isinstance(seen[1][0].percepts, tuple) and isinstance(seen[1][0].actions, tuple)
    assert seen[1][0].percepts[1].reward == -1


@pytest.mark.parametrize("one", [np.int64(1), np.array(1), True])
def test_integers_of_any_kind_are_actions(one: Any) -> None:
    mind = FunctionAgent(lambda *_: one).begin(2, 1)
    mind.perceive(0, 0)
    assert mind.act() == 1 and type(mind.act()) is int


def rated(
    history: History, n_actions: int, n_observations: int, *, learning_rate: float = 0.1
) -> int:
    return int(learning_rate == 1)


def test_keywords_of_a_function_are_settings_that_it_can_assume() -> None:
    agent = FunctionAgent(rated)
    assert agent.options == {"learning_rate"}
    for options, expected in (({}, 0), ({"learning_rate": 1.0}, 1)):
        mind = agent.begin(2, 1, **options)
        mind.perceive(0, 0)
        assert mind.act() == mind.fork().act() == expected
    # It plays 0, and would play 1 at a rate of 1: -1 a turn, and so does its reality check.
    environment, _ = find("IncentivizeLearningRate")
    for checked in (agent, RealityCheck(agent)):
        assert run_trial(checked, environment, steps=9, seed=0).total_reward == -8
        assert run_trial(checked, environment, opposite=True, steps=9, seed=0).total_reward == 8


@pytest.mark.parametrize("name", [*SCRIPTED, *CHECKED])
@given(history=histories(max_percepts=12))
@few_examples
def test_back_and_there_again_is_the_same_agent(name: str, history: History) -> None:
    function = as_function(agent(name, 5))
    expected = answers(agent(name, 5).begin(2, 2), history)
    assert answers(FunctionAgent(function).begin(2, 2), history) == expected
