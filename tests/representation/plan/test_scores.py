"""Prefix and conditional accuracy: by hand, against the oracle, and where nothing can be said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import plans as oracle

from goalmeter._types import IntArray
from goalmeter.representation.plans.readers import END, NOTHING, plan_score

# Three sequences of three queries: one that ends after two, one that goes on, one cut short.
DONE = np.array([[0, 1, END], [0, 1, 2], [3, NOTHING, NOTHING]])
SAID = np.array([[0, 1, END], [0, 2, 2], [END, 0, 0]])
GRIDS = np.array([0, 1, 2])


def test_scores_worked_by_hand() -> None:
    one, two, three = (plan_score(SAID, DONE, GRIDS, n) for n in (1, 2, 3))
    # Two of three first actions; of the two sequences with a second action, both were right so
    # far, and one goes on so; the one with a third was wrong before.
    assert one["prefix"].value == pytest.approx(2 / 3) and one["prefix"].n == 3
    assert one["conditional"] == one["prefix"]
    assert (two["prefix"].value, two["prefix"].n) == (0.5, 2)
    assert (two["conditional"].value, two["conditional"].n) == (0.5, 2)
    assert (three["prefix"].value, three["prefix"].n) == (0.0, 1)
    assert math.isnan(three["conditional"].value) and three["conditional"].n == 0


def random_plans(seed: int, rows: int = 60, queries: int = 5) -> tuple[IntArray, IntArray]:
    rng = np.random.default_rng(seed)
    done = rng.integers(0, 2, size=(rows, queries))
    for row, length in zip(done, rng.integers(0, queries + 1, size=rows), strict=True):
        row[length:] = NOTHING
        if length < queries and rng.random() < 0.7:
            row[length] = END
    said = np.where(rng.random(done.shape) < 0.8, done, rng.integers(0, END + 1, done.shape))
    return np.where(said < 0, END, said), done


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_the_oracle(seed: int) -> None:
    said, done = random_plans(seed)
    words = [["end" if a == END else a for a in row if a != NOTHING] for row in done.tolist()]
    told = [["end" if a == END else a for a in row] for row in said.tolist()]
    # A grid each, so that an estimate is the plain mean.
    for n in range(1, 6):
        ours = plan_score(said, done, np.arange(len(done)), n)
        for name, value in oracle.scores(told, words, n).items():
            assert ours[name].value == pytest.approx(value, nan_ok=True), (n, name)


def test_conditional_accuracies_multiply_to_that_of_the_prefix_where_none_is_shorter() -> None:
    rng = np.random.default_rng(0)
    done = rng.integers(0, 4, size=(200, 4))
    said = np.where(rng.random(done.shape) < 0.8, done, 0)
    product = 1.0
    for n in range(1, 5):
        score = plan_score(said, done, np.arange(200), n)
        product *= score["conditional"].value
        assert score["prefix"].value == pytest.approx(product)
        assert plan_score(done, done, np.arange(200), n)["prefix"].value == 1.0
