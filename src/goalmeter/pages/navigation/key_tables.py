"""Tables of worlds with a key: the key beside chance, parts of the way, two equal ways.

A neutral object in the key's place has rows of its own. Where the object or the prompt varies, a
table says what that does: what words about keys do to an agent, and what a key does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from goalmeter.navigation.measures import Contrast, Factors, Keys, TwoPathTable
from goalmeter.navigation.measures.factors import PICK_UP, TOWARDS
from goalmeter.navigation.result import Navigation
from goalmeter.navigation.suites.options import without_object
from goalmeter.pages.navigation.conditions import condition_in_words, say
from goalmeter.report import Table
from goalmeter.report.numbers import number, p_value, percent, points
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate

MEASURES = {
    "pick_up": "taken",
    "towards": "wrong moves towards it, beyond chance",
    "success": "goal reached",
    "accuracy": "optimal actions",
}


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
                column("on shortest ways", lambda row: row[1].pick_up.shortest, percent),
                column("beyond shortest ways, points", lambda row: row[1].pick_up.excess, points),
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
        **say("keys"),
    )


def stages_table(results: Sequence[Navigation]) -> Table:
    """Accuracy in each part of the way, by the plan over cell, key and door."""
    rows = _taken(results)
    stages = dict.fromkeys(name for _, keys in rows for name in keys.stages)

    def stage(name: str) -> ColumnOf[tuple[str, Keys]]:
        return column(name, lambda row: row[1].stages.get(name), percent)

    return table_of(
        rows, (words("agent", lambda row: row[0]), *map(stage, stages)), **say("stages")
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
                "difference, points", lambda row: getattr(row[1], f"{measure}_difference"), points
            ),
        )

    def two_digits(share: Estimate) -> str:
        return number(share, 2)

    return table_of(
        [
            (result.agent + _told_apart(ways, result.two_paths), ways)
            for result in results
            for ways in result.two_paths
        ],
        (
            words("agent", lambda row: row[0]),
            *grouped("goal reached", *both("success")),
            *grouped("optimal actions", *both("accuracy")),
            *grouped(
                "same cells visited",
                column("key or no key", lambda row: row[1].jaccard, two_digits),
                column("twice without", lambda row: row[1].jaccard_control, two_digits),
            ),
        ),
        **say("two_paths"),
    )


def named(result: Navigation, keys: Keys) -> str:
    """The agent, with size, condition and thing where there are several."""
    several_sizes = len({row.row.size for row in result.keys}) > 1
    size = f", size {keys.row.size}" if several_sizes else ""
    return result.agent + size + _told_apart(keys, result.keys)


def _taken(results: Sequence[Navigation]) -> list[tuple[str, Keys]]:
    """Every agent with what it does about keys, by the name of its row."""
    return [(named(result, keys), keys) for result in results for keys in result.keys]


def _wrong(row: tuple[str, Keys], name: str) -> Any:
    """Of wrong moves; None where there can be none, since fetching the key is right."""
    towards = row[1].towards_key
    return None if towards is None else attrgetter(name)(towards)


def _told_apart(row: Keys | TwoPathTable, among: Sequence[Keys | TwoPathTable]) -> str:
    """What tells a row from others with other conditions or things; nothing if there are none."""
    # The object is named by `thing` alone, or a row would have it twice.
    several = len({without_object(_condition(r)) for r in among}) > 1
    many_items = len({r.thing for r in among}) > 1
    text = condition_in_words(without_object(_condition(row))).replace(", prompt ", ", ")
    return text * several + f", {row.thing}" * many_items


def _condition(row: Keys | TwoPathTable) -> str:
    return row.row.condition if isinstance(row, Keys) else row.condition


# --- Prompt by object -----------------------------------------------------------------------------
def factor_tables(results: Sequence[Navigation]) -> list[Table]:
    """Prompt by object where both vary, and the effect of one where only that does."""
    # Agents may have been asked in different ways, so a page may need both sorts of tables.
    rows = [(result.agent, effect) for result in results for effect in result.factors]
    crossed = [(agent, effect) for agent, effect in rows if isinstance(effect, Factors)]
    single = [(agent, effect) for agent, effect in rows if isinstance(effect, Contrast)]
    tables = [_crossed(crossed)] if crossed else []
    for factor in dict.fromkeys(effect.factor for _, effect in single):
        tables.append(_single([row for row in single if row[1].factor == factor]))
    return tables


def sentences(result: Navigation) -> list[str]:
    """What prompt and object do to how often the thing is taken."""
    lines = []
    for effect in result.factors:
        if effect.measure != PICK_UP:
            continue
        if isinstance(effect, Contrast):
            lines.append(
                f"the {effect.factor} ({_less(effect.levels)}) changes how often {result.agent} "
                f"takes what lies there by {points(effect.effect)} points."
            )
            continue
        (first, second), (of_first, of_second) = effect.factors, effect.effects
        lines.append(
            f"the {first} ({_less(effect.levels[0])}) changes how often {result.agent} takes what "
            f"lies there by {points(of_first)} points, the {second} ({_less(effect.levels[1])}) by "
            f"{points(of_second)}, and the {second} does {points(effect.interaction)} points more "
            f"under {effect.levels[0][1]} than under {effect.levels[0][0]}."
        )
    return lines


def _crossed(rows: Sequence[tuple[str, Factors]]) -> Table:
    (first, second), (below, across) = rows[0][1].factors, rows[0][1].levels

    def cells(i: int) -> tuple[ColumnOf[tuple[str, Factors]], ...]:
        return _levels(across, lambda effect: effect.cells[i])

    return table_of(
        rows,
        (
            *_names(),
            *(c for i, level in enumerate(below) for c in grouped(f"{first} {level}", *cells(i))),
            *grouped(
                "effect, points",
                column(first, lambda row: row[1].effects[0], points),
                column(second, lambda row: row[1].effects[1], points),
                column("on each other", lambda row: row[1].interaction, points),
            ),
        ),
        **say("factors"),
        **say("crossed", first=first, second=second, below=below, across=across),
    )


def _single(rows: Sequence[tuple[str, Contrast]]) -> Table:
    factor, levels = rows[0][1].factor, rows[0][1].levels
    return table_of(
        rows,
        (
            *_names(),
            *_levels(levels, lambda effect: effect.cells),
            column("effect, points", lambda row: row[1].effect, points),
        ),
        **say("factors"),
        **say("single", factor=factor, levels=levels),
    )


def _names() -> tuple[ColumnOf[tuple[str, Any]], ...]:
    """What every row begins with."""
    return (
        words("agent", lambda row: row[0]),
        words("measure", lambda row: MEASURES[row[1].measure]),
        column("grids", lambda row: row[1].grids),
    )


def _levels(
    levels: Sequence[Any], cells: Callable[[Any], Sequence[float]]
) -> tuple[ColumnOf[tuple[str, Any]], ...]:
    """The mean at each level; what is beyond chance has a sign and is in points."""

    def at(i: int, level: Any) -> ColumnOf[tuple[str, Any]]:
        return column(
            str(level),
            lambda row: (points if row[1].measure == TOWARDS else percent)(cells(row[1])[i]),
        )

    return tuple(at(i, level) for i, level in enumerate(levels))


def _less(levels: tuple[Any, Any]) -> str:
    return f"{levels[1]} minus {levels[0]}"
