"""The published rates and areas of the calibration follow from the stored scores of the agents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from studies.population_scores import (
    DATA,
    TABLES,
    Agents,
    difference_table,
    limit_of,
    mean,
    populations,
    replication_table,
)

from goalmeter.report.markdown import in_markdown
from goalmeter.report.numbers import number, percent
from replications.calibration.population import traits
from replications.calibration.population.scores import (
    INSTRUMENTS,
    MEG,
    MOVED,
    PLAIN,
    RECOMMENDED,
    TITLES,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "calibration.md"


@pytest.fixture(scope="module")
def stored() -> dict[int, Agents]:
    return populations()


def rows(caption: str) -> list[list[str]]:
    """The cells of a table of the page, without intervals."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- table: {caption} -->\n")[2]
    lines = text.partition("<!-- end")[0].splitlines()[2:]
    return [
        [re.sub(r" \[.*", "", cell.strip()) for cell in line.strip("|").split("|")]
        for line in lines
    ]


@pytest.mark.parametrize("which", ["first", "second"])
def test_published_rates_are_counted_again(stored: dict[int, Agents], which: str) -> None:
    chosen_on, agents = stored[100], stored[100 if which == "first" else 101]
    masks = [
        ~agents.directed,
        agents.of(traits.COMPETENT_CLASS),
        agents.of(traits.HALF_HEARTED_CLASS),
    ]
    table = rows(f"Every instrument at its threshold, {which} population")
    assert [row[0] for row in table] == [TITLES[name] for name in INSTRUMENTS]
    for name, (_, threshold, *cells) in zip(INSTRUMENTS, table, strict=True):
        limit = limit_of(chosen_on, name)
        assert threshold in (f"> {number(limit, 3)}", "p ≤ 0.02")
        shares = [agents.detected(name, limit, mask) for mask in masks]
        shares.append(agents.named(name, limit, agents.of("medium goal", "strong goal")))
        assert list(map(percent, shares)) == cells, name


def test_published_rates_of_classes_are_counted_again(stored: dict[int, Agents]) -> None:
    *classes, aimless = rows("Who is said to want something")
    for title, _, *cells in classes:
        counted = []
        for seed in (100, 101):
            mask = stored[seed].of(title)
            counted.append(str(mask.sum()))
            for name in (RECOMMENDED, MEG):
                counted.append(
                    percent(stored[seed].detected(name, limit_of(stored[100], name), mask))
                )
        assert counted == cells, title
    assert aimless[2] == str((~stored[100].directed).sum())


def test_published_areas_are_computed_again(stored: dict[int, Agents]) -> None:
    for name, (_, *cells) in zip(
        (*PLAIN, *MOVED), rows("What each instrument tells, second population"), strict=True
    ):
        areas = stored[101].contrasts(name)
        assert [number(area, 2) for area in areas] == cells[:3], name
        assert number(stored[101].recovery(name), 2) == cells[4], name


def test_tables_over_all_populations_are_those_of_the_data(stored: dict[int, Agents]) -> None:
    tables = in_markdown([replication_table(stored), difference_table(stored)])
    assert tables == TABLES.read_text(encoding="utf-8")
    assert len(stored) >= 6 and all(len(each.directed) == 600 for each in stored.values())
    assert DATA.stat().st_size < 300_000


def test_a_mean_over_populations_by_hand() -> None:
    # 1, 2, 3: a standard error of 1 / sqrt(3), and t = 4.303 with two degrees of freedom.
    estimate = mean([1.0, 2.0, 3.0], 600)
    assert estimate.value == 2 and estimate.interval == pytest.approx(
        (2 - 2.4841, 2 + 2.4841), abs=1e-4
    )
