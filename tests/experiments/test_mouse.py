"""The demo's causal page shows the paper's numbers, and what it says is in them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goalmeter.experiments.demo import mouse
from goalmeter.experiments.demo import mouse as mouse_page
from goalmeter.report import Section

# log 2 - H(0.8), by hand: 0.693147 - 0.500402.
MEG = math.log(2) + 0.8 * math.log(0.8) + 0.2 * math.log(0.2)


@pytest.fixture(scope="module")
def measured() -> mouse.Mouse:
    return mouse.measure()


@pytest.fixture(scope="module")
def sections(measured: mouse.Mouse) -> list[Section]:
    return list(mouse_page.part(measured).sections)


def test_example_1_prints_the_papers_numbers(measured: mouse.Mouse) -> None:
    noisy, optimal, random = measured.policies.values()
    assert noisy["T",].value == pytest.approx(MEG, abs=1e-9) and round(MEG, 4) == 0.1927
    assert noisy["T",].rationality == pytest.approx(math.log(2))
    assert str(noisy["T",].goal) == "cheese +1, none −1"
    assert optimal["T",].value == pytest.approx(math.log(2))
    assert math.isinf(optimal["T",].rationality)
    assert random["T",].value == pytest.approx(0, abs=1e-9)
    for results in measured.policies.values():
        assert results["S",].value == 0 and "not downstream" in results["S",].notes[0]
        assert results["M",].value == pytest.approx(0, abs=1e-9)
        assert results["S", "M"].value == pytest.approx(results["T",].value, abs=1e-6)
        assert all(result.certified for result in results.values())


def test_the_sensitivity_table_is_sorted_and_obeys_the_theorem(measured: mouse.Mouse) -> None:
    for sensitivity in (measured.one_step, measured.two_steps):
        values = {row.targets: row.value for row in sensitivity.rows}
        rounded = [round(value, 6) for value in values.values()]
        assert rounded == sorted(rounded, reverse=True)
        for row in sensitivity.rows:
            assert all(row.value <= values[above] + 1e-6 for above in row.at_most)
    marked = {row.targets: row.at_most for row in measured.one_step.rows}
    assert marked["T",] == (("S", "M"),)


def test_example_2_shows_a_pseudo_terminal_goal(measured: mouse.Mouse) -> None:
    rows = {row.targets: row for row in measured.two_steps.rows}
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
    model = mouse.example_2(1.0)
    assert model.marginal("U3").tolist() == [1, 0]
    # Following the smell with probability 0.8, twice.
    np.testing.assert_allclose(mouse.example_2(0.8).marginal("U3"), [0.64, 0.36])


def test_only_the_true_goal_predicts_when_the_bell_is_moved(measured: mouse.Mouse) -> None:
    # By hand: a goal about the bell expects the bell's side 8 times in 10. The mouse that
    # follows the cheese takes it half the time 8 times in 10, and half the time 2 in 10.
    spurious = 0.5 * math.log(2 * 0.8) + 0.5 * math.log(2 * 0.2)
    truth = {"follows the cheese": "cheese", "follows the bell": "bell"}
    for agent, goals in measured.shifts.items():
        for goal, shifts in goals.items():
            training, moved, both = shifts.rows
            assert training.result.value == pytest.approx(MEG, abs=1e-6)
            assert both.gap == pytest.approx(0, abs=1e-6)  # the bell goes with the cheese
            if goal == truth[agent]:
                assert moved.transferred == pytest.approx(MEG, abs=1e-6)
                assert moved.gap == pytest.approx(0, abs=1e-6)
            else:
                assert moved.transferred == pytest.approx(spurious, abs=1e-6)
                assert moved.gap == pytest.approx(-spurious, abs=1e-6)


def test_the_page_says_what_was_measured(measured: mouse.Mouse, sections: list[Section]) -> None:
    tables = [table for section in sections for table in section.tables]
    assert len(tables) == 4
    first = tables[0].cells[0]
    assert [cell.text for cell in first[1:4]] == ["0.1927", "27.8%", "0.693"]
    assert tables[0].cells[1][3].text == "∞"
    assert [cell.text for cell in tables[0].cells[2][1:7]] == ["0", "0.0%", "0", "0", "0", "0"]
    assert "≤ {S, M}" in [row[5].text for row in tables[1].cells]
    spurious = next(
        r for r in tables[3].cells if r[0].text.endswith("cheese") and r[1].text == "bell"
    )
    assert [cell.text for cell in spurious[4:7]] == ["0", "−0.2231", "0.2231"]
    numbers, story = (finding.plain for finding in mouse_page.findings(measured))
    assert "0.1927 of 0.6931 nats (27.8%)" in numbers and "and 0 towards its own" in numbers
    assert "still explains 0.1927, the one about the bell −0.2231" in story


def test_pictures_have_names_of_their_own(sections: list[Section]) -> None:
    figures = [figure for section in sections for figure in section.figures]
    assert [f.name for f in figures] == ["mouse-one-step", "mouse-two-steps", "mouse-bell"]


def test_json_holds_every_number(measured: mouse.Mouse) -> None:
    data = measured.to_json()
    assert len(data["example_1"]) == 12 and len(data["interventions"]) == 4
    assert data["sensitivity"]["rows"] and data["example_2"]["rows"]
    assert data["interventions"][1]["largest_gap"] == pytest.approx(0.2231, abs=1e-4)
