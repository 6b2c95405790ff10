"""The page on MEG in a simulator: what it shows of a measurement, and that all text is escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.commands.outcome import json_text
from goalmeter.meg.simulator import SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.result import Measurement
from goalmeter.pages.simulator import part_of
from goalmeter.report.numbers import general
from goalmeter.report.page import render

HOSTILE = "<script>alert(1)</script>"
GOAL = SimulatorResult(
    value=3.0,
    interval=(2.5, 3.25),
    level=0.95,
    maximum=6.0,
    rationality=1.5,
    utility="goal",
    world="Maze",
    method="table of states",
    steps={"agent": 750, "states": 250},
    episodes=40,
    guaranteed=(2.0, 4.0),
    binding={"lower": "the table of states", "upper": "concavity"},
    steps_to_halve=3000,
    notes=("no bounds were given",),
    measurement="the same",
    chance="generator",
)
CORNER = replace(GOAL, value=0.5, interval=(0.25, 0.75), utility="corner", guaranteed=None)
TOLD = SimulatorProgress("goal", 100, 2.0, -0.5), SimulatorProgress("goal", 1000, 3.1, 2.6)
MADE = Measurement("ppo", 10, 2000, 0, (GOAL, CORNER), TOLD)


def page_of(*measurements: Measurement) -> str:
    part = part_of(measurements)
    return render(
        part.title, part.sections, findings=part.findings, glossary=part.glossary, lede=part.lede
    )


def test_the_table_has_each_utility_with_its_interval_and_what_bounds_it() -> None:
    section, *_ = part_of([MADE]).sections
    rows = [tuple(cell.text for cell in row) for row in section.tables[0].cells]
    assert rows[0] == (
        *("goal", "3.0000", "[2.5000, 3.2500]", "[2.0000, 4.0000]", "50.0%", "6.0000", "1.5"),
        *("3,000", "the table of states", "concavity"),
        "all randomness comes from the environment's generator (chance='generator')",
    )
    assert rows[1][:3] == ("corner", "0.5000", "[0.2500, 0.7500]")
    assert section.points == ("goal, corner: no bounds were given.",)


def test_a_difference_is_told_by_its_interval() -> None:
    # 2.5 - 0.75 = 1.75 at the least, 3.25 - 0.25 = 3 at the most.
    (table,) = part_of([MADE]).sections[0].tables[1:]
    assert [cell.text for cell in table.cells[0]] == [
        *("goal", "corner", "2.5000", "1.7500 to 3.0000", "above")
    ]
    wide = replace(CORNER, interval=(0.25, 2.75))
    untold = replace(MADE, utilities=(GOAL, wide))
    (table,) = part_of([untold]).sections[0].tables[1:]
    assert table.cells[0][-1].text == "inconclusive"
    said = [getattr(finding, "plain", finding) for finding in part_of([MADE]).findings]
    assert "MEG towards goal is larger than towards corner." in said
    assert len(part_of([untold]).findings) == 2


def test_several_measurements_share_a_page_and_all_text_is_escaped() -> None:
    evil = replace(GOAL, utility=HOSTILE, world=HOSTILE, notes=(HOSTILE,), method=HOSTILE)
    told = tuple(replace(each, utility=HOSTILE) for each in TOLD)
    hostile = replace(MADE, agent=HOSTILE, utilities=(evil,), tightening=told)
    page = page_of(MADE, hostile)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "ppo in Maze" in page and "in &lt;script&gt;alert(1)&lt;/script&gt; (2)" in page


def test_a_measurement_is_read_back_as_it_was() -> None:
    unbounded = replace(GOAL, interval=(0.0, float("inf")), rationality=float("-inf"))
    weighted = replace(CORNER, weights={"goal": 0.5, "corner": -2.0})
    made = replace(MADE, utilities=(unbounded, weighted))
    values = json.loads(json_text(made.to_json()))
    again = Measurement.from_json(values, "run")
    assert again == made and page_of(again) == page_of(made)
    assert "upper end continues" in page_of(made) and "upper end continues" not in page_of(MADE)


@pytest.mark.parametrize(
    "change",
    [
        {"utilities": []},
        {"utilities": None},
        {"agent": 3},
        {"tightening": [{"utility": "goal"}]},
        {"horizon": "many"},
    ],
)
def test_what_is_no_measurement_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidFileError, match="run contains no measurement in a simulator"):
        Measurement.from_json(MADE.to_json() | change, "run")


def test_continuous_actions_have_no_maximum_and_may_have_no_upper_end() -> None:
    free = replace(
        GOAL, maximum=None, interval=(2.5, float("inf")), reference="reference gaussian(1)"
    )
    made = replace(MADE, utilities=(free,))
    again = Measurement.from_json(json.loads(json_text(made.to_json())), "a file")
    assert again.utilities == (free,)
    page = page_of(again)
    for words in (
        "no maximum: actions are continuous",
        "[2.5000, not determined]",
        "relative to the reference gaussian(1)",
    ):
        assert words in page
    assert "of the maximum" not in page


def test_an_end_that_says_nothing_is_not_determined() -> None:
    # The maximum is 6 nats, so an upper end there, like a lower one of 0, is none.
    for interval, words in [
        ((0.0, 3.25), "[not determined, 3.2500]"),
        ((2.5, 6.0), "[2.5000, not determined]"),
        ((0.0, 6.5), "not determined"),
        ((6.0, 6.0), "[6.0000, 6.0000]"),
        ((0.0, 0.0), "[0, 0]"),
        ((2.5, float("inf")), "[2.5000, not determined]"),
    ]:
        result = replace(GOAL, interval=interval)
        (finding,) = part_of([replace(MADE, utilities=(result,))]).findings
        said = getattr(finding, "plain", finding)
        assert (
            f"has the estimate 3.0000 nats, interval {words} at 95%, 50.0% of the maximum." in said
        )
        shown = result.ends_in_words(general)
        assert str(result).startswith(f"MEG 3 nats, interval {shown} at 95%; 50.0% of the maximum")
