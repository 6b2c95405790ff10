"""Goals that were searched for, in changed worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.causal.instances import (
    MEG_08,
    SIDE,
)

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork

# --- Without sufficient recall --------------------------------------------------------------------


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


@pytest.mark.slow
def test_a_goal_in_a_gap_says_nothing_of_other_worlds() -> None:
    # Two that cannot talk, twelve ways each, of which one must be taken by both: as the rationality
    # grows they go over to it at once, and no rationality has them take it four times of ten.
    ways = list(range(12))
    often = [0.4, *[0.6 / 11] * 11]
    network = CausalBayesianNetwork(
        {"D": ways, "E": ways, "W": ["dry", "wet"], "T": [0, 1]},
        {"T": ["D", "E", "W"]},
        {"D": often, "E": often, "W": [1, 0], "T": lambda d, e, w: int(d == e == 0)},
    )
    wet, goal = [{"W": "wet"}], {"T": [0, 1]}
    table = meg.under_interventions(network, ["D", "E"], wet, utility=goal, restarts=8)
    before, after = table.rows
    assert np.isnan(before.result.rationality)
    assert before.transferred == before.result.value > 0.0
    assert after.result.value == after.refitted == pytest.approx(before.result.value, abs=1e-6)
    assert np.isnan(after.transferred) and np.isnan(table.largest_gap)
    assert "explains the original world in a gap" in after.result.notes[-1]
    assert after.result.notes[:-1] == before.result.notes
