"""The recurrent DQN: against its literal form with PyTorch, by hand, and what every agent keeps."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from reflection.histories import answers, in_another_process, random_history, tell

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import (
    History,
    Percept,
    Prefix,
    hash_action,
    hash_percept,
    hash_start,
    prefix,
)
from goalmeter.agents.recurrent_dqn import Pass, QNetwork, RecurrentDQN, windows_of

# A learner that learns within a few steps.
SMALL: dict[str, Any] = {
    "batch": 4,
    "memory": 12,
    "target_every": 3,
    "lookback": 2,
    "hidden": 3,
    "learning_rate": 0.5,
}


def generators_of(agent: RecurrentDQN, n_actions: int, n_observations: int) -> Callable[..., Any]:
    """The draws of an agent as a function of the history that is trained on, for the oracle."""

    def draws(history: Any) -> tuple[np.random.Generator, ...]:
        percepts, actions = history
        state = hash_start(agent.seed, n_actions, n_observations)
        for percept, action in zip(percepts, (*actions, None), strict=True):
            state = hash_percept(state, *percept)
            if action is not None:
                state = hash_action(state, action)
        drawn = agent.draws(state)
        return drawn.weights, drawn.replay, drawn.dropout

    return draws


def own_values(agent: RecurrentDQN, history: History, n_actions: int, n_obs: int) -> list[float]:
    mind: Any = tell(agent.begin(n_actions, n_obs), history)
    return values_of(agent, mind)


def values_of(agent: RecurrentDQN, mind: Any) -> list[float]:
    mind.act()
    windows = windows_of(prefix(mind.turn), agent.learning.length)
    network = mind.learned.network
    return Pass(network, len(windows), 1).forward(network, windows[:, -1:])[:, 0].tolist()


@pytest.mark.parametrize("case", range(12))
def test_values_and_actions_are_those_of_the_literal_function(case: int) -> None:
    """Histories that are nobody's, any number of layers and actions, both sorts of draws.

    The last histories have rewards of any size and actions that are not legal.
    """
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    rng = Random(case)
    settings = {
        "batch": (batch := rng.randint(1, 6)),
        "memory": rng.randint(batch, 30),
        "target_every": rng.randint(1, 9),
        "lookback": rng.randint(0, 4),
        "layers": rng.randint(1, 3),
        "hidden": rng.randint(1, 5),
        "learning_rate": rng.choice([0.01, 0.1, 1.0]),
        "dropout": rng.choice([0.0, 0.2, 0.5]),
        "discount": rng.choice([0.0, 0.9, 0.999]),
    }
    n_actions = rng.randint(1, 4)
    told = random_history(rng, rng.randint(20, 40), n_actions, 3)
    if case >= 8:
        rewards = [9, -2.5, Fraction(1, 3), 50]
        told = History(
            tuple(Percept(rng.choice(rewards), p.observation) for p in told.percepts),
            tuple(rng.randint(-1, n_actions) for _ in told.actions),
        )
    agent = RecurrentDQN(case - 3, draws_from=rng.choice(["seed", "history"]), **settings)
    expected = oracle.trained_values(
        told, n_actions, draws=generators_of(agent, n_actions, 3), **settings
    )
    assert own_values(agent, told, n_actions, 3) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    action = oracle.recurrent_dqn(
        told, n_actions, 3, draws=generators_of(agent, n_actions, 3), **settings
    )
    assert tell(agent.begin(n_actions, 3), told).act() == action


@pytest.mark.slow
def test_the_published_settings_agree_with_the_literal_function_when_learning_begins() -> None:
    """256 percepts: 255 pushes, so 128 steps with the first from the 128th push on."""
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    agent = RecurrentDQN(1, lookback=1)
    told = random_history(Random(1), 256)
    draws = generators_of(agent, 2, 2)
    expected = oracle.trained_values(told, 2, draws=draws, lookback=1)
    assert own_values(agent, told, 2, 2) == pytest.approx(expected, rel=1e-9)
    before: Any = tell(agent.begin(2, 2), History(told.percepts[:255], told.actions[:254]))
    initial = QNetwork.initial(agent.draws(0).weights, 2, 5, 2)
    before.act()
    assert before.learned.network.gates.tolist() == initial.gates.tolist()


def fixed_answers() -> list[list[int]]:
    rng = Random(9)
    told = [random_history(rng, 40) for _ in range(3)]
    return [
        answers(RecurrentDQN(seed, draws_from=draws, **SMALL).begin(2, 2), history)
        for seed in (0, -7, 2**70)
        for draws in ("seed", "history")
        for history in told
    ]


def test_another_process_answers_the_same_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; "
        "import agents.learners.test_recurrent_dqn as t; answers = t.fixed_answers()"
    )
    in_this_process = fixed_answers()
    assert in_another_process(program) == in_this_process
    assert len({tuple(row) for row in in_this_process}) > 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lookback": -1}, "lookback is -1, expected at least 0"),
        ({"dropout": 1.0}, r"dropout is 1.0, expected a share in \[0, 1\)"),
        ({"memory": 100}, "memory is 100, expected at least the batch size, 128"),
        ({"draws_from": "clock"}, "draws_from is 'clock', expected 'seed' or 'history'"),
        ({"epsilon": 0.1}, "the recurrent DQN has no setting 'epsilon', expected learning_rate, "),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        RecurrentDQN(**settings)


def test_windows_are_the_latest_numbers_with_zeros_in_front() -> None:
    """x_1 = (5, 1), y_1 = 7, x_2 = (6, 2), y_2 = 8, x_3 = (9, 3); the reward 5 is never read."""
    history = Prefix((5, 6, 9), (1, 2, 3), (7, 8))
    assert windows_of(history, 4).T.tolist() == [[0, 0, 0, 1], [1, 7, 6, 2], [2, 8, 9, 3]]
    assert windows_of(history, 1).T.tolist() == [[1], [2], [3]]
    assert windows_of(history, 7).T.tolist()[2] == [1, 7, 6, 2, 8, 9, 3]


def test_a_network_of_one_state_by_hand() -> None:
    """One layer, one state, one number x = 2, all weights 1 but those of z, which are 0.

    r = sigmoid(2 + 1 + 0 + 1), z = 1/2, n = tanh(2 + 1 + r * (0 + 1)), h = n / 2, Q = 1 * h + 1.
    """
    network = QNetwork.initial(np.random.default_rng(0), 1, 1, 1)
    network.gates[:] = [[1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]
    network.values[:] = network.bias[:] = 1
    r = 1 / (1 + np.exp(-4))
    assert Pass(network, 1, 1).forward(network, [[2.0]]) == pytest.approx(np.tanh(3 + r) / 2 + 1)


def test_gradients_are_slopes() -> None:
    """Each weight moved a little, with dropout, three layers and two windows at a time."""
    rng = np.random.default_rng(1)
    network = QNetwork.initial(rng, 2, 2, 3)
    windows = rng.normal(size=(4, 2))
    kept = (rng.random((4, 2, 2, 2)) >= 0.3) / 0.7
    error = rng.normal(size=(2, 2))
    passes = Pass(network, 4, 2)

    def loss() -> float:
        return float((error * passes.forward(network, windows, kept)).sum())

    loss()
    gradients = passes.backward(network, error)
    for weights, gradient in zip(
        (network.gates, network.values, network.bias), gradients, strict=True
    ):
        for at in np.ndindex(weights.shape):
            if weights[at] == 0:
                assert gradient[at] == 0
                continue
            slopes = []
            for step in (1e-5, -1e-5):
                weights[at] += step
                slopes.append(loss())
                weights[at] -= step
            assert (slopes[0] - slopes[1]) / 2e-5 == pytest.approx(gradient[at], abs=1e-8)
