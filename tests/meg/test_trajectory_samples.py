"""Samples: rates of tests and intervals, small or cut logs, and fits of large classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.logs import CLIMBER, EXACT, LADDER, corridor, quick
from meg.test_visit_matching import grid, tilings
from scipy.stats import kstest

from goalmeter.gridworld import tabular_world
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import GridWorld
from goalmeter.meg import from_trajectories, known_utility, likelihood, trajectories
from goalmeter.meg.likelihood import TrajectoryGroup, fit_class, group_trajectories, pooled
from goalmeter.tabular import (
    TabularMDP,
    Trajectories,
    epsilon_greedy,
    optimal_policy,
    sample_trajectories,
    uniform_policy,
)
from goalmeter.tabular import sample_trajectories as sampled


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


def test_a_world_that_is_held_out_whole_is_scored_at_infinity_too() -> None:
    # All behave optimally, so beta is infinite in every fold, also in the one that holds the
    # second world's only log: its model then has to be made from beta alone.
    mdp = corridor()
    best = optimal_policy(mdp)
    logs = [sample_trajectories(mdp, best, n, rng=np.random.default_rng(n)) for n in (8, 1)]
    result = from_trajectories([mdp, mdp], logs)
    assert result.rationality == np.inf
    assert 0.9 * result.raw < result.held_out <= result.raw


ROOM = GridWorld.from_text(
    ["#######", "#_____#", "#___#G#", "#___#_#", "#__##_#", "#A____#", "#######"]
)


@pytest.mark.parametrize("alike", [1, 5])
def test_walks_that_are_all_the_same_are_explained_in_full(alike: int) -> None:
    """The logs tell hardly anything of most cells, and undamped steps lead nowhere from 0."""
    result, path = tabular_world(ROOM, horizon=21), [plan(ROOM).start]
    while best := plan(ROOM).optimal_actions(path[-1]):
        path.append(plan(ROOM).step(path[-1], best[0]))
    numbers = {state: number for number, state in enumerate(result.states)}
    states = [numbers[state] for state in path[:-1]]
    actions = [plan(ROOM).optimal_actions(state)[0] for state in path[:-1]]
    log = np.array([states] * alike), np.array([actions] * alike)
    groups = group_trajectories(result.mdp, log, unknown="state")
    fit = fit_class(pooled(groups))
    # A utility can make every one of these moves as good as certain.
    assert len(actions) == 7 and fit.infinite
    assert fit.value == pytest.approx(7 * np.log(4), abs=1e-3)


def logs(mdp: TabularMDP, n: int, seed: int = 0, **options: Any) -> Trajectories:
    policy = epsilon_greedy(optimal_policy(mdp), 0.4)
    return sampled(mdp, policy, n, rng=np.random.default_rng(seed), **options)


def groups_of(mdp: TabularMDP, n: int, over: str, **options: Any) -> list[TrajectoryGroup]:
    unknown: Any = tilings(5, 2) if over == "features" else over
    return group_trajectories(mdp, logs(mdp, n, **options), unknown=unknown)


@pytest.mark.parametrize(
    ("over", "kind"),
    [("state", "finite"), ("time-state", "finite"), ("features", "infinite"), ("state", "pooled")],
)
def test_both_fits_reach_the_same_likelihood(
    over: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = grid(5, horizon=6, slip=0.1)
    options: dict[str, Any] = {}
    if kind == "infinite":
        mdp, options = mdp.replace(horizon=None, discount=0.9), {"steps": 8}
    groups = groups_of(mdp, 60, over, **options)
    if kind == "pooled":
        groups += groups_of(grid(5, horizon=6, slip=0.2), 30, over)
    groups = pooled(groups)
    small = fit_class(groups)
    monkeypatch.setattr(likelihood, "LARGE_WEIGHTS", 0)
    large = fit_class(groups)
    # Likelihood is not concave, but from 0 both ways lead to one maximum; at infinity, near it.
    assert large.value == pytest.approx(small.value, abs=1e-6)
    assert large.value >= small.value - 1e-7
    gradient = sum(m.gradient(g) for g, m in zip(groups, large.models, strict=True))
    assert np.abs(gradient).max() < 1e-4
