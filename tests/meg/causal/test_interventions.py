"""One policy in changed worlds, with planned and with searched goals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.instances import MEG_08, SIDE, done, few, solvable
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork


def belled(to_cheese: float = 0.8) -> CausalBayesianNetwork:
    """The bell B rings where the cheese S is. T: the mouse got the cheese; R: it got the bell."""
    return CausalBayesianNetwork(
        {"S": SIDE, "B": SIDE, "D": SIDE, "T": [0, 1], "R": [0, 1]},
        {"B": ["S"], "D": ["S"], "T": ["S", "D"], "R": ["B", "D"]},
        {
            "S": [0.5, 0.5],
            "B": lambda s: s,
            "D": [[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]],
            "T": lambda s, d: int(s == d),
            "R": lambda b, d: int(b == d),
        },
    )


def test_a_goal_that_predicts_under_the_shift() -> None:
    table = meg.under_interventions(belled(), ["D"], [{"B": "left"}], targets=["T"])
    assert [row.do for row in table.rows] == [{}, {"B": "left"}]
    for row in table.rows:
        assert row.result.value == pytest.approx(MEG_08, abs=1e-10)
        assert row.transferred == pytest.approx(MEG_08, abs=1e-10)
        assert row.refitted == pytest.approx(MEG_08, abs=1e-10)
        assert row.gap == pytest.approx(0.0, abs=1e-9)
    assert table.largest_gap == pytest.approx(0.0, abs=1e-9)
    assert table.target == "some utility over T"


def test_a_goal_that_only_went_along() -> None:
    # Where the bell always rings left, the goal "go to the bell" predicts 0.8 for left, and the
    # mouse goes left half of the time: log 2 + (log 0.8 + log 0.2) / 2 = -0.2231.
    for goal in ({"targets": ["R"]}, {"utility": {"R": [0, 1]}}):
        table = meg.under_interventions(belled(), ["D"], [{"B": "left"}], **goal)
        before, after = table.rows
        assert before.transferred == pytest.approx(MEG_08, abs=1e-10)
        assert after.transferred == pytest.approx(np.log(2) + np.log(0.16) / 2, abs=1e-6)
        assert after.result.value == pytest.approx(0.0, abs=1e-10)
        assert after.refitted == pytest.approx(0.0, abs=1e-10)
        assert table.largest_gap == after.gap == pytest.approx(-after.transferred, abs=1e-9)


@pytest.mark.parametrize("goal", [{"targets": ["R"]}, {"utility": {"R": [0, 1]}}])
def test_a_goal_at_infinite_rationality_may_be_ruled_out_altogether(goal: Any) -> None:
    table = meg.under_interventions(belled(1.0), ["D"], [{"B": "left"}], **goal)
    assert table.rows[0].result.rationality == np.inf
    assert table.rows[0].transferred == pytest.approx(np.log(2), abs=1e-12)
    assert table.rows[1].transferred == -np.inf
    assert table.largest_gap == np.inf
    shown = table.to_json()
    assert shown["largest_gap"] == "inf"
    assert shown["rows"][1]["transferred"] == "-inf"
    assert json.loads(json.dumps(shown)) == shown
    # Where it holds its own it is worth as much as here.
    kept = meg.under_interventions(belled(1.0), ["D"], [{"S": "left"}], **goal)
    assert kept.rows[1].transferred == pytest.approx(np.log(2), abs=1e-12)


def a_world(model: Model, data: Any) -> tuple[dict[str, int], Model]:
    outside = [x for x in model.sizes if x not in model.decisions]
    x = data.draw(st.sampled_from(outside))
    settings = {x: data.draw(st.integers(0, model.sizes[x] - 1))}
    return settings, done(model, settings)


@given(model=solvable, data=st.data())
@few
def test_a_known_goal_is_planned_anew_in_every_world(model: Model, data: Any) -> None:
    groups = diagrams.groups_of(model)
    settings, changed = a_world(model, data)
    assume(has_sufficient_recall(changed.parents, model.decisions, groups))
    table = meg.under_interventions(
        network_of(model), model.decisions, [settings], utility=list(model.factors)
    )
    before, after = table.rows
    assert before.result.value == pytest.approx(oracle.known_utility_meg(model)[0], abs=1e-8)
    assert before.transferred == pytest.approx(before.result.value, abs=1e-8)
    value = oracle.known_utility_meg(changed)[0]
    assert after.result.value == pytest.approx(value, abs=1e-8)
    assert after.refitted == pytest.approx(value, abs=1e-8)
    expected = oracle.transferred_evidence(changed, before.result.rationality)
    assert after.transferred == pytest.approx(expected, abs=1e-8)
    assert after.gap >= -1e-9


def forgetful_mouse(to_cheese: float = 0.8) -> CausalBayesianNetwork:
    """Two steps in the cheese's direction lead to it; at the second the first is forgotten.

    The bell B rings where the cheese S is. M: where the mouse is after the first step; T: it got
    the cheese; R: it got the bell.
    """
    follow = [[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]]
    bit = [0, 1]
    return CausalBayesianNetwork(
        {"S": SIDE, "B": SIDE, "D": SIDE, "M": SIDE, "E": SIDE, "T": bit, "R": bit},
        {
            "B": ["S"],
            "D": ["S"],
            "M": ["D"],
            "E": ["S"],
            "T": ["S", "M", "E"],
            "R": ["B", "M", "E"],
        },
        {
            "S": [0.5, 0.5],
            "B": lambda s: s,
            "D": follow,
            "M": lambda d: d,
            "E": follow,
            "T": lambda s, m, e: int(s == m == e),
            "R": lambda b, m, e: int(b == m == e),
        },
    )


def goals(name: str) -> list[Any]:
    return [pytest.param({"targets": [name]}, marks=pytest.mark.slow), {"utility": {name: [0, 1]}}]


@pytest.mark.parametrize("goal", goals("R"))
def test_a_goal_that_is_searched_for_may_only_have_gone_along(goal: Any) -> None:
    table = meg.under_interventions(
        forgetful_mouse(), ["D", "E"], [{"B": "left"}], restarts=6, **goal
    )
    before, after = table.rows
    assert before.transferred == pytest.approx(2 * MEG_08, abs=1e-6)
    # Left with 0.8 at both steps, says the goal; the mouse goes left half of the time.
    assert after.transferred == pytest.approx(2 * np.log(2) + np.log(0.16), abs=1e-4)
    assert after.result.value == pytest.approx(0.0, abs=1e-9)
    assert after.refitted == pytest.approx(0.0, abs=1e-9)
    assert table.largest_gap == pytest.approx(-after.transferred, abs=1e-9)
