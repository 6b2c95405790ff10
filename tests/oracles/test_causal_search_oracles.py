"""The oracles of decisions without sufficient recall: by hand, against a grid and each other."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from . import causal_meg as meg
from . import causal_model as causal
from . import random_diagrams as diagrams
from .causal_cube import (
    accuracy_at,
    at_point,
    cube,
    entropy_at,
    entropy_on_grid,
    entropy_slopes,
    grid_meg,
    grid_points,
    on_grid,
)
from .causal_model import Model
from .causal_search import Search, searched_meg, searched_targets_meg, soft_accuracy
from .causal_targets import features, targets_meg

LOG2 = math.log(2.0)
MOUSE = LOG2 + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)  # 0.192744757021758
Generator = Callable[[np.random.Generator, str], Model]


def drawn(make: Generator, seed: int, policy: str = "random") -> Model:
    return make(np.random.default_rng(seed), policy)


def test_cube_is_the_policies() -> None:
    rng = np.random.default_rng(0)
    for make in diagrams.INSUFFICIENT:
        model = make(rng, "random")
        space = cube(model, ("T",))
        K = len(space.contexts)
        for _ in range(3):
            p = rng.random(K)
            policy = causal.uniform_policy(model)
            for k, (d, context) in enumerate(space.contexts):
                policy[d][context] = [1 - p[k], p[k]]
            now = causal.with_policy(model, policy)
            np.testing.assert_allclose(
                at_point(space.targets, p), features(now, [("T",)]), atol=1e-14
            )
            assert entropy_at(space, p) == pytest.approx(meg.causal_entropy(now), abs=1e-13)
            logs = {d: np.log(q) for d, q in policy.items()}
            assert accuracy_at(space, p) == pytest.approx(meg.evidence(model, logs), abs=1e-12)
            e = 1e-6 * np.eye(K)
            slopes = [(entropy_at(space, p + d) - entropy_at(space, p - d)) / 2e-6 for d in e]
            np.testing.assert_allclose(entropy_slopes(space, p), slopes, atol=1e-7)
        points = grid_points(3)
        h = entropy_on_grid(space, points)
        t = on_grid(space.targets[0], points, K)
        for index in [(1,) * K, (0, 2) * (K // 2) + (1,) * (K % 2)]:
            p = points[list(index)]
            assert h[index] == pytest.approx(entropy_at(space, p), abs=1e-14)
            assert t[index] == pytest.approx(at_point(space.targets, p)[0], abs=1e-14)


def test_definition_3_1_agrees_with_soft_planning_where_recall_suffices() -> None:
    model = diagrams.mouse(0.8)
    space, utility = cube(model, ("T",)), model.factors[0][1]
    assert searched_meg(space, utility, steps=4)[0] == pytest.approx(MOUSE, abs=1e-9)
    assert grid_meg(space, utility, 201, 200).value == pytest.approx(MOUSE, abs=5e-3)
    # Two steps: D1 sees nothing, D2 sees its effect.
    rng = np.random.default_rng(1)
    sizes = {"D1": 2, "X": 2, "D2": 2, "T": 2}
    parents = {"D1": (), "X": ("D1",), "D2": ("X",), "T": ("X", "D2")}
    planned = diagrams.filled(rng, sizes, parents, ["D1", "D2"], [("T",)], "random")
    space, utility = cube(planned, ("T",)), planned.factors[0][1]
    result, _, policy = searched_meg(space, utility, steps=4, starts=2, refine=1)
    value, beta = meg.known_utility_meg(planned)
    assert result == pytest.approx(value, abs=1e-6)
    soft = meg.soft_optimal_policy(planned, beta)
    for k, (d, context) in enumerate(space.contexts):
        assert policy is not None
        assert policy[k] == pytest.approx(math.exp(soft[d][(*context, 1)]), abs=1e-3)


def test_figure_2() -> None:
    """The mouse that follows its smell.  By hand, with p and q the probabilities of following it
    at D1 and D2: E[U3] = p q, so p = q = 0.8 has the largest entropy at 0.64 and predicts itself;
    towards S3 utility log 4 per step in the right direction gives exactly the same policy."""
    model = diagrams.without_idle(diagrams.smelling_mouse(0.8), "U1", "U2")
    space, utility = cube(model, ("U3",)), np.array([0.0, 1.0])
    np.testing.assert_allclose(at_point(space.targets, space.policy), [0.36, 0.64], atol=1e-14)
    assert grid_meg(space, utility, 21, 60).value == pytest.approx(2 * MOUSE, abs=1e-12)
    search = Search(space, utility)
    accuracy, policy = search.accuracy(0.64)
    assert accuracy == pytest.approx(2 * MOUSE, abs=1e-9)
    assert policy is not None
    np.testing.assert_allclose(policy, [0.2, 0.8, 0.2, 0.8], atol=1e-9)
    beta = math.log(4) / 0.8  # log(p / (1 - p)) = beta q
    assert soft_accuracy(space, beta * utility) == pytest.approx(2 * MOUSE, abs=1e-7)
    # The optimal mouse.
    always = diagrams.without_idle(diagrams.smelling_mouse(1.0), "U1", "U2")
    optimal = Search(cube(always, ("U3",)), utility)
    assert optimal.accuracy(1.0)[0] == pytest.approx(2 * LOG2, abs=1e-12)
    # S3 (state 2 position + side): steps taken towards the cheese, log 4 each.
    steps = np.zeros((diagrams.CELLS, 2))
    steps[[4, 2, 0], 0] = steps[[0, 2, 4], 1] = [0.0, 1.0, 2.0]
    at_s3 = cube(model, ("S3",))
    theta = math.log(4) * steps.ravel()
    assert soft_accuracy(at_s3, theta) == pytest.approx(2 * MOUSE, abs=1e-9)
    # S2 has sufficient recall: only D1 counts.
    assert targets_meg(model, [("S2",)], starts=1).value == pytest.approx(MOUSE, abs=1e-9)
    # Theorem 4.1, strictly: a mouse that follows with 0.9 and then 0.7.  Towards U3 the best model
    # is still p = q.  Some goal of S3 that prizes exactly one step makes the decisions avoid each
    # other; it has two tied maximum entropy policies, and one of them is this mouse.
    uneven = diagrams.without_idle(diagrams.smelling_mouse(0.9, 0.7), "U1", "U2")
    full = 2 * LOG2 - meg.causal_entropy(uneven)
    assert soft_accuracy(cube(uneven, ("U3",)), beta * utility) == pytest.approx(
        2 * MOUSE, abs=1e-7
    )
    # log(p / (1 - p)) = a + c q and log(q / (1 - q)) = a + c p with c < 0.
    c = (math.log(9) - math.log(7 / 3)) / (0.7 - 0.9)
    a = math.log(9) - 0.7 * c
    theta = a * steps.ravel() + c * (steps.ravel() == 2.0)
    assert soft_accuracy(cube(uneven, ("S3",)), theta, 15) == pytest.approx(full, abs=1e-7)


@pytest.mark.slow
def test_a_local_maximum_overestimates() -> None:
    """U = 1 at (0, 0), 0.9 at (1, 1); the policy is (1, 1).

    Near (1, 1) every other policy has less utility, so it is a local maximum of the entropy at
    u = 0.9, and of beta U + H for large beta: scored as if it were the maximum entropy policy it
    gives 2 log 2.  But (0, 0)'s neighbourhood has policies of u = 0.9 with positive entropy:
    (1-p)^2 + 0.9 p^2 = 0.9 at p = 0.05401..., and those predict (1, 1) badly.
    """
    model = diagrams.two_peaks(0.1)
    space, utility = cube(model, ("X",)), model.factors[0][1]
    search = Search(space, utility)
    stuck = search.local(0.9, space.policy, [(0.0, 1.0)] * 2)
    assert stuck is not None
    assert accuracy_at(space, stuck) == pytest.approx(2 * LOG2, abs=1e-6)
    accuracy, policy = search.accuracy(0.9)
    p = (2 - math.sqrt(4 - 4 * 1.9 * 0.1)) / (2 * 1.9)
    assert policy is not None
    np.testing.assert_allclose(policy, [p, p], atol=1e-9)
    assert accuracy == pytest.approx(2 * math.log(2 * p), abs=1e-8)  # -4.45
    # The true maximum is the evidence for a slight dislike: at (p, p), p = P(1) = 0.5132, where the
    # maximum entropy policy splits in two (beta 1.9 p (1 - p) = -1).
    value = max(search.accuracy(u)[0] for u in (0.4738, 0.474, 0.47401, 0.4741, 0.475, 0.6, 0.8))
    assert value == pytest.approx(0.05196, abs=2e-4)
    assert grid_meg(space, utility, 401, 400).value == pytest.approx(value, abs=1e-2)
    # With the outcome as target a utility can prize (1, 1) alone, and then it is the only optimum.
    assert searched_targets_meg(space, starts=0, evaluations=20)[0] == pytest.approx(
        2 * LOG2, abs=1e-5
    )
    # Without the gap the two peaks tie, and the policy is one of the maximum entropy policies.
    tied = diagrams.two_peaks(0.0)
    even = Search(cube(tied, ("X",)), tied.factors[0][1])
    assert even.accuracy(1.0)[0] == pytest.approx(2 * LOG2, abs=1e-12)


def test_soft_policies_miss_maximum_entropy_policies() -> None:
    """Parity of three: E[U] = m^3 for three equal biases m = 1 - 2 p, and no beta plans m = 0.2.

    With small m the entropy falls like m^2 ~ u^(2/3): not concave in u, so beta E[U] + H is largest
    at m = 0 or near m = 1, never between.  Definition 3.1 fixes u = 0.008 and finds m = 0.2.
    """
    model = diagrams.parity_team(0.6)
    space, utility = cube(model, ("X",)), model.factors[0][1]
    full = 3 * LOG2 - meg.causal_entropy(model)  # 3 (log 2 - H(0.6)) = 0.0604065...
    assert full == pytest.approx(0.060406541, abs=1e-9)
    accuracy, policy = Search(space, utility).accuracy(0.008)
    assert accuracy == pytest.approx(full, abs=1e-9)
    assert policy is not None
    np.testing.assert_allclose(policy, 0.4, atol=1e-6)
    for beta in (-3.0, -2.2, -1.0, 1.0, 2.0, 2.2, 2.3, 3.0, 6.0):
        assert soft_accuracy(space, beta * utility, 11) < 1e-8


def test_search_against_the_grid() -> None:
    for make, seed in ((diagrams.team, 4), (diagrams.forgetful, 1)):
        model = drawn(make, seed)
        space, utility = cube(model, ("T",)), model.factors[0][1]
        search = Search(space, utility, starts=3)
        grid = grid_meg(space, utility, 25, 120)
        for u, entropy, _ in grid.rows[5:-5:30]:
            top = max(entropy_at(space, p) for p in search.policies(u))
            assert entropy - 1e-9 <= top <= entropy + 0.02
