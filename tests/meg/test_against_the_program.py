"""Both engines agree with the literal convex program."""

from __future__ import annotations

import pytest
from meg.against_the_program import instance, measured, verdict


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_two_engines_and_the_program(first: int) -> None:
    for seed in range(first, first + 10):
        made = instance(seed)
        results = [measured(made, large=large) for large in (False, True)]
        assert verdict(made, results).startswith("agreed"), seed
        assert all(result.gap <= 1e-6 for result in results), seed


def test_a_wrong_value_is_told() -> None:
    from dataclasses import replace

    made = instance(4)
    result = measured(made, large=False)
    higher = replace(result, value=result.value + 1e-3, upper_bound=result.value + 1e-3)
    assert verdict(made, [higher]) == "value above the optimum"
    lower = replace(result, value=result.value - 1e-3, upper_bound=result.value - 1e-3)
    assert verdict(made, [lower]) == "bound below what a utility reaches"
