"""Trainings of Stable-Baselines3's learners on a history: what the library's own `learn` does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from agents.learners.test_stable_baselines import ALGORITHMS, experience, table
from oracles import stable_baselines as oracle

from goalmeter.agents import stable_baselines
from goalmeter.agents.history import Prefix, Turn, prefix


def values(learner: Any) -> np.ndarray[Any, Any]:
    """Q after a training, [n_observations, n_actions]."""
    return np.asarray(learner.model.q_net(learner._every_observation()).detach())


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("a2c", {}),
        ("a2c", {"gamma": 0.5, "learning_rate": 0.05, "gae_lambda": 0.9}),
        ("dqn", {}),
        ("dqn", {"train_freq": 3, "gradient_steps": 2, "target_update_interval": 5}),
        ("dqn", {"gradient_steps": -1, "learning_rate": 0.01}),
        ("ppo", {}),
        ("ppo", {"n_epochs": 3, "learning_rate": 0.01, "clip_range_vf": 0.2}),
    ],
)
@pytest.mark.parametrize(("k", "counts"), [(8, (2, 1)), (32, (3, 4))])
def test_training_is_what_the_library_does_in_a_world_that_replays(
    algorithm: str, settings: dict[str, Any], k: int, counts: tuple[int, int]
) -> None:
    told = experience(k, *counts, seed=k)
    lists = (list(told.rewards), list(told.observations), list(told.actions))
    expected = oracle.trained(algorithm, *lists, *counts, seed=5, **settings)
    if algorithm != "dqn":
        assert table(algorithm, told, counts, 5, **settings) == pytest.approx(expected, abs=2e-5)
        return
    learner = stable_baselines.ALGORITHMS["dqn"](*counts, 5, settings, False)
    rows = learner.train(told)
    assert values(learner) == pytest.approx(expected, abs=2e-5)
    # Greedy, but for the last of the exploration rates: 5% uniform.
    chances = np.full(counts[::-1], 0.05 / counts[0])
    chances[np.arange(counts[1]), expected.argmax(axis=1)] += 0.95
    assert np.diff(np.array(rows), axis=1, prepend=0) == pytest.approx(chances)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_learner_is_as_new_at_each_training(algorithm: str) -> None:
    first, second = experience(16, 2, 2, 0), experience(32, 2, 2, 1)
    learner = stable_baselines.ALGORITHMS[algorithm](2, 2, 3, {}, False)
    weights = [
        [p.tolist() for p in learner.model.policy.parameters()]
        for told in (first, second, first)
        if learner.train(told)
    ]
    assert weights[0] == weights[2] != weights[1]


@pytest.mark.parametrize("as_published", [False, True])
def test_forced_actions_are_forced_properly(as_published: bool) -> None:
    """PPO compares with the chance of the action that was taken, the better one of the two at each
    observation here; as published, with that of an action that the untrained network drew."""
    learner: Any = stable_baselines.ALGORITHMS["ppo"](2, 8, 3, {}, as_published)
    untrained = np.asarray(learner._probabilities())
    better = untrained.argmax(axis=1)
    seen = tuple(i % 8 for i in range(64))
    told = Prefix((1.0,) * 64, seen, tuple(int(better[o]) for o in seen[:-1]))
    learner.train(told)
    kept = learner.model.rollout_buffer.log_probs.reshape(-1)
    of_taken = np.log([untrained[o].max() for o in seen[:-1]])
    of_others = np.log([untrained[o].min() for o in seen[:-1]])
    if as_published:
        agrees = np.isclose(kept, of_taken, atol=1e-6)
        assert 0.2 < agrees.mean() < 0.8
        assert np.allclose(kept[~agrees], of_others[~agrees], atol=1e-6)
    else:
        assert kept == pytest.approx(of_taken, abs=1e-6)


def test_nothing_global_is_touched() -> None:
    def states() -> tuple[Any, ...]:
        of_numpy = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
        return random.getstate(), of_numpy, torch.get_rng_state().tolist()

    before = states()
    for algorithm in ALGORITHMS:
        table(algorithm, experience(8, 2, 1, 0), (2, 1), 0)
    assert states() == before


def test_threads_change_nothing() -> None:
    told, threads = experience(256, 2, 8, 0), torch.get_num_threads()
    tables = []
    for n in (1, 2):
        torch.set_num_threads(n)
        learner = stable_baselines.ALGORITHMS["ppo"](2, 8, 0, {}, False)
        tables.append(learner.train(told))
        assert torch.get_num_threads() == n
    torch.set_num_threads(threads)
    assert tables[0] == tables[1]


def test_a_shared_history_is_told_forwards() -> None:
    turn = Turn(Turn(Turn(None, None, 0, 3), 1, 0.5, 2), 0, -1, 0)
    assert prefix(turn) == Prefix((0, 0.5, -1), (3, 2, 0), (1, 0))
    long = None
    for i in range(100_000):
        long = Turn(long, None if i == 0 else 0, i, 0)
    assert long is not None and len(prefix(long).rewards) == 100_000
    del long  # without running out of stack
