"""A reflection in a notebook and as a frame."""

from __future__ import annotations

import pytest

from goalmeter.reflection import Comparison, Reflection, compare, measure
from goalmeter.report.numbers import between, plus

ENVIRONMENTS = ("CryingBaby", "BackwardConsciousness")


@pytest.fixture(scope="module")
def both() -> tuple[Reflection, Reflection]:
    first, second = (
        measure(name, 12, range(5), environments=ENVIRONMENTS, on="here")
        for name in ("random", "rc(random)")
    )
    return first, second


def test_a_measure_stands_beside_its_interval(both: tuple[Reflection, Reflection]) -> None:
    result = both[0]
    ends = between(result.interval, 6, sign=True)
    page = result._repr_html_()
    assert plus(result.measure, 6) in page and ends in page and "95% interval" in page
    assert "5 seeds of 12 steps" in page
    assert "95% interval [" in str(result)


def test_too_few_seeds_are_named(both: tuple[Reflection, Reflection]) -> None:
    page = measure("random", 12, range(2), environments=ENVIRONMENTS, on="here")._repr_html_()
    assert "an interval needs at least 5 seeds" in page


def test_a_frame_has_a_row_for_each_environment_and_its_opposite(
    both: tuple[Reflection, Reflection],
) -> None:
    pytest.importorskip("pandas")
    result = both[0]
    frame = result.to_pandas()
    keys = list(zip(frame["environment"], frame["opposite"], strict=True))
    assert sorted(keys) == sorted((name, way) for name in ENVIRONMENTS for way in (False, True))
    means = result.by_environment()
    assert frame["mean"].tolist() == [means[name, bool(way)] for name, way in keys]
    assert frame["seeds"].tolist() == [5] * 4 and frame["ended_early"].tolist() == [0] * 4
    assert frame["mean"].mean() == pytest.approx(result.measure)


def test_a_comparison_is_one_too(both: tuple[Reflection, Reflection]) -> None:
    pytest.importorskip("pandas")
    comparison: Comparison = compare(*both)
    assert comparison.to_pandas()["difference"].mean() == pytest.approx(comparison.difference)
    assert plus(comparison.difference, 6) in comparison._repr_html_()
