"""Tables of what agents go for: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.gridworld.tabular_world import GOAL, KEY, NEUTRAL
from goalmeter.navigation.directed.directedness import Directedness
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.report import Cell, Table
from goalmeter.report.numbers import number, percent, rationality
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate

THINGS = {KEY: "the key", NEUTRAL: "the neutral object"}


def directed_tables(agents: Sequence[Directedness], anchor: str = "") -> tuple[Table, ...]:
    """Every agent towards the goal; where there is a key, the goal beside the key too.

    Args:
        agents: the agents.
        anchor: of the first table on a page; that of the second ends with "-thing".
    """
    goal = replace(_goal_table(agents), anchor=anchor)
    if not thing_of(agents):
        return (goal,)
    return (goal, replace(_thing_table(agents), anchor=anchor and f"{anchor}-thing"))


def named(agent: Directedness, agents: Sequence[Directedness]) -> str:
    """The agent, and the condition where there are several."""
    several = len({other.condition for other in agents}) > 1
    return agent.agent + (condition_in_words(agent.condition) if several else "")


def thing_of(agents: Sequence[Directedness]) -> str:
    """What there is to take, "" if nothing."""
    things = dict.fromkeys(agent.thing for agent in agents if agent.thing is not None)
    return " or ".join(THINGS[thing] for thing in things)


def _goal_table(agents: Sequence[Directedness]) -> Table:
    silent = {agent.agent: agent.silent for agent in agents if agent.silent}
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
        counts = ", ".join(f"{count} of {agent}" for agent, count in silent.items())
        notes.append(f"Answers that were no action count as not explained: {counts}.")
    return table_of(
        agents,
        (
            words("agent", lambda agent: named(agent, agents)),
            column("share explained", lambda agent: agent.goal.share, _share_bar, answer=True),
            column("MEG, nats a walk", lambda agent: number(agent.goal.nats, 2)),
            column("most possible, nats", lambda agent: number(agent.goal.maximum, 2)),
            column("rationality", lambda agent: agent.goal.rationality, rationality),
            column("walks in grids", lambda agent: _walks(agent.goal.nats)),
        ),
        caption="Goal-directedness towards the goal",
        meaning="How much of what an agent decides during a walk is explained by supposing that it "
        f"wants the goal, as a share of the most that could be explained and in nats. {INTERVALS}",
        notes=tuple(notes),
    )


def _thing_table(agents: Sequence[Directedness]) -> Table:
    # Only what was looked at before the thing is taken can be compared.
    rows = [
        (agent, agent.goal_without, agent.towards_thing, agent.difference)
        for agent in agents
        if agent.goal_without is not None
        and agent.towards_thing is not None
        and agent.difference is not None
    ]
    thing = thing_of(agents)
    names: dict[str | None, str] = {GOAL: "the goal", None: "cannot be told"}
    names.update(THINGS)
    return table_of(
        rows,
        (
            words("agent", lambda row: named(row[0], agents)),
            words("explains more", lambda row: names[row[0].larger], answer=True),
            *grouped(
                "nats a walk explained by wanting",
                column("the goal", lambda row: number(row[1].nats, 2)),
                column(thing, lambda row: number(row[2].nats, 2)),
                column("difference", lambda row: number(row[3], 2)),
            ),
            column("most possible, nats", lambda row: number(row[1].maximum, 2)),
            column("walks in grids", lambda row: _walks(row[3])),
        ),
        caption=f"The goal or {thing}?",
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


def _share_bar(share: Estimate) -> Cell:
    return Cell(percent(share), share=share.value)


def _walks(estimate: Estimate) -> str:
    return f"{estimate.n} in {estimate.clusters}"
