"""Soft planning: by hand, against the literal definitions, at the extremes, and in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.soft_policy import soft_policy, soft_policy_discounted
from tabular.worlds import World, few, random_world, worlds

import goalmeter as gm
from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.tabular import (
    TabularMDP,
    expected_return,
    occupancy,
    optimal_policy,
    planning,
    soft_plan,
    transition,
)
from goalmeter.tabular.backup import problem
from goalmeter.tabular.planning import backward, optimal_policies, plan, soft_optimal_policies
from goalmeter.tabular.policies import rewards_of

RATIONALITIES = [0.0, 1e-8, 0.5, 1.0, -1.0, 7.0, 1e8, -1e8, np.inf, -np.inf]


def soft(mdp: TabularMDP, rationality: float, **options: Any) -> FloatArray:
    """One soft policy, [H, S, A] or [S, A]."""
    return soft_plan(mdp, rationality, **options).policy()[..., 0]


# Action 0 stays, action 1 goes to state 1 (which both keep); state 1 pays 1.
STEP = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)


def test_three_decisions_by_hand() -> None:
    # b = log 2. With W = log sum_a exp(b Q) and nothing after the last decision:
    #   last    W(0) = log(1 + 1) = log 2          W(1) = log(2 + 2) = log 4
    #   middle  state 0: exp W is 2 : 4 = 1/3 : 2/3
    #           W(0) = log(2 + 4) = log 6          W(1) = log(2 * 4 + 2 * 4) = log 16
    #   first   state 0: 6 : 16 = 3/11 : 8/11
    expected = [[3 / 11, 8 / 11], [1 / 3, 2 / 3], [1 / 2, 1 / 2]]
    np.testing.assert_allclose(soft(STEP, np.log(2))[:, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(soft(STEP, np.log(2))[:, 1], np.full((3, 2), 0.5), rtol=1e-14)


@given(world=worlds(), rationality=st.sampled_from(RATIONALITIES))
@few
def test_finite_horizons_match_the_definition(world: World, rationality: float) -> None:
    expected = soft_policy(world.P, world.R, world.horizon, rationality, world.discount)
    np.testing.assert_allclose(soft(world.mdp(), rationality), expected, atol=1e-9)


@given(world=worlds(), rationality=st.sampled_from(RATIONALITIES), seed=st.integers(0, 99))
@few
def test_references_match_the_definition(world: World, rationality: float, seed: int) -> None:
    # Some actions are forbidden, the best ones among them.
    rng = np.random.default_rng(seed)
    reference = rng.dirichlet(np.ones(world.P.shape[1]), size=world.policy.shape[:2])
    reference[..., 0] *= reference.shape[-1] == 1 or rng.random() < 0.5
    reference /= reference.sum(axis=-1, keepdims=True)
    for form in (reference, reference[0]):
        expected = soft_policy(world.P, world.R, world.horizon, rationality, world.discount, form)
        policy = soft(world.mdp(), rationality, reference=form)
        np.testing.assert_allclose(policy, expected, atol=1e-9)
        assert (policy[np.broadcast_to(form, policy.shape) == 0] == 0).all()


@given(
    world=worlds(max_horizon=1),
    rationality=st.sampled_from(RATIONALITIES),
    discount=st.sampled_from([0.25, 0.5, 0.9]),
    direct=st.booleans(),
)
@few
def test_the_infinite_problem_matches_plain_iteration(
    world: World, rationality: float, discount: float, direct: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not direct:
            patch.setattr(planning, "DIRECT_STATES", 0)
        policy = soft(world.mdp(horizon=None, discount=discount), rationality)
    # Iterated doubles lose about b * 1e-15, so a large b is compared with its own limit.
    limit = np.copysign(np.inf, rationality) if abs(rationality) > 100 else rationality
    expected = soft_policy_discounted(world.P, world.R, limit, discount)
    np.testing.assert_allclose(policy, expected, atol=1e-9)


@pytest.mark.slow
def test_ties_depend_neither_on_the_storage_nor_on_the_order_of_states() -> None:
    # A slippery lake of 20 x 20 cells: over 400 decisions many actions become equally good.
    rows = ["S" + "F" * 19, *["F" * 20] * 18, "F" * 19 + "G"]
    lake = TabularMDP.from_gymnasium("FrozenLake-v1", horizon=400, desc=rows)
    policy = optimal_policy(lake)
    next_state, probability = lake.transition.to_successors()
    rng = np.random.default_rng(0)
    number = rng.permutation(lake.n_states)
    old, slots = np.argsort(number), rng.permutation(next_state.shape[2])
    renumbered = TabularMDP(
        (number[next_state][old][..., slots], probability[old][..., slots]),
        lake.reward[old],
        horizon=400,
    )
    np.testing.assert_array_equal(optimal_policy(renumbered)[:, number], policy)
    dense = TabularMDP(lake.transition.to_dense(), lake.reward, horizon=400)
    for made in (optimal_policy(dense), *optimal_policies([lake, dense])):
        np.testing.assert_array_equal(made, policy)


SOME = st.sampled_from([0.7, -2.0, 1e8, np.inf, -np.inf])


@given(world=worlds(), infinite=st.booleans(), block=st.sampled_from([1, 2, 3]))
@few
def test_storage_and_blocks_do_not_matter(world: World, infinite: bool, block: int) -> None:
    changes: dict[str, Any] = {"horizon": None, "discount": 0.8} if infinite else {}
    expected = soft_plan(world.mdp(**changes), RATIONALITIES).policy()
    for entries in (0, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transition, "BLOCK_STATES", block)
            patch.setattr(transition, "DENSE_ENTRIES", entries)
            policies = soft_plan(world.mdp(**changes), RATIONALITIES).policy()
        np.testing.assert_allclose(policies, expected, atol=1e-12)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transition, "BLOCK_STATES", 7)
    monkeypatch.setattr(transition, "DENSE_ENTRIES", 0)
    world = random_world(9, n_states=60, horizon=20)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("GOALMETER_THREADS", threads)
        mdp = world.mdp()
        assert len(mdp.transition.blocks) == 9
        endless = mdp.replace(horizon=None, discount=0.9)
        plans = soft_plan(mdp, RATIONALITIES).policy(), soft_plan(endless, [1.0, np.inf]).policy()
        values = occupancy(mdp, world.policy), np.array(expected_return(mdp, world.policy))
        results.append((*plans, *values, optimal_policy(mdp)))
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("rationality", "options", "error", "message"),
    [
        (np.nan, {}, InvalidParameterError, "rationality is nan, expected a number or a list"),
        ("much", {}, InvalidParameterError, "rationality is 'much', expected a number or a list"),
        ([], {}, InvalidParameterError, r"rationality is \[\], expected a number or a list"),
        ([[1.0]], {}, InvalidParameterError, "rationality is .*, expected a number or a list"),
    ],
)
def test_bad_input_gets_one_clear_error(
    rationality: Any, options: dict[str, Any], error: type[GoalmeterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        soft_plan(STEP, rationality, **options)


def world(n_states: int) -> gm.TabularMDP:
    rng = np.random.default_rng(0)
    shape = (n_states, 3, 4)
    probability = rng.dirichlet(np.ones(4), shape[:2])
    successors = rng.integers(0, n_states, shape)
    return gm.TabularMDP((successors, probability), rng.random(n_states), horizon=5)


# Blocks of 50 states; waves of 100 leave one block for the last, waves of 500 take all at once.
@pytest.mark.parametrize("wave", [1, 100, 500])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_column_at_a_time_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, wave: int, threads: str
) -> None:
    monkeypatch.setenv("GOALMETER_THREADS", threads)
    monkeypatch.setattr(transition, "BLOCK_STATES", 50)
    monkeypatch.setattr(transition, "WAVE_STATES", wave)
    mdp = world(241)
    task = problem(mdp, rewards_of(mdp), np.array([0.7]))
    together = backward(task)
    planned = plan(task)
    steps = [planned.backup_at(t) for t in range(5)]
    monkeypatch.setattr(transition, "GATHER_BYTES", 0)
    for alone, joint in zip(backward(task), together, strict=True):
        np.testing.assert_array_equal(alone, joint)
    again = plan(task)
    np.testing.assert_array_equal(again.soft, planned.soft)
    for t, step in enumerate(steps):
        for alone, joint in zip(again.backup_at(t), step, strict=True):
            np.testing.assert_array_equal(alone, joint)


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
