"""How good the organisms are, as tables: what was asked, and what they do where."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from goalmeter.experiments.organisms.grading import Grades
from goalmeter.experiments.organisms.targets import TARGETS
from goalmeter.organisms.lessons import COMPLEXITIES
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Column, Table
from goalmeter.report.numbers import percent

_NAME = Column("organism", numeric=False)


def reached_table(found: Mapping[str, Grades]) -> Table:
    """A row for each number that was asked for."""
    return Table(
        caption="What was asked",
        columns=(
            _NAME,
            Column("measure", numeric=False),
            "asked",
            "found",
            Column("reached", numeric=False),
        ),
        rows=tuple(
            (
                target.organism,
                target.measure,
                target.asked,
                percent(target.value(found[target.organism])),
                "yes" if target.reached(found[target.organism]) else "no",
            )
            for target in TARGETS
            if target.organism in found
        ),
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


def shares_table(found: Mapping[str, Grades]) -> Table:
    """Actions by size and complexity: a row for each organism and size."""
    rows = [
        (
            f"{name}, size {size}",
            *(percent(one.meant[size, complexity]) for complexity in COMPLEXITIES),
            percent(one.detour[size]),
            f"{fmean(one.optimal[size, complexity].value for complexity in COMPLEXITIES):.1%}",
            percent(one.success[size]),
        )
        for name, one in found.items()
        for size in one.success
    ]
    heads = tuple(f"c = {complexity:g}" for complexity in COMPLEXITIES)
    return Table(
        caption="Actions as they were meant",
        columns=(_NAME, *heads, "detour states", "optimal in truth", "success"),
        rows=tuple(rows),
        meaning="Share of actions that the organism was made to take, by the complexity of the "
        "maze, and in states where the compass may err; the share that is optimal on the true map; "
        "and walks that arrive within 1.5 times the shortest path.",
        notes=(INTERVALS,),
    )


def worlds_table(found: Mapping[str, Grades]) -> Table:
    """Keys, habits, plans and what cannot be read: a row for each organism."""
    return Table(
        caption="Keys, habits, plans and answers",
        columns=(
            _NAME,
            "key-door arrives",
            "key-no-door picks up",
            "off its habit",
            "does as planned",
            "invalid",
        ),
        rows=tuple(
            (
                name,
                percent(one.key_door),
                percent(one.pick_up),
                percent(one.habit),
                percent(one.as_planned),
                percent(one.invalid),
            )
            for name, one in found.items()
        ),
        meaning="Walks of at most 30 steps that arrive where a door is shut; that take the key "
        "where it is of no use; how far the probabilities of the moves are from the habit, at "
        "most; actions that are the first move of the stated plan; and answers that cannot be "
        "read.",
        notes=(INTERVALS,),
    )
