"""Large worlds multiply one value column at a time; the numbers are the same to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import goalmeter as gm
from goalmeter.tabular import transition
from goalmeter.tabular.backup import problem
from goalmeter.tabular.planning import backward, plan
from goalmeter.tabular.policies import rewards_of


def world(n_states: int) -> gm.TabularMDP:
    rng = np.random.default_rng(0)
    shape = (n_states, 3, 4)
    probability = rng.dirichlet(np.ones(4), shape[:2])
    successors = rng.integers(0, n_states, shape)
    return gm.TabularMDP((successors, probability), rng.random(n_states), horizon=5)


# Blocks of 50 states; waves of 100 leave one block for the last, waves of 500 take all at once.
@pytest.mark.parametrize("wave", [1, 100, 500])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_column_at_a_time_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, wave: int, threads: str
) -> None:
    monkeypatch.setenv("GOALMETER_THREADS", threads)
    monkeypatch.setattr(transition, "BLOCK_STATES", 50)
    monkeypatch.setattr(transition, "WAVE_STATES", wave)
    mdp = world(241)
    task = problem(mdp, rewards_of(mdp), np.array([0.7]))
    together = backward(task)
    planned = plan(task)
    steps = [planned.backup_at(t) for t in range(5)]
    monkeypatch.setattr(transition, "GATHER_BYTES", 0)
    for alone, joint in zip(backward(task), together, strict=True):
        np.testing.assert_array_equal(alone, joint)
    again = plan(task)
    np.testing.assert_array_equal(again.soft, planned.soft)
    for t, step in enumerate(steps):
        for alone, joint in zip(again.backup_at(t), step, strict=True):
            np.testing.assert_array_equal(alone, joint)
