"""Goals of agents in grid worlds: goal-directedness, and which goal an agent pursues."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY
from goalmeter.gridworld.planner import planned
from goalmeter.navigation.goal_directedness import (
    SHARE,
    Directedness,
    Drawn,
    Learnt,
    answers,
    directedness,
    explained,
    learn,
)
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.rationality import GoalFit
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.organisms.kinds import Organism
from goalmeter.pages.navigation_tables import condition_in_words, say
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import VERMILION
from goalmeter.report.charts import DotPanel, Dots, dot_chart
from goalmeter.report.maps import Marks, grid_map
from goalmeter.report.numbers import LEAST_SHARE, number, percent, rationality
from goalmeter.report.tables import column, grouped, share_bar, table_of, words
from goalmeter.statistics.clusters import Estimate, estimate

# --- Wants ----------------------------------------------------------------------------------------
# An agent pursues something if the 95% interval of the share that it explains lies above the
# margin, `LEAST_SHARE` of the maximum. There is no evidence of a goal if the intervals of all
# candidates lie within the margin on both sides of 0. The interval of the difference decides
# between the goal and the key. An agent uses another map than the world if, of its moves that are
# right on one of them only, the interval of the share that is right on the map lies above one
# half. Everything else is inconclusive.

PURSUES, NOTHING, OPEN = "pursues", "no evidence of a goal", "inconclusive"


@dataclass(frozen=True)
class Want:
    """What an agent was measured to want.

    Attributes:
        agent: its name.
        reference: whether it is shown beside the agents that were asked about.
        kind: "pursues", "no evidence of a goal" or "inconclusive".
        things: what it may pursue: "goal", or the name of what lies about; both if the difference
            of the two is inconclusive, none if it does not pursue anything.
        mapped: whether it goes by the other map where that and the world disagree.
        follows_map: of its moves that are right either on the other map or in the world, and not
            on both, how many are right on the map; None if there are none.
        mazes: how far it goes for the goal in mazes, on the map that was chosen.
        things_about: the same where something else lies about; None if nothing does.
    """

    agent: str
    reference: bool
    kind: str
    things: tuple[str, ...]
    mapped: bool
    follows_map: Estimate | None
    mazes: Directedness | None
    things_about: Directedness | None

    @property
    def beside(self) -> tuple[Estimate, Estimate, Estimate | None] | None:
        """Shares that wanting the goal, and what lies about, explain; and the goal's lead, nats."""
        about = self.things_about
        if about is None or about.goal_without is None or about.towards_thing is None:
            return None
        return about.goal_without.share, about.towards_thing.share, about.difference

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "verdict": self.kind,
            "things": list(self.things),
            "on_other_map": self.mapped,
            "follows_map": None if self.follows_map is None else self.follows_map.to_json(),
            "mazes": None if self.mazes is None else self.mazes.to_json(),
            "key_worlds": None if self.things_about is None else self.things_about.to_json(),
        }


def wanted(measures: Sequence[Directedness]) -> tuple[str, tuple[str, ...]]:
    """What one agent wants, by its walks in one kind of worlds or in several: kind and things."""
    goal = [_explains(measure.goal) for measure in measures]
    beside = [measure for measure in measures if measure.thing is not None]
    item = beside[0].thing if beside else None
    larger = {measure.larger for measure in beside}
    rivals = [_explains(measure.towards_thing) for measure in beside]
    if item is not None and larger == {item}:
        # To explain more than the goal is no wish, for what explains hardly anything.
        return (PURSUES, (item,)) if any(rivals) else (OPEN, ())
    if any(goal):  # None, which is open, is no wish that counts
        # Told apart or not: what surely explains nothing is no rival of the goal.
        if item is None or larger == {GOAL_UTILITY} or _none(rivals):
            return PURSUES, (GOAL_UTILITY,)
        return PURSUES, (GOAL_UTILITY, item)
    return (NOTHING, ()) if _none([*goal, *rivals]) else (OPEN, ())


def wants(
    mazes: Sequence[Navigation],
    with_keys: Sequence[Navigation],
    directed: tuple[Sequence[Directedness], Sequence[Directedness]],
    map_maker: Organism,
) -> list[Want]:
    """What each agent wants, and whether it goes by the world or by another map.

    Args:
        mazes: the agents in mazes.
        with_keys: the same agents where a key lies about that opens nothing, in the same order.
        directed: what they go for in the world, in mazes and with keys.
        map_maker: whose map is tried.
    """
    mapped = [[_on_map(result, map_maker) for result in results] for results in (mazes, with_keys)]
    on_map = [directedness(results) for results in mapped]
    out = []
    for index, result in enumerate(mazes):
        pairs = zip((result, with_keys[index]), (of[index] for of in mapped), strict=True)
        follows = _follows([(in_world.seen, remapped.seen) for in_world, remapped in pairs])
        interval = None if follows is None else follows.interval
        elsewhere = interval is not None and interval[0] > 0.5
        at_maze, at_key = (of[index] for of in (on_map if elsewhere else directed))
        kind, wishes = wanted([at_maze, at_key])
        out.append(
            Want(result.agent, result.reference, kind, wishes, elsewhere, follows, at_maze, at_key)
        )
    return out


def _explains(towards: GoalFit | None) -> bool | None:
    """Whether a share lies above the margin, True, or within it on both sides of 0, False."""
    interval = None if towards is None else towards.share.interval
    if interval is None:
        return None
    if interval[0] > LEAST_SHARE:
        return True
    return False if interval[0] >= -LEAST_SHARE and interval[1] <= LEAST_SHARE else None


def _none(answers: Sequence[bool | None]) -> bool:
    """Whether every answer is a sure no."""
    return all(answer is False for answer in answers)


def _on_map(result: Navigation, map_maker: Organism) -> Navigation:
    """The same decisions, each judged by itself on another map.

    A walk that runs into a wall which is not on the map is none that the map allows; that matters
    to nobody who only asks how a decision in a state and at a step is explained.
    """
    worlds: dict[GridWorld, GridWorld] = {}
    walks = []
    for walk in result.seen.trajectories:
        world = walk.world
        if world not in worlds:
            places = (world.start, world.goal, world.key, world.door, world.neutral)
            worlds[world] = GridWorld(map_maker.walls(world), *places)
        walks.append(replace(walk, world=worlds[world]))
    return replace(result, seen=replace(result.seen, trajectories=tuple(walks)))


def _follows(pairs: Sequence[tuple[Observed, Observed]]) -> Estimate | None:
    """Of the moves that are right either on the map or in the world, not both: how many on the map.

    An agent that looks at neither makes both alike. None where there are no such moves.

    Args:
        pairs: the walks of an agent, in the world and on the map, in each kind of worlds.
    """
    tops, decided, most = [], [], []
    for seen, mapped in pairs:
        of_map, of_world = np.zeros(len(seen.action)), np.zeros(len(seen.action))
        for index, (walk, move) in enumerate(zip(seen.trajectory, seen.action, strict=True)):
            map_ = mapped.trajectories[walk].world
            if move == INVALID or seen.trajectories[walk].world == map_:
                continue
            plan = planned(map_)
            right = bool(plan.plans.optimal[plan.index][seen.state[index], move])
            of_map[index] = right and not seen.optimal[index, move]
            of_world[index] = seen.optimal[index, move] and not right
        grids = Grids(seen, 0.95)
        cluster = grids.cluster[seen.trajectory]
        tops.append(np.bincount(cluster, of_map, minlength=len(grids)))
        decided.append(np.bincount(cluster, of_map + of_world, minlength=len(grids)))
        most.append(grids.most_steps())
    top, bottom = np.concatenate(tops), np.concatenate(decided)
    if not bottom.any():
        return None
    return estimate(
        top, bottom, heaviest=np.concatenate(most), n=int(bottom.sum()), bounds=(0.0, 1.0)
    )


# --- Meg page -------------------------------------------------------------------------------------
# What an agent may want, in words.
WISHES = {GOAL_UTILITY: "the goal", KEY_UTILITY: "the key", NEUTRAL_UTILITY: "the neutral object"}


def directedness_section(agents: Sequence[Directedness], suite: str, prefix: str) -> Section:
    """How much of what agents do is explained by what they may want."""
    texts = say("explained", suite=suite)
    if item := item_of(agents):
        texts["text"] += say("explained_beside", item=item)["text"]
    return Section(
        tables=directed_tables(agents, f"{prefix}-explained"),
        figures=(directedness_chart(agents, f"{prefix}-meg"),),
        **texts,
    )


def directedness_chart(agents: Sequence[Directedness], name: str) -> Figure:
    """All agents in the same axes."""
    lines = [label_agent(agent, agents) + " (ref.)" * agent.reference for agent in agents]
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


def directedness_sentences(agents: Sequence[Directedness], agent: str) -> list[str]:
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


def label_agent(agent: Directedness, agents: Sequence[Directedness]) -> str:
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
            words("agent", lambda agent: label_agent(agent, agents)),
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
            words("agent", lambda row: label_agent(row[0], agents)),
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
    if row.larger != GOAL_UTILITY:
        interval = more.interval and (-more.interval[1], -more.interval[0])
        first, second, more = item, first, replace(more, value=-more.value, interval=interval)
    return (
        f"Before it takes {item}, wanting {first} explains {number(more, 1)} nats a walk more "
        f"than wanting {second}."
    )


def _nats(towards: GoalFit | None) -> Estimate | None:
    return None if towards is None else towards.nats


# --- Wants page -----------------------------------------------------------------------------------
GOALS_ANCHOR = "wants"


def in_words(kind: str, wishes: Sequence[str], *, mapped: bool = False) -> str:
    """A verdict in a few words: "pursues the goal, on a wrong map"."""
    if kind != PURSUES:
        return kind
    text = " or ".join(WISHES[wish] for wish in wishes)
    text += " (inconclusive which)" * (len(wishes) > 1)
    return f"{kind} {text}{', on a wrong map' * mapped}"


def short(agent: str) -> str:
    """The name of an agent without where it comes from."""
    return agent.rpartition("/")[2]


def findings(verdicts: Sequence[Want], *, walks: str) -> list[Finding]:
    """A line for each agent that was asked about, with the way to its numbers and its walks.

    Args:
        verdicts: what each wants.
        walks: id of the section in which they can be seen to walk.
    """
    table = wants_table(verdicts)
    return [
        Finding(
            lead=f"{short(want.agent)}: {in_words(want.kind, want.things, mapped=want.mapped)}.",
            text=_why(want),
            links=(Link("numbers", table.row_anchor(want.agent)), Link("walks", walks)),
        )
        for want in verdicts
        if not want.reference
    ]


def wants_table(verdicts: Sequence[Want]) -> Table:
    """The numbers that each verdict rests on."""
    item = _item(verdicts)
    bare = item.removeprefix("the ")
    return table_of(
        verdicts,
        (
            words("agent", lambda want: want.agent + " (reference)" * want.reference),
            words(
                "verdict",
                lambda want: in_words(want.kind, want.things, mapped=want.mapped),
                answer=True,
            ),
            *grouped(
                "explained, in mazes",
                column("by wanting the goal", lambda w: w.mazes and w.mazes.goal.share, percent),
            ),
            column(
                "moves that fit the mole’s map, not the world", lambda w: w.follows_map, percent
            ),
            *grouped(
                f"explained, before {item} is taken",
                column("by wanting the goal", lambda want: want.beside and want.beside[0], percent),
                column(f"by wanting {item}", lambda want: want.beside and want.beside[1], percent),
                column(
                    f"goal minus {bare}, nats a walk",
                    lambda want: want.beside and want.beside[2],
                    lambda difference: number(difference, 1),
                ),
            ),
        ),
        anchor=GOALS_ANCHOR,
        **say("wants", margin=percent(LEAST_SHARE, 0), item=item),
    )


def _item(verdicts: Sequence[Want]) -> str:
    """What lies about beside the goal, in words."""
    about = [want.things_about.thing for want in verdicts if want.things_about is not None]
    return next((WISHES[item] for item in about if item is not None), "the key")


def _why(want: Want) -> str:
    """The numbers behind the verdict, in a sentence or two."""
    out = []
    if want.mazes is not None:
        out.append(
            f"In mazes, wanting the goal explains {percent(want.mazes.goal.share)} of the most "
            f"that could be explained of its moves{', judged on that map' * want.mapped}."
        )
    if want.mapped and want.follows_map is not None:
        out.append(
            f"Of its moves that are right either on the map or in the world, and not on both, "
            f"{percent(want.follows_map)} are right on the map."
        )
    if want.beside is not None:
        item = _item([want])
        goal, of_item = (percent(share) for share in want.beside[:2])
        out.append(
            f"Beside {item.replace('the ', 'a ', 1)} that opens nothing, wanting {item} explains "
            f"{of_item} of what it does before taking it, and wanting the goal {goal}."
        )
    return " ".join(out)


# --- Learnt pictures ------------------------------------------------------------------------------
# Some utility explains something of any few walks, also of aimless ones, and where it is highest
# is not a verdict on a goal. It is shown with the share of the most that could be explained,
# beside what the same fit explains of agents that take shortest ways, and that move at random,
# through the same world as often. What explains less than half way from the one to the other is
# drawn in grey, and no more is said of it.

# Of the way from random moves to shortest ways. The maximum itself is no yardstick: from a few
# answers a policy is known so badly that even of an agent without fault less than half of it is
# explained; nor is 0, since a fit with a number for each cell explains something of any walk.
FAINT = 0.5
LEARNT_ANCHOR = "learnt"


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


def learnt_section(
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
        anchor=LEARNT_ANCHOR,
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
