"""The oracles of the causal measures against arithmetic by hand, definitions, and each other."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from . import causal_meg as meg
from . import causal_model as causal
from . import example_one
from . import known_utility as mdp_known
from . import random_diagrams as diagrams
from .causal_model import Array, Model
from .causal_targets import factors_of, features, matching_policy_bound, targets_meg

LOG2 = math.log(2.0)
MOUSE = LOG2 + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)  # 0.192744757021758
Generator = Callable[[np.random.Generator, str], Model]

EACH = [
    (make, seed, policy)
    for make in diagrams.SUFFICIENT
    for seed, policy in enumerate(diagrams.POLICIES)
]


def drawn(make: Generator, seed: int, policy: str = "random") -> Model:
    return make(np.random.default_rng(seed), policy)


# Definition 2.1


def test_joint_and_do_by_hand() -> None:
    model = diagrams.mouse(0.8)
    table = causal.joint(model)  # [S, D, T]
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 1] = expected[1, 1, 1] = 0.4
    expected[0, 1, 0] = expected[1, 0, 0] = 0.1
    np.testing.assert_allclose(table, expected, atol=1e-15)
    np.testing.assert_allclose(causal.marginal(model, table, ["T"]), [0.2, 0.8], atol=1e-15)
    np.testing.assert_allclose(
        causal.marginal(model, table, ["S", "D"], {"T": 1}), [[0.5, 0], [0, 0.5]], atol=1e-15
    )
    assert causal.expected_utility(model) == pytest.approx(0.6, abs=1e-15)
    # Seeing the mouse go left makes the cheese on the left likely; making it go left does not.
    done = causal.truncated(model, {"D": 0})
    np.testing.assert_allclose(causal.marginal(model, done, ["S"]), [0.5, 0.5], atol=1e-15)
    seen = causal.marginal(model, table, ["S"], {"D": 0})
    np.testing.assert_allclose(seen, [0.8, 0.2], atol=1e-15)
    assert causal.expected_utility(model, done) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("make", diagrams.SUFFICIENT)
def test_tables_are_the_enumeration(make: Generator) -> None:
    model = drawn(make, 3, "mixed")
    table = causal.joint(model)
    assert table.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(causal.probability_table(model), table, atol=1e-15)
    names = list(model.sizes)[::-1][:2]
    np.testing.assert_allclose(
        causal.sum_to(model, names, table), causal.marginal(model, table, names), atol=1e-15
    )
    by_table = float((table * causal.utility_table(model, model.factors)).sum())
    assert causal.expected_utility(model) == pytest.approx(by_table, abs=1e-14)
    x = names[0]
    fixed = np.zeros(model.cpds[x].shape)
    fixed[..., 1] = 1.0
    np.testing.assert_allclose(
        causal.truncated(model, {x: 1}),
        causal.probability_table(causal.with_policy(model, {x: fixed})),
        atol=1e-15,
    )


def test_d_separation_by_hand() -> None:
    # A -> B -> C -> E, B <- F -> C, G -> E, E -> K
    graph = {"A": (), "B": ("A", "F"), "C": ("B", "F"), "F": (), "E": ("C", "G"), "G": ()}
    graph |= {"K": ("E",)}
    separated = [
        ("A", "C", ["B", "F"]),  # chain and fork are both blocked
        ("A", "F", []),  # the collider B is not observed
        ("A", "G", []),  # E is a collider
        ("A", "K", ["E"]),
        ("A", "G", ["C"]),
        ("A", "B", ["B"]),  # what is given is constant
    ]
    connected = [
        ("A", "C", ["B"]),  # B opens A -> B <- F -> C
        ("A", "F", ["B"]),
        ("A", "F", ["K"]),  # a descendant of the collider
        ("A", "G", ["K"]),
        ("A", "A", []),
    ]
    for x, y, z in separated:
        assert causal.d_separated(graph, [x], [y], z), (x, y, z)
    for x, y, z in connected:
        assert not causal.d_separated(graph, [x], [y], z), (x, y, z)
    paths = sorted("".join(p) for p in causal.undirected_paths(graph, "A", "E"))
    assert paths == ["ABCE", "ABFCE"]


def test_sufficient_recall_by_hand() -> None:
    figure_2 = diagrams.smelling_mouse(0.8)
    for target, sufficient in (("U3", False), ("S3", False), ("S2", True), ("U2", True)):
        result = causal.has_sufficient_recall(figure_2.parents, ["D1", "D2"], [(target,)])
        assert result == sufficient, target
    assert causal.relies_on(figure_2.parents, "D1", "D2", [("U3",)])
    assert causal.relies_on(figure_2.parents, "D2", "D1", [("U3",)])
    assert not causal.relies_on(figure_2.parents, "D1", "D2", [("S2",)])
    # An MDP whose utility compares the last state with the first: D2, which has forgotten the
    # first, must ask what D1 would have done where.
    mdp = {"S1": (), "D1": ("S1",), "S2": ("S1", "D1"), "D2": ("S2",), "S3": ("S2", "D2")}
    assert causal.solving_order(mdp, ["D1", "D2"], [("S2",), ("S3",)]) == ["D2", "D1"]
    assert causal.solving_order(mdp, ["D1", "D2"], [("S1", "S3")]) is None
    # Two decisions that see the same and pay separately do not need each other; jointly they do.
    pair = {"X": (), "D1": ("X",), "D2": ("X",), "Y1": ("D1",), "Y2": ("D2",)}
    assert causal.has_sufficient_recall(pair, ["D1", "D2"], [("Y1",), ("Y2",)])
    assert not causal.has_sufficient_recall(pair, ["D1", "D2"], [("Y1", "Y2")])


# Soft-optimal policies


@pytest.mark.parametrize("policy", diagrams.POLICIES)
def test_closed_form_of_one_decision(policy: str) -> None:
    for seed in range(8):
        model = drawn(diagrams.one_decision, seed, policy)
        for beta in (-2.0, 0.7):
            by_induction = meg.soft_optimal_policy(model, beta)
            for d, q in meg.soft_optimal_single(model, beta).items():
                np.testing.assert_allclose(by_induction[d], q, atol=1e-12)


@pytest.mark.parametrize(("make", "seed", "policy"), EACH)
def test_soft_policy_is_the_regularised_optimum(make: Generator, seed: int, policy: str) -> None:
    model = drawn(make, seed + 10, policy)
    rng = np.random.default_rng(seed)

    def objective(logs: dict[str, Array]) -> float:
        now = causal.with_policy(model, {d: np.exp(q) for d, q in logs.items()})
        utility = float(
            (causal.probability_table(now) * causal.utility_table(now, now.factors)).sum()
        )
        return beta * utility + meg.causal_entropy(now)

    for beta in (-1.5, 3.0):
        best = meg.soft_optimal_policy(model, beta)
        elsewhere = {
            d: rng.dirichlet(np.full(q.shape[-1], 2.0), size=q.shape[:-1])
            for d, q in causal.uniform_policy(model).items()
        }
        # Sufficient recall: whatever is assumed of the decisions not yet solved.
        again = meg.soft_optimal_policy(model, beta, unsolved=elsewhere)
        for d in model.decisions:
            np.testing.assert_allclose(np.exp(again[d]), np.exp(best[d]), atol=1e-12)
        top = objective(best)
        for size in (0.01, 1.0):
            for _ in range(5):
                perturbed = {
                    d: meg.log_softmax(q + size * rng.normal(size=q.shape)) for d, q in best.items()
                }
                assert objective(perturbed) <= top + 1e-12


def test_limits_of_the_rationality() -> None:
    # Fact 4: behind first choice 0 one of three second choices wins, behind 1 all three do, behind
    # 2 none: 1/4, 3/4, 0 at +inf.  At -inf: 2 losing continuations, none, 3.
    sizes = {"D1": 3, "D2": 3, "T": 2}
    parents = {"D1": (), "D2": ("D1",), "T": ("D1", "D2")}
    wins = diagrams.table(sizes, ("D1", "D2"), 2, lambda a, b: int(a == 1 or (a == 0 and b == 0)))
    cpds = {"D1": np.full(3, 1 / 3), "D2": np.full((3, 3), 1 / 3), "T": wins}
    fork = Model(sizes, parents, cpds, ("D1", "D2"), ((("T",), np.array([0.0, 1.0])),))
    for beta, first in ((math.inf, [1 / 4, 3 / 4, 0]), (-math.inf, [2 / 5, 0, 3 / 5])):
        logs = meg.soft_optimal_policy(fork, beta)
        np.testing.assert_allclose(np.exp(logs["D1"]), first, atol=1e-15)
        nearly = meg.soft_optimal_policy(fork, math.copysign(60.0, beta))
        for d in ("D1", "D2"):
            np.testing.assert_allclose(np.exp(logs[d]), np.exp(nearly[d]), atol=1e-15)
    np.testing.assert_allclose(np.exp(meg.soft_optimal_policy(fork, math.inf)["D2"][0]), [1, 0, 0])


def test_an_unrolled_mdp_is_the_mdp() -> None:
    rng = np.random.default_rng(4)
    P, policy = rng.dirichlet(np.ones(2), size=(2, 2)), rng.dirichlet(np.ones(2), size=2)
    R, mu = rng.normal(size=2), np.array([0.3, 0.7])
    names = ["S1", "D1", "S2", "D2", "S3", "D3"]
    parents: dict[str, tuple[str, ...]] = {"S1": ()}
    cpds = {"S1": mu}
    for t in (1, 2, 3):
        parents[f"D{t}"], cpds[f"D{t}"] = (f"S{t}",), policy
        if t < 3:
            parents[f"S{t + 1}"], cpds[f"S{t + 1}"] = (f"S{t}", f"D{t}"), P
    factors = tuple(((f"S{t}",), R) for t in (1, 2, 3))
    model = Model(dict.fromkeys(names, 2), parents, cpds, ("D1", "D2", "D3"), factors)
    value, beta = meg.known_utility_meg(model)
    expected, at = mdp_known.known_utility_meg(P, R, policy, mu, 3)
    assert value == pytest.approx(expected, abs=1e-12)
    assert beta == pytest.approx(at, abs=1e-5)


# Known utility


def test_example_one() -> None:
    value, beta = meg.known_utility_meg(diagrams.mouse(0.8))
    assert value == pytest.approx(example_one.MEG_08, abs=1e-14)
    assert beta == pytest.approx(LOG2, abs=1e-6)
    for to_cheese, limit in ((1.0, math.inf), (0.0, -math.inf)):
        value, beta = meg.known_utility_meg(diagrams.mouse(to_cheese))
        assert value == pytest.approx(LOG2, abs=1e-15) and beta == limit
    assert meg.known_utility_meg(diagrams.mouse(0.5))[0] == pytest.approx(0.0, abs=1e-15)
    optimal = diagrams.mouse(1.0)
    naive = [
        meg.evidence(optimal, meg.soft_optimal_policy(optimal, scale)) - LOG2 for scale in (1, 2)
    ]
    assert naive == pytest.approx([example_one.NAIVE_U, example_one.NAIVE_2U], abs=1e-14)
    # Figure 4: the decision that corresponds to D is its mechanism, and its MEG is the same.  D
    # itself copies the mechanism, and given that copy it is the best thing to do.
    mechanised = diagrams.mechanised_mouse(0.8)
    assert meg.known_utility_meg(mechanised)[0] == pytest.approx(MOUSE, abs=1e-14)
    copy = mechanised._replace(decisions=("D",))
    assert meg.known_utility_meg(copy)[0] == pytest.approx(LOG2, abs=1e-15)


# Definition 4.4


def test_targets_of_the_mouse() -> None:
    model = diagrams.mouse(0.8, position=True)
    for group, expected in ((("T",), MOUSE), (("S",), 0), (("M",), 0), (("M", "S"), MOUSE)):
        result = targets_meg(model, [group])
        assert result.value == pytest.approx(expected, abs=1e-12), group
        assert matching_policy_bound(model, [group])[0] == pytest.approx(expected, abs=1e-12)
    (utility,) = targets_meg(model, [("T",)]).utility
    assert utility[1] - utility[0] == pytest.approx(2 * LOG2, abs=1e-6)
    for obeys, expected in ((1.0, LOG2), (0.8, MOUSE)):
        agent = diagrams.goal_conditional(obeys)
        assert targets_meg(agent, [("O",)]).value == pytest.approx(0.0, abs=1e-12)
        assert targets_meg(agent, [("I", "O")]).value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("make", "seed", "policy"), EACH)
def test_value_and_bound_meet(make: Generator, seed: int, policy: str) -> None:
    model = drawn(make, seed + (100 if make is diagrams.perfect_recall else 0), policy)
    groups = diagrams.groups_of(model)
    result = targets_meg(model, groups, starts=1)
    bound, residual = matching_policy_bound(model, groups, [result.policy])
    assert residual < 1e-9
    assert bound == pytest.approx(result.value, abs=1e-7)
    known, _ = meg.known_utility_meg(model)
    total = math.fsum(math.log(model.sizes[d]) for d in model.decisions)
    assert known - 1e-8 <= result.value <= total - meg.causal_entropy(model) + 1e-8


def test_gradient_of_the_class() -> None:
    model = drawn(diagrams.chain, 2)
    groups = diagrams.groups_of(model)
    theta = np.random.default_rng(0).normal(size=features(model, groups).size)

    def value(at: Array) -> float:
        factors = factors_of(model, groups, at)
        return meg.evidence(model, meg.soft_optimal_policy(model, 1.0, factors))

    logs = meg.soft_optimal_policy(model, 1.0, factors_of(model, groups, theta))
    soft = causal.with_policy(model, {d: np.exp(q) for d, q in logs.items()})
    gradient = features(model, groups) - features(soft, groups)
    steps = 1e-5 * np.eye(theta.size)
    by_difference = [(value(theta + e) - value(theta - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, by_difference, atol=1e-9)
