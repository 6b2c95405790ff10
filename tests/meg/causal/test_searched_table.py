"""MEG from a table of outcomes where the policies behind it are searched for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from meg.causal.instances import MEG_08, SIDE, blank, built, every_outcome, known, quartered, quick
from oracles import random_diagrams as diagrams

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork

# --- Without sufficient recall --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "seed", "towards"),
    [
        (diagrams.team, 0, "utility"),
        pytest.param(diagrams.team, 2, "targets", marks=pytest.mark.slow),
    ],
)
def test_all_outcomes_are_the_policy_where_it_is_searched_for(
    family: Any, seed: int, towards: str
) -> None:
    model = quartered(built(family, seed, "random"), seed)
    if towards == "utility":
        goal: dict[str, Any] = {"utility": list(model.factors)}
        exact = known(model)
    else:
        goal = {"targets": ["T"]}
        exact = meg.targets(network_of(model), model.decisions, ["T"])
    result = quick(blank(model), model.decisions, every_outcome(model), **goal)
    assert result.recall == exact.recall == "insufficient"
    assert result.raw == pytest.approx(exact.value, abs=1e-6)
    assert result.ceiling == pytest.approx(exact.ceiling, abs=1e-9)
    assert result.interval[0] <= exact.value <= result.interval[1]
    assert result.by_decision == pytest.approx(exact.by_decision, abs=1e-5)
    assert set(result.circle) == set(exact.circle)
    assert (result.goal is None) == (towards == "utility")
    k = result.degrees_of_freedom
    assert k == 1 if towards == "utility" else 1 <= k < model.sizes["T"]
    assert result.likelihood_ratio == pytest.approx(2 * result.n * result.raw)
    assert result.corrected == pytest.approx(max(result.raw - k / (2 * result.n), 0.0), abs=1e-12)
    # In a sample this large nothing is lost by looking at rows that were not fitted to.
    assert result.held_out == pytest.approx(result.raw, abs=0.01)


# Two that see where the cheese is but not each other, and get it together or not at all.
PAIR = CausalBayesianNetwork(
    {"S": SIDE, "O": SIDE, "D": SIDE, "E": SIDE, "T": [0, 1]},
    {"O": ["S"], "D": ["S"], "E": ["O"], "T": ["S", "D", "E"]},
    {
        "S": [0.5, 0.5],
        "O": lambda s: s,
        "D": [[0.5, 0.5], [0.5, 0.5]],
        "E": [[0.5, 0.5], [0.5, 0.5]],
        "T": lambda s, d, e: int(s == d == e),
    },
)


@pytest.mark.parametrize(
    "goal", [pytest.param({"targets": ["T"]}, marks=pytest.mark.slow), {"utility": {"T": [0, 1]}}]
)
def test_a_pair_by_hand(goal: Any) -> None:
    # Each goes to the cheese 32 times of 40: logit 0.8 = 0.8 b.
    left = ["left"] * 40
    moves = {"D": ["left"] * 32 + ["right"] * 8, "E": ["right"] * 8 + ["left"] * 32}
    result = quick(PAIR, ["D", "E"], {"S": left, "O": left, **moves}, **goal)
    assert result.raw == pytest.approx(2 * MEG_08, abs=1e-7)
    assert result.by_decision == pytest.approx({"D": MEG_08, "E": MEG_08}, abs=1e-4)
    # The known utility is 0 to 1, a goal -1 to +1.
    unit = 1.0 if "utility" in goal else 2.0
    assert unit * result.rationality == pytest.approx(np.log(4) / 0.8, rel=1e-3)
    assert result.corrected == pytest.approx(2 * MEG_08 - 1 / 80, abs=1e-7)
    assert result.likelihood_ratio == pytest.approx(160 * MEG_08, abs=1e-5)
    assert result.p_value == pytest.approx(2.8e-8, rel=0.1)  # 5.55 standard deviations
    assert 0.0 < result.interval[0] < result.corrected < result.interval[1]
    assert result.held_out < result.raw
    assert json.loads(json.dumps(result.to_json()))["recall"] == "insufficient"
    text = str(result)
    assert "insufficient recall, so the policies were searched for" in text
    assert "the interval holds the model that was found fixed" in text
