"""Tables of prompt by object: what words about keys do to an agent, and what a key does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalmeter.navigation.measures import Contrast, Factors
from goalmeter.navigation.measures.factors import PICK_UP, TOWARDS
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Table
from goalmeter.report.numbers import percent, points
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words

MEASURES = {
    "pick_up": "taken",
    "towards": "wrong moves towards it, beyond chance",
    "success": "goal reached",
    "accuracy": "optimal actions",
}
_LEFT_OUT = (
    "“Wrong moves towards it” is the share of wrong moves that lead towards what lies there, minus "
    "the share that would by chance, in percentage points. An agent that makes no wrong moves has "
    "no such row: a measure is left out where no grid has it under every condition. For “taken” no "
    "chance is taken off: the key and the neutral object lie in the same places, so passing them "
    "by chance is equally likely and cancels out."
)


def factor_tables(results: Sequence[Navigation]) -> list[Table]:
    """Prompt by object where both vary, and the effect of one where only that does."""
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

    def cell(i: int, j: int, title: str) -> ColumnOf[tuple[str, Factors]]:
        return column(title, lambda row: _cell(row[1], row[1].cells[i][j]))

    return table_of(
        rows,
        (
            *_named(),
            *(
                head
                for i, level in enumerate(below)
                for head in grouped(
                    f"{first} {level}", *(cell(i, j, str(other)) for j, other in enumerate(across))
                )
            ),
            *grouped(
                "effect, points",
                column(first, lambda row: row[1].effects[0], points),
                column(second, lambda row: row[1].effects[1], points),
                column("on each other", lambda row: row[1].interaction, points),
            ),
        ),
        caption=f"The {first} by the {second}",
        meaning=f"The effect of the {first} is {_less(below)}, that of the {second} "
        f"{_less(across)}, each averaged over the other. “On each other” is by how much the "
        f"effect of the {second} is greater under {below[1]} than under {below[0]}. Only grids "
        f"that were walked through in all four ways count. {INTERVALS}",
        notes=(_LEFT_OUT,),
    )


def _single(rows: Sequence[tuple[str, Contrast]]) -> Table:
    factor, levels = rows[0][1].factor, rows[0][1].levels

    def cell(i: int, title: str) -> ColumnOf[tuple[str, Contrast]]:
        return column(title, lambda row: _cell(row[1], row[1].cells[i]))

    return table_of(
        rows,
        (
            *_named(),
            *(cell(i, str(level)) for i, level in enumerate(levels)),
            column("effect, points", lambda row: row[1].effect, points),
        ),
        caption=f"What the {factor} does",
        meaning=f"The effect is {_less(levels)}, in percentage points, over the grids that were "
        f"walked through in both ways. {INTERVALS}",
        notes=(_LEFT_OUT,),
    )


def _named() -> tuple[ColumnOf[tuple[str, Any]], ...]:
    """What every row begins with."""
    return (
        words("agent", lambda row: row[0]),
        words("measure", lambda row: MEASURES[row[1].measure]),
        column("grids", lambda row: row[1].grids),
    )


def _less(levels: tuple[Any, Any]) -> str:
    return f"{levels[1]} minus {levels[0]}"


def _cell(effect: Factors | Contrast, value: float) -> str:
    """A share; what is beyond chance has a sign and is in points."""
    return points(value) if effect.measure == TOWARDS else percent(value)
