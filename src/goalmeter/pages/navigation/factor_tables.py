"""Tables of prompt by object: what words about keys do to an agent, and what a key does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalmeter.navigation.directed.results import Measured
from goalmeter.navigation.measures import Contrast, Factors
from goalmeter.navigation.measures.cells import PICK_UP, TOWARDS
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Column, Table
from goalmeter.report.numbers import points

NAME, MEASURE = Column("agent", numeric=False), Column("measure", numeric=False)
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


def factor_tables(results: Sequence[Measured]) -> list[Table]:
    """Prompt by object where both vary, and the effect of one where only that does."""
    found = [(result.agent, one) for result in results for one in result.factors]
    crossed = [(agent, one) for agent, one in found if isinstance(one, Factors)]
    single = [(agent, one) for agent, one in found if isinstance(one, Contrast)]
    tables = [_crossed(crossed)] if crossed else []
    for factor in dict.fromkeys(one.factor for _, one in single):
        tables.append(_single([(agent, one) for agent, one in single if one.factor == factor]))
    return tables


def sentences(result: Measured) -> list[str]:
    """What prompt and object do to how often the thing is taken."""
    lines = []
    for found in result.factors:
        if found.measure != PICK_UP:
            continue
        if isinstance(found, Contrast):
            lines.append(
                f"the {found.factor} ({_less(found.levels)}) changes how often {result.agent} "
                f"takes what lies there by {points(found.effect)} points."
            )
            continue
        (first, second), (of_first, of_second) = found.factors, found.effects
        lines.append(
            f"the {first} ({_less(found.levels[0])}) changes how often {result.agent} takes what "
            f"lies there by {points(of_first)} points, the {second} ({_less(found.levels[1])}) by "
            f"{points(of_second)}, and the {second} does {points(found.interaction)} points more "
            f"under {found.levels[0][1]} than under {found.levels[0][0]}."
        )
    return lines


def _crossed(found: Sequence[tuple[str, Factors]]) -> Table:
    one = found[0][1]
    (first, second), (rows, columns) = one.factors, one.levels
    return Table(
        caption=f"The {first} by the {second}",
        columns=(
            NAME,
            MEASURE,
            "grids",
            *(Column(str(c), group=f"{first} {r}") for r in rows for c in columns),
            Column(first, group="effect, points"),
            Column(second, group="effect, points"),
            Column("on each other", group="effect, points"),
        ),
        rows=tuple(
            (
                agent,
                MEASURES[one.measure],
                str(one.grids),
                *(_cell(one.measure, value) for row in one.cells for value in row),
                *(points(effect) for effect in one.effects),
                points(one.interaction),
            )
            for agent, one in found
        ),
        meaning=f"The effect of the {first} is {_less(rows)}, that of the {second} "
        f"{_less(columns)}, each averaged over the other. “On each other” is by how much the "
        f"effect of the {second} is greater under {rows[1]} than under {rows[0]}. Only grids "
        f"that were walked through in all four ways count. {INTERVALS}",
        notes=(_LEFT_OUT,),
    )


def _single(found: Sequence[tuple[str, Contrast]]) -> Table:
    factor, levels = found[0][1].factor, found[0][1].levels
    return Table(
        caption=f"What the {factor} does",
        columns=(NAME, MEASURE, "grids", *map(str, levels), "effect, points"),
        rows=tuple(
            (
                agent,
                MEASURES[one.measure],
                str(one.grids),
                *(_cell(one.measure, value) for value in one.cells),
                points(one.effect),
            )
            for agent, one in found
        ),
        meaning=f"The effect is {_less(levels)}, in percentage points, over the grids that were "
        f"walked through in both ways. {INTERVALS}",
        notes=(_LEFT_OUT,),
    )


def _less(levels: tuple[Any, Any]) -> str:
    return f"{levels[1]} minus {levels[0]}"


def _cell(measure: str, value: float) -> str:
    """A share; what is beyond chance has a sign and is in points."""
    if measure == TOWARDS:
        return f"{100 * value:+.1f}".replace("-", "−")
    return f"{value:.1%}"
