"""The search for maximum entropy policies: by hand, against literal definitions, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import causal_cube, causal_search
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Array, Model

from goalmeter import meg
from goalmeter._errors import InvalidModelError
from goalmeter.causal import CausalBayesianNetwork, utility_of
from goalmeter.causal.recall import recall_of
from goalmeter.meg.causal.search import (
    OutcomeTable,
    Policies,
    SearchResult,
    joint_outcomes,
    outcomes,
    planned_evidence,
    search,
)
from goalmeter.meg.causal.search.ascent import ascend, prospects_of, respond, score
from goalmeter.meg.causal.search.branch import Branch, HeldBranch
from goalmeter.meg.causal.search.candidates import Task, column, random_policies
from goalmeter.meg.causal.search.frontier import Supported, gaps, supported_curve
from goalmeter.meg.causal.search.held import greatest_entropies
from goalmeter.meg.causal.search.stationary import implicit_gradient
from goalmeter.meg.causal.search.supported import maximisers
from goalmeter.meg.causal.search.utilities import utility_class_of

LOG2 = float(np.log(2))
few = settings(max_examples=3, deadline=None, derandomize=True)
several = settings(max_examples=5, deadline=None, derandomize=True)
many = settings(max_examples=15, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)
forgetful = st.builds(
    lambda make, seed, policy: make(np.random.default_rng(seed), policy),
    st.sampled_from(diagrams.INSUFFICIENT),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)


def entropy(p: float) -> float:
    return -p * float(np.log(p)) - (1 - p) * float(np.log(1 - p))


def team(*policies: list[float]) -> CausalBayesianNetwork:
    """Members who choose among the same without seeing each other, and whether all match."""
    names = [f"D{i}" for i in range(len(policies))]
    domains = {**dict.fromkeys(names, range(len(policies[0]))), "X": [0, 1]}
    cpds: dict[str, Any] = dict(zip(names, policies, strict=True))
    cpds["X"] = lambda *chosen: int(len(set(chosen)) == 1)
    return CausalBayesianNetwork(domains, {"X": names}, cpds)


def known(
    network: CausalBayesianNetwork, goal: Any = (("X",), [0.0, 1.0]), **changes: Any
) -> SearchResult:
    decisions = [x for x in network.order if x.startswith("D")]
    table = joint_outcomes(network, decisions, utility_of(network, goal))
    options: dict[str, Any] = {"rng": np.random.default_rng(0), "restarts": 12} | changes
    return search(table, table.policies(network), **options)


def towards(network: CausalBayesianNetwork, *targets: str, **changes: Any) -> SearchResult:
    decisions = [x for x in network.order if x.startswith("D")]
    table = joint_outcomes(network, decisions, targets)
    options: dict[str, Any] = {"rng": np.random.default_rng(0)} | changes
    return search(table, table.policies(network), **options)


def table_of(model: Model) -> tuple[OutcomeTable, Policies]:
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, utility_of(network, list(model.factors)))
    return table, table.policies(network)


def searched(model: Model, seed: int = 0, restarts: int = 8) -> SearchResult:
    table, measured = table_of(model)
    rng = np.random.default_rng(seed)
    return search(table, measured, restarts=restarts, rng=rng)


def policies_of(table: OutcomeTable, result: SearchResult) -> dict[str, Array]:
    return dict(zip(table.decisions, result.policies, strict=True))


# --- By hand --------------------------------------------------------------------------------------


def test_a_team_that_always_matches() -> None:
    """U = 1 if D0 = D1. Two policies are best, (0, 0) and (1, 1); one of them is the measured."""
    result = known(team([1.0, 0.0], [1.0, 0.0]))
    assert result.value == pytest.approx(2 * LOG2, abs=1e-12)
    assert result.rationality == np.inf
    assert result.utility == pytest.approx(1.0)
    assert [p.tolist() for p in result.policies] == [[[1.0, 0.0]], [[1.0, 0.0]]]
    assert (result.agreed, result.starts) == (12, 12)
    # The other one is as good a model, for whoever is measured by it.
    assert known(team([0.0, 1.0], [0.0, 1.0])).value == pytest.approx(2 * LOG2, abs=1e-12)
    # A team that never matches minimises, which is as much evidence.
    never = known(team([1.0, 0.0], [0.0, 1.0]))
    assert never.value == pytest.approx(2 * LOG2, abs=1e-12)
    assert never.rationality == -np.inf


def test_a_team_that_mostly_matches() -> None:
    """With D0 = 0 at 1/2 + x and D1 = 0 at 1/2 + y, E[U] = 1/2 + 2 x y: at a given u above 1/2 the
    entropy h(1/2 + x) + h(1/2 + y) is largest at x = y. The evidence of p, q for (r, r) is
    2 log 2 + (p + q) log r + (2 - p - q) log(1 - r), largest at r = (p + q) / 2. And r is
    stationary: b (2 r - 1) = log(r / (1 - r))."""
    for p, q in ((0.8, 0.8), (0.9, 0.6)):
        r = (p + q) / 2
        result = known(team([p, 1 - p], [q, 1 - q]))
        assert result.value == pytest.approx(2 * (LOG2 - entropy(r)), abs=1e-11)
        assert result.rationality == pytest.approx(np.log(r / (1 - r)) / (2 * r - 1), rel=1e-5)
        assert result.policies[0] == pytest.approx(np.array([[r, 1 - r]]), abs=1e-6)
    nothing = known(team([0.5, 0.5], [0.5, 0.5]))
    assert (nothing.value, nothing.rationality) == (0.0, 0.0)


def test_a_gap_that_no_rationality_attains() -> None:
    """Two members with three choices: b E[U] + H is largest at the uniform policy up to
    b = 4 log 2, and from there at (p, q, q) with p >= 2/3, so E[U] jumps from 1/3 to 1/2. The
    policy (0.6, 0.2, 0.2) of both has E[U] = 0.44 and is the maximum entropy policy there."""
    network = team([0.6, 0.2, 0.2], [0.6, 0.2, 0.2])
    result = known(network)
    expected = 2 * (np.log(3) + 0.6 * np.log(0.6) + 0.4 * np.log(0.2))
    assert result.value == pytest.approx(expected, abs=1e-9)
    assert np.isnan(result.rationality)
    assert result.utility == pytest.approx(0.44, abs=1e-5)
    assert "in a gap, 0.333333 to 0.5, that no rationality attains" in result.note
    # What a rationality supports predicts less.
    table = joint_outcomes(network, ["D0", "D1"], utility_of(network, (("X",), [0.0, 1.0])))
    measured = table.policies(network)
    task = Task(table, table.features[:, 0], measured, table.visits(measured))
    curve = supported_curve(Supported(task, np.random.default_rng(0), 1.0), 8)
    (gap,) = (gap for gap in gaps(curve) if gap.low.utility > 0.3)
    assert (gap.low.utility, gap.high.utility) == pytest.approx((1 / 3, 1 / 2), abs=1e-6)
    assert curve.best().evidence < result.value - 0.01
    # Definition 3.1 at u = 0.44, on a grid: no policy has more entropy.
    assert grid_entropy(0.44) <= result.entropy + 1e-7
    assert grid_entropy(0.44) == pytest.approx(result.entropy, abs=2e-3)
    # And so it is towards the match as a target.
    assert towards(network, "X").value == pytest.approx(expected, abs=1e-8)


def grid_entropy(u: float, n: int = 100) -> float:
    """The most entropy of two members with three choices whose chance to match is u, on a grid of
    the first member's policies and of one probability of the second's; the others follow from u."""
    p = np.array([(i, j, n - i - j) for i in range(1, n) for j in range(1, n - i)]) / n
    q0 = np.arange(1, n)[:, None] / n
    # p0 q0 + p1 q1 + p2 (1 - q0 - q1) = u
    slope = np.where(p[:, 1] == p[:, 2], np.nan, p[:, 1] - p[:, 2])
    q1 = (u - p[:, 0] * q0 - p[:, 2] * (1 - q0)) / slope
    q = np.stack([np.broadcast_to(q0, q1.shape), q1, 1 - q0 - q1])
    total = -(p * np.log(p)).sum(axis=1) - (q * np.log(np.where(q > 0, q, np.nan))).sum(axis=0)
    return float(np.nanmax(total))


def test_parity_is_in_a_gap_altogether() -> None:
    """Three equal biases m have E[U] = m^3: no b plans anything small, yet m = 0.2 has the most
    entropy at u = 0.008 and predicts itself: 3 (log 2 - h(0.6))."""
    result = searched(diagrams.parity_team(0.6))
    assert result.value == pytest.approx(3 * (LOG2 - entropy(0.6)), abs=1e-9)
    assert np.isnan(result.rationality)
    assert result.utility == pytest.approx(0.008, abs=1e-5)


def test_a_goal_that_is_planned_anew_scores_what_it_was_fitted_with() -> None:
    """The evidence of a fitted utility at its fitted rationality is the value; at b = 0 the plan is
    uniform and says nothing; at -b it is the plan of who wants the opposite."""
    network = team([0.9, 0.1], [0.9, 0.1])
    table = joint_outcomes(network, ["D0", "D1"], utility_of(network, (("X",), [0.0, 1.0])))
    measured = table.policies(network)
    rng = np.random.default_rng(0)
    fitted = search(table, measured, restarts=8, rng=rng)
    assert np.isfinite(fitted.rationality)

    def planned(b: float) -> float:
        return planned_evidence(table, measured, b, restarts=8, rng=rng)

    assert planned(fitted.rationality) == pytest.approx(fitted.value, abs=1e-9)
    assert planned(0.0) == 0.0
    assert planned(-fitted.rationality) < 0.0 < planned(0.9 * fitted.rationality) < fitted.value


def test_a_local_maximum_does_not_count() -> None:
    """The policy (1, 1) is a strict local optimum, 0.9, where (0, 0) is worth 1: it predicts itself
    with certainty, and is no maximum entropy policy."""
    result = searched(diagrams.two_peaks(0.1))
    assert result.value == pytest.approx(0.0519628, abs=1e-5)
    # The true ones nearly always play 0, and the best of them is on the other side of chance.
    assert result.rationality == pytest.approx(-2.107, abs=1e-3)
    # Without the difference it is one.
    assert searched(diagrams.two_peaks(0.0)).value == pytest.approx(2 * LOG2, abs=1e-12)


def test_among_many_equal_optima_the_one_that_predicts_best() -> None:
    """A team that matches in each of 8 weathers by itself, where all see the weather: 2^8 sets of
    policies are equally good, r = 1/2 + x or 1/2 - x in each weather, and the best counts."""
    rng = np.random.default_rng(1)
    weight = rng.dirichlet(np.ones(8))
    p, q = rng.uniform(size=(2, 8))
    network = CausalBayesianNetwork(
        {"W": range(8), "D0": [0, 1], "D1": [0, 1], "X": [0, 1]},
        {"D0": ["W"], "D1": ["W"], "X": ["D0", "D1"]},
        {
            "W": weight,
            "D0": np.stack([p, 1 - p], axis=1),
            "D1": np.stack([q, 1 - q], axis=1),
            "X": lambda a, b: int(a == b),
        },
    )

    def evidence(x: float, second: Array) -> float:
        sums = p + second
        each = [sums * np.log(2 * r) + (2 - sums) * np.log(2 * (1 - r)) for r in (0.5 + x, 0.5 - x)]
        return float(weight @ np.maximum(*each))

    # Either they match, or they never do.
    best = max(evidence(x, second) for x in np.linspace(0, 0.49, 9801) for second in (q, 1 - q))
    assert known(network).value == pytest.approx(best, abs=1e-7)


def test_the_smelling_mouse() -> None:
    """Figure 2: the cheese is reached if both moves follow the smell, so per side E[U] = p q, and
    p = q = 0.8 is the maximum entropy policy at 0.64: b p = log(p / (1 - p))."""
    model = diagrams.smelling_mouse(0.8)
    result = searched(model)
    assert result.value == pytest.approx(2 * (LOG2 - entropy(0.8)), abs=1e-10)
    assert result.rationality == pytest.approx(np.log(4) / 0.8, rel=1e-5)
    assert searched(diagrams.smelling_mouse(1.0)).value == pytest.approx(2 * LOG2, abs=1e-12)
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, ["U3"])
    sought = search(table, table.policies(network), rng=np.random.default_rng(0))
    assert sought.value == pytest.approx(2 * (LOG2 - entropy(0.8)), abs=1e-9)
    assert sought.weights == pytest.approx([-1.0, 1.0])
    assert sought.rationality == pytest.approx(np.log(4) / 0.8 / 2, rel=1e-4)


# --- Against literal definitions ------------------------------------------------------------------


@many
@given(forgetful)
def test_the_table_is_the_model(model: Model) -> None:
    table, measured = table_of(model)
    network = network_of(model)
    assert table.probability(measured).sum() == pytest.approx(1.0)
    utility = utility_of(network, list(model.factors))
    assert table.expected(measured) == pytest.approx([utility.expected(network)])
    assert table.entropy(measured) == pytest.approx(oracle.causal_entropy(model))
    drawn = [p[..., 0] for p in random_policies(table, 1, np.random.default_rng(0))]
    logs = {
        d: np.log(p).reshape(network.cpd(d).shape)
        for d, p in zip(table.decisions, drawn, strict=True)
    }
    assert table.evidence(measured, drawn) == pytest.approx(oracle.evidence(model, logs))
    scope = ("S1", "T", "D2") if "S1" in model.sizes else ("S", "T", "D2")
    targets = joint_outcomes(network, model.decisions, scope)
    assert targets.expected(measured) == pytest.approx(network.marginal(*scope).reshape(-1))


@few
@given(forgetful)
def test_the_search_finds_what_definition_3_1_says(model: Model) -> None:
    """At the expected utility of the best model the oracle's maximum entropy policy is the same
    one, and at others it predicts no more."""
    table, _ = table_of(model)
    result = searched(model)
    ((scope, values),) = model.factors
    space = causal_cube.cube(model, scope)
    literal = causal_search.Search(space, np.asarray(values).ravel())
    assume(literal.high - literal.low > 1e-3)
    at = float(np.clip(result.utility, literal.low, literal.high))
    assert literal.accuracy(at)[0] == pytest.approx(result.value, abs=2e-5)
    for share in (0.15, 0.5, 0.85):
        u = literal.low + share * (literal.high - literal.low)
        assert literal.accuracy(u)[0] <= result.value + 2e-5
    assert table.maximum >= result.value


@several
@given(
    st.sampled_from([diagrams.perfect_recall, diagrams.chain, diagrams.branches]),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)
def test_the_search_knows_nothing_of_recall(make: Any, seed: int, policy: str) -> None:
    """Where soft backward induction is exact, the search finds the same without it."""
    model = make(np.random.default_rng(seed), policy)
    network = network_of(model)
    recall = recall_of(network, model.decisions, [scope for scope, _ in model.factors])
    assume(recall.kind == "sufficient")
    utility = utility_of(network, list(model.factors))
    table = joint_outcomes(network, recall.decisions, utility)
    result = search(table, table.policies(network), restarts=8, rng=np.random.default_rng(seed))
    exact = meg.causal_utility(network, model.decisions, utility)
    assert result.value == pytest.approx(exact.value, abs=1e-8)
    if exact.value > 1e-6:
        assert result.rationality == pytest.approx(exact.rationality, rel=1e-4)


@several
@given(
    st.sampled_from([diagrams.perfect_recall, diagrams.chain]),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)
def test_nor_does_the_search_for_targets(make: Any, seed: int, policy: str) -> None:
    model = make(np.random.default_rng(seed), policy)
    network = network_of(model)
    scopes = [x for scope, _ in model.factors for x in scope if x not in model.decisions]
    targets = tuple(dict.fromkeys(scopes))[:2]
    recall = recall_of(network, model.decisions, [targets])
    assume(targets and recall.kind == "sufficient")
    table = joint_outcomes(network, recall.decisions, targets)
    result = search(table, table.policies(network), restarts=8, rng=np.random.default_rng(seed))
    exact = meg.targets(network, model.decisions, targets)
    assert result.value == pytest.approx(exact.value, abs=1e-7)
    assert np.isinf(result.rationality) == np.isinf(exact.rationality)


# --- Laws -----------------------------------------------------------------------------------------


@many
@given(forgetful, seeds, st.floats(-6, 6))
def test_no_answer_lowers_the_objective(model: Model, seed: int, size: float) -> None:
    table, _ = table_of(model)
    value = table.features
    rng = np.random.default_rng(seed)
    now = random_policies(table, 5, rng)
    b = np.array([0.0, 1.0, -1.0, np.sinh(size), -np.sinh(size)])
    before = score(table, value, now).objective(b)
    for _ in range(3):
        for i in range(len(now)):
            now[i] = respond(prospects_of(table, value, now, i), b, now[i])
            after = score(table, value, now).objective(b)
            assert (after >= before - 1e-10 * (1 + np.abs(before))).all()
            before = after


@many
@given(forgetful, seeds)
def test_at_infinity_utility_comes_first(model: Model, seed: int) -> None:
    """E[U] never falls; and where it stays, nor does the entropy."""
    table, _ = table_of(model)
    now = random_policies(table, 4, np.random.default_rng(seed))
    before = score(table, table.features, now)
    for _ in range(3):
        for i in range(len(now)):
            b = np.full(4, np.inf)
            now[i] = respond(prospects_of(table, table.features, now, i), b, now[i])
        after = score(table, table.features, now)
        assert (after.utility >= before.utility - 1e-8).all()
        before = after
    settled, done = ascend(
        table, table.features, np.full(4, np.inf), now, sweeps=200, tolerance=1e-10
    )
    again = score(table, table.features, settled)
    close = np.abs(again.utility - before.utility) < 1e-10
    assert (again.entropy >= before.entropy - 1e-8)[close].all()
    assert done.any()


@several
@given(forgetful, seeds)
def test_derivatives_of_stationary_policies(model: Model, seed: int) -> None:
    """By differences, for a kept rationality and for a kept expected utility."""
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, ["T"])
    measured = table.policies(network)
    rng = np.random.default_rng(seed)
    utilities = utility_class_of(table, measured, rng)
    assume(utilities is not None)
    assert utilities is not None
    y = rng.standard_normal(utilities.basis.shape[1])
    task, b = utilities.task(y)
    start = maximisers(task, [b], [random_policies(table, 6, rng)])[0].best[0]
    assume(np.isfinite(start.evidence) and start.evidence > -20)
    gradient, none = implicit_gradient(
        utilities.table, task.value, b, start.policies, task.visits, held=False
    )
    assert none == 0.0
    step = 1e-5
    branch = Branch(utilities, y, start)
    for k, axis in enumerate(np.eye(len(y))):
        ahead, behind = branch.find(y + step * axis), branch.find(y - step * axis)
        assert ahead is not None and behind is not None
        slope = (ahead.evidence - behind.evidence) / (2 * step)
        assert slope == pytest.approx(gradient[k] / b, rel=1e-4, abs=1e-5)
    x = np.append(y / b, start.utility + 0.0)
    x[-1] = float(table.probability(start.policies) @ (utilities.table.features @ x[:-1]))
    held = HeldBranch(utilities, x, start)
    place = held.at(x)
    assume(place is not None and np.abs(place.gradient).max() < 1e3)
    assert place is not None
    for k, axis in enumerate(np.eye(len(x))):
        ahead, behind = held.find(x + step * axis), held.find(x - step * axis)
        assert ahead is not None and behind is not None
        slope = (ahead.evidence - behind.evidence) / (2 * step)
        assert slope == pytest.approx(place.gradient[k], rel=1e-3, abs=1e-4)


@few
@given(forgetful)
def test_targets_have_at_least_the_meg_of_any_utility_over_them(model: Model) -> None:
    """Definition 4.4 is a maximum over utilities; and 0 <= MEG <= what the policy says of itself,
    which is at most the sum of log|dom D|."""
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, ["T"])
    measured = table.policies(network)
    sought = search(table, measured, restarts=8, rng=np.random.default_rng(0))
    assert 0.0 <= sought.value <= table.evidence(measured, measured) + 1e-9
    assert table.evidence(measured, measured) <= table.maximum + 1e-9
    assert sought.weights is not None
    rng = np.random.default_rng(1)
    for weights in rng.standard_normal((2, model.sizes["T"])):
        known_table = table.with_features((table.features @ weights)[:, None])
        result = search(known_table, measured, restarts=4, rng=rng)
        assert result.value <= sought.value + 1e-6
    # The evidence is that of the policies which are reported.
    assert table.evidence(measured, sought.policies) == pytest.approx(sought.value, abs=1e-9)


def test_uniform_policies_are_evidence_of_no_target() -> None:
    for make in diagrams.INSUFFICIENT:
        model = make(np.random.default_rng(5), "uniform")
        network = network_of(model)
        table = joint_outcomes(network, model.decisions, ["T"])
        result = search(table, table.policies(network), rng=np.random.default_rng(0))
        assert (result.value, result.rationality) == (0.0, 0.0)


def test_a_policy_that_is_best_for_some_utility_is_certain() -> None:
    """A team whose every outcome shows: for some utility only what it always does is best."""
    states = range(3)
    names = ["D0", "D1"]
    network = CausalBayesianNetwork(
        {**dict.fromkeys(names, states), "Y": range(9), "Z": [0, 1]},
        {"Y": names},
        {
            "D0": [0.0, 1.0, 0.0],
            "D1": [0.0, 0.0, 1.0],
            "Y": lambda a, b: 3 * a + b,
            "Z": [0.3, 0.7],
        },
    )
    result = towards(network, "Y")
    assert result.value == pytest.approx(2 * np.log(3), abs=1e-9)
    assert result.rationality == np.inf
    assert result.weights is not None
    assert np.argmax(result.weights) == 5
    # Nobody has a say in Z.
    blind = joint_outcomes(network, ["D0", "D1"], ["Z"])
    nothing = search(blind, blind.policies(network), rng=np.random.default_rng(0))
    assert nothing.value == 0.0
    assert nothing.weights is not None
    assert np.isnan(nothing.weights).all()
    assert "no say" in nothing.note


def test_the_same_seed_gives_the_same_numbers() -> None:
    network = team([0.9, 0.1], [0.6, 0.4])
    first, second = known(network), known(network)
    assert (first.value, first.utility) == (second.value, second.utility)
    assert towards(network, "X").value == towards(network, "X").value
    another = known(network, rng=np.random.default_rng(9))
    assert another.value == pytest.approx(first.value, abs=1e-8)


def test_held_utilities_are_attained() -> None:
    network = team([0.6, 0.2, 0.2], [0.6, 0.2, 0.2])
    table = joint_outcomes(network, ["D0", "D1"], utility_of(network, (("X",), [0.0, 1.0])))
    measured = table.policies(network)
    task = Task(table, table.features[:, 0], measured, table.visits(measured))
    rng = np.random.default_rng(0)
    wanted = [0.36, 0.44, 0.6]
    starts = [(random_policies(table, 8, rng), np.full(8, 2.0)) for _ in wanted]
    for u, ends in zip(wanted, greatest_entropies(task, wanted, starts), strict=True):
        assert ends.best[0].utility == pytest.approx(u, abs=1e-9)
        assert ends.best[0].entropy >= grid_entropy(u) - 1e-9
        # Three are equally good: the match may be at any of the three choices.
        assert 1 <= len(ends.best) <= 3
    # Nothing attains more than 1.
    ((policies, b),) = starts[:1]
    assert greatest_entropies(task, [1.2], [(policies, b)])[0].best == []
    assert column(policies, 0)[0].shape == (1, 3)


# --- Errors ---------------------------------------------------------------------------------------


def test_too_many_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = team([0.5, 0.5], [0.5, 0.5])
    utility = utility_of(network, (("X",), [0.0, 1.0]))
    monkeypatch.setattr(outcomes, "MAX_ROWS", 3)
    with pytest.raises(
        InvalidModelError,
        match=r"D0, D1 rely on each other \(insufficient recall\).*: 4 possible values, "
        r"expected at most 3; ask about fewer decisions",
    ):
        joint_outcomes(network, ["D0", "D1"], utility)
    monkeypatch.undo()
    monkeypatch.setattr(outcomes, "MAX_ENTRIES", 7)
    with pytest.raises(InvalidModelError, match=r": 8 values, expected at most 7"):
        joint_outcomes(network, ["D0", "D1"], ["X"])
    monkeypatch.setattr(outcomes, "MAX_ENTRIES", 3)
    with pytest.raises(InvalidModelError, match=r": 4 values, expected at most 3"):
        joint_outcomes(network, ["D0", "D1"], ["X"])
