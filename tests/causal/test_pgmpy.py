"""pgmpy: its models become ours and ours its, and both libraries compute the same."""

from __future__ import annotations

import gzip
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from causal.written_networks import assert_same, networks, pgmpy_part, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from goalmeter._errors import InvalidModelError, MissingExtraError
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.formats import to_pgmpy

read_bif, from_pgmpy = CausalBayesianNetwork.from_bif, CausalBayesianNetwork.from_pgmpy
# pgmpy takes about a second to read one of these, and some minutes for all that it ships.
COMPARED = ("sachs", "survey", "water")


def mouse() -> CausalBayesianNetwork:
    side = ["left", "right"]
    return CausalBayesianNetwork(
        {"S": side, "D": side, "T": [True, False], "N": [0, 1, 2]},
        {"D": ["S"], "T": ["S", "D"], "N": ["T"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.8, 0.2], [0.2, 0.8]],
            "T": lambda s, d: s == d,
            "N": [[0.1, 0.2, 0.7], [1, 0, 0]],
        },
        name="mouse",
    )


@pytest.mark.parametrize("name", COMPARED)
def test_pgmpys_reader_finds_the_same_network(name: str) -> None:
    text = gzip.decompress(shipped(name).read_bytes()).decode()
    theirs = from_pgmpy(pgmpy_part("readwrite").BIFReader(string=text).get_model())
    ours = read_bif(shipped(name))
    assert theirs.name == ours.name == ""
    assert set(theirs.variables) == set(ours.variables)
    for x in ours.variables:
        assert theirs.domain(x) == ours.domain(x)
        assert theirs.parents(x) == ours.parents(x)
        np.testing.assert_allclose(theirs.cpd(x), ours.cpd(x), rtol=1e-14)


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


def test_a_network_goes_there_and_back() -> None:
    pgmpy_part("models")
    model = to_pgmpy(mouse())
    assert model.check_model()
    assert_same(from_pgmpy(model), mouse())


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


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"A": 1}, "the model is a dict, expected a pgmpy DiscreteBayesianNetwork"),
        (Model(A=None), "'A' has no CPD, expected one for each variable; add it with"),
        (Model(A=SimpleNamespace(variables=["A"])), "is a SimpleNamespace, expected a TabularCPD"),
        (Model({1: A, "1": A}), "two variables have names that read the same"),
        (
            Model(A=A, B=CPD(["B", "A"], np.full((2, 2), 0.5), B=[0, 1], A=["yes", "maybe"])),
            "the CPD of 'B' names the states yes, maybe of 'A', expected those of its own CPD, yes",
        ),
        (
            Model(A=A, B=CPD(["B", "A"], [[0.5, 0.5], [0.5, 0.4]], B=[0, 1], A=["yes", "no"])),
            "the CPD of 'B' given A = no sums to 0.9, expected 1 (up to 0.001",
        ),
        (Model(A=CPD(["A"], [0.5, 0.4], A=[0, 1])), "the CPD of 'A' sums to 0.9"),
    ],
)
def test_what_is_wrong_is_named(model: Any, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        from_pgmpy(model)
    assert message in str(caught.value)


def test_the_extra_is_named_where_pgmpy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pgmpy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'goalmeter\[pgmpy\]'"):
        to_pgmpy(mouse())


def test_reading_a_file_does_not_import_pgmpy() -> None:
    program = (
        "import sys; from goalmeter.causal.bif import parse_bif; "
        "parse_bif('variable A { type discrete [1] {a}; } probability (A) { table 1; }'); "
        "print('pgmpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
