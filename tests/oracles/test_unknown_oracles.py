"""The oracles of unknown utilities: primal against dual, by hand, and on the boundary."""

import math

import numpy as np
import pytest

from . import known_utility as known
from . import soft_policy as soft
from . import unknown_utility as unknown
from .test_oracles import random_mdp


# Even seeds have two actions, odd ones three; the infinite problem takes seconds for each.
@pytest.mark.parametrize(
    ("seed", "H"), [(0, 3), (1, 3), pytest.param(0, None, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["state", "timed state", "state-action", "features"])
def test_primal_equals_dual(seed: int, kind: str, H: int | None) -> None:
    P, _, policy, mu = random_mdp(seed, S=3, A=2 + seed % 2)
    S, A, _ = P.shape
    blocks = H or 1
    phi = {
        "state": unknown.state_features(S, A, blocks),
        "timed state": unknown.timed_state_features(S, A, blocks),
        "state-action": unknown.state_action_features(S, A, blocks),
        "features": unknown.given_features(
            np.random.default_rng(seed).normal(size=(S, 2)), A, blocks
        ),
    }[kind]
    primal = unknown.primal_optimum(P, policy, mu, H, phi, 0.8)
    lower, _ = unknown.dual_lower_bound(P, policy, mu, H, phi, 0.8)
    assert primal.residual < 1e-12
    assert lower <= primal.value + 1e-10
    assert lower == pytest.approx(primal.value, abs=1e-8)


def test_unknown_utility_by_hand() -> None:
    P, R, policy, mu = random_mdp(11)
    # Utilities of time, state and action: the only matching occupancy is the policy's own.
    phi = unknown.timed_state_action_features(3, 2, 3)
    full = unknown.primal_optimum(P, policy, mu, 3, phi).value
    assert full == pytest.approx(known.evidence(P, policy, policy, mu, 3), abs=1e-12)
    # One feature, the reward: unknown = known.
    reward_feature = unknown.given_features(R[:, None], 2, 3)
    value = unknown.primal_optimum(P, policy, mu, 3, reward_feature).value
    assert value == pytest.approx(known.known_utility_meg(P, R, policy, mu, 3)[0], abs=1e-10)
    # Larger classes explain more.
    states = unknown.primal_optimum(P, policy, mu, 3, unknown.state_features(3, 2, 3)).value
    assert value <= states + 1e-10 <= full + 2e-10
    # Against a reference that is not uniform, a soft policy of it is explained completely.
    reference = np.random.default_rng(0).dirichlet(np.ones(2), size=3)
    model = soft.soft_policy(P, R, 3, 0.8, 1.0, reference)
    result = unknown.primal_optimum(P, model, mu, 3, reward_feature, 1.0, reference).value
    assert result == pytest.approx(known.evidence(P, model, model, mu, 3, reference), abs=1e-10)


def test_weak_duality_by_hand() -> None:
    # One choice between two absorbing ends, H = 2. The behaviour goes left with 3/4; theta pays w
    # for the left end. f(w) = 3/4 log(2 e^w / (e^w + 1)) + 1/4 log(2 / (e^w + 1)).
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1.0
    mu = np.array([1.0, 0.0, 0.0])
    behaviour = np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]])
    phi = unknown.state_features(3, 2, 2)
    w = math.log(5.0)
    theta = np.array([0.0, w, 0.0])
    evidence = 0.75 * math.log(10 / 6) + 0.25 * math.log(2 / 6)
    # x goes left with 1/2: KL 0, and the features differ by a quarter of a visit.
    uniform = np.full((3, 2), 0.5)
    arguments = (P, behaviour, uniform, mu, 2, phi, theta)
    assert unknown.weak_duality(*arguments) == pytest.approx(w / 4, abs=1e-15)
    assert w / 4 > evidence
    # x = behaviour: KL = log 2 + 3/4 log 3/4 + 1/4 log 1/4, and no difference: the optimum, log 3.
    tight = math.log(2) + 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    arguments = (P, behaviour, behaviour, mu, 2, phi, theta)
    assert unknown.weak_duality(*arguments) == pytest.approx(tight, abs=1e-15)
    assert tight > evidence
    # x = the model of theta: the bound is the evidence itself.
    model = np.array([[5 / 6, 1 / 6], [0.5, 0.5], [0.5, 0.5]])
    arguments = (P, behaviour, model, mu, 2, phi, theta)
    assert unknown.weak_duality(*arguments) == pytest.approx(evidence, abs=1e-15)
