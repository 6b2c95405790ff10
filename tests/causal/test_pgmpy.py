"""pgmpy: its models become ours and ours its, and both libraries compute the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from causal.written_networks import assert_same, networks, pgmpy_part, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.formats import to_pgmpy

read_bif, from_pgmpy = CausalBayesianNetwork.from_bif, CausalBayesianNetwork.from_pgmpy


@pytest.mark.parametrize("name", ["asia", "survey", "sachs", "child"])
def test_marginals_are_those_of_pgmpy(name: str) -> None:
    network = read_bif(shipped(name))
    inference = pgmpy_part("inference").VariableElimination(to_pgmpy(network))
    first, *_, last = network.order
    evidence = {last: network.domain(last)[-1]}
    for x in network.variables[:6]:
        theirs = inference.query([x], show_progress=False).values
        np.testing.assert_allclose(network.marginal(x), theirs, atol=1e-12)
        if x != last:
            theirs = inference.query([x], evidence=evidence, show_progress=False).values
            np.testing.assert_allclose(network.marginal(x, given=evidence), theirs, atol=1e-12)
    joint = inference.query([first, last], show_progress=False)
    theirs = joint.values if joint.variables == [first, last] else joint.values.T
    np.testing.assert_allclose(network.marginal(first, last), theirs, atol=1e-12)


# pgmpy is slow to make a model, and slower the first time.
@settings(max_examples=20, deadline=None)
@given(networks(st.text("abcé_ 1", min_size=1, max_size=4)))
def test_any_network_goes_there_and_back(network: CausalBayesianNetwork) -> None:
    pgmpy_part("models")
    assert_same(from_pgmpy(to_pgmpy(network)), network)


def test_states_in_another_order_are_put_in_the_parents_own() -> None:
    # P(B = b0 | A = yes) = 0.9. The CPD of B lists A's states the other way around.
    model = Model(
        A=CPD(["A"], [0.2, 0.8], A=["yes", "no"]),
        B=CPD(["B", "A"], [[0.3, 0.9], [0.7, 0.1]], B=["b0", "b1"], A=["no", "yes"]),
    )
    np.testing.assert_array_equal(from_pgmpy(model).cpd("B"), [[0.9, 0.1], [0.3, 0.7]])


# --- Errors ---------------------------------------------------------------------------------------
class CPD(SimpleNamespace):
    """As much of a TabularCPD as is read: a fake, so that it can be wrong where pgmpy would not."""

    def __init__(
        self, variables: list[Any], values: Any, states: Any = None, **state_names: Any
    ) -> None:
        super().__init__(
            variables=variables, values=np.array(values), state_names=states or state_names
        )


class Model:
    def __init__(self, cpds: dict[Any, Any] | None = None, **named: Any) -> None:
        self.cpds = {**(cpds or {}), **named}

    def nodes(self) -> list[Any]:
        return list(self.cpds)

    def get_cpds(self, node: Any) -> Any:
        return self.cpds[node]

    def get_parents(self, node: Any) -> list[Any]:
        return getattr(self.cpds[node], "arrows", None) or self.cpds[node].variables[1:]


A = CPD(["A"], [0.2, 0.8], A=["yes", "no"])
