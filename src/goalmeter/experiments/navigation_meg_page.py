"""What agents go for, as a report shows it: nats towards the goal, and the goal beside the key."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.experiments.navigation_fits import Towards
from goalmeter.experiments.navigation_formats import condition_in_words, number, plain
from goalmeter.experiments.navigation_meg import Directed
from goalmeter.experiments.navigation_meg_tables import THINGS, directed_tables, named, thing_of
from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.report import Figure, Section
from goalmeter.report.dots import DotPanel, Dots, dot_chart
from goalmeter.report.figures import BLUE, VERMILION
from goalmeter.statistics.clustered import Estimate

_NOTHING = Estimate(math.nan, None, 0, 0)


def section(found: Sequence[Directed], suite: str, prefix: str) -> Section:
    """How much of what agents do is explained by what they may want."""
    text = [
        "Maximum entropy goal-directedness (MEG) has one unit for all worlds: how much better "
        "walks are predicted by an agent that wants the goal, as rational as fits them best, than "
        "by one that takes any of the four actions alike. Log 4 = 1.39 nats a decision is the "
        "most; what luck explains counts nothing."
    ]
    if thing := thing_of(found):
        text.append(
            f"An agent may pass {thing} because it is on the way, and most decisions may come "
            f"after that. Which of the two explains more is therefore asked of the decisions until "
            f"it is taken."
        )
    return Section(
        title=f"What explains the walks, {suite}",
        text=tuple(text),
        tables=directed_tables(found),
        figures=(picture(found, f"{prefix}-meg"),),
    )


def picture(found: Sequence[Directed], name: str) -> Figure:
    """All agents in the same axes."""
    lines = [named(one, found) + " (ref.)" * one.reference for one in found]
    panels = [
        DotPanel(
            title="Whole walks",
            x_label="nats a walk",
            series=(_dots("towards the goal", [one.goal.nats for one in found]),),
        )
    ]
    if thing := thing_of(found):
        until = (
            _dots("towards the goal", [_nats(one.goal_without) for one in found]),
            _dots(f"towards {thing}", [_nats(one.towards_thing) for one in found], thing=True),
        )
        panels.append(
            DotPanel(title=f"Until {thing} is taken", x_label="nats a walk", series=until)
        )
    else:
        share = _dots("towards the goal", [one.goal.share for one in found])
        panels.append(DotPanel(title="Of the maximum", x_label="share", series=(share,)))
    said = "; ".join(
        f"{line}: {one.goal.nats.value:.2f}" for line, one in zip(lines, found, strict=True)
    )
    first = found[0].goal.nats
    return Figure(
        svg=dot_chart(name, lines, panels),
        alt=f"MEG towards the goal, nats a walk. {said}. The numbers are in the tables.",
        caption=f"MEG of each agent in the same worlds: {first.n} walks in {first.clusters} grids "
        "a line. Bars: 95%, by grid. ref.: reference agent. At 0 nothing is explained; below it "
        "an agent keeps away.",
        wide=True,
    )


def sentences(found: Sequence[Directed], agent: str, suite: str) -> list[str]:
    """What there is to say of one agent, in a line or two whatever the number of conditions."""
    own = [one for one in found if one.agent == agent]
    out = []
    if len(own) == 1:
        goal = own[0].goal
        explained = f"{number(goal.nats, 1)} nats of a walk of {agent}, {plain(goal.share)}"
        out.append(f"{suite}: wanting the goal explains {explained} of the maximum.")
    else:
        said = "; ".join(
            f"{number(one.goal.nats, 1)}{condition_in_words(one.condition)}" for one in own
        )
        out.append(f"{suite}: nats of a walk of {agent} that wanting the goal explains: {said}.")
    asked = [one for one in own if one.thing is not None and one.difference is not None]
    if len(asked) == 1:
        out.append(f"{suite}: {_larger(asked[0])}")
    elif asked:
        winners = [one.larger for one in asked]
        names = {GOAL: "the goal", **THINGS}
        counts = [f"{names[name]} in {winners.count(name)}" for name in names if name in winners]
        out.append(
            f"{suite}: of {len(asked)} conditions, what explains more of the decisions of {agent} "
            f"until it takes {thing_of(found)} is {', '.join([*counts, ''])}"
            f"not told in {winners.count(None)}."
        )
    return out


def _larger(one: Directed) -> str:
    assert one.thing is not None and one.difference is not None
    thing = THINGS[one.thing]
    said = {GOAL: "the goal explains more", None: "the two are not told apart"}
    return (
        f"until {one.agent} takes {thing}, {said.get(one.larger, f'{thing} explains more')}: goal "
        f"less {thing.removeprefix('the ')} is {number(one.difference, 1)} nats a walk."
    )


def _nats(towards: Towards | None) -> Estimate:
    return _NOTHING if towards is None else towards.nats


def _dots(label: str, values: Sequence[Estimate], *, thing: bool = False) -> Dots:
    return Dots(
        label=label,
        values=[found.value for found in values],
        intervals=[found.interval or (math.nan, math.nan) for found in values],
        colour=VERMILION if thing else BLUE,
        marker="s" if thing else "o",
    )
