"""The network of the recurrent DQN, by hand: its windows, its values and its gradients."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from agents.learners.test_recurrent_dqn import own_values
from reflection.histories import random_history, tell

from goalmeter.agents.history import History, Percept, Prefix
from goalmeter.agents.recurrent_dqn import Pass, QNetwork, RecurrentDQN, windows_of


def test_windows_are_the_latest_numbers_with_zeros_in_front() -> None:
    """x_1 = (5, 1), y_1 = 7, x_2 = (6, 2), y_2 = 8, x_3 = (9, 3); the reward 5 is never read."""
    history = Prefix((5, 6, 9), (1, 2, 3), (7, 8))
    assert windows_of(history, 4).T.tolist() == [[0, 0, 0, 1], [1, 7, 6, 2], [2, 8, 9, 3]]
    assert windows_of(history, 1).T.tolist() == [[1], [2], [3]]
    assert windows_of(history, 7).T.tolist()[2] == [1, 7, 6, 2, 8, 9, 3]


def test_a_mind_reads_the_windows_that_are_learnt_from() -> None:
    told = random_history(Random(2), 12, 3, 4)
    history = Prefix(
        tuple(p.reward for p in told.percepts),
        tuple(p.observation for p in told.percepts),
        told.actions,
    )
    for lookback in (0, 1, 3, 20):
        agent = RecurrentDQN(lookback=lookback)
        mind: Any = tell(agent.begin(3, 4), told)
        windows = windows_of(history, agent.learning.length)
        assert mind._window().tolist() == windows[:, -1].tolist()


def test_a_network_of_one_state_by_hand() -> None:
    """One layer, one state, one number x = 2, all weights 1 but those of z, which are 0.

    r = sigmoid(2 + 1 + 0 + 1), z = 1/2, n = tanh(2 + 1 + r * (0 + 1)), h = n / 2, Q = 1 * h + 1.
    """
    network = QNetwork.initial(np.random.default_rng(0), 1, 1, 1)
    network.gates[:] = [[1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]
    network.values[:] = network.bias[:] = 1
    r = 1 / (1 + np.exp(-4))
    assert network.q_values(np.array([[2.0]])) == pytest.approx(np.tanh(3 + r) / 2 + 1)


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


def test_it_learns_what_pays() -> None:
    """Action 1 pays 1 and action 0 pays -1, without a look at the future."""
    rng = Random(0)
    actions = [rng.randrange(2) for _ in range(511)]
    percepts = [Percept(0, 0), *(Percept(1 if a else -1, 0) for a in actions)]
    told = History(tuple(percepts), tuple(actions))
    for seed in range(4):
        agent = RecurrentDQN(seed, discount=0.0, lookback=1)
        low, high = own_values(agent, told, 2, 1)
        assert low == pytest.approx(-1, abs=0.25) and high == pytest.approx(1, abs=0.25)
        assert tell(agent.begin(2, 1), told).act() == 1
