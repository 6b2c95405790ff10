"""Worlds and policies: what is refused, that worlds never change, and CliffWorld."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import cliff_world as oracle
from tabular.worlds import World, few, random_world, successor_lists, worlds

from goalmeter._errors import InvalidModelError, InvalidParameterError, InvalidPolicyError
from goalmeter.meg import unknown_utility
from goalmeter.tabular import (
    TabularMDP,
    cliff_world,
    epsilon_greedy,
    expected_return,
    optimal_policy,
    soft_plan,
    transition,
)
from goalmeter.tabular.policies import check_policy

# Action 0 stays, action 1 goes to state 1 (which both keep); state 1 pays 1.
P = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
R = [0, 1]


def changed(index: tuple[int, ...], value: float) -> Any:
    array = np.array(P, dtype=float)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"transition": np.zeros((2, 2))},
            r"transition has shape \[2, 2\], expected \[S, A, S\].*\(next_state, probability\)",
        ),
        (
            {"transition": changed((0, 1, 1), 0.97)},
            r"transition\[0, 1\] sums to 0\.97, expected 1 \(tolerance 1e-09\); divide each row",
        ),
        (
            {"transition": ([[[0], [2]], [[1], [1]]], np.ones((2, 2, 1)))},
            r"next_state\[0, 1, 0\] is 2, expected a state in 0\.\.1",
        ),
        ({"reward": [0, np.nan]}, r"reward\[1\] is nan, expected a finite"),
        ({"horizon": 0}, "horizon is 0, expected a whole number of dec"),
        (
            {"horizon": None},
            "horizon is missing and discount is 1.*give horizon=H .* or discount < 1",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    good = {"transition": P, "reward": R, "horizon": 3}
    is_option = {"horizon", "discount"} & arguments.keys()
    with pytest.raises(InvalidParameterError if is_option else InvalidModelError, match=message):
        TabularMDP(**{**good, **arguments})


@pytest.mark.parametrize("dense_entries", [0, 10**6])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_actions", [1, 2])
def test_changing_the_callers_arrays_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, dense_entries: int, sparse: bool, n_actions: int
) -> None:
    monkeypatch.setattr(transition, "DENSE_ENTRIES", dense_entries)
    world = random_world(1, n_actions=n_actions)
    given_transition = successor_lists(world.P, np.random.default_rng(2)) if sparse else (world.P,)
    mdp = world.mdp(transition=given_transition if sparse else world.P)
    before = mdp.transition.to_dense(), mdp.reward.copy(), mdp.initial.copy()
    for array in (*given_transition, world.R, world.mu):
        array[:] = 0
    after = mdp.transition.to_dense(), mdp.reward, mdp.initial
    assert all((x == y).all() for x, y in zip(before, after, strict=True))
    matrix = mdp.transition.blocks[0].matrix
    with pytest.raises(ValueError, match="read-only"):
        (matrix if isinstance(matrix, np.ndarray) else matrix.data)[...] = 0


@given(world=worlds(), seed=st.integers(0, 99), block=st.sampled_from([1, 2, 10**6]))
@few
def test_every_way_of_storing_holds_the_same_transitions(
    world: World, seed: int, block: int
) -> None:
    lists = successor_lists(world.P, np.random.default_rng(seed))
    for entries in (0, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transition, "BLOCK_STATES", block)
            patch.setattr(transition, "DENSE_ENTRIES", entries)
            for form in (world.P, lists):
                stored = world.mdp(transition=form).transition
                np.testing.assert_allclose(stored.to_dense(), world.P, atol=1e-15)
                assert stored.n_entries == np.count_nonzero(world.P)
                again = world.mdp(transition=stored.to_successors()).transition
                np.testing.assert_allclose(again.to_dense(), world.P, atol=1e-15)
                differ = [np.ptp(rows, axis=0).max() > 0 for rows in world.P]
                assert stored.actions_differ().tolist() == differ


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_can_use_threads_too() -> None:
    # The threads of a pool do not survive a fork; a pool that does would wait for ever.
    program = """
import os, signal, warnings
import numpy as np
from goalmeter.tabular import TabularMDP, occupancy, transition, uniform_policy
warnings.simplefilter("ignore")  # Python itself warns of forks with threads
transition.BLOCK_STATES = 2
after = np.arange(8).reshape(8, 1, 1)
mdp = TabularMDP((after, np.ones((8, 1, 1))), np.zeros(8), horizon=3)
mdp.active_states(), occupancy(mdp, uniform_policy(mdp))
if os.fork() == 0:
    signal.alarm(20)
    occupancy(mdp, uniform_policy(mdp))
    os._exit(0)
assert os.wait()[1] == 0
"""
    environment = {**os.environ, "GOALMETER_THREADS": "2"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)


FINITE = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)


@pytest.mark.parametrize(
    ("mdp", "policy", "message"),
    [
        (
            FINITE,
            [1.0, 0.0],
            r"policy has shape \[2\], expected \[2, 2\] \(stationary\) or \[3, 2, 2\] \(time-dep",
        ),
        (FINITE, [[0.5, 0.5], [0.5, 0.6]], r"policy\[1\] sums to 1\.1, expected 1"),
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


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_world_is_the_oracles(k: int) -> None:
    mdp = cliff_world(k)
    dense = mdp.transition.to_dense()
    np.testing.assert_allclose(dense, oracle.transition().astype(float), atol=1e-15)
    np.testing.assert_array_equal(mdp.reward, oracle.utility(k).astype(float))
    np.testing.assert_array_equal(mdp.initial, oracle.start())
    assert (mdp.horizon, mdp.discount) == (oracle.HORIZON, 1.0)


@pytest.mark.parametrize("k", [1, 4])
def test_optimal_policies_agree(k: int) -> None:
    mdp = cliff_world(k)
    ours, theirs = optimal_policy(mdp), oracle.optimal_policy(k)
    np.testing.assert_array_equal(ours, theirs)  # ties go to the lowest action in both
    assert expected_return(mdp, ours).mean > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda huge: TabularMDP(P, R, horizon=3, discount=huge),
        lambda huge: TabularMDP(P, R, horizon=huge),
        lambda huge: cliff_world(huge),
        lambda huge: epsilon_greedy([[1.0, 0.0]], huge),
        lambda huge: soft_plan(FINITE, huge),
        lambda huge: unknown_utility(FINITE, [[1.0, 0.0]] * 2, timeout=-huge),
    ],
)
def test_huge_integers_are_shortened_in_messages(call: Callable[[int], object]) -> None:
    with pytest.raises(InvalidParameterError) as error:
        call(10**400)
    assert len(str(error.value)) < 250
