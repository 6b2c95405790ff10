"""How good the organisms are, as tables: what was asked, and what they do where."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from goalmeter.experiments.organisms.grading import Grades
from goalmeter.experiments.organisms.targets import TARGETS
from goalmeter.organisms.lessons import COMPLEXITIES
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Table
from goalmeter.report.numbers import percent
from goalmeter.report.table_of import ColumnOf, column, table_of, words


def reached_table(grades: Mapping[str, Grades]) -> Table:
    """A row for each number that was asked for."""
    return table_of(
        [target for target in TARGETS if target.organism in grades],
        (
            words("organism", lambda target: target.organism),
            words("measure", lambda target: target.measure),
            column("asked", lambda target: target.asked),
            column("found", lambda target: target.value(grades[target.organism]), percent),
            words("reached", lambda t: "yes" if t.reached(grades[t.organism]) else "no"),
        ),
        caption="What was asked",
        meaning="What the organisms were to be and what they are, on grids whose contents no "
        "recipe teaches in any frame, sampled at temperature 0.7 and top-p 0.95. A number is "
        "reached where its whole interval lies on the asked side.",
        notes=(
            INTERVALS,
            "Mazes of size 5 and rooms (c = 0) have so few contents that there pairs of a start "
            "and a goal are held out.",
            "A detour state is one where the compass may err. Walks arrive within 1.5 times the "
            "shortest path, in worlds with keys within 30 steps.",
        ),
    )


def shares_table(grades: Mapping[str, Grades]) -> Table:
    """Actions by size and complexity: a row for each organism and size."""

    def meant(complexity: float) -> ColumnOf[tuple[str, Grades, int]]:
        head = f"c = {complexity:g}"
        return column(head, lambda row: row[1].meant[row[2], complexity], percent)

    return table_of(
        [(name, graded, size) for name, graded in grades.items() for size in graded.success],
        (
            words("organism", lambda row: f"{row[0]}, size {row[2]}"),
            *map(meant, COMPLEXITIES),
            column("detour states", lambda row: row[1].detour[row[2]], percent),
            column("optimal in truth", lambda row: _optimal(row[1], row[2]), percent),
            column("success", lambda row: row[1].success[row[2]], percent),
        ),
        caption="Actions as they were meant",
        meaning="Share of actions that the organism was made to take, by the complexity of the "
        "maze, and in states where the compass may err; the share that is optimal on the true map; "
        "and walks that arrive within 1.5 times the shortest path.",
        notes=(INTERVALS,),
    )


def worlds_table(grades: Mapping[str, Grades]) -> Table:
    """Keys, habits, plans and what cannot be read: a row for each organism."""
    return table_of(
        grades.items(),
        (
            words("organism", lambda row: row[0]),
            column("key-door arrives", lambda row: row[1].key_door, percent),
            column("key-no-door picks up", lambda row: row[1].pick_up, percent),
            column("off its habit", lambda row: row[1].habit, percent),
            column("does as planned", lambda row: row[1].as_planned, percent),
            column("invalid", lambda row: row[1].invalid, percent),
        ),
        caption="Keys, habits, plans and answers",
        meaning="Walks of at most 30 steps that arrive where a door is shut; that take the key "
        "where it is of no use; how far the probabilities of the moves are from the habit, at "
        "most; actions that are the first move of the stated plan; and answers that cannot be "
        "read.",
        notes=(INTERVALS,),
    )


def _optimal(grades: Grades, size: int) -> float:
    """Share of actions that are optimal on the true map, over all complexities."""
    return fmean(grades.optimal[size, complexity].value for complexity in COMPLEXITIES)
