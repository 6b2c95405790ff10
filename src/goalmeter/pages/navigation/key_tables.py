"""Tables of worlds with a key: the key beside chance, parts of the way, two equal ways.

A neutral object in the key's place has rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from goalmeter.navigation.measures import Keys, TwoPathTable
from goalmeter.navigation.result import Navigation
from goalmeter.navigation.suites.options import without_object
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.pages.navigation.factor_tables import factor_tables
from goalmeter.report import Table
from goalmeter.report.numbers import number, p_value, percent, points
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate


def key_tables(results: Sequence[Navigation]) -> list[Table]:
    """Every table that a suite with keys has beside those of any suite."""
    tables = [keys_table(results), stages_table(results)]
    if any(result.two_paths for result in results):
        tables.append(two_paths_table(results))
    return tables + factor_tables(results)


def keys_table(results: Sequence[Navigation]) -> Table:
    """The key beside its chance levels."""
    return table_of(
        _taken(results),
        (
            words("agent", lambda row: row[0]),
            *grouped(
                "key taken",
                column("share", lambda row: row[1].pick_up.rate, percent, answer=True),
                column("by chance", lambda row: row[1].pick_up.chance, percent),
                column("excess, points", lambda row: row[1].pick_up.excess, points),
                column("p", lambda row: row[1].pick_up.p_value, p_value),
            ),
            *grouped(
                "wrong moves without it",
                column("towards the key", lambda row: _wrong(row, "share"), percent),
                column("by chance", lambda row: _wrong(row, "chance_of_kind.value"), percent),
                column("excess, points", lambda row: _wrong(row, "excess_of_kind"), points),
                column("how many", lambda row: _wrong(row, "share.n")),
            ),
        ),
        caption="The key: how often it is taken, and how often by chance",
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


def stages_table(results: Sequence[Navigation]) -> Table:
    """Accuracy in each part of the way, by the plan over cell, key and door."""
    rows = _taken(results)
    stages = list(dict.fromkeys(name for _, keys in rows for name in keys.stages))

    def stage(name: str) -> ColumnOf[tuple[str, Keys]]:
        return column(name, lambda row: row[1].stages.get(name), percent)

    return table_of(
        rows,
        (
            words("agent", lambda row: row[0]),
            *map(stage, stages),
        ),
        caption="Optimal actions on each part of the way",
        meaning="An action is optimal if it leads one step closer to the goal, by way of key and "
        "door where they are needed: fetching the key is right where a door is locked, and wrong "
        "where none is. In the rows of a neutral object that object takes the key's place.",
    )


def two_paths_table(results: Sequence[Navigation]) -> Table:
    """With the key and without it, in the same worlds."""

    def both(measure: str) -> tuple[ColumnOf[tuple[str, TwoPathTable]], ...]:
        """What is measured with the key, without it, and the difference."""
        value = attrgetter(f"{measure}.value")
        return (
            column("with", lambda row: value(row[1].with_key), percent),
            column("without", lambda row: value(row[1].without_key), percent),
            column(
                "difference, points",
                lambda row: getattr(row[1], f"{measure}_difference"),
                points,
            ),
        )

    return table_of(
        [(_named(result, ways), ways) for result in results for ways in result.two_paths],
        (
            words("agent", lambda row: row[0]),
            *grouped("goal reached", *both("success")),
            *grouped("optimal actions", *both("accuracy")),
            *grouped(
                "same cells visited",
                column("key or no key", lambda row: row[1].jaccard, _two_digits),
                column("twice without", lambda row: row[1].jaccard_control, _two_digits),
            ),
        ),
        caption="The same worlds with and without the key",
        meaning="There are two ways of equal length to the goal, and a key lies on one of them. An "
        "agent that wants the goal and nothing else takes the key half of the time and does as "
        f"well without it. {INTERVALS}",
        notes=(
            "Same cells visited is the share of cells that two walks have in common of all that "
            "either visits (Jaccard index): of a walk with the key and one without, and, for what "
            "chance gives, of two walks through the world without the key.",
        ),
    )


def _taken(results: Sequence[Navigation]) -> list[tuple[str, Keys]]:
    """Every agent with what it does about keys, by the name of its row."""
    return [(named(result, keys), keys) for result in results for keys in result.keys]


def _wrong(row: tuple[str, Keys], what: str) -> Any:
    """Of wrong moves; None where there can be none, since fetching the key is right."""
    towards = row[1].towards_key
    return None if towards is None else attrgetter(what)(towards)


def _two_digits(share: Estimate) -> str:
    return number(share, 2)


def named(result: Navigation, keys: Keys) -> str:
    """The agent, with size, condition and thing where there are several."""
    sizes = {other.row.size for other in result.keys}
    size = f", size {keys.row.size}" if len(sizes) > 1 else ""
    all_of_them = [(other.row.condition, other.thing) for other in result.keys]
    return result.agent + size + _told_apart(keys.row.condition, keys.thing, all_of_them)


def _named(result: Navigation, ways: TwoPathTable) -> str:
    """The same in the table of two ways."""
    all_of_them = [(other.condition, other.thing) for other in result.two_paths]
    return result.agent + _told_apart(ways.condition, ways.thing, all_of_them)


def _told_apart(condition: str, thing: str, among: Sequence[tuple[str, str]]) -> str:
    """What tells a row from others with other conditions or things; nothing if there are none."""
    several = len({without_object(other) for other, _ in among}) > 1
    things = len({other for _, other in among}) > 1
    text = condition_in_words(without_object(condition)).replace(", prompt ", ", ")
    return text * several + (f", {thing}" if things else "")
