"""The two forms of an agent are adapters of each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reflection.histories import CHECKED, SCRIPTED, answers, histories, prefixes, some, tell

from goalmeter.reflection.adapters import FunctionAgent, as_function
from goalmeter.reflection.agents import QLearner, agent
from goalmeter.reflection.protocol import History, Percept


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


def test_a_function_is_asked_once_at_each_point() -> None:
    asked = []
    mind = FunctionAgent(lambda history, *_: asked.append(len(history.percepts)) or 0).begin(2, 1)
    for _ in range(3):
        mind.perceive(0, 0)
        mind.act()
        mind.act()
        mind.take(0)
    assert asked == [1, 2, 3]


@given(history=histories(3, 2))
@some
def test_a_mind_of_a_function_gives_what_the_function_gives(history: History) -> None:
    expected = [reader(some, 3, 2) for some in prefixes(history)]
    assert answers(FunctionAgent(reader).begin(3, 2), history) == expected
    assert tell(FunctionAgent(reader).begin(3, 2), history).act() == expected[-1]


@given(history=histories(3, 2))
@some
def test_there_and_back_again_is_the_same_function(history: History) -> None:
    assert as_function(FunctionAgent(reader))(history, 3, 2) == reader(history, 3, 2)


@pytest.mark.parametrize("name", [*SCRIPTED, *CHECKED])
@given(history=histories(max_percepts=12))
@some
def test_back_and_there_again_is_the_same_agent(name: str, history: History) -> None:
    function = as_function(agent(name, 5))
    expected = answers(agent(name, 5).begin(2, 2), history)
    assert answers(FunctionAgent(function).begin(2, 2), history) == expected


@given(common=histories(2, 2), rewards=st.tuples(st.integers(-2, 2), st.integers(-2, 2)))
@some
def test_a_fork_of_a_function_knows_nothing_of_its_original(
    common: History, rewards: tuple[int, int]
) -> None:
    minds = [tell(FunctionAgent(reader).begin(2, 2), common)]
    minds.append(minds[0].fork())
    assert minds[0].act() == minds[1].act() == reader(common, 2, 2)
    for action, mind in enumerate(minds):
        mind.take(action)
        mind.perceive(rewards[action], 0)
    for action, mind in enumerate(minds):
        percepts = (*common.percepts, Percept(rewards[action], 0))
        assert mind.act() == reader(History(percepts, (*common.actions, action)), 2, 2)


@given(history=histories(2, 2))
@some
def test_a_function_can_be_that_of_an_agent_with_settings(history: History) -> None:
    asked = as_function(QLearner(), learning_rate=1)
    assert asked(history, 2, 2) == as_function(QLearner(learning_rate=1))(history, 2, 2)


def test_a_history_must_have_an_action_between_percepts() -> None:
    with pytest.raises(ValueError, match="shorter"):
        as_function(QLearner())(History((Percept(0, 0), Percept(0, 0)), ()), 2, 2)
