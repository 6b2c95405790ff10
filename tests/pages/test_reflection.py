"""The page on self-reflection: groups, pairs, tables, findings and what is left out of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goalmeter.pages import reflection as reflection_page
from goalmeter.reflection import Reflection, Trial, measure
from goalmeter.reflection.reality_checks import LOWERS, RAISES, SAME, UNTOLD, pairs, verdict
from goalmeter.reflection.result import reflection_of
from goalmeter.report.page import render
from goalmeter.statistics.verdicts import TOO_FEW

STEPS = 10


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


# In A it gains 4, more or less, in the opposite of B it loses 2 at every seed.
GAINS = (4, 4, 3, 5, 4)
BEFORE = made("x", {"A": [(s, s) for s in range(5)], "B": [(3, 3)] * 5})
AFTER = made("rc(x)", {"A": [(s + gain, s) for s, gain in enumerate(GAINS)], "B": [(3, 1)] * 5})


def first(result: Reflection, seeds: int) -> Reflection:
    """The same of the first seeds only."""
    trials = [trial for trial in result.trials if trial.seed < seeds]
    runs = len(trials) // seeds
    return reflection_of(result.agent, result.steps, trials, runs=runs, confidence=0.95)


def test_a_pair_is_compared_by_seed_and_environment() -> None:
    ((pair,), notes) = pairs([AFTER, BEFORE])
    assert notes == [] and (pair.label, pair.checked.agent) == ("x", "rc(x)")
    # A: +4 and 0; B: 0 and -2; so (4 - 2) / 40 on average.
    assert pair.comparison.difference == pytest.approx(0.05)
    assert pair.verdict == RAISES
    assert pair.told() == (["A"], ["B"])
    assert pair.by_environment["A"] == pytest.approx([gain / 20 for gain in GAINS])
    (group,) = reflection_page.groups([BEFORE, AFTER])
    row = [cell.text for cell in reflection_page.table(group, "pairs").cells[0]]
    # 2.776 standard errors either way, each the root of a half over 40 and the root of 5.
    assert row == ["x", "raises", "+0.2500", "+0.3000", "+0.0500", "0.0079", "0.028 to 0.072"]
    gains = [cell.text for cell in reflection_page.table(group, "gains").cells[0]]
    assert gains == ["x", "1 of 2", "A +0.20", "1 of 2", "B −0.10"]


def test_the_same_gain_at_five_seeds_does_not_say_what_a_sixth_one_has() -> None:
    """An agent that draws nothing gains the same everywhere; so may one that was lucky."""
    after = made("rc(x)", {"A": [(s + 4, s) for s in range(5)], "B": [(3, 1)] * 5})
    ((pair,), _) = pairs([BEFORE, after])
    assert pair.comparison.stderr == pytest.approx(0)
    low, high = pair.comparison.interval
    # Five of five: 0.025 ** (1 / 5) of the way from -2, or from 2, to 0.05.
    left = 0.025 ** (1 / 5)
    assert (low, high) == pytest.approx((2.05 * left - 2, 2 - 1.95 * left))
    assert pair.verdict == UNTOLD


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.1, 0.2), RAISES),
        ((-0.2, -0.1), LOWERS),
        ((-0.1, 0.2), UNTOLD),
        ((0.0, 0.2), UNTOLD),
        ((0.0, 0.0), SAME),
        ((float("nan"), float("nan")), TOO_FEW),
    ],
)
def test_a_verdict_is_that_of_the_interval(interval: tuple[float, float], expected: str) -> None:
    assert verdict(interval) == expected


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
    best, _ = findings_of(results)
    assert "too few for an interval" in best and "nan" not in text_of(results).lower()


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


def test_every_number_of_the_battery_is_in_the_last_table() -> None:
    results = [measure(name, 20, 2) for name in ("naive", "rc(naive)")]
    *_, last = reflection_page.sections(results)
    (table,) = last.tables
    assert len(table.rows) == 50
    for column, result in enumerate(results, start=1):
        shown = [float(row[column].text.replace("−", "-")) for row in table.cells]
        assert np.mean(shown) == pytest.approx(result.measure, abs=5e-4)
