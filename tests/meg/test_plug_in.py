"""The naive plug-in: the paper's numbers, and that it depends on the scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world
from oracles import example_one, soft_policy
from oracles import known_utility as oracle
from oracles.paths import enumerate_paths, policy_at

from goalmeter.meg import known_utility, mce_plug_in
from goalmeter.meg.behaviour import PlugIn
from goalmeter.tabular import TabularMDP

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
