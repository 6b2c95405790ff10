"""What a sample supports: rates of tests and intervals, bias, and samples that are small or cut."""

from __future__ import annotations

import numpy as np
import pytest
from meg.logs import CLIMBER, EXACT, LADDER, corridor, quick
from scipy.stats import kstest

from goalmeter.meg import from_trajectories, known_utility, trajectories
from goalmeter.tabular import Trajectories, optimal_policy, sample_trajectories, uniform_policy


@pytest.fixture
def not_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the held-out value, which takes most of the time and no part in the rest."""
    monkeypatch.setattr(trajectories, "held_out", lambda *_, **__: float("nan"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unknown", "length", "samples"), [(None, 40, 150), ("state-action", 80, 60)]
)
@pytest.mark.usefixtures("not_held_out")
def test_p_values_are_uniform_under_the_null(
    unknown: str | None, length: int, samples: int
) -> None:
    rng = np.random.default_rng(0)
    policy = uniform_policy(LADDER)
    logs = [sample_trajectories(LADDER, policy, length, rng=rng) for _ in range(samples)]
    p_values = [quick(LADDER, log, unknown=unknown).p_value for log in logs]
    assert kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.usefixtures("not_held_out")
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


@pytest.mark.slow
@pytest.mark.usefixtures("not_held_out")
def test_the_floor_of_the_corrected_estimate_is_said() -> None:
    """Of a uniform policy, whose MEG is 0, many are: their mean is too high, without floor not."""
    mdp, uniform = corridor(), np.full((5, 2), 0.5)
    logs = [sample_trajectories(mdp, uniform, 25, rng=np.random.default_rng(i)) for i in range(60)]
    measured = [quick(mdp, log) for log in logs]
    assert 15 < sum(result.unfloored < 0 for result in measured) < 55
    for result in measured:
        assert result.corrected == max(result.unfloored, 0.0)
        assert result.to_json()["unfloored"] == result.unfloored
        text = str(result)
        is_told = "is given as 0" in text and f"(0 for −{-result.unfloored:.3g})" in text
        assert is_told == (result.unfloored < 0)
    means = np.mean([(r.corrected, r.unfloored) for r in measured], axis=0)
    error = np.std([r.unfloored for r in measured]) / np.sqrt(len(measured))
    assert abs(means[1]) < 3 * error < means[0] + 3 * error and means[0] > means[1] + error


def test_one_trajectory_is_measured_but_not_held_out() -> None:
    result = quick(LADDER, EXACT.subset([17]))
    assert result.n == 1
    assert np.isnan(result.standard_error)
    assert np.isnan(result.held_out)
    assert any("one trajectory supports no interval" in note for note in result.notes)


def test_few_trajectories_do_not_close_the_interval() -> None:
    mdp = corridor()
    best = optimal_policy(mdp)
    widths = []
    for n in (1, 2, 5, 40):
        log = sample_trajectories(mdp, best, n, rng=np.random.default_rng(0))
        result = from_trajectories(mdp, log)
        low, high = result.interval
        assert low < result.corrected <= high <= result.upper_bound * (1 + 1e-12)
        widths.append(np.ptp(result.interval))
    assert widths == sorted(widths, reverse=True) and widths[-1] > 0.1 * widths[0]
    assert widths[0] == widths[1]  # of fewer than five nothing is said


@pytest.mark.parametrize("seed", range(4))
def test_logs_that_stop_at_the_prize(seed: int) -> None:
    # Cut there, the evidence is not concave at rationality 0; the best one is reached all the same.
    mdp = corridor()
    policy = np.tile([0.15, 0.85], (5, 1))
    log = sample_trajectories(mdp, policy, 60, rng=np.random.default_rng(seed))
    at_prize = log.states == 4
    length = np.where(at_prize.any(axis=1), at_prize.argmax(axis=1) + 1, log.states.shape[1])
    cut = Trajectories(log.states, log.actions, length)
    known = quick(mdp, cut)
    as_class = quick(mdp, cut, unknown=mdp.reward[:, None])
    assert known.value >= as_class.value - 1e-7
    assert known.value > 1.0
    assert 0.1 < known.rationality < 100


def test_a_world_that_is_held_out_whole_is_scored_at_infinity_too() -> None:
    # All behave optimally, so beta is infinite in every fold, also in the one that holds the
    # second world's only log: its model then has to be made from beta alone.
    mdp = corridor()
    best = optimal_policy(mdp)
    logs = [sample_trajectories(mdp, best, n, rng=np.random.default_rng(n)) for n in (8, 1)]
    result = from_trajectories([mdp, mdp], logs)
    assert result.rationality == np.inf
    assert 0.9 * result.raw < result.held_out <= result.raw
