"""Policies: what is refused, and the reference policies of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import cliff_world as oracle

from goalmeter._errors import InvalidPolicyError
from goalmeter.tabular import TabularMDP, epsilon_greedy
from goalmeter.tabular.policies import check_policy

FINITE = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)
INFINITE = FINITE.replace(horizon=None, discount=0.5)


@pytest.mark.parametrize(
    ("mdp", "policy", "message"),
    [
        (
            FINITE,
            [1.0, 0.0],
            r"policy has shape \[2\], expected \[2, 2\] \(stationary\) or \[3, 2, 2\] \(time-dep",
        ),
        (FINITE, np.full((4, 2, 2), 0.5), r"policy has shape \[4, 2, 2\], expected \[2, 2\]"),
        (FINITE, [[0.5, 0.5], [0.5, 0.6]], r"policy\[1\] sums to 1\.1, expected 1"),
        (
            FINITE,
            np.array([[[0.5, 0.5]] * 2, [[0.5, 0.5], [1.2, -0.2]], [[0.5, 0.5]] * 2]),
            r"policy\[1, 1, 1\] is -0\.2, expected a probability in \[0, 1\]",
        ),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(mdp: TabularMDP, policy: Any, message: str) -> None:
    with pytest.raises(InvalidPolicyError, match=message):
        check_policy(mdp, policy)


def test_epsilon_greedy_takes_one_of_the_others() -> None:
    # With four actions and epsilon = 0.3 each of the three others gets 0.1.
    greedy = np.array([[0, 0, 1, 0], [1, 0, 0, 0]])
    expected = [[0.1, 0.1, 0.7, 0.1], [0.7, 0.1, 0.1, 0.1]]
    np.testing.assert_allclose(epsilon_greedy(greedy, 0.3), expected, rtol=1e-15)
    np.testing.assert_allclose(epsilon_greedy(greedy, 3 / 4), np.full((2, 4), 1 / 4))
    np.testing.assert_array_equal(epsilon_greedy(greedy, 0.0), greedy)
    timed = np.stack([greedy, greedy[::-1]]).astype(float)
    np.testing.assert_allclose(epsilon_greedy(timed, 0.2), oracle.epsilon_greedy(timed, 0.2))
    assert epsilon_greedy([[1.0]], 0.5).tolist() == [[1.0]]  # there is no other
