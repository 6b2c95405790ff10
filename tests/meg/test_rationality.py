"""The best rationality as a root: on problems whose root is known, however far out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import many

from goalmeter._types import FloatArray
from goalmeter.meg import known_utility
from goalmeter.meg.behaviour import Evidence, behaviour_of, best_rationality, evidence
from goalmeter.tabular import TabularMDP
from goalmeter.tabular.backup import problem
from goalmeter.tabular.policies import rewards_of

PAIR = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)


def best(mdp: TabularMDP, *policies: list[list[float]]) -> FloatArray:
    behaviour = behaviour_of(mdp, list(policies))

    def evaluate(b: FloatArray) -> Evidence:
        return evidence(problem(mdp, rewards_of(mdp), b), behaviour)

    return best_rationality(evaluate, evaluate(np.zeros(len(policies))))


def test_by_hand() -> None:
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
