"""The soft model of a class: its derivatives by differences, and by their own definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world
from oracles import soft_policy
from oracles.paths import occupancy_by_loops

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import LinearClass, PolicyBehaviour, behaviour_of, linear_class
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP

CLASSES = ["state", "time-state", "state-action", "features", "action features"]


class Case:
    """A model with a behaviour, in a random world."""

    def __init__(self, seed: int, kind: str, infinite: bool, with_reference: bool = False) -> None:
        self.seed = seed
        world = generic_world(seed, discount=0.7)
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.mdp: TabularMDP = world.mdp(horizon=None) if infinite else world.mdp()
        self.utilities = self.of(kind, "state" if infinite else "time-state")
        self.policy = world.policy[0] if infinite else world.policy
        self.behaviour: PolicyBehaviour = behaviour_of(self.mdp, [self.policy])
        self.reference = None
        if with_reference:
            self.reference = np.log(rng.dirichlet(np.full(3, 2.0), size=(1, 4)).swapaxes(1, 2))
        self.theta = rng.normal(size=self.utilities.n_weights)
        self.model = self.at(self.theta)

    def of(self, kind: str, timed: Any) -> LinearClass:
        if kind == "features":
            return linear_class(self.mdp, self.rng.normal(size=(4, 2)))
        if kind == "action features":
            return linear_class(self.mdp, self.rng.normal(size=(4, 3, 2)))
        over: Any = timed if kind == "time-state" else kind
        return linear_class(self.mdp, over=over)

    def at(self, theta: FloatArray) -> SoftModel:
        return SoftModel(self.mdp, self.utilities, theta, self.reference)

    def log_policy(self, theta: FloatArray) -> FloatArray:
        model = self.at(theta)
        return np.stack([np.log(model.step(t)[0]) for t in range(self.mdp.steps)])

    def f(self, theta: FloatArray) -> float:
        return self.at(theta).evidence(self.behaviour)


cases = st.builds(
    Case,
    seed=st.integers(0, 999),
    kind=st.sampled_from(CLASSES),
    infinite=st.booleans(),
    with_reference=st.booleans(),
)


def test_one_decision_by_hand() -> None:
    # Two actions paying theta_1 and theta_2: pi = (3/4, 1/4) at theta = (log 3, 0).
    mdp = TabularMDP(np.ones((1, 2, 1)), [0.0], horizon=1)
    utilities = linear_class(mdp, over="state-action")
    model = SoftModel(mdp, utilities, np.array([np.log(3), 0.0]), None)
    policy, log_ratio = model.step(0)
    np.testing.assert_allclose(policy, [[0.75], [0.25]])
    np.testing.assert_allclose(log_ratio, np.log([[1.5], [0.5]]))
    behaviour = behaviour_of(mdp, [[[0.5, 0.5]]])
    assert model.evidence(behaviour) == pytest.approx(np.log(1.5) / 2 + np.log(0.5) / 2)
    # Expected features of the behaviour less the model's, and the variance of the choice.
    np.testing.assert_allclose(model.gradient(behaviour), [-0.25, 0.25])
    np.testing.assert_allclose(
        model.information(model.states), 3 / 16 * np.array([[1, -1], [-1, 1]])
    )
    # The second action gives up log 3 of what the first is worth.
    np.testing.assert_allclose(model.regrets(model.theta), [[[0.0], [np.log(3)]]])


@given(seed=st.integers(0, 999), with_reference=st.booleans())
@few
def test_the_policy_is_the_oracles(seed: int, with_reference: bool) -> None:
    case = Case(seed, "state", False, with_reference)
    world = generic_world(seed, discount=0.7)
    reference = None if case.reference is None else np.exp(case.reference[0]).T
    want = soft_policy.soft_policy(world.P, case.theta, 4, 1.0, 0.7, reference)
    result = np.stack([case.model.step(t)[0].T for t in range(4)])
    np.testing.assert_allclose(result, want, atol=1e-13)
    visits = occupancy_by_loops(world.P, want, world.mu, 4).sum(axis=2)
    np.testing.assert_allclose(case.model.states, visits, atol=1e-13)


@given(case=cases)
@few
def test_gradient_and_information_by_differences(case: Case) -> None:
    d, h = case.utilities.n_weights, 1e-5
    gradient = case.model.gradient(case.behaviour)
    slopes = [(case.f(case.theta + e) - case.f(case.theta - e)) / (2 * h) for e in h * np.eye(d)]
    np.testing.assert_allclose(gradient, slopes, atol=1e-7)
    information = case.model.information(case.model.states)
    bends = [
        case.at(case.theta + e).gradient(case.behaviour)
        - case.at(case.theta - e).gradient(case.behaviour)
        for e in h * np.eye(d)
    ]
    np.testing.assert_allclose(information, -np.array(bends) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(information, information.T, atol=1e-14)
    v = case.rng.normal(size=d)
    np.testing.assert_allclose(case.model.curve(v, case.model.states), information @ v, atol=1e-11)


@given(seed=st.integers(0, 999), kind=st.sampled_from(CLASSES))
@few
def test_forbidden_actions_stay_forbidden(seed: int, kind: str) -> None:
    case = Case(seed, kind, False, True)
    assert case.reference is not None
    case.reference[0, 1, 2] = -np.inf
    model = case.at(case.theta)
    for t in range(4):
        assert model.step(t)[0][1, 2] == 0.0
    assert np.isposinf(model.regrets(case.theta)[:, 1, 2]).all()
    np.testing.assert_allclose(model.states.sum(axis=1), 1.0)
    psi = dict(model.tangents(np.eye(case.utilities.n_weights)))
    assert all(np.isfinite(p).all() for p in psi.values())
