"""Compare cards row by row, paired by world where two cards share worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, finite
from goalmeter._files import JsonFields
from goalmeter._names import unknown_name
from goalmeter._types import FloatArray
from goalmeter.card import records
from goalmeter.card.records import BOUND, EXACT, INTERVAL, P_VALUE, SHARE, Card, CardRow
from goalmeter.pages import Texts
from goalmeter.report import Table, number, p_value, percent, points
from goalmeter.report.numbers import DASH
from goalmeter.statistics.clusters import Estimate, estimate_of_sums
from goalmeter.statistics.verdicts import Verdict, difference, verdict

SHARE_MARGIN = 0.1  # of a share whose row states none
LEAST_WORLDS = 2  # that two cards must share to be paired
_MOST_MARGIN = 1e9
_VERDICTS = {Verdict.ABOVE: "higher", Verdict.BELOW: "lower", Verdict.UNTOLD: "inconclusive"}
_DIGITS = {records.NATS: 2}  # decimals of a unit; 3 of others


@dataclass(frozen=True, kw_only=True)
class RowDifference(JsonFields):
    """Difference of a row between a card and the first card."""

    id: str  # of the row
    title: str
    card: str
    unit: str
    change: Estimate | None  # the card minus the first; its clusters are worlds, 0 if not paired
    margin: float
    verdict: str  # "higher", "lower", "equivalent within ±m", "inconclusive" or "not compared"


@dataclass(frozen=True, kw_only=True)
class CardComparison(JsonFields):
    """Rows of several cards and their differences from the first card."""

    cards: Sequence[str]  # agents, with the paths of their cards if two agents are the same
    headlines: Mapping[str, str]  # by card
    rows: Sequence[Mapping[str, Any]]  # id, title, and `values`: the row of each card that has it
    differences: Sequence[RowDifference]

    def compared(self, row: Mapping[str, Any]) -> dict[str, RowDifference]:
        """Return the differences of a row by card, without those that cannot be compared."""
        return {
            each.card: each
            for each in self.differences
            if each.id == row["id"] and each.change is not None
        }

    @property
    def not_compared(self) -> list[str]:
        """One sentence for each row that no card can be compared in, with its values."""
        return [_reason(row) for row in self.rows if not self.compared(row)]

    @property
    def tables(self) -> tuple[Table, Table]:
        """Differences from the first card, and values side by side."""
        changes = [each for each in self.differences if each.change is not None]
        return (
            say.table("differences", changes, notes=self.not_compared, first=self.cards[0]),
            say.table("values", self.rows),
        )


def compare_cards(
    cards: Sequence[Card],
    folders: Sequence[str | Path],
    *,
    margins: Mapping[str, float] | None = None,
) -> CardComparison:
    """Compare the rows of cards with those of the first card.

    A difference is paired if both cards have data of at least two common worlds. Otherwise it is
    computed from the two intervals as independent ones, or from the ends of certified bounds.

    Args:
        cards: at least two cards.
        folders: directories of the cards, which have their data by world.
        margins: largest difference that counts as none by row; default that of the row, or 0.1 for
            a share. Without a margin only the sign of the difference is tested.
    """
    if len(cards) < 2:
        raise InvalidParameterError("only 1 card is given, expected at least 2; add another one")
    names = [card.agent for card in cards]
    if len(set(names)) < len(names):
        names = [f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)]
    ids = list(dict.fromkeys(row.id for card in cards for row in card.rows))
    margins = margins or {}
    for key in margins:
        if key not in ids:
            raise unknown_name(key, ids, "the row")
        finite(margins[key], f"the margin of {key}", least=0, most=_MOST_MARGIN)
    items = [records.read_items(folder) for folder in folders]
    rows, differences = [], []
    for key in ids:
        values = {n: row for n, card in zip(names, cards, strict=True) if (row := card.row(key))}
        row = next(iter(values.values()))
        rows.append({"id": key, "title": row.title, "values": values})
        margin = margins.get(key, row.margin)
        if margin is None:
            margin = SHARE_MARGIN if row.unit == SHARE else 0.0
        for name, data in zip(names[1:], items[1:], strict=True):
            sums = _paired(items[0].get(key, {}), data.get(key, {}))
            change = _difference(values.get(names[0]), values.get(name), sums)
            texts = {"id": key, "title": row.title, "card": name, "unit": row.unit}
            words = _in_words(change, margin, row.unit)
            differences.append(RowDifference(**texts, change=change, margin=margin, verdict=words))
    headlines = {name: card.headline for name, card in zip(names, cards, strict=True)}
    return CardComparison(cards=names, headlines=headlines, rows=rows, differences=differences)


def ends_of(row: CardRow) -> tuple[float | None, float | None]:
    """Return both ends of a row; those of an exact value are the value itself."""
    return (row.value, row.value) if row.ends == EXACT else (row.lower, row.upper)


def _paired(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> FloatArray:
    """Numerators and denominators in the worlds that both have, the second card first, [C, 4]."""
    both = [[*second[world], *first[world]] for world in first if world in second]
    sums = np.array(both, dtype=float).reshape(-1, 4)
    return sums[(sums[:, 1] > 0) & (sums[:, 3] > 0)]


def _ratios(totals: FloatArray) -> FloatArray:
    return totals[..., 0] / totals[..., 1] - totals[..., 2] / totals[..., 3]


def _difference(first: CardRow | None, second: CardRow | None, sums: FloatArray) -> Estimate | None:
    """The second row minus the first; None where they cannot be compared."""
    if first is None or second is None or first.unit != second.unit or first.unit == P_VALUE:
        return None
    if first.value is None or second.value is None:
        return None
    if first.ends == second.ends == INTERVAL and len(sums) >= LEAST_WORLDS:
        weights = sums[:, 1::2]
        shares, heaviest = sums[:, ::2] / weights, float((weights / weights.mean(axis=0)).max())
        # Without bounds there is no interval if all worlds have the same difference.
        is_bounded = first.unit == SHARE and shares.min() >= 0 and shares.max() <= 1
        options: dict[str, Any] = {"bounds": (-1.0, 1.0) if is_bounded else None, "paired": True}
        return estimate_of_sums(sums, _ratios, n=len(sums), heaviest=heaviest, **options)
    (low, high), (lower, upper) = ends_of(first), ends_of(second)
    interval = None
    if low is not None and high is not None and lower is not None and upper is not None:
        interval = difference(second.value, (lower, upper), first.value, (low, high))
        if BOUND in (first.ends, second.ends):
            interval = lower - high, upper - low
    return Estimate(second.value - first.value, interval, 0, 0)


# --- Text -----------------------------------------------------------------------------------------
def _in_words(change: Estimate | None, margin: float, unit: str) -> str:
    if change is None:
        return "not compared"
    return _VERDICTS.get(
        verdict(change.interval, margin), f"equivalent within {_within(margin, unit)}"
    )


def _within(margin: float, unit: str) -> str:
    return f"±{100 * margin:g} points" if unit == SHARE else f"±{margin:g}"


def margin_text(row: RowDifference) -> str:
    """Return the margin of a row in words."""
    return f"margin {_within(row.margin, row.unit)}" if row.margin else "no margin"


def _reason(row: Mapping[str, Any]) -> str:
    """Return why a row is not compared, with its values."""
    known = {name: row for name, row in row["values"].items() if row.value is not None}
    values = ", ".join(f"{name} ({_row_text(each)})" for name, each in known.items())
    if any(each.unit == P_VALUE for each in known.values()):
        why = f"p-values are not compared; {values}"
    elif len({each.unit for each in known.values()}) > 1:
        why = f"the units differ; {values}"
    else:
        why = f"measured only for {values}" if known else "without a value"
    return f"{row['title']}: {why}."


def _row_text(row: CardRow | None) -> str:
    if row is None or row.value is None:
        return DASH
    if row.unit == P_VALUE:
        return p_value(row.value)
    interval = None
    if row.ends != EXACT and row.lower is not None and row.upper is not None:
        interval = row.lower, row.upper
    value = Estimate(row.value, interval, 0, 0)
    return percent(value) if row.unit == SHARE else number(value, _DIGITS.get(row.unit, 3))


def pairing_text(row: RowDifference) -> str:
    """Return over how many common worlds a difference is paired."""
    count = row.change.clusters if row.change else 0
    return f"paired over {count} worlds" if count else "not paired"


def change_text(row: RowDifference) -> str:
    """Return a difference with its interval; shares in percentage points."""
    if row.change is None:
        return DASH
    is_share, digits = row.unit == SHARE, _DIGITS.get(row.unit, 3)
    return points(row.change) if is_share else number(row.change, digits)


say = Texts("comparison", {"row": _row_text, "change": change_text})
