"""CPDs: arrays and functions that say the same, and what is wrong with those that say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import random_model, seeds, several
from hypothesis import given

from goalmeter._errors import InvalidModelError
from goalmeter.causal import CausalBayesianNetwork, graph

SIDE = ("left", "right")
PARENT = [("S", SIDE)]


def cpd(written: Any, parents: Any = PARENT, domain: Any = SIDE) -> Any:
    return graph.conditional("D", domain, parents, written)


# --- Laws -----------------------------------------------------------------------------------------


@given(seed=seeds)
@several
def test_arrays_and_functions_say_the_same(seed: int) -> None:
    model = random_model(seed)
    domains = {x: range(size) for x, size in model.sizes.items()}
    functions: dict[str, Any] = {
        x: lambda *values, rows=rows: dict(enumerate(rows[values]))
        for x, rows in model.cpds.items()
    }
    first = CausalBayesianNetwork(domains, model.parents, model.cpds)
    second = CausalBayesianNetwork(domains, model.parents, functions)
    for x in model.sizes:
        np.testing.assert_array_equal(first.cpd(x), second.cpd(x))
        assert not first.cpd(x).flags.writeable


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            [[0.8, 0.2], [0.3, 0.6]],
            r"the CPD of 'D' given S = right sums to 0\.9, expected probabilities that sum to 1 "
            r"\(tolerance 1e-09\); divide each row by its sum if it holds counts or rounded "
            r"numbers",
        ),
        ([[1.5, -0.5], [0, 1]], r"given S = left has the negative probability -0\.5, expected"),
        (
            [0.5, 0.5],
            r"the CPD of 'D' has shape \[2\], expected \[2, 2\]: one axis for each of S, D, its "
            "own last",
        ),
        ("left", r"cpds\['D'\] is not an array of numbers"),
        (lambda s: None, "given S = left: the returned state None does not exist"),
        (
            lambda s: [1, 0] if s == "left" else [1, 0, 0],
            r"the CPD of 'D' given S = right returns \[1, 0, 0\], expected 2 probabilities, one "
            r"for "
            r"each state \(left, right\)",
        ),
        (lambda s: {"left": np.nan, "right": 1.0}, r"the CPD of 'D'\[0, 0\] is nan, expected"),
    ],
)
def test_what_is_no_distribution_is_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        cpd(written)
