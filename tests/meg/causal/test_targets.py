"""MEG towards targets, over all utilities on them: by hand, and against a literal optimiser."""

from __future__ import annotations

import json

import numpy as np
import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.instances import (
    MEG_08,
    evidence_of,
    goal_weights,
    mouse,
    seeds,
    several,
)
from oracles import causal_targets
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg import CausalMeg


def dial(*policy: float) -> CausalBayesianNetwork:
    """A blind choice among several, and what comes of it."""
    states = [f"s{i}" for i in range(len(policy))]
    return CausalBayesianNetwork(
        {"D": states, "T": states}, {"T": ["D"]}, {"D": list(policy), "T": lambda d: d}
    )


# --- By hand --------------------------------------------------------------------------------------


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


# --- The literal oracle ---------------------------------------------------------------------------


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


# --- Goals that are read --------------------------------------------------------------------------


def test_a_result_is_json() -> None:
    fields = json.loads(json.dumps(meg.targets(mouse(1.0), ["D"], ["T"]).to_json()))
    assert fields["rationality"] == "inf"
    assert [row["outcome"] for row in fields["goal"]] == [{"T": "cheese"}, {"T": "none"}]
    assert fields["targets"] == ["T"]
    assert fields["certified"] is True
