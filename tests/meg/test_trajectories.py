"""MEG from logged trajectories: exact where the log is, fair where it is a sample."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meg.instances import few, generic_world
from oracles.paths import enumerate_paths
from scipy.stats import chi2, kstest

from goalmeter._errors import (
    InvalidParameterError,
    InvalidPolicyError,
    InvalidTrajectoryError,
    InvalidUtilityError,
)
from goalmeter._types import FloatArray
from goalmeter.meg import (
    TrajectoryMeg,
    from_trajectories,
    inference,
    known_utility,
    unknown_utility,
)
from goalmeter.meg.linear_utility import ACTION_WARNING
from goalmeter.tabular import (
    TabularMDP,
    Trajectories,
    optimal_policy,
    sample_trajectories,
    soft_plan,
    uniform_policy,
)

# Action 1 moves on to state 1 half of the time; state 1 pays, and is left by action 0 half of it.
LADDER = TabularMDP(
    [[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]], [0.0, 1.0], horizon=3, initial=[0.5, 0.5]
)
CLIMBER = np.array([[0.25, 0.75], [0.5, 0.5]])

# One decision between two actions, the second of which pays 1.
PAIR = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)

seeds = st.integers(0, 2**16)


def every_path(mdp: TabularMDP, P: FloatArray, policy: FloatArray, copies: int) -> Trajectories:
    """All trajectories, each as often as its probability says."""
    assert mdp.horizon is not None
    paths, times = [], []
    for path, probability in enumerate_paths(P, policy, mdp.initial, mdp.horizon):
        assert probability * copies == round(probability * copies)
        paths.append(path)
        times.append(round(probability * copies))
    both = np.repeat(np.array(paths), times, axis=0)
    return Trajectories(both[..., 0], both[..., 1])


LADDER_P = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]])
# Every factor of a path is a multiple of 1/2 or 1/4: 2 * 4^3 * 2^2 copies are whole.
EXACT = every_path(LADDER, LADDER_P, CLIMBER, 512)


def pair_log(ones: int, of: int) -> tuple[list[list[int]], list[list[int]]]:
    return [[0]] * of, [[1]] * ones + [[0]] * (of - ones)


def quick(mdp: Any, trajectories: Any, **options: Any) -> TrajectoryMeg:
    return from_trajectories(mdp, trajectories, **{"resamples": 100, "folds": 2, **options})


# --- By hand --------------------------------------------------------------------------------------


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


def test_half_and_half_is_nothing() -> None:
    result = from_trajectories(PAIR, pair_log(5, 10))
    assert result.raw == pytest.approx(0.0, abs=1e-12)
    assert result.corrected == 0.0
    assert result.interval[0] == 0.0
    assert result.p_value == pytest.approx(1.0, abs=1e-5)


# --- All trajectories -----------------------------------------------------------------------------


def test_all_trajectories_are_the_policy() -> None:
    result = from_trajectories(LADDER, EXACT, resamples=100)
    policy = known_utility(LADDER, CLIMBER)
    assert result.raw == pytest.approx(policy.value, abs=1e-9)
    assert result.rationality == pytest.approx(policy.rationality, rel=1e-6)
    np.testing.assert_allclose(result.by_step, policy.by_step, atol=1e-9)
    np.testing.assert_allclose(result.by_state, policy.by_state, atol=1e-9)
    assert result.maximum == pytest.approx(policy.maximum)
    assert result.ceiling == pytest.approx(policy.ceiling)


@pytest.mark.parametrize("unknown", ["state", "time-state", "state-action"])
def test_all_trajectories_are_the_policy_for_classes(unknown: Any) -> None:
    result = from_trajectories(LADDER, EXACT, unknown=unknown, resamples=100)
    policy = unknown_utility(LADDER, CLIMBER, over=unknown)
    assert result.raw == pytest.approx(policy.value, abs=1e-7)
    assert (result.notes[:1] == (ACTION_WARNING,)) == (unknown == "state-action")


def test_all_trajectories_with_a_reference_features_and_another_utility() -> None:
    habit = np.array([[0.75, 0.25], [0.5, 0.5]])
    utility = np.array([[0.0, 0.3], [1.0, -1.0]])
    known = from_trajectories(LADDER, EXACT, utility=utility, reference=habit, resamples=100)
    policy = known_utility(LADDER, CLIMBER, utility=utility, reference=habit)
    assert known.raw == pytest.approx(policy.value, abs=1e-9)
    features = np.array([[0.0], [1.0]])
    one = from_trajectories(LADDER, EXACT, unknown=features, resamples=100)
    assert one.raw == pytest.approx(known_utility(LADDER, CLIMBER).value, abs=1e-8)


def test_the_infinite_discounted_problem() -> None:
    # One state, so that a log of 60 equal decisions is a policy's whole future at g = 1/2.
    mdp = PAIR.replace(horizon=None, discount=0.5)
    states = np.zeros((4, 60), dtype=int)
    actions = np.repeat([[1], [1], [1], [0]], 60, axis=1)
    result = from_trajectories(mdp, (states, actions), resamples=100)
    policy = known_utility(mdp, [[0.25, 0.75]])
    assert result.raw == pytest.approx(policy.value, abs=1e-9)
    assert result.rationality == pytest.approx(policy.rationality, rel=1e-6)
    unknown = from_trajectories(mdp, (states, actions), unknown="state-action", resamples=100)
    assert unknown.raw == pytest.approx(policy.value, abs=1e-7)


# --- The literal likelihood -----------------------------------------------------------------------


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


@given(seed=seeds, infinite=st.booleans(), cut=st.booleans())
@settings(max_examples=8, deadline=None, derandomize=True)
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


@given(seed=seeds)
@few
def test_a_class_predicts_no_worse_than_its_members(seed: int) -> None:
    world = generic_world(seed)
    log = sample_trajectories(world.mdp(), world.policy, 30, rng=np.random.default_rng(seed))
    known = quick(world.mdp(), log)
    unknown = quick(world.mdp(), log, unknown="state")
    assert unknown.raw >= known.raw - 1e-6
    assert unknown.utility is not None
    assert (unknown.utility.min(), unknown.utility.max()) == (0.0, 1.0)
    scaled = known_utility(world.mdp(), world.policy, utility=unknown.utility)
    assert np.isfinite(scaled.value)
    again = quick(world.mdp(), log, utility=unknown.utility)
    assert again.raw >= unknown.raw - 1e-7


@pytest.mark.parametrize("infinite", [False, True])
def test_the_standard_error_is_that_of_the_average(infinite: bool) -> None:
    mdp = LADDER.replace(horizon=None, discount=0.5) if infinite else LADDER
    log = sample_trajectories(mdp, CLIMBER, 25, rng=np.random.default_rng(3), steps=3)
    result = quick(mdp, log)
    each = [average_evidence(mdp, log.subset([i]), result.rationality) for i in range(len(log))]
    assert np.mean(each) == pytest.approx(result.raw, abs=1e-9)
    assert result.standard_error == pytest.approx(np.std(each, ddof=1) / 5, rel=1e-6)


def test_what_comes_after_a_trajectorys_length_is_not_looked_at() -> None:
    states, actions = np.array([[0, 0, 1], [1, 1, 0]]), np.array([[1, 1, 0], [0, 1, 1]])
    length = np.array([3, 1])
    states[1, 1:], actions[1, 1:] = 0, 0
    first = quick(LADDER, (states, actions, length))
    states[1, 1:], actions[1, 1:] = 99, -1
    second = quick(LADDER, (states, actions, length))
    assert (first.raw, first.corrected, first.interval) == (
        second.raw,
        second.corrected,
        second.interval,
    )


# --- Several worlds -------------------------------------------------------------------------------


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


def test_one_rationality_is_fitted_to_different_worlds() -> None:
    # The second world pays ten times as much, so the same agent is predicted at one rationality
    # only if it is ten times as careless there.
    tenfold = PAIR.replace(reward=[[0.0, 10.0]])
    logs = [pair_log(8, 10), pair_log(8, 10)]
    apart = [quick(m, log).rationality for m, log in zip((PAIR, tenfold), logs, strict=True)]
    assert apart[0] == pytest.approx(10 * apart[1])
    both = quick([PAIR, tenfold], logs)
    assert apart[1] < both.rationality < apart[0]
    assert both.n == 20
    own = quick([PAIR, tenfold], logs, utility=[[[0.0, 1.0]], [[0.0, 1.0]]])
    assert own.rationality == pytest.approx(apart[0], rel=1e-6)


# --- Sampling -------------------------------------------------------------------------------------


def test_p_values_are_uniform_under_the_null() -> None:
    rng = np.random.default_rng(0)
    policy = uniform_policy(LADDER)
    p = [
        quick(LADDER, sample_trajectories(LADDER, policy, 40, rng=rng)).p_value for _ in range(150)
    ]
    assert kstest(p, "uniform").pvalue > 0.01
    rich = [
        quick(LADDER, sample_trajectories(LADDER, policy, 80, rng=rng), unknown="state-action")
        for _ in range(60)
    ]
    assert kstest([r.p_value for r in rich], "uniform").pvalue > 0.01


def test_p_values_allow_for_discounted_evidence() -> None:
    # A later decision weighs less than a whole one, in the statistic and in its distribution.
    mdp = PAIR.replace(horizon=None, discount=0.7)
    rng = np.random.default_rng(0)
    logs = [sample_trajectories(mdp, uniform_policy(mdp), 30, rng=rng, steps=8) for _ in range(100)]
    results = [quick(mdp, log, unknown="state-action") for log in logs]
    assert kstest([r.p_value for r in results], "uniform").pvalue > 0.01
    # By hand: information sum g^t / 4, variance of the score sum g^2t / 4.
    decay = 0.7 ** np.arange(8)
    scale = (decay**2).sum() / decay.sum()
    for result in results[:5]:
        assert result.degrees_of_freedom == pytest.approx(1.0)
        want = chi2.sf(result.likelihood_ratio / scale, 1)
        assert result.p_value == pytest.approx(want, rel=1e-6)


def test_the_correction_takes_most_of_the_bias_away() -> None:
    rng = np.random.default_rng(1)
    truth = unknown_utility(LADDER, CLIMBER, over="state-action").value
    results = [
        quick(LADDER, sample_trajectories(LADDER, CLIMBER, 40, rng=rng), unknown="state-action")
        for _ in range(80)
    ]
    raw = np.mean([r.raw for r in results])
    corrected = np.mean([r.corrected for r in results])
    held_out = np.mean([r.held_out for r in results])
    assert raw > truth
    assert abs(corrected - truth) < 0.5 * (raw - truth)
    # What is predicted of others is less than what is fitted, and on average than what is true.
    assert held_out < truth + 0.01
    assert held_out < raw


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    truth = known_utility(LADDER, CLIMBER).value
    covered = 0
    for _ in range(100):
        log = sample_trajectories(LADDER, CLIMBER, 60, rng=rng)
        low, high = quick(LADDER, log, confidence=0.9, resamples=300).interval
        covered += low <= truth <= high
    # 90 of 100 with a standard deviation of 3.
    assert covered >= 80


def test_the_same_seed_gives_the_same_numbers() -> None:
    log = sample_trajectories(LADDER, CLIMBER, 30, rng=np.random.default_rng(5))
    first, second, third = (
        from_trajectories(LADDER, log, rng=np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    assert (first.interval, first.held_out) == (second.interval, second.held_out)
    assert first.interval != third.interval
    assert first.raw == third.raw
    default = [from_trajectories(LADDER, log).interval for _ in range(2)]
    assert default[0] == default[1]


def test_more_confidence_is_a_wider_interval() -> None:
    log = sample_trajectories(LADDER, CLIMBER, 50, rng=np.random.default_rng(5))
    low, high = from_trajectories(LADDER, log, confidence=0.5).interval
    lower, higher = from_trajectories(LADDER, log, confidence=0.99).interval
    assert lower <= low <= high <= higher


def test_one_trajectory_is_measured_but_not_held_out() -> None:
    result = quick(LADDER, EXACT.subset([17]))
    assert result.n == 1
    assert np.isnan(result.standard_error)
    assert np.isnan(result.held_out)


# --- Text -----------------------------------------------------------------------------------------


def test_as_text_and_as_json() -> None:
    result = from_trajectories(PAIR, pair_log(8, 10))
    text = str(result)
    assert text.startswith(f"MEG {result.raw:.6g} nats raw, {result.corrected:.6g} corrected")
    assert "from 10 trajectories" in text
    assert f"p = {result.p_value:.3g}" in text
    document = result.to_json()
    assert document["raw"] == document["meg"] == result.raw
    assert document["interval"] == list(result.interval)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


# --- Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"folds": 1}, InvalidParameterError, "folds is 1 and resamples 2000, expected at least 2"),
        ({"resamples": 99}, InvalidParameterError, "resamples 99, expected at least 2 and 100"),
        ({"confidence": 95}, InvalidParameterError, "confidence is 95, expected a number between"),
        (
            {"unknown": "states"},
            InvalidParameterError,
            "unknown is 'states', expected one of 'state'",
        ),
        ({"unknown": np.ones((3, 1))}, InvalidUtilityError, r"features has shape \[3, 1\]"),
        ({"utility": [1.0]}, InvalidUtilityError, r"utility has shape \[1\]"),
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
        # An end that is none of the world's states looks padded.
        (([[0, 2]], [[1, 0]]), r"with state 2 and action 0, expected states 0\.\.1"),
        (([[0]], [[2]]), r"actions\[0, 0\] is 2, expected 0..1"),
        (([[0.5]], [[0]]), "states has type float64, expected integers"),
    ],
)
def test_logs_that_are_refused(log: Any, words: str) -> None:
    with pytest.raises(InvalidTrajectoryError, match=words):
        from_trajectories(LADDER, log)


def test_an_impossible_start() -> None:
    words = "trajectory 0 starts in state 1, which has initial probability 0"
    with pytest.raises(InvalidTrajectoryError, match=words):
        from_trajectories(LADDER.replace(initial=0), ([[1]], [[0]]))


def test_worlds_and_logs_that_do_not_go_together() -> None:
    log = pair_log(8, 10)
    with pytest.raises(InvalidParameterError, match="got 2 MDPs and 1 sets of trajectories"):
        from_trajectories([PAIR, PAIR], [log])
    with pytest.raises(InvalidParameterError, match="got 0 MDPs and 0 sets"):
        from_trajectories([], [])
    with pytest.raises(InvalidParameterError, match="reference is given with several MDPs"):
        from_trajectories([PAIR, PAIR], [log, log], reference=[[0.5, 0.5]])
    words = r"utility classes have \[1, 2\] weights, expected the same"
    with pytest.raises(InvalidParameterError, match=words):
        from_trajectories([PAIR, LADDER], [log, ([[0]], [[0]])], unknown="state")


def test_classes_of_too_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MAX_WEIGHTS", 1)
    words = "the utility class has 2 weights, expected at most 1 for an estimate from trajectories"
    with pytest.raises(InvalidParameterError, match=words):
        from_trajectories(LADDER, EXACT, unknown="state")


# --- Logs that stop early, and units --------------------------------------------------------------


def corridor() -> TabularMDP:
    """Five rooms in a row, the prize in the last one, which is not absorbing."""
    rooms = np.arange(5)
    P = np.zeros((5, 2, 5))
    for action, step in enumerate((-1, 1)):
        np.add.at(P, (rooms, action, np.clip(rooms + step, 0, 4)), 0.9)
        np.add.at(P, (rooms, action, np.clip(rooms - step, 0, 4)), 0.1)
    return TabularMDP(P, [0, 0, -0.5, 0, 1.0], horizon=12, initial=0)


@pytest.mark.parametrize("seed", range(4))
def test_logs_that_stop_at_the_prize(seed: int) -> None:
    # Cut there, the evidence is not concave at rationality 0; the best one is found all the same.
    mdp = corridor()
    policy = np.tile([0.15, 0.85], (5, 1))
    log = sample_trajectories(mdp, policy, 60, rng=np.random.default_rng(seed))
    at_prize = log.states == 4
    length = np.where(at_prize.any(axis=1), at_prize.argmax(axis=1) + 1, log.states.shape[1])
    cut = (log.states, log.actions, length)
    known = from_trajectories(mdp, cut)
    as_class = from_trajectories(mdp, cut, unknown=mdp.reward[:, None])
    assert known.value >= as_class.value - 1e-7
    assert known.value > 1.0
    assert 0.1 < known.rationality < 100


@pytest.mark.parametrize("unit", [1e-10, 1e10])
def test_the_units_of_features_change_nothing(unit: float) -> None:
    mdp = corridor()
    log = sample_trajectories(mdp, np.tile([0.3, 0.7], (5, 1)), 40, rng=np.random.default_rng(1))
    plain = from_trajectories(mdp, log, unknown=np.eye(5))
    mixed = from_trajectories(mdp, log, unknown=np.eye(5) * [1, unit, 1, 1, 1])
    assert mixed.value == pytest.approx(plain.value, abs=1e-7)
    assert mixed.corrected == pytest.approx(plain.corrected, abs=1e-6)
    assert mixed.degrees_of_freedom == pytest.approx(plain.degrees_of_freedom)


def test_one_trajectory_supports_no_interval() -> None:
    log = sample_trajectories(
        corridor(), np.tile([0.3, 0.7], (5, 1)), 1, rng=np.random.default_rng(0)
    )
    assert any("one trajectory" in n for n in from_trajectories(corridor(), log).notes)


def test_the_floor_of_the_corrected_estimate_is_said() -> None:
    """Of a uniform policy, whose MEG is 0, many are: their mean is too high, without floor not."""
    uniform = np.full((5, 2), 0.5)
    measured = [
        quick(
            corridor(), sample_trajectories(corridor(), uniform, 25, rng=np.random.default_rng(i))
        )
        for i in range(60)
    ]
    floored = [result for result in measured if result.unfloored < 0]
    assert 15 < len(floored) < 55
    for result in measured:
        assert result.corrected == max(result.unfloored, 0.0)
        assert result.to_json()["unfloored"] == result.unfloored
        text = str(result)
        is_told = "is given as 0" in text and f"(0 for −{-result.unfloored:.3g})" in text
        assert is_told == (result.unfloored < 0)
    means = np.mean([(r.corrected, r.unfloored) for r in measured], axis=0)
    error = np.std([r.unfloored for r in measured]) / np.sqrt(len(measured))
    assert abs(means[1]) < 3 * error < means[0] + 3 * error and means[0] > means[1] + error


def test_few_trajectories_do_not_close_the_interval() -> None:
    best = optimal_policy(corridor())
    widths = []
    for n in (1, 2, 5, 40):
        result = from_trajectories(
            corridor(), sample_trajectories(corridor(), best, n, rng=np.random.default_rng(0))
        )
        low, high = result.interval
        assert low < result.corrected <= high <= result.upper_bound * (1 + 1e-12)
        widths.append(np.ptp(result.interval))
    assert widths == sorted(widths, reverse=True) and widths[-1] > 0.1 * widths[0]
    assert widths[0] == widths[1]  # of fewer than five nothing is said


def test_a_world_that_is_held_out_whole_is_scored_at_infinity_too() -> None:
    # All behave optimally, so beta is infinite in every fold, also in the one that holds the
    # second world's only log: its model then has to be made from beta alone.
    mdp = corridor()
    best = optimal_policy(mdp)
    logs = [sample_trajectories(mdp, best, n, rng=np.random.default_rng(n)) for n in (8, 1)]
    result = from_trajectories([mdp, mdp], logs)
    assert result.rationality == np.inf
    assert 0.9 * result.raw < result.held_out <= result.raw
