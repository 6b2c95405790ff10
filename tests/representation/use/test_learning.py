"""Directions of probes: towards walls, as long as the means lie apart, and from other grids."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.representation.use.directions import Direction, along, ridge_directions


def test_a_gap_by_hand() -> None:
    rows = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0], [6.0, 1.0]])
    wall = np.array([False, False, True, True])
    direction = along(np.array([3.0, 0.0]), rows, wall)
    assert direction is not None
    assert direction.unit.tolist() == [1.0, 0.0] and direction.gap == 4.0
    assert direction.vector(0.5).tolist() == [2.0, 0.0]
    assert along(np.array([-3.0, 0.0]), rows, wall) is None
    assert along(np.zeros(2), rows, wall) is None
    assert along(np.ones(2), rows, np.ones(4, bool)) is None
    between = Direction.between(np.array([3.0, 4.0]))
    assert between is not None and between.gap == 5.0
    assert between.vector(1.0).tolist() == pytest.approx([3.0, 4.0])
    assert Direction.between(np.zeros(2)) is None


def test_directions_against_the_normal_equations() -> None:
    """Scaled by hand, with a penalty of 1 a row."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3)) * [1.0, 5.0, 0.1]
    wall = np.stack([rows[:, 0] + rows[:, 1] > 0, rows[:, 2] > 0], axis=1)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for question, direction in enumerate(ridge_directions(rows, wall)):
        target = wall[:, question] - wall[:, question].mean()
        weights = np.linalg.solve(scaled.T @ scaled + 40 * np.eye(3), scaled.T @ target)
        weights /= rows.std(axis=0)
        assert direction is not None
        assert direction.unit.tolist() == pytest.approx(weights / np.linalg.norm(weights))
        sides = [rows[wall[:, question] == side].mean(axis=0) for side in (True, False)]
        assert direction.gap == pytest.approx(float(direction.unit @ (sides[0] - sides[1])))


def test_a_probe_leaves_out_what_only_varies_besides() -> None:
    """Walls move two axes alike; a larger variation, which tells nothing, moves all six.

    The mean difference has by chance much of that variation, and a probe's weights less: over many
    draws they point more nearly to where walls move.
    """
    walls_move = np.array([1.0, 1.0, 0, 0, 0, 0])
    nearer = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        wall = rng.random((60, 1)) < 0.5
        common = 4 * rng.standard_normal((60, 1)) * np.ones(6)
        rows = common + wall * walls_move + 0.3 * rng.standard_normal((60, 6))
        (direction,) = ridge_directions(rows, wall)
        between = Direction.between(rows[wall[:, 0]].mean(axis=0) - rows[~wall[:, 0]].mean(axis=0))
        assert direction is not None and between is not None
        nearer.append((direction.unit - between.unit) @ walls_move / np.sqrt(2))
    assert np.mean(nearer) > 0.1


def test_questions_that_tell_nothing_have_no_direction() -> None:
    rows = np.random.default_rng(0).standard_normal((20, 3))
    labels = np.stack([np.zeros(20, bool), rows[:, 0] > 0], axis=1)
    none, some = ridge_directions(rows, labels)
    assert none is None and some is not None and some.unit[0] > 0.9
    assert ridge_directions(np.zeros((0, 3)), np.zeros((0, 2), bool)) == (None, None)
