"""What agents go for, as a report shows it: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.gridworld.tabular_world import GOAL, KEY, NEUTRAL
from goalmeter.navigation.directed.directedness import Directedness
from goalmeter.navigation.directed.fits import GoalFit
from goalmeter.pages.navigation.conditions import condition_in_words, say
from goalmeter.report import Figure, Section, Table
from goalmeter.report.charts.colours import VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number, percent, rationality
from goalmeter.report.table_of import column, grouped, share_bar, table_of, words
from goalmeter.statistics.clustered import Estimate

# What an agent may want, in words.
WISHES = {GOAL: "the goal", KEY: "the key", NEUTRAL: "the neutral object"}


def section(agents: Sequence[Directedness], suite: str, prefix: str) -> Section:
    """How much of what agents do is explained by what they may want."""
    texts = say("explained", suite=suite)
    if item := item_of(agents):
        texts["text"] += say("explained_beside", item=item)["text"]
    return Section(
        tables=directed_tables(agents, f"{prefix}-explained"),
        figures=(picture(agents, f"{prefix}-meg"),),
        **texts,
    )


def picture(agents: Sequence[Directedness], name: str) -> Figure:
    """All agents in the same axes."""
    lines = [named(agent, agents) + " (ref.)" * agent.reference for agent in agents]
    panels = [
        DotPanel(
            title="Whole walks",
            x_label="nats a walk",
            series=(Dots.of("towards the goal", [agent.goal.nats for agent in agents]),),
        )
    ]
    if item := item_of(agents):
        until = (
            Dots.of("towards the goal", [_nats(agent.goal_without) for agent in agents]),
            Dots.of(
                f"towards {item}",
                [_nats(agent.towards_thing) for agent in agents],
                colour=VERMILION,
                marker="s",
            ),
        )
        panels.append(
            DotPanel(title=f"Before {item} is taken", x_label="nats a walk", series=until)
        )
    else:
        share = Dots.of("towards the goal", [agent.goal.share for agent in agents])
        panels.append(
            DotPanel(title="Share of the most possible", x_label="share explained", series=(share,))
        )
    values = "; ".join(
        f"{line}: {number(agent.goal.nats.value, 2)}"
        for line, agent in zip(lines, agents, strict=True)
    )
    return Figure(
        svg=dot_chart(name, lines, panels),
        wide=True,
        **say("explained_picture", values=values, nats=agents[0].goal.nats),
    )


def sentences(agents: Sequence[Directedness], agent: str) -> list[str]:
    """What there is to say of one agent, in a line or two whatever the number of conditions."""
    rows = [row for row in agents if row.agent == agent]
    # Where nothing lies about, or no fit could be made, there is no wish beside the goal.
    asked = [row for row in rows if row.thing is not None and row.difference is not None]
    if len(rows) == 1:
        goal = rows[0].goal
        out = [
            f"Wanting the goal explains {percent(goal.share)} of the most that could be explained "
            f"of its moves, {number(goal.nats, 1)} nats a walk."
        ]
    else:
        each = "; ".join(
            f"{number(row.goal.nats, 1)} nats{condition_in_words(row.condition)}" for row in rows
        )
        out = [f"Of a walk, wanting the goal explains {each}."]
    if len(asked) == 1:
        out.append(_larger(asked[0]))
    elif asked:
        winners = [row.larger for row in asked]
        counts = [f"{text} in {winners.count(w)}" for w, text in WISHES.items() if w in winners]
        out.append(
            f"Before it takes {item_of(agents)}, its moves are explained better by wanting "
            f"{', '.join(counts) or 'either in none'} of {len(asked)} conditions; "
            f"{winners.count(None)} are inconclusive."
        )
    return out


def directed_tables(agents: Sequence[Directedness], anchor: str = "") -> tuple[Table, ...]:
    """Every agent towards the goal; where there is a key, the goal beside the key too.

    Args:
        agents: the agents.
        anchor: of the first table on a page; that of the second ends with "-thing".
    """
    goal = replace(_goal_table(agents), anchor=anchor)
    if not item_of(agents):
        return (goal,)
    return (goal, replace(_thing_table(agents), anchor=anchor and f"{anchor}-thing"))


def named(agent: Directedness, agents: Sequence[Directedness]) -> str:
    """The agent, and the condition where there are several."""
    several = len({row.condition for row in agents}) > 1
    return agent.agent + (condition_in_words(agent.condition) if several else "")


def item_of(agents: Sequence[Directedness]) -> str:
    """What there is to take, "" if nothing."""
    items = dict.fromkeys(agent.thing for agent in agents if agent.thing is not None)
    return " or ".join(WISHES[item] for item in items)


def _goal_table(agents: Sequence[Directedness]) -> Table:
    silent = {agent.agent: agent.silent for agent in agents if agent.silent}
    texts = say("goal")
    if silent:
        counts = ", ".join(f"{count} of {agent}" for agent, count in silent.items())
        texts["notes"] += (f"Answers that were no action count as not explained: {counts}.",)
    return table_of(
        agents,
        (
            words("agent", lambda agent: named(agent, agents)),
            column("share explained", lambda agent: agent.goal.share, share_bar, answer=True),
            column("MEG, nats a walk", lambda agent: number(agent.goal.nats, 2)),
            column("most possible, nats", lambda agent: number(agent.goal.maximum, 2)),
            column("rationality", lambda agent: agent.goal.rationality, rationality),
            column("walks in grids", lambda agent: _walks(agent.goal.nats)),
        ),
        **texts,
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
    item = item_of(agents)
    return table_of(
        rows,
        (
            words("agent", lambda row: named(row[0], agents)),
            words("explains more", lambda row: _more(row[0]), answer=True),
            *grouped(
                "nats a walk explained by wanting",
                column("the goal", lambda row: number(row[1].nats, 2)),
                column(item, lambda row: number(row[2].nats, 2)),
                column("difference", lambda row: number(row[3], 2)),
            ),
            column("most possible, nats", lambda row: number(row[1].maximum, 2)),
            column("walks in grids", lambda row: _walks(row[3])),
        ),
        **say("thing", item=item),
    )


def _more(row: Directedness) -> str:
    return "inconclusive" if row.larger is None else WISHES[row.larger]


def _walks(estimate: Estimate) -> str:
    return f"{estimate.n} in {estimate.clusters}"


def _larger(row: Directedness) -> str:
    assert row.thing is not None and row.difference is not None
    item = WISHES[row.thing]
    if row.larger is None:
        return (
            f"Before it takes {item}, neither wish is shown to explain more than the other: "
            f"goal minus {item.removeprefix('the ')} is {number(row.difference, 1)} nats a walk."
        )
    first, second, more = "the goal", item, row.difference
    # The sentence names the wish that explains more first, so its lead is a positive number.
    if row.larger != GOAL:
        interval = more.interval and (-more.interval[1], -more.interval[0])
        first, second, more = item, first, replace(more, value=-more.value, interval=interval)
    return (
        f"Before it takes {item}, wanting {first} explains {number(more, 1)} nats a walk more "
        f"than wanting {second}."
    )


def _nats(towards: GoalFit | None) -> Estimate | None:
    return None if towards is None else towards.nats
