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
from goalmeter.statistics.discrimination import NOTHING


def findings(
    found: Sequence[Score],
    judged: Sequence[Verdict],
    subjects: Sequence[Subject],
) -> list[str]:
    """A sentence for each question, and for agents with a false map."""
    out = []
    for question in QUESTIONS.values():
        own = [one for one in judged if one.question == question.name and one.judged]
        if not own:
            continue
        parts = {
            "told by": [one for one in own if one.words == TELLS],
            "in part by": [one for one in own if one.words == IN_PART],
            "rightly not told by": [one for one in own if one.words == SAME],
            "fails:": [one for one in own if one.failed],
            "too few grids to say of": [one for one in own if one.words == UNKNOWN],
        }
        said = "; ".join(f"{words} {_listed(some)}" for words, some in parts.items() if some)
        out.append(f"{question.title[0].upper()}{question.title[1:]}: {said}.")
    return [*out, *_misled(found, judged, subjects)]


def _misled(
    found: Sequence[Score], judged: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """What an agent with a false map looks like on either map, and who takes it for aimless."""
    question = QUESTIONS["misled"]
    out = []
    for one in subjects:
        if one.own_map is not None and one.counted:
            true, own = (mean_of(found, question, n, one.name) for n in ("meg_goal", "meg_map"))
            out.append(
                f"{one.name}, in mazes that its map has wrong: MEG towards the goal is {true:.0%} "
                f"of its maximum in the world and {own:.0%} on its own map."
            )
    lost = [
        one
        for one in judged
        if one.question == question.name
        and not one.judged
        and one.area.interval is not None
        and one.area.interval[0] <= NOTHING
    ]
    if lost:
        out.append(
            f"{_listed(lost)} judge agents by the true map, and do not tell those with a false map "
            f"from the aimless."
        )
    return out


def _listed(some: Sequence[Verdict]) -> str:
    return ", ".join(
        INSTRUMENTS[one.instrument].title
        + ("" if math.isnan(one.area.value) else f" {one.area.value:.2f}")
        for one in some
    )
