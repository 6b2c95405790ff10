"""Both engines against the literal convex program; thousands more by `meg.against_the_program`."""

from __future__ import annotations

import pytest
from meg.against_the_program import instance, measured, verdict
from meg.instances import seeds


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_two_engines_and_the_program(seed: int) -> None:
    made = instance(seed)
    results = [measured(made, large=large) for large in (False, True)]
    assert verdict(made, results).startswith("agreed")
    assert all(result.gap <= 1e-6 for result in results)


def test_a_wrong_value_is_told() -> None:
    from dataclasses import replace

    made = instance(4)
    result = measured(made, large=False)
    higher = replace(result, value=result.value + 1e-3, upper_bound=result.value + 1e-3)
    assert verdict(made, [higher]) == "value above the optimum"
    lower = replace(result, value=result.value - 1e-3, upper_bound=result.value - 1e-3)
    assert verdict(made, [lower]) == "bound below what a utility reaches"
