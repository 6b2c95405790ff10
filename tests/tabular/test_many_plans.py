"""Policies of many worlds at once are those of single calls."""

from __future__ import annotations

import numpy as np
import pytest

import goalmeter as gm
from goalmeter.tabular import soft_plan
from goalmeter.tabular.batched import optimal_policies, soft_optimal_policies


def worlds() -> list[gm.TabularMDP]:
    """Worlds of three shapes, one of them without a horizon, in mixed order."""
    rng = np.random.default_rng(0)
    out = []
    for number in range(12):
        states, horizon = (5, 4) if number % 3 else (7, 3)
        transition = rng.dirichlet(np.ones(states), size=(states, 3))
        # Whole rewards have ties, which go to the first action in either way.
        reward = rng.integers(-1, 2, size=states)
        endless = number == 5
        out.append(
            gm.TabularMDP(
                transition,
                reward,
                horizon=None if endless else horizon,
                discount=0.9 if endless else 1.0,
                initial=0,
            )
        )
    return [*out, gm.cliff_world(2), gm.cliff_world(3)]


def test_optimal_policies_are_those_of_single_calls() -> None:
    for world, policy in zip(worlds(), optimal_policies(worlds()), strict=True):
        np.testing.assert_array_equal(policy, gm.optimal_policy(world))


@pytest.mark.parametrize("rationality", [0.0, 0.7, -2.0, np.inf, -np.inf])
def test_soft_optimal_policies_are_those_of_single_calls(rationality: float) -> None:
    made = soft_optimal_policies(worlds(), rationality)
    for world, policy in zip(worlds(), made, strict=True):
        single = soft_plan(world, rationality).policy()[..., 0]
        assert policy.shape == single.shape
        np.testing.assert_allclose(policy, single, atol=1e-12)
