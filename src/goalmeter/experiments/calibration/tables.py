"""Tables of a calibration: what is known, areas under the curve, and one row an agent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.experiments.calibration import verdicts as judged
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS, Question
from goalmeter.experiments.calibration.scores import Score
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.experiments.calibration.verdicts import Verdict
from goalmeter.report import Cell, Table
from goalmeter.report.numbers import DASH, number
from goalmeter.report.table_of import ColumnOf, column, table_of, words

_MARKS = {judged.RIGHT: "✓", judged.WRONG: "✗", judged.OPEN: "?"}
_SIGNS = {judged.TELLS: "✓", judged.SAME: "✓", judged.IN_PART: "~", judged.UNKNOWN: "?"}
_HEADS = {
    "directed": "goal-directed, aimless",
    "misled": "false map, aimless",
    "map": "false map, true map",
    "target": "goal, key",
    "control": "goal, key behind a door",
}


def truth_table(subjects: Sequence[Subject]) -> Table:
    """Who is directed, to what, and on which map."""
    notes = []
    if any(subject.directed is None for subject in subjects):
        notes.append("Not counted: language models of which nobody knows what they want.")
    if any(subject.aside for subject in subjects):
        notes.append(
            "Shown beside the trained one: an ideal organism draws each move from what the trained "
            "one was made to do. It is not counted, so that no organism counts twice. Behind the "
            "door it is, because there only agents count that take no wrong step."
        )
    return table_of(
        subjects,
        (
            words("agent", lambda subject: subject.name),
            words(
                "goal-directed",
                lambda subject: (
                    {True: "yes", False: "no", None: "not counted"}[subject.directed]
                    + ", shown beside the trained one" * subject.aside
                ),
            ),
            words("first target", lambda subject: subject.target or "none"),
            words("map", lambda s: f"the {s.own_map.name}'s" if s.own_map else "true"),
            words("what it does", lambda subject: subject.why),
        ),
        caption="What is known",
        meaning="First target: what it goes for where a key lies about without use. Where the key "
        "opens the only way, it is everybody's first target.",
        notes=notes,
    )


def area_table(verdicts: Sequence[Verdict]) -> Table:
    """How well every instrument tells classes of agents apart."""
    by_place = {(verdict.instrument, verdict.question): verdict for verdict in verdicts}
    questions = [name for name in QUESTIONS if any(v.question == name for v in verdicts)]
    instruments = [name for name in INSTRUMENTS if any(v.instrument == name for v in verdicts)]

    def area(question: str) -> ColumnOf[str]:
        return column(_HEADS[question], lambda name: _area(by_place.get((name, question))))

    return table_of(
        instruments,
        (words("instrument", lambda name: INSTRUMENTS[name].title), *map(area, questions)),
        caption="Areas under the curve",
        meaning="The probability that walks of the first class in a grid score above walks of the "
        "second in any grid: 1 is perfect, 0.5 chance. In brackets: 95% intervals over grids, "
        "with the walks of both classes: they are of these agents in other grids. What holds of "
        "other agents the population says.",
        notes=(
            "✓ at least 0.9 and beyond chance; ~ beyond chance; ✗ not, or upside down; ? too few "
            "grids to say. Without a "
            "mark: the instrument is not made for the question. Behind a door both do the same: "
            "✓ if the interval holds 0.5.",
            "False map: mazes in which the mole's map is wrong.",
            "Less is better of "
            + ", ".join(i.title for i in INSTRUMENTS.values() if i.lower)
            + ": their areas are those of the negative.",
        ),
    )


def agent_table(
    scores: Sequence[Score], subjects: Sequence[Subject], question: Question, also: Sequence[str]
) -> Table:
    """One row an agent, one column an instrument made for any of several questions.

    Args:
        scores: all of them.
        subjects: the agents.
        question: whose grids are averaged over.
        also: names of more questions in the same worlds, whose instruments are shown too, and that
            say right or wrong of agents of which the first says nothing.
    """
    asked = (question, *(QUESTIONS[name] for name in also))
    instruments = list(dict.fromkeys(name for each in asked for name in each.made_for))

    def cell(subject: Subject, name: str) -> str:
        value = judged.mean_of(scores, question, name, subject.name)
        # Of the questions that instrument is made for, the first in which the agent has a class.
        marks = (
            judged.mark(scores, each, name, subject, subjects)
            for each in asked
            if name in each.made_for
        )
        sign = next((_MARKS[each] for each in marks if each is not None), "")
        return DASH if math.isnan(value) else f"{number(value, 2)} {sign}".strip()

    def instrument(name: str) -> ColumnOf[Subject]:
        return column(INSTRUMENTS[name].title, lambda subject: cell(subject, name))

    return table_of(
        subjects,
        (words("agent", lambda subject: subject.name), *map(instrument, instruments)),
        caption=f"To tell {question.title}",
        meaning="Means over grids. ✓: the interval of the agent's area against the other class "
        "lies on the right side of chance; ✗: on the wrong side; ?: on both sides. Agents that are "
        "not counted, are shown beside the trained one, or have no class here, have no mark.",
        notes=tuple(f"{INSTRUMENTS[i].title}: {INSTRUMENTS[i].meaning}." for i in instruments),
    )


def _area(verdict: Verdict | None) -> Cell | str:
    if verdict is None or math.isnan(verdict.area.value):
        return DASH
    sign = _SIGNS.get(verdict.words, "✗") if verdict.judged else ""
    return Cell(f"{number(verdict.area, 2)} {sign}".strip(), share=verdict.area.value)
