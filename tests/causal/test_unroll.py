"""An unrolled MDP: the same states, actions and rewards with the same probabilities."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from oracles import paths
from tabular.worlds import World, few, worlds

from goalmeter.causal import InfluenceDiagram, unroll
from goalmeter.tabular import TabularMDP

# Action 0 stays, action 1 goes to state 1, where everything stays; state 1 pays 1.
MDP = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=2)


def test_two_steps_by_hand() -> None:
    diagram = unroll(MDP, [[0.25, 0.75], [0.5, 0.5]])
    network = diagram.network
    assert network.variables == ("S1", "D1", "S2", "D2")
    assert diagram.decisions == ("D1", "D2")
    assert network.edges() == [("S1", "D1"), ("S1", "S2"), ("D1", "S2"), ("S2", "D2")]
    assert network.cpd("S1").tolist() == [1, 0]
    assert network.cpd("D1").tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert network.cpd("S2").tolist() == [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
    assert {name: f.variables for name, f in diagram.utilities.items()} == {
        "U1": ("S1",),
        "U2": ("S2",),
    }
    assert diagram.expected_utility() == pytest.approx(0.75)


def _joint(world: World, diagram: InfluenceDiagram) -> tuple[Any, Any]:
    """P(S1, D1, ..., DH) by paths and by elimination."""
    names = diagram.network.variables
    table = diagram.network.marginal(*names)
    expected = np.zeros(table.shape)
    for path, probability in paths.enumerate_paths(world.P, world.policy, world.mu, world.horizon):
        expected[tuple(itertools.chain.from_iterable(path))] = probability
    return expected, table


@given(world=worlds(max_states=3, max_horizon=3))
@few
def test_every_path_has_the_same_probability(world: World) -> None:
    expected, table = _joint(world, unroll(world.mdp(), world.policy))
    np.testing.assert_allclose(table, expected, atol=1e-13)
