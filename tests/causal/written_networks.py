"""Random networks to write and read back, and the networks that pgmpy ships."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from goalmeter.causal import CausalBayesianNetwork


def shipped(name: str) -> Path:
    """The file of an example network; found without importing pgmpy, which takes seconds."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("pgmpy is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "utils" / "example_models"
    return folder / f"{name}.bif.gz"


@cache
def pgmpy_part(name: str) -> Any:
    """A module of pgmpy, whose import takes seconds and may warn about what it depends on."""
    pytest.importorskip("pgmpy", reason="pgmpy is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"pgmpy.{name}")


@st.composite
def networks(draw: st.DrawFn, names: st.SearchStrategy[str]) -> CausalBayesianNetwork:
    """Up to five variables with up to four states and three parents each."""
    variables = draw(st.lists(names.filter(str.strip), min_size=1, max_size=5, unique=True))
    domains = {
        x: draw(st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)) for x in variables
    }
    parents = {
        x: draw(st.lists(st.sampled_from(variables[:i]), max_size=3, unique=True)) if i else []
        for i, x in enumerate(variables)
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sparse = draw(st.booleans())
    cpds = {}
    for x in variables:
        rows = rng.dirichlet(
            np.full(len(domains[x]), 0.05 if sparse else 1.0),
            size=[len(domains[p]) for p in parents[x]],
        )
        cpds[x] = rows / rows.sum(axis=-1, keepdims=True)
    shown = draw(st.permutations(variables))
    return CausalBayesianNetwork(
        {x: domains[x] for x in shown}, parents, cpds, name=draw(names | st.just(""))
    )


def assert_same(network: CausalBayesianNetwork, expected: CausalBayesianNetwork) -> None:
    """The same names in the same order, and the same probabilities to the last bit."""
    assert (network.name, network.variables) == (expected.name, expected.variables)
    for x in network.variables:
        assert network.domain(x) == expected.domain(x)
        assert network.parents(x) == expected.parents(x)
        np.testing.assert_array_equal(network.cpd(x), expected.cpd(x))
