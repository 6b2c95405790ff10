"""Small worlds with logs of all that can happen in them, for the tests of trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracles.paths import enumerate_paths

from goalmeter._types import FloatArray
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.tabular import TabularMDP, Trajectories

# Action 1 moves on to state 1 half of the time; state 1 pays, and is left by action 0 half of it.
LADDER_P = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]])
LADDER = TabularMDP(LADDER_P, [0.0, 1.0], horizon=3, initial=[0.5, 0.5])
CLIMBER = np.array([[0.25, 0.75], [0.5, 0.5]])

# One decision between two actions, the second of which pays 1.
PAIR = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)


def every_path(mdp: TabularMDP, P: FloatArray, policy: FloatArray, copies: int) -> Trajectories:
    """All trajectories, each as often as its probability says."""
    assert mdp.horizon is not None
    paths, times = [], []
    for path, probability in enumerate_paths(P, policy, mdp.initial, mdp.horizon):
        assert probability * copies == round(probability * copies)
        paths.append(path)
        times.append(round(probability * copies))
    both = np.repeat(np.array(paths), times, axis=0)
    return Trajectories(both[..., 0], both[..., 1])


# Every factor of a path is a multiple of 1/2 or 1/4: 2 * 4^3 * 2^2 copies are whole.
EXACT = every_path(LADDER, LADDER_P, CLIMBER, 512)


def pair_log(ones: int, of: int) -> tuple[list[list[int]], list[list[int]]]:
    """Single decisions in `PAIR`, some of them for the better action."""
    return [[0]] * of, [[1]] * ones + [[0]] * (of - ones)


def quick(mdp: Any, trajectories: Any, **options: Any) -> TrajectoryMeg:
    """An estimate with as few resamples and folds as there can be."""
    return from_trajectories(mdp, trajectories, **{"resamples": 100, "folds": 2, **options})


def corridor() -> TabularMDP:
    """Five rooms in a row, the prize in the last one, which is not absorbing."""
    rooms = np.arange(5)
    P = np.zeros((5, 2, 5))
    for action, step in enumerate((-1, 1)):
        np.add.at(P, (rooms, action, np.clip(rooms + step, 0, 4)), 0.9)
        np.add.at(P, (rooms, action, np.clip(rooms - step, 0, 4)), 0.1)
    return TabularMDP(P, [0, 0, -0.5, 0, 1.0], horizon=12, initial=0)
