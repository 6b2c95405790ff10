"""Pages of a card and of a comparison: each one HTML file without scripts, of bounded size.

All text is escaped; only the pictures of `goalmeter.report.canvas` are inserted as markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from goalmeter.card.compare import CardComparison, change_text, margin_text, pairing_text
from goalmeter.card.exports import references
from goalmeter.card.records import P_VALUE, SHARE, Card, CardRow, Gauge
from goalmeter.card.text import (
    ends,
    failures_text,
    is_known,
    kind_line,
    listed,
    measured,
    quantity,
    sample_size,
    short_name,
    threshold_text,
    unit_of,
    with_unit,
)
from goalmeter.report import Figure, Section
from goalmeter.report.canvas import styles
from goalmeter.report.numbers import DASH, general
from goalmeter.report.page import anchors, environment

# What the sections of measures may take, so that the page stays below 20,000 pixels and 3 MB.
_MOST_PIXELS, _MOST_BYTES = 13_000, 2_400_000
_MOST_ROWS = 100  # of one table
_ROW, _LINE, _FIGURE = 36, 28, 640  # pixels at a width of 1280


def render_card(
    card: Card, *, figure: Figure | None, details: Sequence[Section], methods: Sequence[str] = ()
) -> str:
    """Return the page of a card as HTML.

    Args:
        card: what it shows.
        figure: picture of the first screen, square or wide; a square one is shown small on a
            telephone, so its text should not be needed.
        details: one section for each measure, folded. Pictures and rows that would make the page
            too large are left out, and their number is stated.
        methods: paragraphs that describe the measures.
    """
    sections = _within_limits(details, len(figure.svg) if figure else 0)
    pictures = [*([figure] if figure else []), *(f for s in sections for f in s.figures)]
    light, dark = styles(picture.svg for picture in pictures)
    names = anchors([f"details {section.title}" for section in sections])
    template = environment("goalmeter.card", "goalmeter.report").get_template("card.html")
    page = template.render(
        title=f"Goal card of {card.agent}",
        card=card,
        kind=kind_line(card),
        figure=figure,
        gauges=[_gauge(card, gauge) for gauge in card.gauges],
        rows=[_row(row) for row in card.rows],
        threshold=threshold_text(card, card.claim) if card.claim else "",
        elicitation=_facts(card.elicitation or {}),
        failures=failures_text(card),
        failed=sum(card.failures.values()),
        not_run=[(f"Not run: {each.measure}", each.reason) for each in card.not_run],
        sections=list(zip(names, sections, strict=True)),
        methods=methods,
        references=references(card.citations),
        light=light,
        dark=dark,
    )
    return str(page)


def render_comparison(
    comparison: CardComparison, *, links: Mapping[str, str], provenance: Sequence[str]
) -> str:
    """Return the page of a comparison as HTML; `links` are the pages of cards, by card."""
    first, *others = comparison.cards
    template = environment("goalmeter.card", "goalmeter.report").get_template("comparison.html")
    page = template.render(
        title=f"{', '.join(comparison.cards)}: goal cards compared",
        comparison=comparison,
        first=first,
        headline=f"{short_name(first)} compared with {listed(map(short_name, others))}",
        links=links,
        groups=[_group(comparison, row) for row in comparison.rows if comparison.compared(row)],
        provenance=provenance,
        light="",
        dark="",
    )
    return str(page)


# --- Scales ---------------------------------------------------------------------------------------
def _scale(
    number: CardRow | Gauge, limits: tuple[float, float], unit: str, baselines: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return a number, its interval and the baselines as percentages of a scale."""
    if not is_known(number.value):
        return None
    low, high = limits

    def place(point: float) -> float:
        share = (point - low) / (high - low) if high > low else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 2)

    marks = sorted((v, name) for name, v in baselines.items() if is_known(v))
    legend = " · ".join(f"{name}\u00a0{quantity(v, unit, 0)}" for v, name in marks)
    texts = [quantity(limit, unit, 0) for limit in limits]
    words = [f"{with_unit(number.value, unit)} on a scale from {texts[0]} to {texts[1]}"]
    if (interval := ends(number, unit)) != DASH:
        words.append(f"{number.ends if isinstance(number, CardRow) else 'interval'} {interval}")
    # An end that is not known is that of the scale, where the band fades.
    start, end = (
        place(e) if is_known(e) else limit
        for e, limit in ((number.lower, 0.0), (number.upper, 100.0))
    )
    fades = ["fades-left"] * (not is_known(number.lower))
    fades += ["fades-right"] * (not is_known(number.upper))
    return {
        "ends": texts,
        "zero": place(0.0) if low < 0 < high else None,
        "value": place(number.value),
        "interval": None if len(fades) == 2 else (start, 100 - end, *fades),
        "marks": [place(v) for v, _ in marks],
        "legend": legend,
        "words": "; ".join(filter(None, [*words, legend])),
    }


def _gauge(card: Card, gauge: Gauge) -> dict[str, Any]:
    points, unit = (*gauge.scale, *_points(gauge, gauge.marks)), unit_of(card, gauge)
    scale = _scale(gauge, _limits(points, unit), unit, gauge.marks)
    return {"gauge": gauge, "scale": scale, "number": measured(card, gauge)}


def _points(number: CardRow | Gauge, baselines: Mapping[str, float]) -> list[float]:
    """Return all finite numbers that a scale shows."""
    points = (number.value, number.lower, number.upper, *baselines.values())
    return [point for point in points if is_known(point) and math.isfinite(point)]


def _limits(points: Iterable[float], unit: str) -> tuple[float, float]:
    """Return the ends of a scale with these points; those of shares are whole tenths."""
    low, high = min(points := list(points)), max(points)
    if unit != SHARE:
        return low, high
    return math.floor(round(10 * low, 6)) / 10, math.ceil(round(10 * high, 6)) / 10


def _limits_of(rows: Iterable[CardRow], unit: str) -> tuple[float, float]:
    points = [point for row in rows for point in _points(row, row.baselines)]
    return _limits([0.0, *([1.0] if unit in (SHARE, P_VALUE) else []), *points], unit)


def _row(row: CardRow) -> dict[str, Any]:
    shown = ends(row, row.unit)
    # A number alone, as of a test, is no clearer on a scale.
    has_scale = shown != DASH or bool(row.baselines)
    return {
        "row": row,
        "value": quantity(row.value, row.unit),
        "unit": "" if row.unit == SHARE or not is_known(row.value) else row.unit,
        "ends": shown,
        "n": sample_size(row),
        "scale": _scale(row, _limits_of([row], row.unit), row.unit, row.baselines)
        if has_scale
        else None,
    }


def _group(comparison: CardComparison, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lines of all cards in one row of a comparison, on one scale."""
    values, changes = row["values"], comparison.compared(row)
    unit = next(iter(changes.values())).unit
    limits = _limits_of((row for row in values.values() if row.unit == unit), unit)
    baselines = values[comparison.cards[0]].baselines
    lines, legend = [], ""
    for name in comparison.cards:
        value, change = values.get(name), changes.get(name)
        scale = None
        if value is not None and value.unit == unit:
            scale = _scale(value, limits, unit, baselines)
        legend = scale["legend"] if scale else legend
        line = {
            "card": name,
            "number": quantity(value.value, unit) if scale else DASH,
            "ends": ends(value, unit) if scale else DASH,
            "scale": scale and scale | {"legend": ""},
            "difference": change_text(change) if change else DASH,
            "verdict": change.verdict if change else DASH,
        }
        lines.append(line)
    known = list(changes.values())
    remarks = ["difference in points" if unit == SHARE else unit, margin_text(known[0])]
    if len(pairing := {pairing_text(change) for change in known}) == 1:
        remarks += pairing
    return {
        "row": row,
        "lines": lines,
        "remarks": [*remarks, *filter(None, [legend])],
        "pairing": {each.card: pairing_text(each) for each in known if len(pairing) > 1},
    }


# --- Texts ----------------------------------------------------------------------------------------
def _facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name).replace("_", " "), _in_words(value)) for name, value in values.items()]


def _in_words(value: Any) -> str:
    """Return a JSON value as words."""
    if isinstance(value, Mapping):
        nested = any(isinstance(each, Mapping) for each in value.values())
        form, mark = ("{} ({})", "; ") if nested else ("{}: {}", ", ")
        return mark.join(form.format(*fact) for fact in _facts(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    if isinstance(value, float):
        return general(value, 3)
    return DASH if value is None else str(value)


# --- Size -----------------------------------------------------------------------------------------
def _within_limits(details: Sequence[Section], used: int) -> list[Section]:
    """Return sections without the rows and the pictures for which the page has no room."""
    pixels, size, kept = _MOST_PIXELS, _MOST_BYTES - used, []
    for section in details:
        pixels -= 100 + _height(section.text) + _height(section.points)
        tables, figures = [], []
        for table in section.tables:
            pixels -= 200 + _height(table.notes)
            if rows := table.rows[: min(_MOST_ROWS, max(0, pixels // _ROW))]:
                # Tables of several reports may have the same anchor.
                tables.append(replace(table, rows=rows, anchor=""))
            pixels -= _ROW * len(rows)
        for figure in section.figures:
            height = _FIGURE if figure.wide else _FIGURE // 2  # others stand side by side
            if height <= pixels and len(figure.svg) <= size:
                figures.append(figure)
                pixels, size = pixels - height, size - len(figure.svg)
        rows_left_out = sum(len(t.rows) for t in section.tables) - sum(len(t.rows) for t in tables)
        left_out = {"Rows": rows_left_out, "Pictures": len(section.figures) - len(figures)}
        remarks = [
            f"{what} left out to keep this page small: {count:,}. The files of the card have them."
            for what, count in left_out.items()
            if count
        ]
        points = (*section.points, *remarks)
        kept.append(replace(section, tables=(*tables,), figures=(*figures,), points=points))
    return kept


def _height(paragraphs: Sequence[str]) -> int:
    return sum(_LINE * (1 + len(text) // 80) for text in paragraphs)
