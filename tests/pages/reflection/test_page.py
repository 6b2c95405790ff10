"""The report on self-reflection: tables, findings and what is left out of them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from goalmeter.pages import reflection as reflection_page
from goalmeter.pages.reflection_tables import SAME, groups, pairs
from goalmeter.reflection import Reflection, measure
from goalmeter.report.numbers import plus
from goalmeter.report.page import render
from goalmeter.statistics.verdicts import TOO_FEW

from .made import AFTER, BEFORE, broken, first, made

HOSTILE = "<script>alert(1)</script>$\\frac$.py:a"


def text_of(results: list[Reflection]) -> str:
    return render(
        "t",
        reflection_page.sections(results),
        findings=reflection_page.findings(results),
        glossary=reflection_page.GLOSSARY,
    )


def findings_of(results: list[Reflection]) -> list[str]:
    """The findings as they read."""
    return [finding.plain for finding in reflection_page.findings(results)]


def test_the_table_of_agents_has_both_errors_under_their_names() -> None:
    (table,) = reflection_page.sections([BEFORE])[0].tables
    assert [head.title for head in table.heads][2:5] == [
        "standard error",
        "95% interval",
        "the paper's “StdErr”",
    ]
    # By seed (2 s + 6) / 40: 0.15, 0.20, 0.25, 0.30, 0.35; their standard deviation is √0.00625.
    name, value, error, interval, published, *counts = (cell.text for cell in table.cells[0])
    assert (name, value, counts) == ("x", "+0.2500", ["10", "5", "20", "0"])
    assert error == f"{np.sqrt(0.00625 / 5):.4f}" and published == f"{np.sqrt(0.00625) / 5:.4f}"
    low, high = map(float, interval.split(" to "))
    assert 0.15 <= low < 0.25 < high <= 0.35


def test_a_reality_check_that_changes_nothing_is_said_to() -> None:
    ((pair,), _) = pairs([BEFORE, replace(BEFORE, agent="rc(x)")])
    assert pair.verdict == SAME
    assert reflection_page.thesis([pair]) == (
        "The reality check lowers that of none; changes nothing about x."
    )


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_seeds_tell_nothing(n: int) -> None:
    results = [first(BEFORE, n), first(AFTER, n)]
    ((pair,), _) = pairs(results)
    assert pair.comparison.difference == pytest.approx(0.05)
    # Though every seed gains the same.
    assert pair.verdict == TOO_FEW and pair.told() == ([], [])
    agents, checks, gains = reflection_page.short_tables(results)
    assert [row[3].text for row in agents.cells] == ["–", "–"]
    assert checks.cells[0][1].text == "too few seeds" and checks.cells[0][-1].text == "–"
    assert [cell.text for cell in gains.cells[0]][1:] == ["–"] * 4
    for table in (agents, checks):
        assert any("With fewer than 5 seeds there is no interval" in note for note in table.notes)
    best, thesis = findings_of(results)
    assert f"rc(x) with +{results[1].measure:.3f} ({n} seed" in best
    assert "too few for an interval" in best
    assert thesis == (
        "The reality check lowers that of none; has been tried with too few seeds on x (+0.050)."
    )
    page = text_of(results)
    assert "nan" not in page.lower() and "none for fewer than 5" in page


def test_what_has_no_interval_is_drawn_without() -> None:
    none = (float("nan"), float("nan"))
    ((pair,), _) = pairs([first(BEFORE, 4), first(AFTER, 4)])
    bare = replace(
        pair,
        inner=replace(pair.inner, interval=none),
        checked=replace(pair.checked, interval=none),
        comparison=replace(pair.comparison, interval=none),
    )
    figure = reflection_page.pairs_chart([bare], name="p")
    assert "nan" not in figure.svg.lower() and "too few seeds" in figure.alt
    assert len(figure.svg) < len(
        reflection_page.pairs_chart(pairs([BEFORE, AFTER])[0], name="p").svg
    )


def test_agents_that_played_other_trials_are_not_compared_and_it_is_said() -> None:
    fewer = first(replace(AFTER, agent="rc(x)"), 3)
    compared, (note,) = pairs([BEFORE, fewer])
    assert compared == []
    assert note == (
        "x and rc(x) are not compared: they differ in environments, steps, seeds or readings."
    )
    longer = made("rc(x)", {"A": [(0, 0)] * 5, "B": [(0, 0)] * 5}, steps=20)
    compared, (note,) = pairs([BEFORE, longer])
    assert compared == [] and note.startswith("x, 10 steps and rc(x), 20 steps are not compared")
    # Where there is something to compare with, the others need no words.
    both = [BEFORE, AFTER, longer, replace(longer, agent="x")]
    assert len(pairs(both)[0]) == 2 and pairs(both)[1] == []
    page = text_of([BEFORE, fewer])
    assert "Reality checks that are not compared" in page
    assert "With and without reality check" not in page


def test_trials_that_ended_early_are_hatched_counted_and_named() -> None:
    rewards = {"A": [(0.0, 0.0)] * 3, "B": [(1.0, 1.0)] * 3}
    late = made(f"rc({HOSTILE})", rewards, failed="B")
    agents, environments, *_, last = reflection_page.sections([late])
    assert agents.tables[0].cells[0][-1].text == "2 (2 timeout)"
    assert "2 of 12 trials ended early (2 timeout); the first in B, seed 0" in agents.points[0]
    # Hatched in both panels: B and its opposite.
    (figure,) = environments.figures
    assert figure.svg.count("<pattern") == 1 and "In a hatched cell" in figure.caption
    cells = {row[0].text: row[1].text for row in last.tables[0].cells}
    assert cells["A"] == "0.000" and cells["opposite(B)"] == "+0.100 (1 of 3 ended early)"
    page = text_of([late])
    assert "<script>" not in page and "2 of 12 trials ended early" in page


def test_what_went_wrong_is_said_first_and_why() -> None:
    results = [broken("bad"), BEFORE, made("y", {"A": [(9, 9)] * 5, "B": [(0, 0)] * 5}, failed="B")]
    first_of_all, unranked, ranking = findings_of(results)
    start, why, details = first_of_all.partition(
        "bad: 20 of 20 trials ended early (20 exception); "
    )
    assert start == "22 of 60 trials ended early; they count with the reward that they had. "
    assert why and "the first in A, seed 0: exception, ZeroDivisionError: by 0. " in details
    assert details.endswith(
        "y: 2 of 20 trials ended early (2 timeout); the first in B, seed 0: timeout, took over 1 s."
    )
    assert unranked == "Not ranked, since every trial ended early: bad."
    # y has (9 + 9) / 40, and x 0.25.
    assert ranking.startswith("Most self-reflection: y with +0.450 (95% interval")
    assert "; 2 of 20 trials ended early); least: x with +0.250 (" in ranking


def test_many_failures_are_counted_and_not_all_named() -> None:
    line, _ = findings_of([broken(name) for name in "abcd"])
    assert "b: 20 of 20" in line and "c: " not in line
    assert line.endswith("2 more agents had trials that ended early.")


def test_agents_that_finished_nothing_are_neither_ranked_nor_compared() -> None:
    results = [broken("x"), AFTER]
    compared, (note,) = pairs(results)
    assert compared == []
    assert note == "x and rc(x) are not compared: every trial of x ended early."
    *_, ranking = findings_of(results)
    assert ranking.startswith("Self-reflection: rc(x) with +0.300 (") and "least" not in ranking
    assert len(findings_of([broken("x"), broken("rc(x)")])) == 2
    (table,) = reflection_page.short_tables([broken("x")])
    assert table.notes[-1] == "Where every trial ended early, the measure says nothing."
    assert "Traceback" not in text_of([broken("x"), broken("rc(x)")])


def test_what_does_not_compare_stands_apart() -> None:
    elsewhere = made("y", {"B": [(9.0, -9.0)] * 5, "C": [(9.0, 9.0)] * 5})
    longer = replace(BEFORE, agent="z", steps=20)
    counted = replace(AFTER, readings={"step_counting": "actions"})
    results = [BEFORE, elsewhere, longer, counted, replace(BEFORE, agent="w")]
    shown = groups(results)
    assert [[r.agent for r in group.results] for group in shown] == [
        ["x", "w"],
        ["y"],
        ["z"],
        ["rc(x)"],
    ]
    played = "A with its opposite and B with its opposite"
    assert [group.title for group in shown] == [
        f"{played}, 10 steps",
        "B with its opposite and C with its opposite, 10 steps",
        f"{played}, 20 steps",
        f"{played}, 10 steps, step counting actions",
    ]
    # y has the highest measure of all, and is ranked beside nobody.
    lines = findings_of(results)
    assert len(lines) == 4
    assert lines[0].startswith(f"{played}, 10 steps: Most self-reflection: x with +0.250")
    assert lines[1].startswith("B with its opposite and C with its opposite, 10 steps: Self-refl")
    assert lines[3].startswith(f"{played}, 10 steps, step counting actions: Self-reflection: rc(x)")
    assert "With and without reality check" not in text_of(results)
    tables = reflection_page.short_tables(results)
    assert [len(table.rows) for table in tables] == [2, 1, 1, 1]
    assert tables[3].caption == f"Self-reflection of each agent ({shown[3].title})"
    assert tables[3].notes[0] == "Not as published: step counting actions."
    sections = reflection_page.sections(results)
    assert sections[3].title == f"Self-reflection ({shown[1].title})"
    assert [[cell.text for cell in row] for row in sections[5].tables[0].cells][:2] == [
        ["B", "+0.900"],
        ["C", "+0.900"],
    ]
    page = text_of(results)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and "nan" not in page.lower()


def test_one_group_as_published_needs_no_words_and_another_reading_does() -> None:
    assert [group.title for group in groups([BEFORE, AFTER])] == [""]
    unnegated = replace(BEFORE, readings={"opposite_reading": "unnegated"})
    title = reflection_page.sections([unnegated])[0].title
    assert title == "Self-reflection (opposite reading unnegated)"
    (line,) = findings_of([unnegated])
    assert line.startswith("Opposite reading unnegated: Self-reflection: x")


def test_an_opposite_alone_is_a_page_too() -> None:
    alone = measure("random", 20, 2, environments=["opposite(IgnoreRewards)", "DejaVu"])
    page = text_of([alone, measure("rc(random)", 20, 2, environments=["opposite(IgnoreRewards)"])])
    assert "their opposites" in page and "nan" not in page.lower()


def test_the_findings_name_the_ends_and_the_thesis() -> None:
    first, second = findings_of([BEFORE, AFTER])
    assert first.startswith("Most self-reflection: rc(x) with +0.300 (95% interval 0.")
    assert "least: x with +0.250" in first
    assert second == ("The reality check raises the measure of x (+0.050); lowers that of none.")


def test_every_number_of_the_battery_is_in_the_last_table() -> None:
    results = [measure(name, 20, 2) for name in ("naive", "rc(naive)")]
    *_, last = reflection_page.sections(results)
    (table,) = last.tables
    assert len(table.rows) == 50
    for column, result in enumerate(results, start=1):
        shown = [float(row[column].text.replace("−", "-")) for row in table.cells]
        assert np.mean(shown) == pytest.approx(result.measure, abs=5e-4)


def test_signs_are_true_and_nothing_has_none() -> None:
    shown = [plus(v, 2) for v in (0.123, -0.123, -0.001, 0.0, float("nan"))]
    assert shown == ["+0.12", "−0.12", "0.00", "0.00", "–"]
