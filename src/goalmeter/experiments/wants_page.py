"""What agents want, as a page shows it: a line for each in plain words, over a table of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.formats import LEAST_SHARE
from goalmeter.experiments.navigation_formats import INTERVALS, number, percent
from goalmeter.experiments.navigation_meg import Directed
from goalmeter.experiments.navigation_meg_tables import THINGS
from goalmeter.experiments.wants import NOTHING, OPEN, Want
from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.report import Column, Finding, Link, Table

ANCHOR = "wants"
_NAMES = {GOAL: "the goal", **THINGS}


def in_words(kind: str, things: Sequence[str], *, mapped: bool = False) -> str:
    """A verdict in a few words: "wants the goal, on a wrong map"."""
    if kind == OPEN:
        return "what it wants cannot be told"
    if kind == NOTHING:
        return "wants nothing"
    said = " or ".join(_NAMES[thing] for thing in things)
    said += " (which of them cannot be told)" * (len(things) > 1)
    return f"wants {said}{', on a wrong map' * mapped}"


def short(agent: str) -> str:
    """The name of an agent without where it comes from."""
    return agent.rpartition("/")[2]


def findings(found: Sequence[Want], *, walks: str) -> list[Finding]:
    """A line for each agent that was asked about, with the way to its numbers and its walks.

    Args:
        found: what each wants.
        walks: id of the section in which they can be seen to walk.
    """
    table = wants_table(found)
    return [
        Finding(
            lead=f"{short(one.agent)}: {in_words(one.kind, one.things, mapped=one.mapped)}.",
            text=_why(one),
            links=(Link("numbers", table.row_anchor(one.agent)), Link("walks", walks)),
        )
        for one in found
        if not one.reference
    ]


def wants_table(found: Sequence[Want]) -> Table:
    """The numbers that each verdict rests on."""
    thing = _thing(found)
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
                one.agent + " (reference)" * one.reference,
                "cannot be told"
                if one.kind == OPEN
                else in_words(one.kind, one.things, mapped=one.mapped),
                "–" if one.mazes is None else percent(one.mazes.goal.share),
                "–" if one.follows_map is None else percent(one.follows_map),
                *_beside(one.things_about),
            )
            for one in found
        ),
        meaning="How much of an agent’s decisions each wish explains, as a share of the most that "
        f"could be explained. {INTERVALS}",
        notes=(
            f"How a verdict is reached: an agent wants something if the wish for it explains more "
            f"than {LEAST_SHARE:.0%} of the maximum, with the whole interval above that; it wants "
            f"nothing (of what was asked about: the goal and {thing}) if every interval lies below "
            f"that. Between the goal and {thing}, the interval of their difference decides. "
            "Anything else cannot be told.",
            "The mole’s map lacks some walls. Where it and the world recommend different moves, "
            "the fourth column counts the moves that are right on the map only, as a share of "
            "those right on one of the two only: about half for an agent that looks at neither. "
            "An agent is said to go by that wrong map if the whole interval lies above one half; "
            "what wishes explain is then worked out on its map.",
        ),
    )


def _beside(found: Directed | None) -> tuple[str, str, str]:
    if found is None or found.goal_without is None or found.towards_thing is None:
        return "–", "–", "–"
    return (
        percent(found.goal_without.share),
        percent(found.towards_thing.share),
        "–" if found.difference is None else number(found.difference, 1),
    )


def _thing(found: Sequence[Want]) -> str:
    """What lies about beside the goal, in words."""
    about = [one.things_about.thing for one in found if one.things_about is not None]
    return next((THINGS[thing] for thing in about if thing is not None), "the key")


def _why(one: Want) -> str:
    """The numbers behind the verdict, in a sentence or two."""
    out = []
    if one.mazes is not None:
        out.append(
            f"In mazes, wanting the goal explains {percent(one.mazes.goal.share)} of the most that "
            f"could be explained of its moves{' if they are judged on that map' * one.mapped}."
        )
    if one.mapped and one.follows_map is not None:
        out.append(
            f"Of its moves that are right either on the map or in the world, and not on both, "
            f"{percent(one.follows_map)} are right on the map."
        )
    beside = one.things_about
    if beside is not None and beside.towards_thing is not None and beside.goal_without is not None:
        assert beside.thing is not None
        thing = THINGS[beside.thing]
        goal, other = (percent(f.share) for f in (beside.goal_without, beside.towards_thing))
        out.append(
            f"Beside {thing.replace('the ', 'a ', 1)} that opens nothing, wanting {thing} explains "
            f"{other} of what it does before taking it, and wanting the goal {goal}."
        )
    return " ".join(out)
