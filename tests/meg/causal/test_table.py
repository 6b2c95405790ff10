"""MEG from tables of outcomes, planned and searched, and every kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import given
from hypothesis import strategies as st
from meg.causal.instances import (
    CHEESE,
    MEG_08,
    SIDE,
    TEN,
    blank,
    built,
    every_outcome,
    few,
    known,
    mouse,
    quartered,
    quick,
    seeds,
)
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams

from goalmeter import meg
from goalmeter._errors import InvalidTrajectoryError
from goalmeter.causal import CausalBayesianNetwork


def test_eight_of_ten_by_hand() -> None:
    for goal in ({"targets": ["T"]}, {"utility": CHEESE}):
        result = quick(mouse(0.5), ["D"], TEN, **goal)
        # The policy of the model, a coin, is not looked at.
        assert result.raw == result.value == pytest.approx(MEG_08, abs=1e-9)
        assert result.n == 10
        assert result.rationality == pytest.approx(np.log(2), rel=1e-4)
        assert result.likelihood_ratio == pytest.approx(20 * MEG_08, rel=1e-7)
        assert result.degrees_of_freedom == pytest.approx(1.0, abs=1e-6)
        # One weight, well specified: the bias is 1 / (2 n).
        assert result.corrected == pytest.approx(MEG_08 - 1 / 20, abs=1e-6)
        assert 0.0 <= result.interval[0] <= result.corrected <= result.interval[1]
        assert result.maximum == pytest.approx(np.log(2))
        assert result.by_decision == {"D": pytest.approx(MEG_08)}
        assert (result.recall, result.targets, result.decisions) == ("single", ("T",), ("D",))


@pytest.mark.parametrize("family", diagrams.SUFFICIENT)
def test_all_outcomes_are_the_policy(family: Any, seed: int = 0) -> None:
    model = quartered(built(family, seed, "random"), seed)
    network, data = network_of(model), every_outcome(model)
    exact = known(model)
    if exact.recall == "none":
        return
    result = quick(blank(model), model.decisions, data, utility=list(model.factors))
    assert result.raw == pytest.approx(exact.value, abs=1e-8)
    assert result.raw == pytest.approx(oracle.known_utility_meg(model)[0], abs=1e-8)
    assert result.maximum == pytest.approx(exact.maximum, abs=1e-9)
    assert result.ceiling == pytest.approx(exact.ceiling, abs=1e-9)
    assert result.recall == exact.recall
    for d in model.decisions:
        assert result.by_decision[d] == pytest.approx(exact.by_decision[d], abs=1e-6)
    targets = model.factors[0][0]
    best = meg.targets(network, model.decisions, targets)
    if best.recall not in ("none", "insufficient"):
        towards = quick(blank(model), model.decisions, data, targets=targets)
        assert towards.raw == pytest.approx(best.value, abs=1e-6)
        assert towards.upper_bound >= best.value - 1e-6


@given(seed=seeds, rows=st.integers(1, 12))
@few
def test_it_is_the_maximum_of_the_likelihood(seed: int, rows: int) -> None:
    # Whatever the counts: contexts of the table count as often as they are there.
    model = built(diagrams.branches, seed % 7, "random")
    network = network_of(model)
    data = network.sample(rows, np.random.default_rng(seed))
    result = quick(network, model.decisions, data, utility=list(model.factors))

    def average(beta: float) -> float:
        total = 0.0
        for d, logs in oracle.soft_optimal_policy(model, beta).items():
            seen = [np.array(data[x], dtype=int) for x in (*model.parents[d], d)]
            total += float(np.mean(logs[tuple(seen)])) + np.log(model.sizes[d])
        return total

    if np.isfinite(result.rationality):
        at_best = average(result.rationality)
        assert result.raw == pytest.approx(max(at_best, 0.0), abs=1e-8)
    for beta in (-20.0, -1.0, 0.0, 0.3, 2.0, 20.0):
        assert average(beta) <= result.raw + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("goal", [{"targets": ["T"]}, {"utility": CHEESE}])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(goal: Any) -> None:
    rng = np.random.default_rng(2)
    covered, raw, corrected = 0, [], []
    for _ in range(60):
        data = mouse().sample(60, rng)
        result = quick(mouse(0.5), ["D"], data, confidence=0.9, **goal)
        covered += result.interval[0] <= MEG_08 <= result.interval[1]
        raw.append(result.raw)
        corrected.append(result.corrected)
    # 54 of 60 with a standard deviation of 2.3.
    assert covered >= 47
    assert abs(np.mean(corrected) - MEG_08) < 0.02


CHAIN = CausalBayesianNetwork(
    {"S": [0, 1, 2], "D": [0, 1], "X": [0, 1], "E": [0, 1], "T": [0, 1]},
    {"D": ["S"], "X": ["S", "D"], "E": ["X"], "T": ["E"]},
    {
        "S": [0.5, 0.5, 0.0],
        "D": [[0.5, 0.5]] * 3,
        "X": lambda s, d: d,
        "E": [[0.5, 0.5]] * 2,
        "T": lambda e: e,
    },
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"s": ["left"], "D": ["left"]},
            "the table's column 'S' does not exist, expected one of s, D; did you mean 's'?",
        ),
        ({"S": ["left", None], "D": SIDE}, "row 1 of the table: state of 'S': None does not exist"),
        ({"S": [], "D": []}, r"the columns of the table have \[0\] rows, expected"),
        ({}, "the table is dict, expected"),
    ],
)
def test_tables_that_do_not_fit_are_refused(data: Any, message: str) -> None:
    with pytest.raises(InvalidTrajectoryError, match=message):
        quick(mouse(), ["D"], data, targets=["T"])


def test_rows_that_the_model_cannot_produce_are_refused() -> None:
    possible = {"S": [0, 1], "D": [1, 0], "X": [1, 0], "E": [0, 1]}
    assert quick(CHAIN, ["D", "E"], possible, targets=["T", "X"]).n == 2
    for change, words in (
        ({"S": [0, 2]}, "row 1 of the table has S = 2 at 'D', which has probability 0"),
        ({"X": [0, 0]}, "row 0 of the table has X = 0 at 'E', which has probability 0 .* after"),
    ):
        with pytest.raises(InvalidTrajectoryError, match=words):
            quick(CHAIN, ["D", "E"], possible | change, targets=["T", "X"])


NUMBERED = CausalBayesianNetwork(
    {"S": [0, 1], "D": [1, 2], "T": [False, True]},
    {"D": ["S"], "T": ["S", "D"]},
    {"S": [0.5, 0.5], "D": [[0.5, 0.5], [0.5, 0.5]], "T": lambda s, d: s + 1 == d},
)
ROWS = {"D": [1, 1, 2, 2, 2], "other": ["x", "", "?", "x", "x"], "S": [0, 0, 1, 1, 0]}


def test_every_kind_of_table_says_the_same(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    path = tmp_path / "outcomes.csv"
    lines = [" D , other,S", *(",".join(map(str, row)) for row in zip(*ROWS.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n\n")
    tables: list[Any] = [
        ROWS,
        {x: np.array(column) for x, column in ROWS.items()},
        {x: [str(value) for value in column] for x, column in ROWS.items()},
        pandas.DataFrame(ROWS),
        pandas.DataFrame(ROWS).astype({"S": "category"}),
        polars.DataFrame(ROWS),
        path,
        str(path),
    ]
    shown = [quick(NUMBERED, ["D"], table, targets=["T"]).to_json() for table in tables]
    for fields in shown[1:]:
        assert fields == shown[0]
    assert shown[0]["n"] == 5


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
    assert result.recall == "insufficient"
