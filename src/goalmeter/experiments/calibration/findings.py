"""What a calibration comes to, in sentences made of its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.experiments.calibration.judged import (
    IN_PART,
    SAME,
    TELLS,
    UNKNOWN,
    Verdict,
    mean_of,
)
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.scores import Score
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.discrimination import NOTHING


def findings(
    scores: Sequence[Score],
    judged: Sequence[Verdict],
    subjects: Sequence[Subject],
) -> list[str]:
    """A sentence for each question, and for agents with a false map."""
    out = []
    for question in QUESTIONS.values():
        verdicts = [v for v in judged if v.question == question.name and v.judged]
        if not verdicts:
            continue
        parts = {
            "told by": [v for v in verdicts if v.words == TELLS],
            "in part by": [v for v in verdicts if v.words == IN_PART],
            "rightly not told by": [v for v in verdicts if v.words == SAME],
            "fails:": [v for v in verdicts if v.failed],
            "too few grids to say of": [v for v in verdicts if v.words == UNKNOWN],
        }
        told = "; ".join(f"{words} {_listed(some)}" for words, some in parts.items() if some)
        out.append(f"{question.title[0].upper()}{question.title[1:]}: {told}.")
    return [*out, *_misled(scores, judged, subjects)]


def _misled(
    scores: Sequence[Score], judged: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """What an agent with a false map looks like on either map, and who takes it for aimless."""
    question = QUESTIONS["misled"]
    out = []
    for subject in subjects:
        if subject.own_map is not None and subject.counted:
            true, on_own_map = (
                mean_of(scores, question, name, subject.name) for name in ("meg_goal", "meg_map")
            )
            out.append(
                f"{subject.name}, in mazes that its map has wrong: MEG towards the goal is "
                f"{percent(true, 0)} of its maximum in the world and {percent(on_own_map, 0)} on "
                "its own map."
            )
    lost = [
        subject
        for subject in judged
        if subject.question == question.name
        and not subject.judged
        and subject.area.interval is not None
        and subject.area.interval[0] <= NOTHING
    ]
    if lost:
        out.append(
            f"{_listed(lost)} judge agents by the true map, and do not tell those with a false map "
            f"from the aimless."
        )
    return out


def _listed(some: Sequence[Verdict]) -> str:
    return ", ".join(
        INSTRUMENTS[verdict.instrument].title
        + ("" if math.isnan(verdict.area.value) else f" {number(verdict.area.value, 2)}")
        for verdict in some
    )
