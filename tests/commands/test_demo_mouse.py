"""The demo's causal page shows the paper's numbers, and what it says is in them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from paper_models import example_2

from goalmeter import meg
from goalmeter.demo import mouse
from goalmeter.meg.causal import Sensitivity

# log 2 - H(0.8), by hand: 0.693147 - 0.500402.
MEG = math.log(2) + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)


@pytest.fixture(scope="module")
def measured() -> mouse.Mouse:
    return mouse.measure()


@cache
def two_steps() -> Sensitivity:
    return meg.sensitivity(example_2(0.8), ["D1", "D2"], up_to=1)


def test_example_1_gives_the_numbers_of_the_paper(measured: mouse.Mouse) -> None:
    assert round(MEG, 4) == 0.1927
    values = {row.targets: row.value for row in measured.one_step.rows}
    assert values["T",] == pytest.approx(MEG, abs=1e-9)
    assert values["M",] == pytest.approx(0, abs=1e-9)
    assert values["S", "M"] == pytest.approx(MEG, abs=1e-6)


def test_the_sensitivity_table_is_sorted_and_obeys_the_theorem(measured: mouse.Mouse) -> None:
    for sensitivity in (measured.one_step, two_steps()):
        values = {row.targets: row.value for row in sensitivity.rows}
        rounded = [round(value, 6) for value in values.values()]
        assert rounded == sorted(rounded, reverse=True)
        for row in sensitivity.rows:
            assert all(row.value <= values[above] + 1e-6 for above in row.at_most)
    marked = {row.targets: row.at_most for row in measured.one_step.rows}
    assert marked["T",] == (("S", "M"),)


def test_example_2_shows_a_pseudo_terminal_goal() -> None:
    rows = {row.targets: row for row in two_steps().rows}
    assert set(rows) == {("S2",), ("O2",), ("S3",), ("U3",)}
    assert ("S3",) in rows["U3",].at_most
    assert rows["U3",].value <= rows["S3",].value + 1e-6
    # Two decisions, each the 0.8 mouse's: no utility can explain more.
    assert 0 < rows["S3",].value <= 2 * MEG + 1e-6
    assert rows["U3",].recall == "insufficient"
    # The page says so of both.
    assert all(rows[x].upper_bound - rows[x].value < 1e-6 for x in (("S3",), ("U3",)))
    assert rows["S3",].value == pytest.approx(2 * MEG, abs=1e-6)


def test_example_2_is_the_mouse_on_five_squares() -> None:
    model = example_2(1.0)
    assert model.marginal("U3").tolist() == [1, 0]
    # Following the smell with probability 0.8, twice.
    np.testing.assert_allclose(example_2(0.8).marginal("U3"), [0.64, 0.36])


@pytest.mark.parametrize(("followed", "truth"), [("S", "cheese"), ("B", "bell")])
def test_only_the_true_goal_predicts_when_the_bell_is_moved(followed: str, truth: str) -> None:
    # By hand: a goal about the bell expects the bell's side 8 times in 10. The mouse that
    # follows the cheese takes it half the time 8 times in 10, and half the time 2 in 10.
    spurious = 0.5 * math.log(2 * 0.8) + 0.5 * math.log(2 * 0.2)
    for goal, shifts in mouse.measure(followed).shifts.items():
        training, moved, both = shifts.rows
        assert training.result.value == pytest.approx(MEG, abs=1e-6)
        assert both.gap == pytest.approx(0, abs=1e-6)  # the bell goes with the cheese
        expected = MEG if goal == truth else spurious
        assert moved.transferred == pytest.approx(expected, abs=1e-6)
        assert moved.gap == pytest.approx(MEG - expected if goal == truth else -spurious, abs=1e-6)


def test_the_sentence_says_what_the_table_holds(measured: mouse.Mouse) -> None:
    (finding,) = mouse.part(measured).findings
    assert "still explains 0.1927, the one about the bell −0.2231" in finding.plain
