"""Random sparse MDPs: every state-action pair has K successors, drawn from all states."""

from __future__ import annotations

import numpy as np

import goalmeter as gm

ACTIONS = 4
SUCCESSORS = 4


def sparse_world(n_states: int, horizon: int, seed: int = 0) -> gm.TabularMDP:
    """A random MDP with a reward on states in [0, 1]."""
    rng = np.random.default_rng(seed)
    shape = (n_states, ACTIONS, SUCCESSORS)
    probability = rng.random(shape)
    probability /= probability.sum(axis=-1, keepdims=True)
    successors = rng.integers(0, n_states, shape, dtype=np.int32)
    return gm.TabularMDP((successors, probability), rng.random(n_states), horizon=horizon)
