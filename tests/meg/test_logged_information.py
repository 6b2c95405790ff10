"""What logs say of large classes: the same matrices, scores and intervals, by shorter ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.test_counted import tilings
from meg.test_visit_matching import grid

from goalmeter.meg import from_trajectories, likelihood, trajectories
from goalmeter.meg.likelihood import Group, fit_class, group_trajectories, scores_by_trajectory
from goalmeter.meg.trajectories import information_of
from goalmeter.tabular import TabularMDP, Trajectories, epsilon_greedy, optimal_policy
from goalmeter.tabular import sample_trajectories as sampled

CLASSES = ("state", "state-action", "time-state", "features")


def logs(mdp: TabularMDP, n: int, seed: int = 0, **options: Any) -> Trajectories:
    policy = epsilon_greedy(optimal_policy(mdp), 0.4)
    return sampled(mdp, policy, n, rng=np.random.default_rng(seed), **options)


def groups_of(mdp: TabularMDP, n: int, over: str, **options: Any) -> list[Group]:
    unknown: Any = tilings(5, 2) if over == "features" else over
    return group_trajectories(mdp, logs(mdp, n, **options), unknown=unknown)


@pytest.mark.parametrize("over", CLASSES)
def test_the_same_information_and_scores(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = grid(5, horizon=6, slip=0.1)
    (group,) = groups_of(mdp, 7, over)
    rng = np.random.default_rng(1)
    model = group.model(rng.normal(size=group.utilities.n_weights))
    visits = group.visits(np.full(7, 1 / 7))
    literal, scores = model.information(visits), scores_by_trajectory(group, model)
    monkeypatch.setattr(trajectories, "LARGE_WEIGHTS", 0)
    monkeypatch.setattr(likelihood, "LARGE_WEIGHTS", 0)
    np.testing.assert_allclose(information_of(model, visits), literal, atol=1e-12)
    np.testing.assert_allclose(scores_by_trajectory(group, model), scores, atol=1e-12)


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
    n = sum(len(g.trajectories) for g in groups)
    weights = [np.full(len(g.trajectories), 1 / n) for g in groups]
    small = fit_class(groups, weights)
    monkeypatch.setattr(likelihood, "LARGE_WEIGHTS", 0)
    large = fit_class(groups, weights)
    # Likelihood is not concave, but from 0 both ways lead to one maximum; at infinity, near it.
    assert large.value == pytest.approx(small.value, abs=1e-6)
    assert large.value >= small.value - 1e-7
    gradient = sum(
        m.gradient(g.behaviour(w)) for g, m, w in zip(groups, large.models, weights, strict=True)
    )
    assert np.abs(gradient).max() < 1e-4


def test_the_interval_is_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # As many logs as make the optimum finite: its weights, and so the interval, are unique.
    mdp = grid(3, horizon=4, slip=0.2)
    log = logs(mdp, 600)
    small = from_trajectories(mdp, log, unknown="state", resamples=200)
    monkeypatch.setattr(likelihood, "LARGE_WEIGHTS", 0)
    monkeypatch.setattr(trajectories, "LARGE_WEIGHTS", 0)
    large = from_trajectories(mdp, log, unknown="state", resamples=200)
    for name in ("value", "corrected", "standard_error", "p_value", "degrees_of_freedom"):
        assert getattr(large, name) == pytest.approx(getattr(small, name), abs=1e-6), name
    np.testing.assert_allclose(large.interval, small.interval, atol=1e-6)
    # Fits to fewer logs may lie at infinity, where weights are anybody's.
    assert large.held_out == pytest.approx(small.held_out, abs=1e-4)
