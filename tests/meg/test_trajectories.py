"""MEG from logged trajectories: exact where the log is, fair where it is a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.instances import generic_world
from meg.logs import CLIMBER, EXACT, LADDER, PAIR, pair_log, quick

from goalmeter._errors import (
    InvalidParameterError,
    InvalidPolicyError,
    InvalidTrajectoryError,
    InvalidUtilityError,
)
from goalmeter.meg import from_trajectories, known_utility, unknown_utility
from goalmeter.meg.linear import ACTION_WARNING
from goalmeter.tabular import TabularMDP, Trajectories, sample_trajectories, soft_plan


def test_eight_of_ten_by_hand() -> None:
    result = from_trajectories(PAIR, pair_log(8, 10))
    # The mouse of Example 1: log 2 - H(0.8) at sigmoid(b) = 0.8.
    raw = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    assert result.raw == result.value == pytest.approx(raw, abs=1e-12)
    assert result.rationality == pytest.approx(np.log(4), rel=1e-9)
    assert result.n == 10
    assert result.likelihood_ratio == pytest.approx(20 * raw)
    assert result.degrees_of_freedom == pytest.approx(1.0)
    # One weight, well specified: the bias is 1 / (2 n).
    assert result.corrected == pytest.approx(raw - 1 / 20, abs=1e-9)
    # Evidence of a trajectory: log 1.6 or log 0.4, with the sample's spread.
    spread = np.sqrt(8 * 2 / 90) * (np.log(1.6) - np.log(0.4))
    assert result.standard_error == pytest.approx(spread / np.sqrt(10), rel=1e-9)
    assert 0.0 <= result.interval[0] <= result.corrected <= result.interval[1]
    assert result.maximum == pytest.approx(np.log(2))
    assert result.ceiling == pytest.approx(raw)
    assert result.upper_bound == pytest.approx(raw)
    assert result.target == "the reward"


def test_always_the_better_action_is_infinite_rationality() -> None:
    result = from_trajectories(PAIR, pair_log(10, 10))
    assert result.rationality == np.inf
    assert result.raw == pytest.approx(np.log(2), abs=1e-12)
    assert any("every trajectory gives the same evidence" in note for note in result.notes)
    assert result.to_json()["rationality"] == "inf"
    worst = from_trajectories(PAIR, pair_log(0, 10))
    assert (worst.rationality, worst.raw) == (-np.inf, pytest.approx(np.log(2)))
    unknown = from_trajectories(PAIR, pair_log(10, 10), unknown="state-action")
    assert unknown.rationality == np.inf
    assert unknown.raw == pytest.approx(np.log(2), abs=1e-7)


def test_all_trajectories_are_the_policy() -> None:
    result = quick(LADDER, EXACT)
    policy = known_utility(LADDER, CLIMBER)
    assert result.raw == pytest.approx(policy.value, abs=1e-9)
    assert result.rationality == pytest.approx(policy.rationality, rel=1e-6)
    np.testing.assert_allclose(result.by_step, policy.by_step, atol=1e-9)
    np.testing.assert_allclose(result.by_state, policy.by_state, atol=1e-9)
    assert result.maximum == pytest.approx(policy.maximum)
    assert result.ceiling == pytest.approx(policy.ceiling)


@pytest.mark.parametrize("unknown", ["state", "time-state", "state-action"])
def test_all_trajectories_are_the_policy_for_classes(unknown: Any) -> None:
    result = quick(LADDER, EXACT, unknown=unknown)
    policy = unknown_utility(LADDER, CLIMBER, over=unknown)
    assert result.raw == pytest.approx(policy.value, abs=1e-7)
    assert (result.notes[:1] == (ACTION_WARNING,)) == (unknown == "state-action")


def average_evidence(mdp: TabularMDP, log: Trajectories, b: float) -> float:
    """sum_t log pi_b(a_t | s_t) - log 1/A, trajectory by trajectory and decision by decision."""
    policy = soft_plan(mdp, b).policy()[..., 0]
    total = 0.0
    for i in range(len(log)):
        for t in range(int(log.length[i])):
            s, a = log.states[i, t], log.actions[i, t]
            now, decay = (policy[t], 1.0) if mdp.horizon else (policy, mdp.discount**t)
            total += decay * float(np.log(now[s, a]) + np.log(mdp.n_actions))
    return total / len(log)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("infinite", "seed"),
    [(False, 0), (False, 1), (False, 2), pytest.param(True, 3, marks=pytest.mark.slow)],
)
def test_it_is_the_maximum_of_the_likelihood(seed: int, infinite: bool, cut: bool) -> None:
    world = generic_world(seed, discount=0.8)
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    rng = np.random.default_rng(seed)
    log = sample_trajectories(mdp, world.policy[0], 12, rng=rng, steps=4)
    if cut:
        log = Trajectories(log.states, log.actions, rng.integers(1, 5, size=12))
    result = quick(mdp, log)
    assert np.isfinite(result.rationality)
    at_best = average_evidence(mdp, log, result.rationality)
    assert result.raw == pytest.approx(max(at_best, 0.0), abs=1e-9)
    for b in (-10.0, -1.0, 0.0, 0.5, 3.0, 0.98 * result.rationality, 1.02 * result.rationality):
        assert average_evidence(mdp, log, b) <= result.raw + 1e-9
    assert result.raw <= result.upper_bound + 1e-9
    assert result.by_step.sum() == pytest.approx(result.raw, abs=1e-9)


@pytest.mark.parametrize("unknown", [None, "state", np.array([[0.0], [1.0]])])
def test_two_worlds_that_are_the_same_are_one(unknown: Any) -> None:
    log = sample_trajectories(LADDER, CLIMBER, 30, rng=np.random.default_rng(1))
    parts = [log.subset(np.arange(12)), log.subset(np.arange(12, 30))]
    shared = [unknown, unknown] if isinstance(unknown, np.ndarray) else unknown
    first = quick(LADDER, log, unknown=unknown)
    second = quick([LADDER, LADDER], parts, unknown=shared)
    for name in ("n", "raw", "rationality", "corrected", "standard_error", "maximum", "p_value"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), abs=1e-7, rel=1e-6), (
            name
        )
    assert second.interval == pytest.approx(first.interval, abs=1e-6)
    assert second.held_out == pytest.approx(first.held_out, abs=1e-6)
    assert second.utility is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"folds": 1}, InvalidParameterError, "folds is 1 and resamples 2000, expected at least 2"),
        (
            {"unknown": "states"},
            InvalidParameterError,
            "unknown is 'states', expected one of 'state'",
        ),
        ({"unknown": np.ones((3, 1))}, InvalidUtilityError, r"features has shape \[3, 1\]"),
        ({"reference": [[1.0, 0.0]] * 2}, InvalidPolicyError, r"reference\[\d, 1\] is 0 at"),
    ],
)
def test_options_that_are_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        from_trajectories(LADDER, EXACT.subset(np.arange(0, 512, 9)), **options)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (([[0, 0, 0, 0]], [[0, 0, 0, 0]]), "trajectory 0 has 4 decisions, expected at most the"),
        (
            ([[0, 1]], [[0, 0]]),
            "trajectory 0 moves from state 0 by action 0 to state 1 at decision",
        ),
        (([[2, 1]], [[1, 0]]), r"states\[0, 0\] is 2, expected 0..1"),
        (([[0.5]], [[0]]), "states has type float64, expected integers"),
    ],
)
def test_logs_that_are_refused(log: Any, words: str) -> None:
    with pytest.raises(InvalidTrajectoryError, match=words):
        from_trajectories(LADDER, log)
