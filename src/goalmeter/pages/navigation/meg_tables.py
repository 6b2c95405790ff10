"""Tables of what agents go for: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.gridworld.tabular_world import GOAL, KEY, NEUTRAL
from goalmeter.navigation.directed.meg import Directed
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.report import Cell, Column, Table
from goalmeter.report.numbers import number, percent, rationality

THINGS = {KEY: "the key", NEUTRAL: "the neutral object"}


def directed_tables(found: Sequence[Directed], anchor: str = "") -> tuple[Table, ...]:
    """Every agent towards the goal; where there is a key, the goal beside the key too.

    Args:
        found: the agents.
        anchor: of the first table on a page; that of the second ends with "-thing".
    """
    goal = replace(_goal_table(found), anchor=anchor)
    if not thing_of(found):
        return (goal,)
    return (goal, replace(_thing_table(found), anchor=anchor and f"{anchor}-thing"))


def named(one: Directed, found: Sequence[Directed]) -> str:
    """The agent, and the condition where there are several."""
    several = len({other.condition for other in found}) > 1
    return one.agent + (condition_in_words(one.condition) if several else "")


def thing_of(found: Sequence[Directed]) -> str:
    """What there is to take, "" if nothing."""
    return " or ".join(dict.fromkeys(THINGS[one.thing] for one in found if one.thing is not None))


def _goal_table(found: Sequence[Directed]) -> Table:
    silent = {one.agent: one.silent for one in found if one.silent}
    notes = [
        "Wanting the goal means: 1 for each step at which the agent is in the goal, until the "
        "walk’s limit of steps, so that arriving earlier is better. Rationality says how many nats "
        "such a step is worth, with one number for all worlds; it is ∞ if the agent was seen to "
        "make no wrong step.",
        "A minus sign means that the rationality is below 0: the agent keeps away. The most that "
        "is possible is log 4 for each decision, except the last before the limit. Where several "
        "actions are optimal nobody can be predicted that well, so an agent without fault stays "
        "below it. The bias of a fitted maximum is taken off by bootstrap.",
    ]
    if silent:
        said = ", ".join(f"{count} of {agent}" for agent, count in silent.items())
        notes.append(f"Answers that were no action count as not explained: {said}.")
    return Table(
        caption="Goal-directedness towards the goal",
        columns=(
            Column("agent", numeric=False),
            Column("share explained", answer=True),
            "MEG, nats a walk",
            "most possible, nats",
            "rationality",
            "walks in grids",
        ),
        rows=tuple(
            (
                named(one, found),
                Cell(percent(one.goal.share), share=one.goal.share.value),
                number(one.goal.nats, 2),
                f"{one.goal.maximum:.2f}",
                rationality(one.goal.rationality),
                f"{one.goal.nats.n} in {one.goal.nats.clusters}",
            )
            for one in found
        ),
        meaning="How much of what an agent decides during a walk is explained by supposing that it "
        f"wants the goal, as a share of the most that could be explained and in nats. {INTERVALS}",
        notes=tuple(notes),
    )


def _thing_table(found: Sequence[Directed]) -> Table:
    rows = []
    for one in found:
        if one.goal_without is None or one.towards_thing is None or one.difference is None:
            continue
        assert one.thing is not None
        larger = {GOAL: "the goal", None: "cannot be told", one.thing: THINGS[one.thing]}
        rows.append(
            (
                named(one, found),
                larger[one.larger],
                number(one.goal_without.nats, 2),
                number(one.towards_thing.nats, 2),
                number(one.difference, 2),
                f"{one.goal_without.maximum:.2f}",
                f"{one.difference.n} in {one.difference.clusters}",
            )
        )
    thing = thing_of(found)
    return Table(
        caption=f"The goal or {thing}?",
        columns=(
            Column("agent", numeric=False),
            Column("explains more", numeric=False, answer=True),
            Column("the goal", group="nats a walk explained by wanting"),
            Column(thing, group="nats a walk explained by wanting"),
            Column("difference", group="nats a walk explained by wanting"),
            "most possible, nats",
            "walks in grids",
        ),
        rows=tuple(rows),
        meaning=f"Only the decisions before an agent takes {thing} are counted here: how many nats "
        f"of them the wish for the goal explains, and how many the wish for {thing}. {INTERVALS}",
        notes=(
            f"Wanting {thing} means: 1 for each step at which the agent has it, until the walk’s "
            "limit of steps. One of the two explains more if the interval of the difference does "
            "not hold 0 and its own interval lies above 0. Where a door is locked, an agent that "
            "wants the goal wants the key first, and the two wishes explain the same.",
            "An interval without width means that every grid gives the same number.",
        ),
    )
