"""MEG towards targets: by hand, against a literal optimiser, large, and with rare contexts."""

from __future__ import annotations

import numpy as np
import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.instances import MEG_08, evidence_of, goal_weights, mouse, seeds, several
from meg.test_visit_matching import grid
from oracles import causal_targets
from oracles.causal_model import Model, has_sufficient_recall

import goalmeter as gm
from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram, unroll
from goalmeter.meg import CausalMeg, linear, targets
from goalmeter.tabular import epsilon_greedy, optimal_policy


def dial(*policy: float) -> CausalBayesianNetwork:
    """A blind choice among several, and what comes of it."""
    states = [f"s{i}" for i in range(len(policy))]
    return CausalBayesianNetwork(
        {"D": states, "T": states}, {"T": ["D"]}, {"D": list(policy), "T": lambda d: d}
    )


def test_the_mouse_wants_cheese() -> None:
    result = meg.targets(mouse(), ["D"], ["T"])
    assert result.value == pytest.approx(MEG_08, abs=1e-12)
    assert result.certified
    # beta U and a constant: +1 and -1 at beta = log 2.
    assert result.goal is not None
    assert result.goal.rows() == [
        (("cheese",), pytest.approx(1.0)),
        (("none",), pytest.approx(-1.0)),
    ]
    assert result.rationality == pytest.approx(np.log(2), rel=1e-6)
    assert str(result.goal) == "cheese +1, none −1"
    assert result.target == "some utility over T"
    assert (result.recall, result.targets) == ("single", ("T",))


@pytest.mark.parametrize("rare", [1e-2, 1e-5, 1e-8, 1e-12])
def test_choices_that_are_hardly_ever_made_are_explained_exactly(rare: float) -> None:
    # Of two choices a utility says any odds, at 2 beta = log((1 - rare) / rare).
    result = meg.targets(dial(1 - rare, rare), ["D"], ["T"])
    value = np.log(2) + rare * np.log(rare) + (1 - rare) * np.log1p(-rare)
    assert result.value == pytest.approx(value, abs=1e-13)
    assert result.rationality == pytest.approx(np.log((1 - rare) / rare) / 2, rel=1e-4)


def test_outcomes_without_a_say_have_no_utility() -> None:
    # X is what the agent does where S lets it, and the state "off" where it does not.
    network = CausalBayesianNetwork(
        {"S": ["on", "off"], "D": [0, 1], "X": [0, 1, "off"]},
        {"X": ["S", "D"]},
        {"S": [0.5, 0.5], "D": [0.25, 0.75], "X": lambda s, d: d if s == "on" else "off"},
    )
    result = meg.targets(network, ["D"], ["X"])
    assert result.goal is not None
    assert np.isnan(result.goal.values).tolist() == [False, False, True]
    assert str(result.goal) == "1 +1, 0 −1"
    # The decision counts as a whole, although it shows half of the time only.
    assert result.value == pytest.approx(np.log(2) - _bits(0.25), abs=1e-12)
    rows = result.to_json()["goal"]
    assert rows[-1] == {"outcome": {"X": "off"}, "utility": None}


def _bits(p: float) -> float:
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


def assert_agrees(model: Model, targets: tuple[str, ...], starts: int = 1) -> CausalMeg:
    result = meg.targets(network_of(model), model.decisions, targets)
    optimiser = causal_targets.targets_meg(model, [targets], starts=starts)
    # The optimiser climbs from below and cannot reach infinity.
    assert optimiser.value <= result.value + 1e-8
    assert result.value <= optimiser.value + (2e-6 if np.isinf(result.rationality) else 1e-8)
    assert result.certified
    assert result.upper_bound >= optimiser.value - 1e-9
    assert result.value <= result.ceiling + 1e-9 <= result.maximum + 2e-9
    assert sum(result.by_decision.values()) == pytest.approx(result.value, abs=1e-8)
    if result.recall != "none" and np.isfinite(result.rationality):
        # The goal that is shown scores what is said.
        literal = evidence_of(model, targets, goal_weights(result))
        assert literal == pytest.approx(result.value, abs=1e-7)
    return result


@given(seed=seeds, size=st.integers(1, 3))
@several
def test_the_value_is_the_best_of_all_utilities_in_any_diagram(seed: int, size: int) -> None:
    model = random_team(seed, most=5)
    outside = [x for x in model.sizes if x not in model.decisions]
    assume(outside)
    targets = tuple(outside[:size])
    assume(has_sufficient_recall(model.parents, model.decisions, [targets]))
    assert_agrees(model, targets)


def walk(n: int, horizon: int, noise: float) -> InfluenceDiagram:
    """n x n squares with slip, the horizon shorter than what would lead everywhere."""
    mdp = grid(n, horizon=horizon, slip=0.05)
    return unroll(mdp, epsilon_greedy(optimal_policy(mdp), noise))


@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_both_ways_agree(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = walk(4, 4, noise)
    monkeypatch.setattr(linear, "_LARGE_WORK", 0.0)
    large = targets(diagram, None, ["S4"])
    monkeypatch.setattr(linear, "_LARGE_WORK", 1e30)
    small = targets(diagram, None, ["S4"])
    assert large.certified and small.certified
    assert large.value == pytest.approx(small.value, abs=1e-7)
    # What is never met proves the limit, which coordinates only come near to.
    assert np.isinf(large.rationality) == (noise == 0.0)
    # Squares that no choice leads to have no part in the goal, either way.
    assert large.goal is not None and small.goal is not None
    np.testing.assert_array_equal(np.isnan(large.goal.values), np.isnan(small.goal.values))


RARE = 5e-13


@pytest.mark.parametrize("seed", range(3))
def test_more_targets_never_explain_less_where_contexts_are_rare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sure = np.eye(2)[rng.integers(2, size=2)]
    model = gm.CausalBayesianNetwork(
        {"D": [0, 1], "E": [0, 1], "S": [0, 1], "T": [0, 1, 2]},
        {"E": ["D"], "S": ["D"], "T": ["S", "E"]},
        {
            "D": [1 - RARE, RARE],
            "E": sure,
            "S": rng.dirichlet([1, 1], size=2),
            "T": rng.dirichlet([1, 1, 1], size=(2, 2)),
        },
    )
    alone = gm.meg.targets(model, ["D", "E"], ["T"])
    both = gm.meg.targets(model, ["D", "E"], ["S", "T"])
    assert both.value >= alone.value - 1e-6
    assert sum(both.by_decision.values()) == pytest.approx(both.value, abs=1e-6)


def test_a_large_factor_that_is_constant_does_not_drown_a_small_one() -> None:
    model = gm.CausalBayesianNetwork(
        {"D": ["a", "b"], "T": ["a", "b"], "K": [0, 1]},
        {"T": ["D"], "K": ["D"]},
        {"D": [0.9, 0.1], "T": np.eye(2), "K": [[1, 0], [1, 0]]},
    )
    alone = gm.meg.causal_utility(model, ["D"], [(["T"], [1e-9, 0])])
    beside = gm.meg.causal_utility(model, ["D"], [(["T"], [1e-9, 0]), (["K"], [7e8, -1e8])])
    # log 2 - H(0.9)
    expected = np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert alone.value == pytest.approx(expected, abs=1e-12)
    assert beside.value == pytest.approx(expected, abs=1e-12)


def test_many_targets_need_no_square_table() -> None:
    leaves = [f"T{i}" for i in range(16)]
    model = gm.CausalBayesianNetwork(
        {x: [0, 1] for x in ["D", *leaves]},
        {x: ["D"] for x in leaves},
        {"D": [0.8, 0.2]} | {x: [[0.9, 0.1], [0.4, 0.6]] for x in leaves},
    )
    # 65 536 joint outcomes, which tell two actions apart: one number.
    result = gm.meg.targets(model, ["D"], leaves)
    expected = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    assert result.certified
    assert result.value == pytest.approx(expected, abs=1e-9)
