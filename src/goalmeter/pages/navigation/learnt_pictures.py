"""Utilities that were learnt from walks, drawn on the grid, with what they explain.

Some utility explains something of any few walks, also of aimless ones, and where it is highest is
not a verdict on a goal. It is shown with the share of the most that could be explained, beside what
the same fit explains of agents that take shortest ways, and that move at random, through the same
world as often. What explains less than half way from the one to the other is drawn in grey, and no
more is said of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from goalmeter.gridworld import GridWorld
from goalmeter.navigation.directed.learnt import SHARE, Drawn, Learnt, answers, explained, learn
from goalmeter.navigation.record import Trajectory
from goalmeter.pages.navigation.conditions import say
from goalmeter.report import Figure, Section, Table
from goalmeter.report.charts.grid_map import Marks, grid_map
from goalmeter.report.numbers import number, percent
from goalmeter.report.table_of import column, table_of, words

# Of the way from random moves to shortest ways. The maximum itself is no yardstick: from a few
# answers a policy is known so badly that even of an agent without fault less than half of it is
# explained; nor is 0, since a fit with a number for each cell explains something of any walk.
FAINT = 0.5
ANCHOR = "learnt"


@dataclass(frozen=True)
class Explained:
    """A learnt utility, and what it is worth.

    Attributes:
        drawn: the utility and whose it is.
        share: of the most that could be explained of the agent's answers in this world.
        shortest: the same of an agent that takes shortest ways there; NaN if it did not walk.
        aimless: the same of an agent that moves at random; NaN if it did not walk.
    """

    drawn: Drawn
    share: float
    shortest: float
    aimless: float

    def to_json(self) -> dict[str, Any]:
        """What it is worth, as JSON values."""
        return {
            "agent": self.drawn.agent,
            "suite": self.drawn.suite,
            "explained": self.share,
            "explained_of_shortest_ways": self.shortest,
            "explained_of_random_moves": self.aimless,
            "faint": self.faint,
        }

    @property
    def faint(self) -> bool:
        """Whether it explains so little that the picture is no picture of a wish."""
        # Without agents to compare with, which are NaN, nothing is enough.
        return not self.share >= self.aimless + FAINT * (self.shortest - self.aimless)


def explain(
    drawn: Sequence[Drawn],
    walks: Mapping[str, Mapping[str, Sequence[Trajectory]]],
    *,
    shortest: str,
    aimless: str,
) -> list[Explained]:
    """What each learnt utility explains.

    Args:
        drawn: the utilities.
        walks: by suite and agent.
        shortest: the agent that takes shortest ways.
        aimless: the agent that moves at random.
    """

    @cache
    def of(agent: str, suite: str, world: GridWorld) -> float:
        walks_there = _through(walks[suite].get(agent, ()), world)
        return (
            _share(walks_there, learn(world, walks_there[0].cap, answers(walks_there)))
            if walks_there
            else math.nan
        )

    return [
        Explained(
            utility,
            _share(_through(walks[utility.suite][utility.agent], utility.world), utility.learnt),
            of(shortest, utility.suite, utility.world),
            of(aimless, utility.suite, utility.world),
        )
        for utility in drawn
    ]


def _through(walks: Sequence[Trajectory], world: GridWorld) -> list[Trajectory]:
    return [walk for walk in walks if walk.world == world]


def _share(walks: Sequence[Trajectory], learnt: Learnt) -> float:
    """Of the maximum, what a utility that was learnt from walks through one world explains."""
    return learnt.share * explained(walks[0].world, walks[0].cap, answers(walks))


def section(
    utilities: Sequence[Explained], title: str = "Utilities that explain the walks"
) -> Section:
    """The utilities of some agents as maps on one scale, over a table of what they explain."""
    return Section(
        title=title,
        tables=(table(utilities),),
        figures=tuple(utility_map(utility) for utility in utilities),
        **say("learnt_maps", share=percent(SHARE, 0)),
    )


def table(utilities: Sequence[Explained]) -> Table:
    """How much each learnt utility explains."""
    return table_of(
        utilities,
        (
            words("agent", lambda utility: utility.drawn.agent),
            words("world", lambda utility: utility.drawn.suite),
            words("map", lambda utility: "grey" if utility.faint else "in colour"),
            column("share explained", lambda utility: _whole(utility.share)),
            column("of random moves", lambda utility: _whole(utility.aimless)),
            column("of shortest ways", lambda utility: _whole(utility.shortest)),
            column("worth of having the key", lambda utility: number(utility.drawn.learnt.key, 2)),
        ),
        anchor=ANCHOR,
        **say("learnt", half=percent(FAINT, 0)),
    )


def utility_map(utility: Explained) -> Figure:
    """The utility of each cell, with start, goal and key; grey if it explains little."""
    drawn, world = utility.drawn, utility.drawn.world
    values = np.zeros(world.shape)
    unreached = ~world.walls
    for cell, value in drawn.learnt.cells.items():
        # Tiny numbers below 0 are rounding.
        values[cell] = max(round(value, 6), 0.0)
        unreached[cell] = False
    columns = world.shape[1]
    places = {"S": world.start, "G": world.goal, "K": world.key}
    marks = Marks(
        letters={p.row * columns + p.column: name for name, p in places.items() if p is not None},
        walls=frozenset(np.flatnonzero(world.walls | unreached).tolist()),
    )
    # Names of pictures are ids on the page, and agents may be named anything.
    name = re.sub(r"[^a-z0-9]+", "-", f"learnt-{drawn.agent}-{drawn.suite}".lower())
    caption = _in_words(utility)
    return Figure(
        svg=grid_map(
            name,
            values,
            label="utility" + ", explains little" * utility.faint,
            palette="faint" if utility.faint else "utility",
            marks=marks,
            limit=1.0,
            beside=None if math.isnan(drawn.learnt.key) else ("having K", drawn.learnt.key),
        ),
        alt=f"Learnt utility of each cell. {caption}",
        caption=caption,
    )


def _in_words(utility: Explained) -> str:
    """What the numbers carry, and no more."""
    drawn = utility.drawn
    text = (
        f"{drawn.agent}, {drawn.suite}: explains {_whole(utility.share)} of the maximum (the same "
        f"fit, of random moves {_whole(utility.aimless)}, of shortest ways "
        f"{_whole(utility.shortest)})"
    )
    if utility.faint:
        return f"{text}, too little for any statement."
    key = drawn.learnt.key
    worth = "" if math.isnan(key) else f" Having the key is worth {number(key, 2)} everywhere."
    return f"{text}.{worth}"


def _whole(share: float) -> str:
    """In whole percent: of a fit to a few answers more digits would say nothing."""
    return percent(share, 0)
