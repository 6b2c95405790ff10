"""What instruments say of agents, beside what is known: areas under the curve, right and wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS, Question
from goalmeter.experiments.calibration.scores import Score
from goalmeter.experiments.calibration.truth import Subject
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
        question: its name.
        instrument: its name.
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
    out = []
    for question in QUESTIONS.values():
        first, second = (_names(subjects, of) for of in (question.first, question.second))
        if not first or not second or not _asked(scores, question):
            continue
        for instrument in (*question.made_for, *question.shown):
            area = area_of(scores, question, instrument, first, second)
            judged = question.control or instrument in question.made_for
            words = _in_words(area, question) if judged else SHOWN
            out.append(Verdict(question.name, instrument, area, judged, words))
    return out


def area_of(
    scores: Sequence[Score],
    question: Question,
    instrument: str,
    first: Sequence[str],
    second: Sequence[str],
) -> Estimate:
    """How well an instrument tells some agents from others, where a question is asked.

    Grids are shared by all agents, so both classes are resampled together.
    """
    sign = -1.0 if INSTRUMENTS[instrument].lower else 1.0
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
    values = [
        score.values.get(instrument, np.nan)
        for score in _asked(scores, question)
        if score.agent == agent
    ]
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
        return UNKNOWN if area.value >= ENOUGH else FAILS
    return TELLS if area.value >= ENOUGH else IN_PART
