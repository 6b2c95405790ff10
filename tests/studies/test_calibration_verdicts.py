"""Verdicts on instruments, from numbers that were made up."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.navigation.steps import Grid
from replications.calibration.instruments import (
    FAILS,
    IN_PART,
    MADE_UP,
    OPEN,
    QUESTIONS,
    RIGHT,
    SAME,
    SHOWN,
    TELLS,
    UNKNOWN,
    UPSIDE_DOWN,
    WRONG,
    Score,
    Subject,
    findings,
    mark,
    mean_of,
    subjects_of,
    verdicts,
)
from replications.calibration.study import truth_table


def made(values: dict[str, list[float]], instrument: str, suite: str = "maze") -> list[Score]:
    """Scores of agents in as many grids as there are numbers."""
    return [
        Score(name, Grid(suite, 7, 0.0, seed), True, {instrument: value})
        for name, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]


AIMED, AIMLESS = Subject("aimed", True, "goal", "-", flawless=True), Subject("a", False, None, "-")
KEEN = Subject("keen", True, "key", "-", flawless=True)
LOW, HIGH = [0.0, 0.1, 0.2, 0.1] * 3, [0.8, 0.9, 1.0, 0.7] * 3


def words_of(scores: list[Score], subjects: list[Subject], question: str, instrument: str) -> str:
    named = {(v.question, v.instrument): v for v in verdicts(scores, subjects)}
    return named[question, instrument].words


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (HIGH, LOW, TELLS),
        (LOW, HIGH, UPSIDE_DOWN),
        ([0.5] * 4, [0.5] * 4, FAILS),
        ([0.3, 0.4, 0.5, 0.6] * 4, [0.2, 0.35, 0.55, 0.1] * 4, IN_PART),
        (HIGH[:4], LOW[:4], UNKNOWN),
        (HIGH[:1], LOW[:1], UNKNOWN),
    ],
    ids=["tells", "upside-down", "fails", "in-part", "four-grids", "one-grid"],
)
def test_verdicts_in_words(first: list[float], second: list[float], words: str) -> None:
    scores = made({"aimed": first, "a": second}, "accuracy")
    assert words_of(scores, [AIMED, AIMLESS], "directed", "accuracy") == words


def test_controls_may_not_be_told_apart_and_what_is_shown_cannot_fail() -> None:
    both = [AIMED, KEEN]
    apart = made({"aimed": HIGH, "keen": LOW}, "goal_less_key", "key-door")
    level = made({"aimed": HIGH, "keen": HIGH}, "goal_less_key", "key-door")
    assert words_of(apart, both, "control", "goal_less_key") == MADE_UP
    assert words_of(level, both, "control", "goal_less_key") == SAME
    lines = findings(apart, verdicts(apart, both), both)
    assert any("fails: MEG goal − key 1.00" in line for line in lines)
    scores = made({"aimed": LOW, "keen": HIGH}, "success", "two-path")
    shown = [v for v in verdicts(scores, both) if v.instrument == "success"]
    assert [(v.words, v.failed, v.area.value) for v in shown] == [(SHOWN, False, 0.0)]


def test_marks_are_of_one_agent_against_the_other_class() -> None:
    question = QUESTIONS["directed"]
    lost, shown = Subject("lost", True, "goal", "-"), Subject("shown", None, None, "-")
    unsure = Subject("unsure", True, "goal", "-")
    everyone = [AIMED, AIMLESS, lost, unsure, shown]
    values = {"aimed": HIGH, "a": [0.5] * 12, "lost": LOW, "unsure": [0.4, 0.6] * 6, "shown": HIGH}
    scores = made(values, "accuracy")
    marks = [mark(scores, question, "accuracy", subject, everyone) for subject in everyone]
    assert marks == [RIGHT, OPEN, WRONG, OPEN, None]
    assert mean_of(scores, question, "accuracy", "aimed") == pytest.approx(np.mean(HIGH))


def test_an_organism_that_walks_twice_counts_once() -> None:
    subjects = subjects_of(["goalmeter/mouse", "ideal-mouse", "ideal-moth"])
    assert [subject.counted for subject in subjects] == [True, False, True]
    table = truth_table(subjects)
    assert [row[1] for row in table.rows][:2] == ["yes", "yes, shown beside the trained one"]
    assert any("no organism counts twice" in note for note in table.notes)
