"""Tables of what agents go for: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.formats import rationality
from goalmeter.experiments.navigation_formats import (
    INTERVALS,
    condition_in_words,
    number,
    percent,
)
from goalmeter.experiments.navigation_meg import Directed
from goalmeter.gridworld.tabular_world import GOAL, KEY, NEUTRAL
from goalmeter.report import Cell, Column, Table

THINGS = {KEY: "the key", NEUTRAL: "the neutral object"}


def directed_tables(found: Sequence[Directed]) -> tuple[Table, ...]:
    """Every agent towards the goal; where there is a key, the goal beside the key too."""
    beside = (_thing_table(found),) if thing_of(found) else ()
    return (_goal_table(found), *beside)


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
        "Wanting the goal: 1 at each step in it, until the cap, so that earlier is better; the cap "
        "is the horizon, the goal absorbs. Rationality: nats that a step in the goal is worth, one "
        "number for all worlds; ∞ if no wrong step was seen.",
        "A minus sign: the rationality is below 0, the agent keeps away. Maximum: log 4 for each "
        "decision but the last before the cap; several actions may be optimal, so that an agent "
        "without fault stays below it. The bias of a fitted maximum is taken off by bootstrap.",
    ]
    if silent:
        said = ", ".join(f"{count} of {agent}" for agent, count in silent.items())
        notes.append(f"Of answers that were no action nothing is explained: {said}.")
    return Table(
        caption="Goal-directedness towards the goal",
        columns=(
            Column("agent", numeric=False),
            "walks in grids",
            "MEG, nats a walk",
            "maximum",
            "of the maximum",
            "rationality",
        ),
        rows=tuple(
            (
                named(one, found),
                f"{one.goal.nats.n} in {one.goal.nats.clusters}",
                number(one.goal.nats, 2),
                f"{one.goal.maximum:.2f}",
                Cell(percent(one.goal.share), share=one.goal.share.value),
                rationality(one.goal.rationality),
            )
            for one in found
        ),
        meaning=f"How many nats of a walk's decisions the wish for the goal explains. {INTERVALS}",
        notes=tuple(notes),
    )


def _thing_table(found: Sequence[Directed]) -> Table:
    rows = []
    for one in found:
        if one.goal_without is None or one.towards_thing is None or one.difference is None:
            continue
        assert one.thing is not None
        larger = {GOAL: "the goal", None: "not told", one.thing: THINGS[one.thing]}
        rows.append(
            (
                named(one, found),
                f"{one.difference.n} in {one.difference.clusters}",
                number(one.goal_without.nats, 2),
                number(one.towards_thing.nats, 2),
                number(one.difference, 2),
                f"{one.goal_without.maximum:.2f}",
                larger[one.larger],
            )
        )
    thing = thing_of(found)
    return Table(
        caption=f"The goal or {thing}?",
        columns=(
            Column("agent", numeric=False),
            "walks in grids",
            Column("goal", group="MEG, nats a walk"),
            Column(thing.removeprefix("the "), group="MEG, nats a walk"),
            Column("difference", group="MEG, nats a walk"),
            "maximum",
            Column("explains more", numeric=False),
        ),
        rows=tuple(rows),
        meaning=f"Decisions until {thing} is taken, as far as the wish for the goal or for {thing} "
        f"explains them. {INTERVALS}",
        notes=(
            f"Wanting {thing}: 1 at each step once it is had, until the cap. Explains more: the "
            "interval of the difference excludes 0 (grids are the same for both), and its own lies "
            "above 0. Where a door is locked, an agent that wants the goal wants the key first, "
            "and the two are alike.",
            "An interval without width: every grid gives the same.",
        ),
    )
