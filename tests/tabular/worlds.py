"""Small random worlds for the tests of this folder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from goalmeter._types import FloatArray
from goalmeter.tabular import TabularMDP

few = settings(max_examples=8, deadline=None, derandomize=True)


class World(NamedTuple):
    """The plain arrays of an MDP and a policy in it, as the oracles take them."""

    P: FloatArray  # [S, A, S]
    R: FloatArray  # [S] or [S, A]
    mu: FloatArray  # [S]
    policy: FloatArray  # [H, S, A]
    discount: float

    @property
    def horizon(self) -> int:
        return len(self.policy)

    def mdp(self, **changes: Any) -> TabularMDP:
        options: dict[str, Any] = {
            "horizon": self.horizon,
            "initial": self.mu,
            "discount": self.discount,
        }
        transition = changes.pop("transition", self.P)
        reward = changes.pop("reward", self.R)
        return TabularMDP(transition, reward, **{**options, **changes})


def random_world(
    seed: int,
    n_states: int = 4,
    n_actions: int = 3,
    horizon: int = 4,
    discount: float = 1.0,
    on_actions: bool = False,
) -> World:
    """Probabilities are quarters and rewards halves, so that actions tie often, and exactly."""
    rng = np.random.default_rng(seed)
    P = rng.multinomial(4, np.full(n_states, 1 / n_states), size=(n_states, n_actions)) / 4
    R = rng.integers(-2, 4, size=(n_states, n_actions) if on_actions else n_states) / 2
    mu = rng.dirichlet(np.ones(n_states))
    policy = rng.dirichlet(np.ones(n_actions), size=(horizon, n_states))
    return World(P, R, mu, policy, discount)


def worlds(max_states: int = 5, max_horizon: int = 5) -> st.SearchStrategy[World]:
    """Worlds of every small size, discounted or not, with either kind of reward."""
    return st.builds(
        random_world,
        seed=st.integers(0, 2**16),
        n_states=st.integers(1, max_states),
        n_actions=st.integers(1, 4),
        horizon=st.integers(1, max_horizon),
        discount=st.sampled_from([1.0, 0.75, 0.5]),
        on_actions=st.booleans(),
    )


def successor_lists(P: FloatArray, rng: np.random.Generator) -> tuple[Any, FloatArray]:
    """The same transitions [S, A, K] in random order, one listed twice, padded with zeros."""
    n_states, n_actions, _ = P.shape
    width = n_states + 2
    next_state = rng.integers(0, n_states, size=(n_states, n_actions, width))
    probability = np.zeros((n_states, n_actions, width))
    for s in range(n_states):
        for a in range(n_actions):
            followers = rng.permutation(np.flatnonzero(P[s, a]))
            twice = followers[0]
            listed = [(z, P[s, a, z] / (2 if z == twice else 1)) for z in [*followers, twice]]
            for k, (z, p) in zip(rng.permutation(width), listed, strict=False):
                next_state[s, a, k], probability[s, a, k] = z, p
    return next_state, probability
