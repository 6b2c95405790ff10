"""A few walks, step by step: which ones, and what is told of each step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, State
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.record import Step, Trajectory, condition_name
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation import pictures
from goalmeter.pages.navigation.conditions import condition_in_words, say
from goalmeter.report import Section, Table
from goalmeter.report.table_of import ColumnOf, column, table_of, words

_LONGEST = 160  # characters of an output that are shown
_STEPS = 60  # steps of a walk that are listed
LAYER = {WITH_KEY: ", with key", DOOR_OPEN: ", door open"}
NEUTRAL_LAYER = {WITH_KEY: ", with object"}


def section(result: Navigation, prefix: str) -> Section:
    """The walks of one agent that show most."""
    chosen = selected(result)
    return Section(
        tables=tuple(_steps_table(walk, title) for title, walk in chosen),
        figures=tuple(
            pictures.replay(walk, f"{prefix}-walk-{number}", title)
            for number, (title, walk) in enumerate(chosen, start=1)
        ),
        figures_first=True,
        **say("walks", agent=result.agent, suite=result.plan.suite.name),
    )


def selected(result: Navigation) -> list[tuple[str, Trajectory]]:
    """The walks to show, each with a title; none twice."""
    seen = result.seen
    lost = np.bincount(seen.trajectory, seen.gap, minlength=len(seen.length))
    # Stable, so that the same walks are shown whatever sorts them.
    order = np.argsort(lost, kind="stable")
    faultless = np.flatnonzero((lost == 0) & seen.arrived)
    picks = [("Most steps lost", int(order[-1])), ("In the middle", int(order[len(order) // 2]))]
    if faultless.size:
        longest = faultless[np.argmax(seen.length[faultless])]
        picks.append(("Longest without a wrong step", int(longest)))
    # By number: the walk in the middle may also be the longest one without a wrong step.
    out: dict[int, tuple[str, Trajectory]] = {}
    for title, number in picks:
        walk = seen.trajectories[number]
        where = f"size {walk.size}"
        if walk.complexity is not None:
            where += f", complexity {walk.complexity:g}"
        if walk.transform is not None:
            where += f", {walk.transform}"
        where += condition_in_words(condition_name(walk.condition))
        where += f", grid {walk.grid}, walk {walk.trajectory}"
        out.setdefault(number, (f"{title} ({where})", walk))
    return list(out.values())


def _steps_table(walk: Trajectory, title: str) -> Table:
    layer = LAYER if walk.world.neutral is None else NEUTRAL_LAYER
    has_output = any(step.raw or step.reasoning for step in walk.steps)
    output: tuple[ColumnOf[tuple[int, Step]], ...] = (
        words("output", lambda row: row[1].raw or "", cut),
        words("reasoning", lambda row: row[1].reasoning or "", cut),
    )
    left = len(walk.steps) - _STEPS
    return table_of(
        list(enumerate(walk.steps[:_STEPS], start=1)),
        (
            column("step", lambda row: row[0]),
            words("row, column", lambda row: _place(row[1].state, layer)),
            words("action", lambda row: _answer(row[1])),
            words("optimal", lambda row: " or ".join(ACTIONS[a] for a in row[1].optimal)),
            words("judged", lambda row: "" if row[1].is_optimal else "not optimal"),
            *(output if has_output else ()),
        ),
        caption=title,
        meaning=f"Every decision of the walk, which ended with {walk.outcome!r}.",
        notes=(f"{left} more steps are in the run.",) if left > 0 else (),
    )


def _place(state: State, layer: Mapping[int, str]) -> str:
    return f"{state.cell.row}, {state.cell.column}{layer.get(state.layer, '')}"


def _answer(step: Step) -> str:
    return f"none: {step.invalid}" if step.action is None else ACTIONS[step.action]


def cut(text: str | None) -> str:
    """A text in one line, its middle left out where it is long."""
    line = " ".join((text or "").split())
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}"
