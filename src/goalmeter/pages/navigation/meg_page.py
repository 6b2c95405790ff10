"""What agents go for, as a report shows it: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.navigation.directed.directedness import Directedness
from goalmeter.navigation.directed.fits import GoalFit
from goalmeter.pages.navigation.conditions import condition_in_words
from goalmeter.pages.navigation.meg_tables import THINGS, directed_tables, named, thing_of
from goalmeter.report import Figure, Section
from goalmeter.report.charts.canvas import VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clustered import Estimate


def section(agents: Sequence[Directedness], suite: str, prefix: str) -> Section:
    """How much of what agents do is explained by what they may want."""
    text = [
        "Suppose that the agent wants the goal, and is as rational as fits its walks best: how "
        "much better are its moves predicted than by supposing that it takes any of the four "
        "actions alike? That is maximum entropy goal-directedness (MEG). It has one unit for all "
        "worlds, the nat; a decision has log 4 = 1.39 nats at most. What a fit explains by luck "
        "is taken off."
    ]
    if thing := thing_of(agents):
        text.append(
            f"An agent may pass {thing} because it is on the way, and most of its decisions may "
            f"come after that. So the second table looks only at the decisions before {thing} is "
            f"taken, and asks which wish explains more of them: for the goal, or for {thing}."
        )
    return Section(
        title=f"What explains the walks, {suite}",
        text=tuple(text),
        tables=directed_tables(agents, f"{prefix}-explained"),
        figures=(picture(agents, f"{prefix}-meg"),),
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
    if thing := thing_of(agents):
        until = (
            Dots.of("towards the goal", [_nats(agent.goal_without) for agent in agents]),
            Dots.of(
                f"towards {thing}",
                [_nats(agent.towards_thing) for agent in agents],
                colour=VERMILION,
                marker="s",
            ),
        )
        panels.append(
            DotPanel(title=f"Before {thing} is taken", x_label="nats a walk", series=until)
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
    first = agents[0].goal.nats
    return Figure(
        svg=dot_chart(name, lines, panels),
        alt=f"MEG towards the goal, nats a walk. {values}. The numbers are in the tables.",
        caption=f"MEG of each agent in the same worlds, each with {first.n} walks in "
        f"{first.clusters} grids. Bars are 95% intervals over grids; “(ref.)” marks "
        "reference agents. At 0 nothing is explained; below 0 an agent keeps away.",
        wide=True,
    )


def sentences(agents: Sequence[Directedness], agent: str) -> list[str]:
    """What there is to say of one agent, in a line or two whatever the number of conditions."""
    rows = [row for row in agents if row.agent == agent]
    asked = [row for row in rows if row.thing is not None and row.difference is not None]
    out = []
    if len(rows) == 1:
        goal = rows[0].goal
        out.append(
            f"Wanting the goal explains {percent(goal.share)} of the most that could be explained "
            f"of its moves, {number(goal.nats, 1)} nats a walk."
        )
    else:
        each = "; ".join(
            f"{number(row.goal.nats, 1)} nats{condition_in_words(row.condition)}" for row in rows
        )
        out.append(f"Of a walk, wanting the goal explains {each}.")
    if len(asked) == 1:
        out.append(_larger(asked[0]))
    elif asked:
        winners = [row.larger for row in asked]
        names = {GOAL: "the goal", **THINGS}
        counts = [f"{names[name]} in {winners.count(name)}" for name in names if name in winners]
        out.append(
            f"Before it takes {thing_of(agents)}, its moves are explained better by wanting "
            f"{', '.join(counts) or 'either in none'} of {len(asked)} conditions; in "
            f"{winners.count(None)} it cannot be told."
        )
    return out


def _larger(row: Directedness) -> str:
    assert row.thing is not None and row.difference is not None
    thing = THINGS[row.thing]
    if row.larger is None:
        return (
            f"Before it takes {thing}, neither wish is shown to explain more than the other: "
            f"goal minus {thing.removeprefix('the ')} is {number(row.difference, 1)} nats a walk."
        )
    first, second = ("the goal", thing) if row.larger == GOAL else (thing, "the goal")
    more = row.difference if row.larger == GOAL else _negative(row.difference)
    return (
        f"Before it takes {thing}, wanting {first} explains {number(more, 1)} nats a walk more "
        f"than wanting {second}."
    )


def _negative(difference: Estimate) -> Estimate:
    """The difference the other way round."""
    interval = difference.interval and (-difference.interval[1], -difference.interval[0])
    return replace(difference, value=-difference.value, interval=interval)


def _nats(towards: GoalFit | None) -> Estimate | None:
    return None if towards is None else towards.nats
