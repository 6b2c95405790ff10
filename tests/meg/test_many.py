"""Many worlds at once: what comes out is what single calls give, in order, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.instances import awkward, generic_world
from numpy.testing import assert_allclose

from goalmeter.meg import (
    MegResult,
    known_utility,
    known_utility_many,
    unknown,
    unknown_utility,
    unknown_utility_many,
)
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, optimal_policy, soft_plan

EXACT = ("target", "reference", "tolerance", "bound_measure", "stopped")


def assert_same(many: MegResult, single: MegResult, digits: float = 1e-12) -> None:
    """Everything that a result says of itself; a proven bound may be another proven bound."""
    assert type(many) is type(single)
    for name in EXACT:
        assert getattr(many, name) == getattr(single, name), name
    for name in ("value", "maximum", "ceiling", "by_step", "by_state"):
        assert_allclose(getattr(many, name), getattr(single, name), rtol=0, atol=digits)
    assert many.certified == single.certified


def assert_same_known(many: MegResult, single: MegResult) -> None:
    assert_same(many, single)
    assert_allclose(many.rationality, single.rationality, rtol=1e-9)
    assert_allclose(many.upper_bound, single.upper_bound, rtol=0, atol=1e-12)
    assert (many.notes, many.method) == (single.notes, single.method)
    assert many.utility is not None and single.utility is not None
    assert (many.utility == single.utility).all()


def test_awkward_worlds_of_any_shape_come_out_as_alone_and_in_order() -> None:
    cases = [awkward(seed) for seed in range(40)]
    rng = np.random.default_rng(7)
    # Ties: rewards of few values; what cannot be influenced: rewards that are constant.
    worlds = [case.mdp().replace(reward=rng.integers(-1, 2, size=len(case.mu))) for case in cases]
    policies = [case.policy for case in cases]
    together = known_utility_many(worlds, policies)
    for many, world, policy in zip(together, worlds, policies, strict=True):
        assert_same_known(many, known_utility(world, policy))
    shapes = {(w.n_states, w.n_actions, w.horizon, w.discount) for w in worlds}
    assert 1 < len(shapes) < len(worlds)


@pytest.mark.parametrize("discount", [None, 0.9])
def test_utilities_references_and_infinite_rationality(discount: float | None) -> None:
    stationary = discount is not None
    worlds, policies, utilities, references = [], [], [], []
    for seed in range(8):
        world = generic_world(seed, horizon=1 if stationary else 4, on_actions=seed % 2 == 0)
        mdp = world.mdp()
        if stationary:
            mdp = mdp.replace(horizon=None, discount=discount)
        worlds.append(mdp)
        # The optimal policy has its maximum at an infinite rationality, its opposite at -infinity.
        best = optimal_policy(mdp)
        worst = optimal_policy(mdp, utility=-mdp.reward)
        policies.append([best, worst, world.policy[0]][seed % 3])
        utilities.append(None if seed < 5 else np.random.default_rng(seed).normal(size=(4, 3)))
        references.append(None if seed % 4 == 0 else world.policy[0] * 0.5 + 1 / 6)
    together = known_utility_many(worlds, policies, utilities=utilities, references=references)
    for i, many in enumerate(together):
        single = known_utility(
            worlds[i], policies[i], utility=utilities[i], reference=references[i]
        )
        assert_same_known(many, single)
    assert {np.inf, -np.inf} <= {result.rationality for result in together}


def assert_same_unknown(many: MegResult, single: MegResult) -> None:
    """Equal values where both are certified, and brackets that overlap where one is open."""
    tolerance = max(single.tolerance, many.tolerance)
    for name in ("target", "reference", "stopped"):
        assert getattr(many, name) == getattr(single, name)
    assert_allclose(many.maximum, single.maximum, rtol=0, atol=1e-12)
    assert_allclose(many.ceiling, single.ceiling, rtol=0, atol=1e-12)
    assert many.value <= single.upper_bound + 1e-12
    assert single.value <= many.upper_bound + 1e-12
    assert many.certified == single.certified
    if single.certified:
        assert_allclose(many.value, single.value, rtol=0, atol=tolerance)
    assert_allclose(many.by_step.sum(), many.value, rtol=0, atol=2 * tolerance + 1e-9)
    assert_allclose(many.by_state.sum(), many.value, rtol=0, atol=2 * tolerance + 1e-9)
    assert np.isinf(many.rationality) == np.isinf(single.rationality)


@pytest.mark.parametrize("over", ["state", "state-action", "time-state"])
def test_awkward_worlds_have_the_same_best_utility_as_alone(over: Any) -> None:
    cases = [awkward(seed) for seed in range(15)]
    if over == "time-state":
        cases = [case for case in cases if case.horizon is not None]
    worlds, policies = [case.mdp() for case in cases], [case.policy for case in cases]
    together = unknown_utility_many(worlds, policies, over=over)
    for many, world, policy in zip(together, worlds, policies, strict=True):
        assert_same_unknown(many, unknown_utility(world, policy, over=over))


def cliffs() -> tuple[list[TabularMDP], list[Any]]:
    """CliffWorlds with other rewards and starts, and agents of every kind."""
    rng = np.random.default_rng(11)
    worlds, policies = [], []
    for i in range(8):
        world = cliff_world(1, horizon=12).replace(
            reward=rng.normal(size=40), initial=int(rng.integers(40))
        )
        best = optimal_policy(world)
        kinds = (
            best,
            epsilon_greedy(best, 0.05 + 0.1 * i),
            soft_plan(world, 1.0).policy()[..., 0],
            rng.dirichlet(np.ones(4), size=40),
        )
        worlds.append(world)
        policies.append(kinds[i % 4])
    return worlds, policies


def test_cliff_worlds_agree_to_rounding_and_none_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worlds, policies = cliffs()
    single = [unknown_utility(w, p) for w, p in zip(worlds, policies, strict=True)]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a world was left to the single search")

    monkeypatch.setattr(unknown, "linear_utility", refuse)
    together = unknown_utility_many(worlds, policies)
    for many, alone in zip(together, single, strict=True):
        assert_same(many, alone, digits=1e-8)
        assert many.certified
        assert many.method == alone.method
        assert many.notes == alone.notes
        assert np.isinf(many.rationality) == np.isinf(alone.rationality)
        assert_allclose(many.bound_size, alone.bound_size, rtol=1e-3)
    assert any(np.isinf(result.rationality) for result in together)
