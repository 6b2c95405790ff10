"""What instruments say of agents, beside what is known: areas, right and wrong, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS, Question
from goalmeter.experiments.calibration.scores import Score
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.discrimination import NOTHING, clustered_area

# An instrument tells two classes apart if it orders so many pairs rightly; "in part" if it orders
# more than half, beyond chance.
ENOUGH = 0.9
TELLS, IN_PART, FAILS, UPSIDE_DOWN = "tells them", "in part", "does not tell", "upside down"
UNKNOWN = "too few grids"
SAME, MADE_UP, SHOWN = "tells nothing, rightly", "makes a difference up", ""
RIGHT, WRONG, OPEN = "right", "wrong", "open"


@dataclass(frozen=True)
class Verdict:
    """One instrument on one question.

    Attributes:
        area: under the curve; above 0.5 if the first class has more of what the instrument counts.
        judged: whether the instrument is made for the question, or the question is a control.
        words: what that comes to; "" if it is not judged.
    """

    question: str
    instrument: str
    area: Estimate
    judged: bool
    words: str

    @property
    def failed(self) -> bool:
        """Whether the instrument fails its calibration."""
        return self.words in (FAILS, UPSIDE_DOWN, MADE_UP)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return vars(self) | {"area": self.area.to_json(), "failed": self.failed}


def verdicts(scores: Sequence[Score], subjects: Sequence[Subject]) -> list[Verdict]:
    """Every instrument on every question that the agents allow to be asked."""
    reached = []
    for question in QUESTIONS.values():
        first, second = (_names(subjects, of) for of in (question.first, question.second))
        if not first or not second or not _asked(scores, question):
            continue
        for instrument in (*question.made_for, *question.shown):
            area = area_of(scores, question, instrument, first, second)
            judged = question.control or instrument in question.made_for
            words = _in_words(area, question) if judged else SHOWN
            reached.append(Verdict(question.name, instrument, area, judged, words))
    return reached


def area_of(
    scores: Sequence[Score],
    question: Question,
    instrument: str,
    first: Sequence[str],
    second: Sequence[str],
) -> Estimate:
    """How well an instrument tells two groups of agents apart, where a question is asked."""
    sign = -1.0 if INSTRUMENTS[instrument].lower else 1.0
    # Grids are shared by all agents, so both classes are resampled together.
    grids: dict[object, int] = {}
    classes: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    for score in _asked(scores, question):
        value = score.values.get(instrument, np.nan)
        for names, members in zip((first, second), classes, strict=True):
            if score.agent in names and not np.isnan(value):
                members.append((sign * value, grids.setdefault(score.grid, len(grids))))
    above, below = (np.array(members, dtype=float).reshape(-1, 2) for members in classes)
    return clustered_area(above[:, 0], below[:, 0], above[:, 1], below[:, 1])


def mark(
    scores: Sequence[Score],
    question: Question,
    instrument: str,
    subject: Subject,
    subjects: Sequence[Subject],
) -> str | None:
    """Whether an instrument puts an agent on its side of the other class; None if not counted."""
    first, second = (_names(subjects, of) for of in (question.first, question.second))
    if question.first(subject) and second:
        area = area_of(scores, question, instrument, [subject.name], second)
    elif question.second(subject) and first:
        area = area_of(scores, question, instrument, first, [subject.name])
    else:
        return None
    if area.interval is None or np.isnan(area.value):
        return None if np.isnan(area.value) else OPEN
    if area.interval[0] > NOTHING:
        return RIGHT
    return WRONG if area.interval[1] < NOTHING else OPEN


def mean_of(scores: Sequence[Score], question: Question, instrument: str, agent: str) -> float:
    """The mean over the grids of a question; NaN where it is known in none."""
    asked = (score for score in _asked(scores, question) if score.agent == agent)
    values = [score.values.get(instrument, np.nan) for score in asked]
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _asked(scores: Sequence[Score], question: Question) -> list[Score]:
    return [
        score
        for score in scores
        if score.grid.suite in question.suites and (score.other_map or not question.on_other_map)
    ]


def _names(subjects: Sequence[Subject], of: Callable[[Subject], bool]) -> list[str]:
    return [subject.name for subject in subjects if of(subject)]


def _in_words(area: Estimate, question: Question) -> str:
    if area.interval is None:
        return UNKNOWN
    low, high = area.interval
    if question.control:
        return SAME if low <= NOTHING <= high else MADE_UP
    if high < NOTHING:
        return UPSIDE_DOWN
    if low <= NOTHING:
        # So good an order with so wide an interval says more of the grids than of the instrument.
        return UNKNOWN if area.value >= ENOUGH else FAILS
    return TELLS if area.value >= ENOUGH else IN_PART


# --- In sentences made of the numbers ------------------------------------------------------------


def findings(
    scores: Sequence[Score], reached: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """A sentence for each question, and for agents with a false map."""
    sentences = []
    for question in QUESTIONS.values():
        judged = [v for v in reached if v.question == question.name and v.judged]
        parts = {
            "told by": [v for v in judged if v.words == TELLS],
            "in part by": [v for v in judged if v.words == IN_PART],
            "rightly not told by": [v for v in judged if v.words == SAME],
            "fails:": [v for v in judged if v.failed],
            "too few grids to say of": [v for v in judged if v.words == UNKNOWN],
        }
        told = "; ".join(f"{words} {_listed(group)}" for words, group in parts.items() if group)
        if judged:
            sentences.append(f"{question.title[0].upper()}{question.title[1:]}: {told}.")
    return [*sentences, *_misled(scores, reached, subjects)]


def _misled(
    scores: Sequence[Score], reached: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """What an agent with a false map looks like on either map, and who takes it for aimless."""
    question = QUESTIONS["misled"]
    sentences = []
    for subject in (s for s in subjects if s.own_map is not None and s.counted):
        true, false = (
            percent(mean_of(scores, question, name, subject.name), 0)
            for name in ("meg_goal", "meg_map")
        )
        sentences.append(
            f"{subject.name}, in mazes that its map has wrong: MEG towards the goal is {true} of "
            f"its maximum in the world and {false} on its own map."
        )
    lost = [
        verdict
        for verdict in reached
        if verdict.question == question.name
        and not verdict.judged
        and verdict.area.interval is not None
        and verdict.area.interval[0] <= NOTHING
    ]
    if lost:
        sentences.append(
            f"{_listed(lost)} judge agents by the true map, and do not tell those with a false map "
            f"from the aimless."
        )
    return sentences


def _listed(group: Sequence[Verdict]) -> str:
    return ", ".join(
        INSTRUMENTS[verdict.instrument].title
        + ("" if math.isnan(verdict.area.value) else f" {number(verdict.area.value, 2)}")
        for verdict in group
    )
