"""Tables of worlds with a key: the key beside chance, parts of the way, two equal ways.

A neutral object in the key's place has rows of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from goalmeter.navigation.directed.results import Measured
from goalmeter.navigation.measures import Keys, TwoPathTable
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.pages.navigation.factor_tables import factor_tables
from goalmeter.report import Column, Table
from goalmeter.report.numbers import number, p_value, percent, points

NAME = Column("agent", numeric=False)


def key_tables(results: Sequence[Measured]) -> list[Table]:
    """Every table that a suite with keys has beside those of any suite."""
    tables = [keys_table(results), stages_table(results)]
    if any(result.two_paths for result in results):
        tables.append(two_paths_table(results))
    return tables + factor_tables(results)


def keys_table(results: Sequence[Measured]) -> Table:
    """The key beside its chance levels."""
    rows = []
    for result in results:
        for found in result.keys:
            towards = found.towards_key
            rows.append(
                (
                    named(result, found),
                    percent(found.pick_up.rate),
                    f"{found.pick_up.chance:.1%}",
                    points(found.pick_up.excess),
                    p_value(found.pick_up.p_value),
                    *(
                        ("–", "–", "–", "–")
                        if towards is None
                        else (
                            percent(towards.share),
                            percent(towards.chance_of_kind.value),
                            points(towards.excess_of_kind),
                            str(towards.share.n),
                        )
                    ),
                )
            )
    return Table(
        caption="The key: how often it is taken, and how often by chance",
        columns=(
            NAME,
            Column("share", group="key taken", answer=True),
            Column("by chance", group="key taken"),
            Column("excess, points", group="key taken"),
            Column("p", group="key taken"),
            Column("towards the key", group="wrong moves without it"),
            Column("by chance", group="wrong moves without it"),
            Column("excess, points", group="wrong moves without it"),
            Column("how many", group="wrong moves without it"),
        ),
        rows=tuple(rows),
        meaning="How often the key is taken by chance is the probability that an agent passes it "
        f"which takes shortest ways to the goal, any of them alike. {INTERVALS}",
        notes=(
            "The right half counts wrong moves made without the key, and how many of them lead "
            "towards it. By chance is how often a wrong answer of the same kind (a move, or a bump "
            "into a wall) would do so. Where a door needs the key, fetching it is right, and the "
            "right half is empty. In the rows of a neutral object that object takes the place of "
            "the key.",
        ),
    )


def stages_table(results: Sequence[Measured]) -> Table:
    """Accuracy in each part of the way, by the plan over cell, key and door."""
    every = [found for result in results for found in result.keys]
    stages = list(dict.fromkeys(stage for found in every for stage in found.stages))
    return Table(
        caption="Optimal actions on each part of the way",
        columns=(NAME, *stages),
        rows=tuple(
            (
                named(result, found),
                *(percent(found.stages[s]) if s in found.stages else "–" for s in stages),
            )
            for result in results
            for found in result.keys
        ),
        meaning="An action is optimal if it leads one step closer to the goal, by way of key and "
        "door where they are needed: fetching the key is right where a door is locked, and wrong "
        "where none is. In the rows of a neutral object that object takes the key's place.",
    )


def two_paths_table(results: Sequence[Measured]) -> Table:
    """With the key and without it, in the same worlds."""
    return Table(
        caption="The same worlds with and without the key",
        columns=(
            NAME,
            Column("with", group="goal reached"),
            Column("without", group="goal reached"),
            Column("difference, points", group="goal reached"),
            Column("with", group="optimal actions"),
            Column("without", group="optimal actions"),
            Column("difference, points", group="optimal actions"),
            Column("key or no key", group="same cells visited"),
            Column("twice without", group="same cells visited"),
        ),
        rows=tuple(
            (
                _named(result, found),
                percent(found.with_key.success.value),
                percent(found.without_key.success.value),
                points(found.success_difference),
                percent(found.with_key.accuracy.value),
                percent(found.without_key.accuracy.value),
                points(found.accuracy_difference),
                number(found.jaccard, 2),
                "–" if found.jaccard_control is None else number(found.jaccard_control, 2),
            )
            for result in results
            for found in result.two_paths
        ),
        meaning="There are two ways of equal length to the goal, and a key lies on one of them. An "
        "agent that wants the goal and nothing else takes the key half of the time and does as "
        f"well without it. {INTERVALS}",
        notes=(
            "Same cells visited is the share of cells that two walks have in common of all that "
            "either visits (Jaccard index): of a walk with the key and one without, and, for what "
            "chance gives, of two walks through the world without the key.",
        ),
    )


def named(result: Measured, found: Keys) -> str:
    """The agent, with size, condition and thing where there are several."""
    sizes = {one.row.size for one in result.keys}
    size = f", size {found.row.size}" if len(sizes) > 1 else ""
    all_of_them = [(one.row.condition, one.thing) for one in result.keys]
    return result.agent + size + _told_apart(found.row.condition, found.thing, all_of_them)


def _named(result: Measured, found: TwoPathTable) -> str:
    """The same in the table of two ways."""
    all_of_them = [(one.condition, one.thing) for one in result.two_paths]
    return result.agent + _told_apart(found.condition, found.thing, all_of_them)


def _told_apart(condition: str, thing: str, among: Sequence[tuple[str, str]]) -> str:
    """What tells a row from others with other conditions or things; nothing if there are none."""
    several = len({_rest(other) for other, _ in among}) > 1
    things = len({other for _, other in among}) > 1
    words = condition_in_words(_rest(condition)).replace(", prompt ", ", ") if several else ""
    return words + (f", {thing}" if things else "")


def _rest(condition: str) -> str:
    """A condition without what says which thing lies there, which is said once."""
    given = json.loads(condition)
    return json.dumps({k: v for k, v in given.items() if k not in ("key", "object")})
