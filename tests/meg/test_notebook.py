"""Results in a notebook and as frames: a value never stands without its bound or interval."""

from __future__ import annotations

import pytest

import goalmeter as gm
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.report.numbers import nats

SIDES = ["left", "right"]


@pytest.fixture(scope="module")
def mouse() -> CausalBayesianNetwork:
    return CausalBayesianNetwork(
        {"S": SIDES, "D": SIDES, "T": ["cheese", "none"]},
        {"D": ["S"], "T": ["S", "D"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.8, 0.2], [0.2, 0.8]],
            "T": lambda s, d: "cheese" if s == d else "none",
        },
    )


def test_a_value_stands_beside_its_bound() -> None:
    mdp = gm.cliff_world()
    result = gm.meg.known_utility(mdp, gm.epsilon_greedy(gm.optimal_policy(mdp), 0.1))
    page = result._repr_html_()
    for text in (nats(result.value), "proven gap", nats(result.upper_bound), result.method):
        assert text in page
    assert "certified to" in str(result) and f"{result.value:.6g}" in str(result)


def test_causal_results_name_decisions_goal_and_world(mouse: CausalBayesianNetwork) -> None:
    result = gm.meg.targets(mouse, ["D"], ["T"])
    page = result._repr_html_()
    assert "Goal-directedness of D towards" in page and str(result.goal) in page
    seen = {"S": ["left"] * 10, "D": ["left"] * 8 + ["right"] * 2}
    table = gm.meg.from_table(mouse, ["D"], seen, targets=["T"])
    assert "rows of the table" in table._repr_html_() and "interval" in table._repr_html_()
