"""Planted plans: recovered, recovered by the decoder alone, and none; beside every baseline."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from representation.plan.plantings import planted_plans, walked

from goalmeter.representation.plans.comparison import PlanTable, read_plans
from goalmeter.representation.plans.readers import MAJORITY, POSITION, LinearSteps, PlanDecoder
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.probes.registry import Schedule

pytest.importorskip("torch")
PLACE = (3, "pre/end")
SMALL = PlanDecoder(1, 64, 4, schedule=Schedule(2e-3, decay=0.1, batch=64, epochs=60, patience=10))


@lru_cache
def table(encoding: str) -> PlanTable:
    plans = walked(400, queries=3)
    rows = planted_plans(plans, encoding)
    return read_plans(lambda *_: rows, plans, [PLACE], readers=[LinearSteps(), SMALL], parts=1)


def prefix(encoding: str, reader: str, n: int) -> Any:
    return table(encoding).row("pre/end", 3, reader, n)


@pytest.mark.parametrize("reader", ["linear", "decoder(1)"])
def test_a_plan_that_lies_open_is_read_as_far_as_it_was_planted(reader: str) -> None:
    for n in (1, 2):
        row = prefix("linear", reader, n)
        assert row.prefix.value > 0.8 and row.conditional.value > 0.85
        assert {MAJORITY, POSITION, SHUFFLED} <= set(row.exceeds)
    # The third action was not planted.
    assert prefix("linear", reader, 3).prefix.value < 0.6


@pytest.mark.slow
def test_a_plan_in_a_code_that_is_not_linear_is_read_by_the_decoder_alone() -> None:
    linear, decoder = (prefix("xor", name, 1) for name in ("linear", "decoder(1)"))
    assert MAJORITY in decoder.exceeds and SHUFFLED in decoder.exceeds
    assert decoder.prefix.value > 0.7
    assert MAJORITY not in linear.exceeds and linear.prefix.value < 0.45


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["linear", "decoder(1)"])
def test_no_plan_comes_out_as_none(reader: str) -> None:
    for n in (1, 2, 3):
        assert POSITION not in prefix("none", reader, n).exceeds
    one = prefix("none", reader, 1)
    for name in (MAJORITY, SHUFFLED):
        assert one.prefix.value == pytest.approx(one.baselines[name]["prefix"].value, abs=0.15)
    # Position alone tells a good part of what such a reader cannot tell.
    assert one.baselines[POSITION]["prefix"].value > one.prefix.value + 0.2
    assert one.baselines[POSITION]["beyond"].interval[1] < 0


def test_positions_are_compared_where_all_of_them_are() -> None:
    plans = walked(60, queries=4)
    full = planted_plans(plans, "linear")
    holes = full[:, :1].copy()
    holes[[3, 9, 11]] = np.nan
    at = {PLACE: full, (3, "post/end"): holes}
    both = read_plans(
        lambda layer, position: at[layer, position], plans, list(at), readers=[LinearSteps()]
    )
    assert both.lacking == 3 and both.sequences == 57
    sizes = {row.prefix.n for row in both.plan if row.n == 1}
    assert len(sizes) == 1 and {row.position for row in both.plan} == {"pre/end", "post/end"}
