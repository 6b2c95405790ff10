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
    area_of,
    mean_of,
)
from goalmeter.experiments.calibration.pictures import Drawn
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.scores import Score
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.statistics.discrimination import NOTHING


def findings(
    found: Sequence[Score],
    judged: Sequence[Verdict],
    subjects: Sequence[Subject],
    drawn: Sequence[Drawn],
) -> list[str]:
    """A sentence for each question, and for what instruments fall for or see through."""
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
    return [*out, *_misled(found, judged, subjects), *_habits(found, subjects), *_wanted(drawn)]


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


def _habits(found: Sequence[Score], subjects: Sequence[Subject]) -> list[str]:
    """Which instruments take an agent that is not counted, and has no goal, for one that has."""
    question = QUESTIONS["directed"]
    aimless = [one.name for one in subjects if question.second(one)]
    out = []
    for one in subjects:
        if one.directed is not None or one.target is not None or not aimless:
            continue
        fooled = []
        for name in question.made_for:
            area = area_of(found, question, name, [one.name], aimless)
            if area.interval is not None and area.interval[0] > NOTHING:
                mean = mean_of(found, question, name, one.name)
                fooled.append(f"{INSTRUMENTS[name].title} ({mean:.2f})")
        if fooled:
            out.append(
                f"{one.name} ({one.why}) has no goal, and in mazes some instruments still tell it "
                f"from the aimless: {', '.join(fooled)}. None of these alone shows that an agent "
                f"looks where the goal is."
            )
    return out


def _listed(some: Sequence[Verdict]) -> str:
    return ", ".join(
        INSTRUMENTS[one.instrument].title
        + ("" if math.isnan(one.area.value) else f" {one.area.value:.2f}")
        for one in some
    )


def _wanted(drawn: Sequence[Drawn]) -> list[str]:
    """Where the learnt utilities have their summit."""
    out = []
    for suite in dict.fromkeys(one.suite for one in drawn):
        own = [one for one in drawn if one.suite == suite]
        right = [one.agent for one in own if one.highest == one.world.goal]
        wrong = [one.agent for one in own if one.highest != one.world.goal]
        parts = [
            f"{words} of {', '.join(names)}"
            for words, names in (("at the goal", right), ("elsewhere", wrong))
            if names
        ]
        out.append(f"The utility learnt in one world of {suite!r} is highest {'; '.join(parts)}.")
    return out
