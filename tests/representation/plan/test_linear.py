"""The linear reader: the solution of scikit-learn, in the span of the rows, and its fallbacks."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.representation.plans.readers import Scaled, _regression, head_of


def labelled(rows: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, width)) / width**0.5
    scores = inputs @ np.random.default_rng(99).normal(size=(width, 3)) * 4
    return inputs, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_a_regression_is_scikit_learn_s(penalty: float) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    rows, labels = labelled(150, 6)
    weights, shift = _regression(rows, labels, penalty, np.zeros((6, 3)), np.zeros(3))
    theirs = linear.LogisticRegression(C=1 / (penalty * len(rows)), tol=1e-9, max_iter=5000)
    shares = theirs.fit(rows, labels).predict_proba(rows)
    ours = np.exp(rows @ weights + shift)
    assert ours / ours.sum(axis=1, keepdims=True) == pytest.approx(shares, abs=2e-3)


def test_rows_in_their_span_give_the_same_solution() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 3, 50))
    scaled = Scaled.of(wide)
    assert scaled.basis is not None and scaled(wide).shape[1] <= 40
    flat = scaled.standard(wide.reshape(40, -1))
    # All products of rows are as they were, and a fit with squared weights knows no more.
    assert scaled(wide) @ scaled(wide).T == pytest.approx(flat @ flat.T)
    labels = rng.integers(0, 3, size=40)
    start = np.zeros(3)
    inner = _regression(scaled(wide), labels, 1e-2, np.zeros((scaled(wide).shape[1], 3)), start)
    outer = _regression(flat, labels, 1e-2, np.zeros((150, 3)), start)
    unseen = rng.normal(size=(9, 3, 50))
    theirs = scaled.standard(unseen.reshape(9, -1)) @ outer[0] + outer[1]
    assert scaled(unseen) @ inner[0] + inner[1] == pytest.approx(theirs, abs=5e-3)


def test_validation_chooses_the_penalty_and_may_choose_to_read_nothing() -> None:
    train, beside = labelled(200, 6, 1), labelled(80, 6, 2)
    assert np.abs(head_of(train, beside, (1e-1, 1e-3)).weights).max() > 0.1
    shuffled = train[0], np.random.default_rng(0).permutation(train[1])
    noise = head_of(shuffled, beside, (1e-4, 1e-5))
    assert (noise.weights == 0).all()
    assert (noise.called(beside[0]) == np.bincount(train[1]).argmax()).all()
    # Nor is anything read where there is nothing to choose by, or a single class.
    none = (np.zeros((0, 6)), np.zeros(0, dtype=int))
    assert (head_of(train, none, (1e-1,)).weights == 0).all()
    assert (
        head_of((train[0], np.full(200, 2)), beside, (1e-1,)).called(train[0]).tolist() == [2] * 200
    )
