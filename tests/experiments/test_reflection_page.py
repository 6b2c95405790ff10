from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from goalmeter.experiments import reflection_page, reflection_tables
from goalmeter.experiments.reflection_pairs import (
    LOWERS,
    RAISES,
    SAME,
    UNTOLD,
    labels,
    pairs,
    verdict,
)
from goalmeter.experiments.reflection_tables import signed_plus
from goalmeter.reflection import Reflection, Trial, measure
from goalmeter.reflection.result import reflection_of
from goalmeter.report.page import render

STEPS = 10
HOSTILE = "<script>alert(1)</script>$\\frac$.py:a"


def made(
    agent: str, rewards: dict[str, list[tuple[float, float]]], *, failed: str = "", **changes: int
) -> Reflection:
    """An agent with these (total reward, that in the opposite) of each seed, by environment."""
    n = len(next(iter(rewards.values())))
    steps = changes.get("steps", STEPS)
    trials = [
        Trial(
            name,
            opposite,
            seed,
            steps,
            totals[seed][opposite],
            *(("timeout", "took over 1 s") if name == failed and seed == 0 else ()),
        )
        for seed in range(n)
        for name, totals in rewards.items()
        for opposite in (False, True)
    ]
    return reflection_of(agent, steps, trials, runs=2 * len(rewards), confidence=0.95)


# Both gain 1 in A at every seed; the first loses what it gains in its opposite.
BEFORE = made("x", {"A": [(0, 0), (1, 1), (2, 2)], "B": [(3, 3), (3, 3), (3, 3)]})
AFTER = made("rc(x)", {"A": [(4, 0), (5, 1), (6, 2)], "B": [(3, 1), (3, 1), (3, 1)]})


def text_of(results: list[Reflection]) -> str:
    return render(
        "t",
        reflection_page.sections(results),
        findings=reflection_page.findings(results),
        glossary=reflection_page.GLOSSARY,
    )


def test_the_table_of_agents_has_both_errors_under_their_names() -> None:
    (table,) = reflection_page.sections([BEFORE])[0].tables
    assert [head.title for head in table.heads][2:5] == [
        "standard error",
        "95% interval",
        "the paper's “StdErr”",
    ]
    # By seed (0 + 0 + 3 + 3) / 40, (1 + 1 + 6) / 40, (2 + 2 + 6) / 40: 0.15, 0.20, 0.25.
    name, value, error, _, published, *counts = (cell.text for cell in table.cells[0])
    assert (name, value, counts) == ("x", "+0.2000", ["10", "3", "12", "0"])
    assert error == f"{0.05 / np.sqrt(3):.4f}" and published == f"{0.05 / 3:.4f}"


def test_a_pair_is_compared_by_seed_and_environment() -> None:
    ((pair,), notes) = pairs([AFTER, BEFORE])
    assert notes == [] and (pair.label, pair.checked_label) == ("x", "rc(x)")
    # A: +4 and 0; B: 0 and -2; so (4 - 2) / 40 at every seed.
    assert pair.comparison.difference == pytest.approx(0.05)
    assert pair.verdict == RAISES
    assert pair.told() == (["A"], ["B"])
    assert pair.by_environment()["A"] == pytest.approx([0.2, 0.2, 0.2])
    row = [cell.text for cell in reflection_tables.pairs_table([pair]).cells[0]]
    assert row == ["x", "+0.2000", "+0.2500", "+0.0500", "0.0000", "0.050 to 0.050", "raises"]
    gains = [cell.text for cell in reflection_tables.gains_table([pair]).cells[0]]
    assert gains == ["x", "1 of 2", "A +0.20", "1 of 2", "B −0.10"]


def test_what_luck_can_do_is_not_told() -> None:
    after = made("rc(x)", {"A": [(1, 1), (0, 0), (2, 2)], "B": [(3, 3), (3, 3), (3, 3)]})
    ((pair,), _) = pairs([BEFORE, after])
    assert pair.verdict == UNTOLD and pair.told() == ([], [])


def test_a_reality_check_that_changes_nothing_is_said_to() -> None:
    ((pair,), _) = pairs([BEFORE, replace(BEFORE, agent="rc(x)")])
    assert pair.verdict == SAME
    assert reflection_page.thesis([pair]) == (
        "The reality check lowers that of none; changes nothing about x."
    )


def test_one_seed_tells_no_difference() -> None:
    one = made("x", {"A": [(0, 0)]})
    ((pair,), _) = pairs([one, made("rc(x)", {"A": [(4, 0)]})])
    assert pair.comparison.difference == pytest.approx(0.2)
    assert pair.verdict == UNTOLD and pair.told() == ([], [])
    page = text_of([one, made("rc(x)", {"A": [(4, 0)]})])
    assert "nan" not in page.lower()


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((0.1, 0.2), RAISES),
        ((-0.2, -0.1), LOWERS),
        ((-0.1, 0.2), UNTOLD),
        ((0.0, 0.2), UNTOLD),
        ((0.0, 0.0), SAME),
    ],
)
def test_a_verdict_is_that_of_the_interval(interval: tuple[float, float], said: str) -> None:
    assert verdict(interval) == said


def test_agents_that_played_other_trials_are_not_compared_and_it_is_said() -> None:
    other = made("rc(x)", {"A": [(0, 0)]})
    found, (note,) = pairs([BEFORE, other])
    assert found == [] and "x and rc(x) are not compared" in note
    longer = made("rc(x)", {"A": [(0, 0)] * 3, "B": [(0, 0)] * 3}, steps=20)
    assert pairs([BEFORE, longer]) == ([], [])
    page = text_of([BEFORE, other])
    assert "With and without reality check" in page and "are not compared" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_reality_check_of_a_reality_check_is_paired_with_it() -> None:
    found, _ = pairs([BEFORE, AFTER, replace(AFTER, agent="rc(rc(x))")])
    assert [(pair.label, pair.checked_label) for pair in found] == [
        ("x", "rc(x)"),
        ("rc(x)", "rc(rc(x))"),
    ]


def test_labels_tell_agents_apart() -> None:
    assert labels([BEFORE, AFTER]) == ["x", "rc(x)"]
    assert labels([BEFORE, BEFORE]) == ["x (1)", "x (2)"]
    assert labels([BEFORE, replace(BEFORE, steps=20)]) == ["x, 10 steps", "x, 20 steps"]
    files = [replace(BEFORE, agent=name) for name in ("a/b c/me.py:f", "rc(a/b c/me.py:f)")]
    assert labels(files) == ["me.py:f", "rc(me.py:f)"]


def test_trials_that_ended_early_are_hatched_counted_and_named() -> None:
    rewards = {"A": [(0.0, 0.0)] * 3, "B": [(1.0, 1.0)] * 3}
    broken = made(f"rc({HOSTILE})", rewards, failed="B")
    agents, environments, *_, last = reflection_page.sections([broken])
    assert agents.tables[0].cells[0][-1].text == "2 (2 timeout)"
    assert "2 trials ended early (2 timeout), the first in B, seed 0" in agents.points[0]
    # Hatched in both panels: B and its opposite.
    (figure,) = environments.figures
    assert figure.svg.count("<pattern") == 1 and "Hatched" in figure.caption
    cells = {row[0].text: row[1].text for row in last.tables[0].cells}
    assert cells["A"] == "0.000" and cells["opposite(B)"] == "+0.100 (1 of 3 ended early)"
    page = text_of([broken])
    assert "<script>" not in page and "2 of 12 trials ended early" in page


def test_agents_of_different_environments_share_a_page() -> None:
    other = made("y", {"B": [(1.0, -1.0)] * 2, "C": [(0.0, 0.0)] * 2})
    *_, last = reflection_page.sections([BEFORE, other])
    rows = [[cell.text for cell in row] for row in last.tables[0].cells]
    assert rows[:3] == [
        ["A", "+0.100", "–"],
        ["B", "+0.300", "+0.100"],
        ["C", "–", "0.000"],
    ]
    assert "nan" not in text_of([BEFORE, other]).lower()


def test_an_opposite_alone_is_a_page_too() -> None:
    alone = measure("random", 20, 2, environments=["opposite(IgnoreRewards)", "DejaVu"])
    page = text_of([alone, measure("rc(random)", 20, 2, environments=["opposite(IgnoreRewards)"])])
    assert "their opposites" in page and "nan" not in page.lower()


def test_the_findings_name_the_ends_and_the_thesis() -> None:
    first, second = reflection_page.findings([BEFORE, AFTER])
    assert first.startswith("Most self-reflection: rc(x) with +0.250 (95% interval 0.")
    assert "least: x with +0.200" in first
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
    shown = [signed_plus(v, 2) for v in (0.123, -0.123, -0.001, 0.0, float("nan"))]
    assert shown == ["+0.12", "−0.12", "0.00", "0.00", "–"]
