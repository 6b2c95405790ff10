"""What agents want, as a page shows it: a line for each in plain words, over a table of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.navigation.directed.meg import Directed
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.pages.navigation.meg_tables import THINGS
from goalmeter.pages.navigation.wants import MOST_OF_NOTHING, NOTHING, OPEN, Want
from goalmeter.report import Column, Finding, Link, Table
from goalmeter.report.numbers import LEAST_SHARE, number, percent

ANCHOR = "wants"
_NAMES = {GOAL: "the goal", **THINGS}


def in_words(kind: str, things: Sequence[str], *, mapped: bool = False) -> str:
    """A verdict in a few words: "wants the goal, on a wrong map"."""
    if kind == OPEN:
        return "what it wants cannot be told"
    if kind == NOTHING:
        return "wants nothing"
    words = " or ".join(_NAMES[thing] for thing in things)
    words += " (which of them cannot be told)" * (len(things) > 1)
    return f"wants {words}{', on a wrong map' * mapped}"


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
    thing = _thing(verdicts)
    bare = thing.removeprefix("the ")
    return Table(
        caption="What each agent wants",
        anchor=ANCHOR,
        columns=(
            Column("agent", numeric=False),
            Column("verdict", numeric=False, answer=True),
            Column("by wanting the goal", group="explained, in mazes"),
            "moves that fit the mole’s map, not the world",
            Column("by wanting the goal", group=f"explained, before {thing} is taken"),
            Column(f"by wanting {thing}", group=f"explained, before {thing} is taken"),
            Column(f"goal minus {bare}, nats a walk", group=f"explained, before {thing} is taken"),
        ),
        rows=tuple(
            (
                want.agent + " (reference)" * want.reference,
                "cannot be told"
                if want.kind == OPEN
                else in_words(want.kind, want.things, mapped=want.mapped),
                "–" if want.mazes is None else percent(want.mazes.goal.share),
                "–" if want.follows_map is None else percent(want.follows_map),
                *_beside(want.things_about),
            )
            for want in verdicts
        ),
        meaning="How much of an agent’s decisions each wish explains, as a share of the most that "
        f"could be explained. {INTERVALS}",
        notes=(
            f"How a verdict is reached: an agent wants something if the wish for it explains more "
            f"than {LEAST_SHARE:.0%} of the maximum, with the whole interval above that; it wants "
            f"nothing (of what was asked about: the goal and {thing}) if every interval lies below "
            f"{MOST_OF_NOTHING:.0%} of it. Between the goal and {thing}, the interval of their "
            "difference decides. Anything else cannot be told.",
            "The mole’s map lacks some walls. Where it and the world recommend different moves, "
            "the fourth column counts the moves that are right on the map only, as a share of "
            "those right on one of the two only: about half for an agent that looks at neither. "
            "An agent is said to go by that wrong map if the whole interval lies above one half; "
            "what wishes explain is then worked out on its map.",
        ),
    )


def _beside(verdicts: Directed | None) -> tuple[str, str, str]:
    if verdicts is None or verdicts.goal_without is None or verdicts.towards_thing is None:
        return "–", "–", "–"
    return (
        percent(verdicts.goal_without.share),
        percent(verdicts.towards_thing.share),
        "–" if verdicts.difference is None else number(verdicts.difference, 1),
    )


def _thing(verdicts: Sequence[Want]) -> str:
    """What lies about beside the goal, in words."""
    about = [want.things_about.thing for want in verdicts if want.things_about is not None]
    return next((THINGS[thing] for thing in about if thing is not None), "the key")


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
    beside = want.things_about
    if beside is not None and beside.towards_thing is not None and beside.goal_without is not None:
        assert beside.thing is not None
        thing = THINGS[beside.thing]
        goal, other = (percent(f.share) for f in (beside.goal_without, beside.towards_thing))
        out.append(
            f"Beside {thing.replace('the ', 'a ', 1)} that opens nothing, wanting {thing} explains "
            f"{other} of what it does before taking it, and wanting the goal {goal}."
        )
    return " ".join(out)
