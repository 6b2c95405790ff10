"""The reality check: Definition 8 and the four parts of Proposition 9."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from oracles.history_agents import HistoryAgent, reality_check
from reflection.histories import answers, few_examples, histories, many_examples, prefixes, tell

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import (
    Agent,
    FunctionAgent,
    History,
    Mind,
    Percept,
    RealityCheck,
)
from goalmeter.agents.scripted import NaiveLearner, QLearner

COUNTS = (3, 2)  # actions and observations


def some_agent(salt: int) -> HistoryAgent:
    """A deterministic agent that depends on all of the history in no sensible way."""

    def pi(history: Any, n_actions: int, n_observations: int) -> int:
        percepts, actions = history
        told = repr((salt, [tuple(percept) for percept in percepts], list(actions)))
        return crc32(told.encode()) // 7 % n_actions

    return pi


AGENTS = st.builds(some_agent, st.integers(0, 1000))


@st.composite
def checked_histories(draw: DrawFn, pi: HistoryAgent, max_percepts: int = 7) -> History:
    """Histories whose actions are pi's own up to some point, and nobody's from there on."""
    percepts, actions = draw(histories(*COUNTS, max_percepts=max_percepts))
    honest = draw(st.integers(0, len(actions)))
    for i in range(honest):
        pis_action = pi((percepts[: i + 1], actions[:i]), *COUNTS)
        actions = (*actions[:i], pis_action, *actions[i + 1 :])
    return History(percepts, actions)


def test_the_frozen_action_is_the_first_also_when_it_is_zero() -> None:
    """Pi plays 0, then 1 for ever. The authors' later library freezes at 1 here, as 0 is false."""
    pi = FunctionAgent(lambda history, n_actions, n_observations: int(len(history.actions) > 0))
    mind = RealityCheck(pi).begin(2, 1)
    history = History((Percept(0, 0),) * 5, (0, 1, 0, 1))
    assert answers(mind, history) == [0, 1, 1, 0, 0]


@given(data=st.data(), pi=AGENTS)
@many_examples
def test_definition_8(data: st.DataObject, pi: HistoryAgent) -> None:
    history = data.draw(checked_histories(pi))
    expected = [reality_check(pi)(start, *COUNTS) for start in prefixes(history)]
    assert answers(RealityCheck(FunctionAgent(pi)).begin(*COUNTS), history) == expected
    # Told without a question in between, as environments tell their copies.
    assert tell(RealityCheck(FunctionAgent(pi)).begin(*COUNTS), history).act() == expected[-1]


@given(data=st.data(), pi=AGENTS)
@many_examples
def test_part_3_it_is_idempotent(data: st.DataObject, pi: HistoryAgent) -> None:
    history = data.draw(checked_histories(pi, max_percepts=20))
    once = RealityCheck(FunctionAgent(pi))
    expected = answers(once.begin(*COUNTS), history)
    assert answers(RealityCheck(once).begin(*COUNTS), history) == expected
    short = History(history.percepts[:5], history.actions[: min(4, len(history.actions))])
    assert reality_check(reality_check(pi))(short, *COUNTS) == expected[len(short.percepts) - 1]


@given(
    agent=st.one_of(
        AGENTS.map(FunctionAgent),
        st.builds(NaiveLearner, st.integers(0, 99)),
        st.builds(QLearner, st.integers(0, 99)),
    ),
    salt=st.integers(0, 1000),
)
@few_examples
def test_part_4_outside_extended_environments_it_changes_nothing(agent: Agent, salt: int) -> None:
    """A deterministic environment: any function of the history with its last action."""

    def environment(percepts: list[Percept], actions: list[int]) -> Percept:
        code = crc32(repr((salt, percepts, actions)).encode())
        return Percept(code % 3 - 1, code // 3 % 2)

    def interact(agent: Agent) -> tuple[list[Percept], list[int]]:
        mind: Mind = agent.begin(*COUNTS)
        percepts: list[Percept] = []
        actions: list[int] = []
        for _ in range(20):
            percepts.append(environment(percepts, actions))
            mind.perceive(*percepts[-1])
            actions.append(mind.act())
            mind.take(actions[-1])
        return percepts, actions

    assert interact(RealityCheck(agent)) == interact(agent)


@pytest.mark.parametrize("inner", [NaiveLearner(2), RealityCheck(NaiveLearner(2))])
def test_a_mind_is_settled_once_it_is_frozen(inner: Agent) -> None:
    mind = RealityCheck(inner).begin(2, 1)
    first = tell(inner.begin(2, 1), History((Percept(0, 0),), ())).act()
    for _ in range(3):
        mind.perceive(-1, 0)
        assert not mind.settled and not mind.fork().settled
        mind.take(mind.act())
    mind.perceive(0, 0)
    mind.take(1 - mind.act())
    # Also before the next percept, where a replay leaves it.
    assert mind.settled and mind.fork().settled
    assert mind.act() == mind.fork().act() == first


def test_as_published_it_forwards_nothing() -> None:
    published = RealityCheck(QLearner(), forward_options=False)
    assert published.options == frozenset()
    with pytest.raises(
        InvalidParameterError,
        match=r"RealityCheck\(QLearner\(.*\), forward_options=False\) does not support "
        r"learning_rate=1, expected no settings",
    ):
        published.begin(2, 1, learning_rate=1)
