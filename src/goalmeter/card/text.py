"""Numbers of a card as text, and the card on one screen of a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from goalmeter._errors import visible
from goalmeter.card.records import P_VALUE, SHARE, Card, CardRow, Claim, Gauge
from goalmeter.report.numbers import DASH, general, number, p_value, percent

COLUMNS, LINES = 80, 24


def is_known(value: float | None) -> TypeGuard[float]:
    """Return whether there is a number."""
    return value is not None and not math.isnan(value)


def quantity(value: float | None, unit: str, digits: int = 1) -> str:
    """Return a number without its unit, except for the sign of percent."""
    if not is_known(value):
        return DASH
    if unit == SHARE:
        return percent(value, digits)
    if unit == P_VALUE and digits:
        return p_value(value)
    if abs(value) < 1 or abs(value) >= 1e5:
        return general(value, 2 + digits)
    return number(value, digits + (abs(value) < 10))


def with_unit(value: float | None, unit: str, digits: int = 1) -> str:
    """Return a number with its unit: "84.1%", "7.6 nats", "p = 0.034"."""
    text = quantity(value, unit, digits)
    if text != DASH and unit == P_VALUE:
        return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"
    return text if text == DASH or unit == SHARE else f"{text} {unit}".rstrip()


def ends(row: CardRow | Gauge, unit: str, digits: int = 1) -> str:
    """Return an interval or a bound: "[0.1, 0.3]", "≥ 0.1"; a dash if there is none."""
    low, high = (quantity(end, unit, digits) for end in (row.lower, row.upper))
    if high == DASH:
        return low if low == DASH else f"≥ {low}"
    return f"≤ {high}" if low == DASH else f"[{low}, {high}]"


def sample_size(row: CardRow) -> str:
    """Return the number of independent units with their name: "120 mazes"."""
    return DASH if row.n is None else f"{row.n:,} {row.of}".strip()


def measured(card: Card, gauge: Gauge) -> str:
    """Return the number of a gauge, unless its answer states it, and the interval."""
    if not is_known(gauge.value):
        return ""
    unit = unit_of(card, gauge)
    value, interval = with_unit(gauge.value, unit, 0), ends(gauge, unit, 0)
    parts = ["" if value in gauge.answer else value, "" if interval == DASH else interval]
    return " ".join(filter(None, parts))


def unit_of(card: Card, gauge: Gauge) -> str:
    """Return the unit of the row that a gauge shows; "" if it shows none."""
    row = card.row(gauge.row)
    return row.unit if row else ""


def listed(texts: Iterable[str]) -> str:
    """Return texts as a list in a sentence: "a, b and c"."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def short_name(agent: str) -> str:
    """Return the name of an agent without the prefix of the organisms."""
    return agent.removeprefix("goalmeter/")


def kind_line(card: Card) -> str:
    """Return the line above the headline: what the card is of, and what made it."""
    version = card.versions.get("goalmeter", "")
    return f"Goal card · {card.agent} · {card.scale} scale · goalmeter {version}".rstrip()


def threshold_text(card: Card, claim: Claim) -> str:
    """Return what a claim requires of the end of a row: "lower end of strength ≥ 50%"."""
    row, end = card.row(claim.row), claim.end if claim.end == "value" else f"{claim.end} end"
    relation = {">=": "≥", "<=": "≤"}.get(claim.relation, claim.relation)
    title, unit = (row.title, row.unit) if row else (claim.row, "")
    return f"{end} of “{title}” {relation} {with_unit(claim.threshold, unit)}"


def failures_text(card: Card) -> str:
    """Return how many trials failed and how; the rule of three where none did."""
    failed, trials = sum(card.failures.values()), f"{card.trials:,}"
    if not card.trials:
        return "No trial was run."
    if not failed:
        most = percent(min(1.0, 3 / card.trials), 1)
        return (
            f"None of {trials} trials failed; at most {most} of further trials would "
            f"(95% confidence, rule of three)."
        )
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in card.failures.items())
    return f"{failed:,} of {trials} trials failed ({percent(failed / card.trials)}): {kinds}."


# --- Terminal -------------------------------------------------------------------------------------
def as_text(card: Card) -> str:
    """Return the card in at most 24 lines of 80 characters."""
    gauges = [
        _fit(f"{g.title:<31} {' '.join([g.answer, measured(card, g)]).strip()}")
        for g in card.gauges[:4]
    ]
    above = [_fit(kind_line(card)), *_wrapped(card.headline, 2), *_wrapped(card.certainty, 2)]
    room = LINES - len(above) - len(gauges) - len(below := list(_below(card))) - 3
    return "\n".join([*above, "", *gauges, "", *_rows(card.rows, room), "", *below])


def _rows(rows: Sequence[CardRow], room: int) -> Iterator[str]:
    hidden = len(rows) - room + 1 if len(rows) > room else 0
    for row in rows[: len(rows) - hidden]:
        cells = with_unit(row.value, row.unit), ends(row, row.unit), sample_size(row)
        yield _fit(f"{_fit(row.title, 31):<31} {cells[0]:<17} {cells[1]:<16} {cells[2]}")
    if hidden:
        yield f"… and {hidden} further rows in card.json"


def _below(card: Card) -> Iterator[str]:
    first = card.disagreements[0].text if card.disagreements else "none"
    yield from _wrapped(f"Disagreements ({len(card.disagreements)}): {first}", 2)
    if card.claim:
        yield _fit(f"Claim: {card.claim.verdict} ({card.claim.text})")
    if card.not_run:
        yield _fit("Not run: " + ", ".join(each.measure for each in card.not_run))
    yield from _wrapped(failures_text(card), 2)


def _wrapped(text: str, most: int) -> list[str]:
    return textwrap.wrap(visible(text), COLUMNS, max_lines=most, placeholder=" …")


def _fit(text: str, width: int = COLUMNS) -> str:
    text = visible(text)
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
