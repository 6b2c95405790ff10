"""What was tried at every layer as panels of a heat map: a row for each kind, a column a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.pages.representation.shown import layers_in_words
from goalmeter.report.charts.heat_map import Panel, heat_map
from goalmeter.statistics.clustered import Estimate

AnyRow = TypeVar("AnyRow")


class Tried(Protocol):
    """A row of a result: what was done at a layer, and whether it was chosen."""

    @property
    def layer(self) -> int | str:
        """One layer by its number, several by what they are called."""

    @property
    def chosen(self) -> bool:
        """Whether it did best on the half that screens."""


TriedRow = TypeVar("TriedRow", bound=Tried)


def values_at(
    rows: Iterable[AnyRow],
    place: Callable[[AnyRow], tuple[Hashable, Hashable]],
    heads: tuple[Sequence[Hashable], Sequence[Hashable]],
    take: Callable[[AnyRow], Estimate | None],
) -> FloatArray:
    """The values of some rows, laid out; NaN where there is none.

    Args:
        rows: of a result.
        place: the heads of the row and of the column in which a row stands.
        heads: of all rows, [R], and of all columns, [C].
        take: its number.

    Returns:
        [R, C].
    """
    out = np.full((len(heads[0]), len(heads[1])), math.nan)
    for row in rows:
        row_head, column_head = place(row)
        if (value := take(row)) is not None:
            out[heads[0].index(row_head), heads[1].index(column_head)] = value.value
    return out


@dataclass(frozen=True)
class ByLayer(Generic[TriedRow]):
    """Rows of a result by name and layer.

    Attributes:
        rows: what was tried.
        named: how each is called.
        names: all of these names, from above.
    """

    rows: Sequence[TriedRow]
    named: Callable[[TriedRow], str]
    names: Sequence[str]

    @property
    def layers(self) -> list[int | str]:
        """Single layers in their order, then whatever is several of them."""
        listed = list(dict.fromkeys(row.layer for row in self.rows))
        single = sorted(layer for layer in listed if isinstance(layer, int))
        return [*single, *(layer for layer in listed if isinstance(layer, str))]

    def panel(
        self, title: str, take: Callable[[TriedRow], Estimate], *, hatched: bool = False
    ) -> Panel:
        """One number of every row; what was chosen is hatched if wanted."""
        layers = self.layers
        chosen = (row for row in self.rows if hatched and row.chosen)
        return Panel(
            title=title,
            values=values_at(
                self.rows, lambda row: (self.named(row), row.layer), (self.names, layers), take
            ),
            hatched=frozenset(
                (self.names.index(self.named(row)), layers.index(row.layer)) for row in chosen
            ),
        )

    def drawn(self, name: str, panels: Sequence[Panel], label: str) -> str:
        """Panels of shares as SVG.

        Args:
            name: of the drawing, which no other on the page has.
            panels: of these rows.
            label: of the scale.
        """
        return heat_map(
            name,
            panels,
            rows=self.names,
            columns=[layers_in_words(layer) for layer in self.layers],
            label=label,
            limit=1.0,
            signed=False,
            means=False,
        )


def has_numbers(panel: Panel) -> bool:
    """Whether there is anything to see."""
    return not bool(np.isnan(np.asarray(panel.values)).all())
