"""Scripted agents: by hand, against literal functions of the history, and what all must keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import history_agents as oracle
from reflection.histories import (
    CHECKED,
    SCRIPTED,
    answers,
    draw_in,
    fixed_answers,
    histories,
    in_another_process,
    many_examples,
    prefixes,
    random_history,
    tell,
)

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import History, Percept
from goalmeter.agents.registry import history_agent as agent
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner, QLearner, RandomAgent

ALL = (*SCRIPTED, *CHECKED, "rc(rc(naive))")
BOUND = st.integers(1, 4)


def literal(name: str, seed: int, n_actions: int, n_observations: int) -> oracle.HistoryAgent:
    """The oracle for a name of the registry, with goalmeter's draws."""
    if name.startswith("rc("):
        return oracle.reality_check_alternate(literal(name[3:-1], seed, n_actions, n_observations))
    drawing = {"seed": seed, "draw": draw_in(n_actions, n_observations)}
    by_name: dict[str, Callable[..., int]] = {
        "random": partial(oracle.random_agent, **drawing),
        "constant": oracle.constant_agent,
        "constant(1)": partial(oracle.constant_agent, action=1),
        "naive": partial(oracle.naive_learner, **drawing),
        "naive-true-average": partial(oracle.naive_learner_true_average, **drawing),
        "q-learner": partial(oracle.q_learner, **drawing),
    }
    return by_name[name]


def history_of(rewards: list[float], actions: list[int], observations: Any = None) -> History:
    observations = observations or [0] * len(rewards)
    return History(tuple(map(Percept, rewards, observations)), tuple(actions))


def test_the_naive_learner_shrinks_averages_as_published() -> None:
    """After action 0: 1, 1, 0, so 2/4; after action 1: 1, so 1/2. Equal, so the lowest: 0.

    The true averages are 2/3 and 1. The reward 100 of the first percept follows no action.
    """
    history = history_of([100, 1, 1, 0, 1], [0, 0, 0, 1])
    published = NaiveLearner(exploration=0).begin(2, 1)
    text = NaiveLearner(exploration=0, true_average=True).begin(2, 1)
    assert tell(published, history).act() == 0
    assert tell(text, history).act() == 1


def test_the_q_learner_by_hand() -> None:
    """Q(0, 1) = 0.1 * (1 + 0.9 * 0 - 0) = 0.1, then Q(1, 0) = 0.1 * (-1 + 0.9 * 0.1) = -0.091.

    At observation 0 the best is action 1. At observation 1 it is action 1 too, whose Q is still 0.
    At observation 2 nothing is known, and the action is a draw.
    """
    sure = QLearner(exploitation=1)
    mind = sure.begin(2, 3)
    history = history_of([0, 1, -1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1, 2])
    assert answers(mind, history)[2:4] == [1, 1]
    drawn = {tell(QLearner(seed, exploitation=1).begin(2, 3), history).act() for seed in range(20)}
    assert drawn == {0, 1}


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), seed=st.integers(-3, 2**70), n_actions=BOUND, n_observations=BOUND)
@many_examples
def test_minds_are_the_functions_of_the_history(
    name: str, data: st.DataObject, seed: int, n_actions: int, n_observations: int
) -> None:
    """At every point of histories whose actions are nobody's, some of them not legal here."""
    history = data.draw(histories(n_actions, n_observations, illegal=True))
    function = literal(name, seed, n_actions, n_observations)
    expected = [function(start, n_actions, n_observations) for start in prefixes(history)]
    assert answers(agent(name, seed).begin(n_actions, n_observations), history) == expected


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), common=histories(max_percepts=8))
@many_examples
def test_forks_are_independent(name: str, data: st.DataObject, common: History) -> None:
    """Forked after a percept or after an action; both sides go on, taking turns."""
    after_action = data.draw(st.booleans())
    original = tell(agent(name, 1).begin(2, 2), common)
    if after_action:
        original.take(0)
    if data.draw(st.booleans()) and not after_action:
        original.act()
    twin = original.fork()
    told: dict[int, tuple[list[Percept], list[int]]] = {
        side: ([*common.percepts], [*common.actions, *([0] if after_action else [])])
        for side in (0, 1)
    }
    for side in data.draw(st.lists(st.integers(0, 1), max_size=12)):
        mind = (original, twin)[side]
        percepts, actions = told[side]
        if len(percepts) > len(actions):
            actions.append(data.draw(st.integers(0, 1)))
            mind.take(actions[-1])
        else:
            percepts.append(Percept(data.draw(st.integers(-2, 2)), data.draw(st.integers(0, 1))))
            mind.perceive(*percepts[-1])
    # Whatever one has learnt from the other would show in what they do from here on, in turn.
    following = random_history(Random(1), 20)
    for i, percept in enumerate(following.percepts):
        for side, mind in enumerate((original, twin)):
            percepts, actions = told[side]
            if len(percepts) > len(actions):
                actions.append(side)
                mind.take(side)
            percepts.append(percept)
            mind.perceive(*percept)
            if i % 5 == 4:
                expected = tell(agent(name, 1).begin(2, 2), (percepts, actions)).act()
                assert mind.act() == expected


def test_identical_histories_give_identical_actions_in_another_process() -> None:
    """Python's hashes differ there, and the agents are asked in another order."""
    in_this_process = fixed_answers(ALL)
    program = f"import reflection.histories as h; answers = h.fixed_answers({ALL[::-1]!r})"
    assert in_another_process(program) == in_this_process


def test_settings_that_an_agent_does_not_know_are_refused() -> None:
    for subject in (RandomAgent(), ConstantAgent(), NaiveLearner()):
        with pytest.raises(
            InvalidParameterError,
            match=r"does not support learning_rate=1, expected no settings; check Source",
        ):
            subject.begin(2, 1, learning_rate=1)
    with pytest.raises(
        InvalidParameterError,
        match=r"QLearner\(.*\) does not support temper='bad', expected learning_rate, "
        r"learning_rate_scale; check",
    ):
        QLearner().begin(2, 1, temper="bad", learning_rate=1)


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"exploration is 1.5, expected a probability"):
        NaiveLearner(exploration=1.5)
    with pytest.raises(InvalidParameterError, match=r"exploitation is -1, expected a probability"):
        QLearner(exploitation=-1)
    with pytest.raises(InvalidParameterError, match=r"action is -1, expected 0 or more"):
        ConstantAgent(-1)
