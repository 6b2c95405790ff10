"""Laws of MEG towards a known utility: Propositions 3.1 to 3.3, symmetries, batches and units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meg.instances import few, generic_world, many, moving_world
from tabular.worlds import World, worlds

from goalmeter.meg import known, known_utility, known_utility_many
from goalmeter.tabular import TabularMDP, optimal_policy, uniform_policy

seeds = st.integers(0, 2**16)


@given(
    seed=seeds,
    scale=st.sampled_from([2.0, -1.0, -7.5, 1e-6, 1e6, -1e-6, -1e6]),
    shift=st.sampled_from([0.0, 1.0, -3.0]),
    infinite=st.booleans(),
)
@many
def test_translation_and_scale_invariance(
    seed: int, scale: float, shift: float, infinite: bool
) -> None:
    # Proposition 3.1, for utilities of any size.
    world = generic_world(seed, discount=0.5)
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    policy = world.policy[0] if infinite else world.policy
    first = known_utility(mdp, policy)
    second = known_utility(mdp, policy, utility=scale * (world.R + shift))
    assert second.value == pytest.approx(first.value, abs=1e-10)
    assert second.rationality * scale == pytest.approx(first.rationality, rel=1e-7)
    assert second.certified


@given(world=worlds())
@many
def test_bounds(world: World) -> None:
    # Proposition 3.2, with the sharper bounds that the result reports.
    result = known_utility(world.mdp(), world.policy)
    everything = world.horizon * np.log(world.P.shape[1])
    assert 0.0 <= result.value <= result.upper_bound + 1e-12
    assert result.value <= result.ceiling + 1e-9
    assert result.ceiling <= result.maximum + 1e-9
    assert result.maximum <= everything + 1e-9
    assert result.certified
    assert result.fraction == (result.value / result.maximum if result.maximum else 0.0)
    assert result.by_step.sum() == pytest.approx(result.value, abs=1e-10)
    assert result.by_state.sum() == pytest.approx(result.value, abs=1e-10)


@given(seed=seeds, sign=st.sampled_from([1.0, -1.0]))
@few
def test_a_unique_optimal_policy_has_all(seed: int, sign: float) -> None:
    # Each action leads elsewhere, and being there pays differently at each decision: no two
    # behaviours have the same return.
    world = moving_world(seed)
    utility = np.random.default_rng(seed).normal(size=(4, 5))
    policy = optimal_policy(world.mdp(), utility=sign * utility)
    result = known_utility(world.mdp(), policy, utility=utility)
    assert result.rationality == sign * np.inf
    assert result.value == pytest.approx(result.maximum, abs=1e-12)
    assert result.maximum == pytest.approx(3 * np.log(3), abs=1e-12)  # the last of 4 cannot matter


@given(seed=seeds, constant=st.booleans())
@few
def test_no_influence_no_goal_directedness(seed: int, constant: bool) -> None:
    # Proposition 3.3: nothing to prefer, or nothing to be done about it.
    world = generic_world(seed)
    if constant:
        mdp = world.mdp(reward=np.full(4, 3.0))
    else:
        mdp = world.mdp(transition=np.repeat(world.P[:, :1], 3, axis=1))
    result = known_utility(mdp, world.policy)
    assert (result.value, result.rationality) == (0.0, 0.0)
    assert "no choice influences this utility" in result.notes[0]
    assert "Proposition 3.3" in result.notes[0]
    assert not any("no choice" in n for n in known_utility(world.mdp(), world.policy).notes)


@given(seed=seeds, infinite=st.booleans())
@settings(max_examples=4, deadline=None, derandomize=True)
def test_many_are_the_same_as_one_by_one(seed: int, infinite: bool) -> None:
    world = generic_world(seed, discount=0.7)
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    rng = np.random.default_rng(seed)
    utilities = [rng.normal(size=4), rng.normal(size=(4, 3)), world.R]
    policies: list[Any] = [world.policy[0], uniform_policy(mdp), np.eye(3)[rng.integers(3, size=4)]]
    if not infinite:
        policies[0] = world.policy
    pairs = [
        (policies, None, [(p, None) for p in policies]),
        (policies, utilities, list(zip(policies, utilities, strict=True))),
        (policies[:1], utilities[1:], [(policies[0], u) for u in utilities[1:]]),
        (policies[1:], utilities[:1], [(p, utilities[0]) for p in policies[1:]]),
    ]
    for measured, against, single in pairs:
        batch = known_utility_many(mdp, measured, utilities=against)
        for result, (policy, utility) in zip(batch, single, strict=True):
            alone = known_utility(mdp, policy, utility=utility)
            assert result.value == pytest.approx(alone.value, abs=1e-10)
            # Equal infinities are close to each other.
            assert result.rationality == pytest.approx(alone.rationality, rel=1e-7, abs=1e-10)
            np.testing.assert_allclose(result.by_step, alone.by_step, atol=1e-9)
            assert result.certified


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_a_wrong_rationality_would_not_be_certified(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = generic_world(3)
    right = known_utility(world.mdp(), world.policy)
    monkeypatch.setattr(
        known, "best_rationality", lambda evaluate, at_zero: np.array([factor * right.rationality])
    )
    wrong = known_utility(world.mdp(), world.policy)
    assert wrong.value < right.value <= wrong.upper_bound
    assert not wrong.certified


def test_a_rare_influence_counts_as_one() -> None:
    # An action that reaches the prize once in 10^10 times is all the influence there is.
    p = 1e-10
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    mdp = TabularMDP([[[0, 1 - p, p], [0, 1, 0]], *stay], [0.0, 0.0, 1.0], horizon=3)
    result = known_utility(mdp, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    assert result.value == pytest.approx(np.log(2) - 0.5004024235381879, abs=1e-9)
    assert result.value <= result.ceiling + 1e-9 <= result.maximum + 1e-9
