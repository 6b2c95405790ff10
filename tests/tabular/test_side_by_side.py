"""Worlds side by side are the worlds: nothing passes between them, and sums are of each."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from goalmeter.tabular import TabularMDP
from goalmeter.tabular.batched import ONE_WORLD, Sums, side_by_side


def random_worlds(n_states: int, density: float = 1.0) -> list[TabularMDP]:
    rng = np.random.default_rng(5)
    worlds = []
    for _ in range(3):
        transition = rng.random((n_states, 2, n_states))
        transition *= rng.random(transition.shape) < density
        transition[..., 0] += 0.1
        transition /= transition.sum(axis=-1, keepdims=True)
        initial = rng.dirichlet(np.ones(n_states))
        worlds.append(TabularMDP(transition, np.zeros(n_states), horizon=4, initial=initial))
    return worlds


# Small worlds are stored densely, large ones compressed, and both together may be either.
@pytest.mark.parametrize(("n_states", "density"), [(3, 1.0), (60, 0.2), (200, 0.02)])
def test_the_rows_of_each_world_are_its_own(n_states: int, density: float) -> None:
    worlds = random_worlds(n_states, density)
    joined = side_by_side(worlds)
    assert (joined.n_states, joined.n_actions, joined.horizon) == (3 * n_states, 2, 4)
    values = np.random.default_rng(6).normal(size=3 * n_states)
    expected = joined.transition.expect_all(values).reshape(2, 3, n_states)
    for i, world in enumerate(worlds):
        mine = values.reshape(3, n_states)[i]
        assert_allclose(expected[:, i], world.transition.expect_all(mine), rtol=0, atol=1e-14)
    mass = np.random.default_rng(7).random((2, 3 * n_states))
    arrived = joined.transition.push(mass).reshape(3, n_states)
    for i, world in enumerate(worlds):
        mine = np.ascontiguousarray(mass.reshape(2, 3, n_states)[:, i])
        assert_allclose(arrived[i], world.transition.push(mine), rtol=0, atol=1e-13)
    assert (joined.initial.reshape(3, -1) == [world.initial for world in worlds]).all()
    active = joined.active_states().reshape(3, -1)
    assert (active == [world.active_states() for world in worlds]).all()


def test_sums_are_of_each_world() -> None:
    values = np.arange(6.0).reshape(6, 1)
    assert Sums(2).total(values).tolist() == [3.0, 12.0]
    assert ONE_WORLD.total(values).tolist() == [15.0]
    weights = np.ones((2, 6, 1))
    doubled = np.stack([values, values])
    assert Sums(2).dot(weights, doubled).tolist() == [6.0, 24.0]
    assert ONE_WORLD.dot(weights, doubled).tolist() == [30.0]
    initial = np.array([1.0, 0.0, 0.0, 0.0, 0.5, 0.5])
    assert Sums(2).at_start(initial, values).tolist() == [0.0, 4.5]
    # Batches, of which one column may stand for all, are summed as before.
    several = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    assert ONE_WORLD.dot(np.ones((1, 2, 1)), several).tolist() == [4.0, 6.0]
