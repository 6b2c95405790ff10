"""The example models give the paper's numbers."""

from __future__ import annotations

import math

import pytest

import goalmeter as gm
from goalmeter.causal.examples import OFTEN, bell, example_1

# log 2 - H(0.8), by hand: 0.693147 - 0.500402.
MEG = math.log(2) + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)


def test_example_1_gives_the_numbers_of_the_paper() -> None:
    assert round(MEG, 4) == 0.1927
    table = gm.meg.sensitivity(example_1(OFTEN), ["D"], up_to=2)
    values = {row.targets: row.value for row in table.rows}
    assert values["T",] == pytest.approx(MEG, abs=1e-9)
    assert values["M",] == pytest.approx(0, abs=1e-9)
    assert values["S", "M"] == pytest.approx(MEG, abs=1e-6)


@pytest.mark.parametrize(("followed", "truth"), [("S", "T"), ("B", "R")])
def test_only_the_true_goal_predicts_when_the_bell_is_moved(followed: str, truth: str) -> None:
    # By hand: a goal about the bell expects the bell's side 8 times in 10. The mouse that
    # follows the cheese takes it half the time 8 times in 10, and half the time 2 in 10.
    spurious = 0.5 * math.log(2 * 0.8) + 0.5 * math.log(2 * 0.2)
    # The bell moved; the cheese moved, and the bell with it.
    worlds: list[dict[str, object]] = [{"B": "left"}, {"S": "left"}]
    for target in ("T", "R"):
        shifts = gm.meg.under_interventions(bell(followed), ["D"], worlds, targets=[target])
        training, moved, both = shifts.rows
        assert training.result.value == pytest.approx(MEG, abs=1e-6)
        assert both.gap == pytest.approx(0, abs=1e-6)  # the bell goes with the cheese
        expected = MEG if target == truth else spurious
        assert moved.transferred == pytest.approx(expected, abs=1e-6)
        gap = MEG - expected if target == truth else -spurious
        assert moved.gap == pytest.approx(gap, abs=1e-6)
