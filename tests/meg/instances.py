"""Random instances for the tests of this folder: generic ones, and ones made to be awkward."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from oracles import unknown_utility as oracle
from tabular.worlds import World

from goalmeter._types import FloatArray
from goalmeter.meg import MegResult, unknown_utility
from goalmeter.tabular import TabularMDP

many = settings(max_examples=12, deadline=None, derandomize=True)
few = settings(max_examples=6, deadline=None, derandomize=True)


def generic_world(
    seed: int,
    n_states: int = 4,
    n_actions: int = 3,
    horizon: int = 4,
    discount: float = 1.0,
    on_actions: bool = False,
) -> World:
    """Everything positive and nothing tied, so that every optimum is interior."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    R = rng.normal(size=(n_states, n_actions) if on_actions else n_states)
    mu = rng.dirichlet(np.ones(n_states))
    policy = rng.dirichlet(np.ones(n_actions), size=(horizon, n_states))
    return World(P, R, mu, policy, discount)


def moving_world(seed: int, n_states: int = 5, n_actions: int = 3, horizon: int = 4) -> World:
    """Deterministic moves, each action to a state of its own, from one start."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        P[s, np.arange(n_actions), rng.permutation(n_states)[:n_actions]] = 1.0
    policy = rng.dirichlet(np.ones(n_actions), size=(horizon, n_states))
    return World(P, rng.normal(size=n_states), np.eye(n_states)[0], policy, 1.0)


class Awkward(NamedTuple):
    """A class of utilities and behaviour that is often on the boundary of what can be done."""

    P: FloatArray
    policy: FloatArray
    mu: FloatArray
    horizon: int | None
    discount: float
    over: str
    features: FloatArray | None

    @property
    def phi(self) -> FloatArray:
        """The class as the oracle takes it."""
        S, A, _ = self.P.shape
        blocks = self.horizon or 1
        if self.features is not None:
            return oracle.given_features(self.features, A, blocks)
        make = {
            "state": oracle.state_features,
            "time-state": oracle.timed_state_features,
            "state-action": oracle.state_action_features,
        }
        return make[self.over](S, A, blocks)

    def mdp(self) -> TabularMDP:
        return TabularMDP(
            self.P,
            np.zeros(len(self.mu)),
            horizon=self.horizon,
            initial=self.mu,
            discount=self.discount,
        )

    def measure(self, **options: Any) -> MegResult:
        over: Any = "state" if self.features is not None else self.over
        return unknown_utility(
            self.mdp(), self.policy, features=self.features, over=over, **options
        )

    def primal(self) -> float:
        arguments = (self.P, self.policy, self.mu, self.horizon, self.phi, self.discount)
        return oracle.primal_optimum(*arguments).value

    def dual(self) -> float:
        arguments = (self.P, self.policy, self.mu, self.horizon, self.phi, self.discount)
        return oracle.dual_lower_bound(*arguments)[0]


def awkward(seed: int) -> Awkward:
    """Sparse or deterministic moves, policies that are certain in places, any class."""
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    infinite = rng.random() < 0.2
    H = None if infinite else int(rng.integers(1, 7))
    P = _moves(rng, rng.choice(["deterministic", "sparse", "dirichlet", "quarters"]), S, A)
    discount = float(rng.choice([0.5, 0.8, 0.9]) if infinite else rng.choice([1.0, 1.0, 0.9, 0.7]))
    timed = not infinite and rng.random() < 0.5
    shape = (H, S) if timed else (S,)
    kind = rng.choice(["deterministic", "mixed", "dirichlet", "sharp"])
    policy = rng.dirichlet(np.full(A, 0.3 if kind == "sharp" else 1.0), size=shape)
    policy = np.where(policy < 1e-4, 0.0, policy)
    policy /= policy.sum(axis=-1, keepdims=True)
    certain = np.eye(A)[rng.integers(A, size=shape)]
    if kind == "deterministic":
        policy = certain
    if kind == "mixed":
        where = rng.random(shape) < 0.5
        policy[where] = certain[where]
    mu = np.eye(S)[rng.integers(S)] if rng.random() < 0.5 else rng.dirichlet(np.ones(S))
    over = str(rng.choice(["state", "features", "time-state", "state-action"]))
    if infinite and over == "time-state":
        over = "state"
    features = None
    if over == "features":
        features = rng.integers(-2, 3, size=(S, int(rng.integers(1, 4)))).astype(float)
    return Awkward(P, policy, mu, H, discount, over, features)


def _moves(rng: np.random.Generator, kind: str, S: int, A: int) -> FloatArray:
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            if kind == "deterministic":
                P[s, a, rng.integers(S)] = 1.0
                continue
            if kind == "quarters":
                P[s, a] = rng.multinomial(4, np.full(S, 1 / S)) / 4
                continue
            if kind == "sparse":
                k = int(rng.integers(1, min(3, S) + 1))
                followers = rng.choice(S, k, replace=False)
                P[s, a, followers] = rng.dirichlet(np.full(k, 0.5))
            else:
                P[s, a] = rng.dirichlet(np.full(S, 0.2))
            P[s, a] = np.where(P[s, a] < 1e-3, 0.0, P[s, a])
            P[s, a] /= P[s, a].sum()
    return P
