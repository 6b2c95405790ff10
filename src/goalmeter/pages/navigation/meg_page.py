"""What agents go for, as a report shows it: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.navigation.directed.meg import Directed
from goalmeter.pages.navigation.conditions import condition_in_words
from goalmeter.pages.navigation.meg_tables import THINGS, directed_tables, named, thing_of
from goalmeter.report import Figure, Section
from goalmeter.report.charts.canvas import VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clustered import Estimate


def section(found: Sequence[Directed], suite: str, prefix: str) -> Section:
    """How much of what agents do is explained by what they may want."""
    text = [
        "Suppose that the agent wants the goal, and is as rational as fits its walks best: how "
        "much better are its moves predicted than by supposing that it takes any of the four "
        "actions alike? That is maximum entropy goal-directedness (MEG). It has one unit for all "
        "worlds, the nat; a decision has log 4 = 1.39 nats at most. What a fit explains by luck "
        "is taken off."
    ]
    if thing := thing_of(found):
        text.append(
            f"An agent may pass {thing} because it is on the way, and most of its decisions may "
            f"come after that. So the second table looks only at the decisions before {thing} is "
            f"taken, and asks which wish explains more of them: for the goal, or for {thing}."
        )
    return Section(
        title=f"What explains the walks, {suite}",
        text=tuple(text),
        tables=directed_tables(found, f"{prefix}-explained"),
        figures=(picture(found, f"{prefix}-meg"),),
    )


def picture(found: Sequence[Directed], name: str) -> Figure:
    """All agents in the same axes."""
    lines = [named(one, found) + " (ref.)" * one.reference for one in found]
    panels = [
        DotPanel(
            title="Whole walks",
            x_label="nats a walk",
            series=(Dots.of("towards the goal", [one.goal.nats for one in found]),),
        )
    ]
    if thing := thing_of(found):
        until = (
            Dots.of("towards the goal", [w.goal_without and w.goal_without.nats for w in found]),
            Dots.of(
                f"towards {thing}",
                [w.towards_thing and w.towards_thing.nats for w in found],
                colour=VERMILION,
                marker="s",
            ),
        )
        panels.append(
            DotPanel(title=f"Before {thing} is taken", x_label="nats a walk", series=until)
        )
    else:
        share = Dots.of("towards the goal", [one.goal.share for one in found])
        panels.append(
            DotPanel(title="Share of the most possible", x_label="share explained", series=(share,))
        )
    said = "; ".join(
        f"{line}: {number(one.goal.nats.value, 2)}" for line, one in zip(lines, found, strict=True)
    )
    first = found[0].goal.nats
    return Figure(
        svg=dot_chart(name, lines, panels),
        alt=f"MEG towards the goal, nats a walk. {said}. The numbers are in the tables.",
        caption=f"MEG of each agent in the same worlds, each with {first.n} walks in "
        f"{first.clusters} grids. Bars are 95% intervals over grids; “(ref.)” marks "
        "reference agents. At 0 nothing is explained; below 0 an agent keeps away.",
        wide=True,
    )


def sentences(found: Sequence[Directed], agent: str) -> list[str]:
    """What there is to say of one agent, in a line or two whatever the number of conditions."""
    own = [one for one in found if one.agent == agent]
    asked = [one for one in own if one.thing is not None and one.difference is not None]
    out = []
    if len(own) == 1:
        goal = own[0].goal
        out.append(
            f"Wanting the goal explains {percent(goal.share)} of the most that could be explained "
            f"of its moves, {number(goal.nats, 1)} nats a walk."
        )
    else:
        said = "; ".join(
            f"{number(one.goal.nats, 1)} nats{condition_in_words(one.condition)}" for one in own
        )
        out.append(f"Of a walk, wanting the goal explains {said}.")
    if len(asked) == 1:
        out.append(_larger(asked[0]))
    elif asked:
        winners = [one.larger for one in asked]
        names = {GOAL: "the goal", **THINGS}
        counts = [f"{names[name]} in {winners.count(name)}" for name in names if name in winners]
        out.append(
            f"Before it takes {thing_of(found)}, its moves are explained better by wanting "
            f"{', '.join(counts) or 'either in none'} of {len(asked)} conditions; in "
            f"{winners.count(None)} it cannot be told."
        )
    return out


def _larger(one: Directed) -> str:
    assert one.thing is not None and one.difference is not None
    thing = THINGS[one.thing]
    if one.larger is None:
        return (
            f"Before it takes {thing}, neither wish is shown to explain more than the other: "
            f"goal minus {thing.removeprefix('the ')} is {number(one.difference, 1)} nats a walk."
        )
    first, second = ("the goal", thing) if one.larger == GOAL else (thing, "the goal")
    more = one.difference if one.larger == GOAL else _negative(one.difference)
    return (
        f"Before it takes {thing}, wanting {first} explains {number(more, 1)} nats a walk more "
        f"than wanting {second}."
    )


def _negative(found: Estimate) -> Estimate:
    """The difference the other way round."""
    interval = found.interval and (-found.interval[1], -found.interval[0])
    return replace(found, value=-found.value, interval=interval)
