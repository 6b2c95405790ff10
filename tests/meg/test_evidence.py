"""Evidence as a function of rationality, its maximum, and the naive plug-in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world, many
from oracles import example_one, soft_policy
from oracles import known_utility as oracle
from oracles.paths import enumerate_paths, policy_at

from goalmeter._types import FloatArray
from goalmeter.meg import known_utility, mce_plug_in
from goalmeter.meg.behaviour import EvidencePoint, PlugIn, behaviour_of, best_rationality, evidence
from goalmeter.tabular import TabularMDP
from goalmeter.tabular.backup import problem
from goalmeter.tabular.policies import rewards_of

seeds = st.integers(0, 2**16)


def at(mdp: TabularMDP, policy: FloatArray, *b: float) -> EvidencePoint:
    return evidence(problem(mdp, rewards_of(mdp), np.array(b)), behaviour_of(mdp, [policy]))


def test_one_decision_by_hand() -> None:
    # Rewards 0 and 1, agent (1/4, 3/4), b = log 3: the model is the agent. The model gives up
    # 1/4 on average, as the agent does, and the variance of the choice is 1/4 * 3/4.
    mdp = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)
    result = at(mdp, np.array([[0.25, 0.75]]), np.log(3))
    assert result.value == pytest.approx(np.log(2) + 0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert (result.model_loss, result.loss) == (pytest.approx(0.25), pytest.approx(0.25))
    assert result.slope == pytest.approx(0.0, abs=1e-15)
    assert result.curvature == pytest.approx(-3 / 16)


PAIR = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)


def best(mdp: TabularMDP, *policies: list[list[float]]) -> FloatArray:
    behaviour = behaviour_of(mdp, list(policies))

    def evaluate(b: FloatArray) -> EvidencePoint:
        return evidence(problem(mdp, rewards_of(mdp), b), behaviour)

    return best_rationality(evaluate, evaluate(np.zeros(len(policies))))


def test_logistic_curves_by_hand() -> None:
    # Between 0 and 1 the model is a logistic curve: b = log(p / (1 - p)).
    b = best(PAIR, [[0.5, 0.5]], [[0.25, 0.75]], [[0.75, 0.25]], [[0.0, 1.0]], [[1.0, 0.0]])
    np.testing.assert_allclose(b, [0, np.log(3), -np.log(3), np.inf, -np.inf], rtol=1e-14)


@given(
    exponent=st.floats(-12, -1),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    sign=st.sampled_from([1.0, -1.0]),
)
@many
def test_nearly_certain_policies(exponent: float, scale: float, sign: float) -> None:
    rare = 10.0**exponent
    mdp = PAIR.replace(reward=[[0.0, sign * scale]])
    b = best(mdp, [[rare, 1.0 - rare]])
    assert b == pytest.approx(sign * np.log((1.0 - rare) / rare) / scale, rel=1e-10)


@pytest.mark.parametrize("rare", [1e-15, 1e-30, 1e-100, 1e-300])
def test_rarer_than_rounding(rare: float) -> None:
    # The row still sums to 1 in doubles; the root is at log(1 / rest), up to 690.
    assert best(PAIR, [[rare, 1.0]]) == pytest.approx(-np.log(rare), rel=1e-9)
    result = known_utility(PAIR, [[rare, 1.0]])
    assert result.value == pytest.approx(np.log(2), abs=1e-13)
    assert result.certified


MOUSE = TabularMDP(example_one.P, example_one.U, horizon=2, initial=example_one.MU)


def of_mouse(scale: float) -> PlugIn:
    return mce_plug_in(MOUSE, example_one.mouse(1.0), utility=scale * example_one.U)


@pytest.mark.parametrize(
    ("scale", "exact", "published"),
    [(1.0, example_one.NAIVE_U, -0.13), (2.0, example_one.NAIVE_2U, -0.018)],
)
def test_the_numbers_of_section_3(scale: float, exact: float, published: float) -> None:
    # The paper counts the first decision; the second is a coin toss, predicted as one.
    result = of_mouse(scale)
    assert result.accuracy + np.log(2) == pytest.approx(exact, abs=1e-15)
    assert result.evidence - np.log(2) == pytest.approx(exact, abs=1e-15)
    assert result.accuracy + np.log(2) == pytest.approx(published, abs=5e-3 if scale == 1 else 5e-4)


@given(seed=st.integers(0, 999), horizon=st.integers(1, 3), with_reference=st.booleans())
@few
def test_it_is_evidence_at_rationality_1(seed: int, horizon: int, with_reference: bool) -> None:
    world = generic_world(seed, 3, 2, horizon)
    habit = np.random.default_rng(seed).dirichlet([2.0, 2.0], size=3) if with_reference else None
    result = mce_plug_in(world.mdp(), world.policy, reference=habit)
    model = soft_policy.soft_policy(world.P, world.R, horizon, 1.0, 1.0, habit)
    want = oracle.evidence(world.P, world.policy, model, world.mu, horizon, habit)
    assert result.evidence == pytest.approx(want, abs=1e-12)
    accuracy = sum(
        p * sum(np.log(policy_at(model, t, s, a)) for t, (s, a) in enumerate(path))
        for path, p in enumerate_paths(world.P, world.policy, world.mu, horizon)
    )
    assert result.accuracy == pytest.approx(accuracy, abs=1e-12)
    assert result.evidence <= known_utility(world.mdp(), world.policy, reference=habit).value + 1e-9
