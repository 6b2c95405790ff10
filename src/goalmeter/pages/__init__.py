"""Report pages: sections, tables, figures and sentences of each instrument.

An entry of NAME.toml has the texts of a section, table or figure, with {names} for values. Columns
of a table are [title behind its group, path from a row, format of `FORMATS`, marks]:

    ["optimal actions | in detour states", "row.accuracy_detour", "percent", "answer"],
    ["controls | *", "controls.*.value", "number:2"],

The mark "optional" omits a column without values. A path leads through attributes, methods without
arguments, keys and indices; * makes a column for each key that some row has there; a path with
braces is a text about {row}. Texts may have the same formats, {row.accuracy:percent}; {x:?words} is
shown if x is true, {x:!words} if it is not; empty texts of a list are omitted. The text "each" of a
figure is filled for each row, and all of them with "join" between them are its {values}. Series of
a chart are [label, path of an estimate, style of styles.toml]. Series without an estimate are
omitted, and so are panels without series or with a true value named "unless".
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import chain, groupby
from math import isnan
from string import Formatter
from typing import Any

from goalmeter.report import Curve, CurveAxes, DotPanel, Dots, Figure, Section, Table, numbers
from goalmeter.report.canvas import GREEN, INK, MUTED, VERMILION
from goalmeter.report.charts import curve_chart, dot_chart, heat_map, panels_of
from goalmeter.report.numbers import DASH
from goalmeter.report.page import Cell, Column, Finding, Link
from goalmeter.report.tables import share_bar
from goalmeter.statistics import Estimate

# The modules whose tables, sections and glossaries other reports may have, too.
__all__ = ["Texts", "meg", "navigation", "reflection"]

# Parts of a section; texts are points of a list at its end.
Content = Table | Figure | str | None
# By the names of sections.
Contents = Mapping[str, Sequence[Content | Sequence[Content]]]

_NUMBERS = (
    *("percent", "points", "number", "plus", "general", "between", "p_value", "nats"),
    *("nats_of_search", "gap", "rationality", "utility"),
)
# How values are shown; columns of "words" are set to the left, all others to the right. These leave
# texts as they are, and show a dash for None; formats of one instrument get any value.
FORMATS: dict[str, Callable[..., Cell | str]] = {
    **{"words": str, "text": str, "count": "{:,}".format, "bar": share_bar},
    # What follows a title of which there may be several on a page.
    "numbered": lambda number: f" ({number})" if number > 1 else "",
    **{name: getattr(numbers, name) for name in _NUMBERS},
}
_COLOURS = {"green": GREEN, "ink": INK, "muted": MUTED, "vermilion": VERMILION}
# Words that depend on a value; they may have fields.
_CONDITION = re.compile(r"\{([\w.\[\]]+):([?!])((?:[^{}]|\{[^{}]*\})*)\}")
# Fields of an entry that are no texts.
_DECLARED = ("columns", "panels", "chart", "rows", "each", "join", "series", "place", "axes", "has")


class Texts(Formatter):
    """The entries of an instrument's file; every text may use those of the entry "shared"."""

    def __init__(
        self, instrument: str, formats: Mapping[str, Callable[..., Cell | str]] | None = None
    ) -> None:
        self.instrument = instrument
        self.formats = FORMATS | dict(formats or {})

    def __call__(self, name: str, /, **values: object) -> dict[str, Any]:
        """Return the texts of an entry without its columns; lists become tuples."""
        entry = self.declared(name).items()
        return {key: self.filled(text, values) for key, text in entry if key not in _DECLARED}

    def sentence(self, name: str, key: str = "text", /, **values: object) -> str:
        """Return one text of an entry."""
        return str(self.filled(self.declared(name)[key], values))

    def finding(
        self, name: str, key: str = "text", /, *, to: str, words: str = "numbers", **values: object
    ) -> Finding:
        """Return a text of an entry as a finding, with words that lead to the id of a place."""
        text = self.sentence(name, key, **values)
        return Finding(text=text, links=(Link(words, to),))

    def filled(self, text: Any, values: Mapping[str, object]) -> Any:
        """Fill a text, or each of some texts, of which empty ones are left out."""
        if isinstance(text, list):
            return tuple(e for part in text if (e := self.filled(part, values)) or not part)
        if not isinstance(text, str):
            return text

        def chosen(condition: re.Match[str]) -> str:
            value, _ = self.get_field(condition[1], (), values)
            return condition[3] if bool(value) == (condition[2] == "?") else ""

        text = _CONDITION.sub(chosen, text)
        return self.vformat(text, (), {**self.declared("shared"), **values})

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value as a column does, or as Python does."""
        if format_spec.partition(":")[0] in self.formats:
            return str(self.shown(value, format_spec))
        return str(super().format_field(value, format_spec))

    def shown(self, value: Any, form: str) -> Cell | str:
        """Return a value as the format says, such as "percent" or "number:2"; a text as it is."""
        name, _, digits = form.partition(":")
        if name in FORMATS:
            if value is None:
                return DASH
            if isinstance(value, Cell | str):
                return value
            if isinstance(value, Mapping):  # JSON values of an estimate
                value = Estimate.from_json(value)
        format_of = self.formats[name]
        return format_of(value, int(digits)) if digits else format_of(value)

    def declared(self, name: str) -> dict[str, Any]:
        """Return an entry as the file has it."""
        return _read(self.instrument)[name]

    def table(
        self,
        name: str,
        rows: Iterable[Any],
        /,
        *,
        anchor: str = "",
        before: Iterable[str] = (),
        notes: Iterable[str] = (),
        more: Iterable[Sequence[str]] = (),
        **values: object,
    ) -> Table:
        """Return the table of an entry with a line for each row, and `more` columns."""
        rows = list(rows)
        texts = {"anchor": anchor} | self(name, **values)
        texts["notes"] = (*before, *texts.get("notes", ()), *notes)
        columns = [*self._columns([*self.declared(name)["columns"], *more], rows, values)]
        lines = zip(*(cells for _, cells in columns), strict=True) if rows else ()
        return Table(columns=tuple(head for head, _ in columns), rows=tuple(lines), **texts)

    def upright(
        self, name: str, heads: Sequence[str], rows: Sequence[Any], /, **values: Any
    ) -> Table:
        """Return the table of an entry turned upright: a column for each row, with these heads."""
        flat = self.table(name, rows, **values)
        lines = zip((head.title for head in flat.heads), *flat.rows, strict=True)
        columns = tuple(Column(head, numeric=False) for head in ("", *heads))
        return replace(flat, columns=columns, rows=tuple(lines))

    def _columns(
        self, specs: Sequence[Sequence[str]], rows: Sequence[Any], values: Mapping[str, object]
    ) -> Iterator[tuple[Column, list[Cell | str]]]:
        """Each column of a table: its head and its cells."""
        # Neighbouring columns with * at the same place alternate, key by key.
        for _, together in groupby(specs, lambda spec: spec[1].partition("*")[:2]):
            columns = list(together)
            found = [self._by_key(path, rows) for _, path, *_ in columns]
            for key in found[0]:
                for (title, _, form, *marks), by_key in zip(columns, found, strict=True):
                    cells = by_key[key]
                    if "optional" in marks and all(each is None or each == "" for each in cells):
                        continue
                    group, _, name = (
                        self.filled(part.replace("*", "{key}"), {**values, "key": key})
                        for part in title.rpartition(" | ")
                    )
                    head = Column(name, form != "words", group, "answer" in marks)
                    yield head, [self.shown(each, form) for each in cells]

    def _by_key(self, path: str, rows: Sequence[Any]) -> dict[str, list[Any]]:
        """The values of rows at a path, for each key of * in it; "" without one."""
        base, star, inner = path.partition("*")
        if "{" in path:
            return {"": [self.filled(path, {"row": row}) for row in rows]}
        if not star:
            return {"": [value_at(row, path) for row in rows]}
        entries = [value_at(row, base.rstrip(".")) or {} for row in rows]
        return {
            key: [value_at(entry.get(key), inner.lstrip(".")) for entry in entries]
            for key in dict.fromkeys(key for entry in entries for key in entry)
        }

    def _series(
        self, declared: Sequence[Sequence[str]], rows: Sequence[Any]
    ) -> Iterator[tuple[str, list[Any], str]]:
        """Label, estimates and style of each declared series that has any."""
        for label, path, *style in declared:
            for key, estimates in self._by_key(path, rows).items():
                if any(estimates):
                    yield key or label, estimates, "".join(style)

    def dots(
        self, name: str, picture: str, lines: Sequence[str], rows: Sequence[Any], /, **values: Any
    ) -> Figure:
        """Return a dot chart with a line for each row, whose panels the entry declares."""
        panels = []
        for panel in self.declared(name)["panels"]:
            if "unless" in panel and values[panel["unless"]]:
                continue
            margin, scale = panel.get("margin"), panel.get("scale", 1.0)
            series = [
                Dots.of(self.filled(label, values), estimates, scale=scale, **_style("dots", style))
                for label, estimates, style in self._series(panel["series"], rows)
            ]
            look = {key: panel[key] for key in ("x_label", "joined") if key in panel}
            look["band"] = margin and (-values[margin], values[margin])
            title = self.filled(panel.get("title", ""), values)
            if series:
                panels.append(DotPanel(title=title, series=tuple(series), **look))
        named = [{"line": line, "row": row} for line, row in zip(lines, rows, strict=True)]
        return self.figure(name, dot_chart(picture, lines, panels), named, **values)

    def series(
        self,
        name: str,
        picture: str,
        x: Sequence[float],
        rows: Sequence[Any],
        /,
        more: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Figure | None:
        """Return a chart of curves with a point for each row; None if the first has no number."""
        curves: list[Curve] = []
        used: Counter[str] = Counter()
        for label, estimates, look in self._series(self.declared(name)["series"], rows):
            style = "".join(word for word in look.split() if word not in ("band", "hollow"))
            drawn = _style("curves", style, used[look]) | {"hollow": "hollow" in look}
            used[look] += 1
            curve = Curve.of(label, x, estimates, **drawn)
            if any(not isnan(value) for value in curve.y):
                curves.append(curve if "band" in look else replace(curve, low=None, high=None))
            elif not curves:
                return None
        return self.curves(name, picture, curves, more, rows, **values)

    def curves(
        self,
        name: str,
        picture: str,
        curves: Sequence[Curve],
        more: Mapping[str, Any] | None = None,
        rows: Iterable[Any] = (),
        /,
        **values: Any,
    ) -> Figure:
        """Return a chart of curves with the axes that the entry and the caller give."""
        axes = CurveAxes(**self.declared(name)["chart"] | (more or {}))
        svg = curve_chart(picture, curves, axes)
        return self.figure(name, svg, [{"row": row} for row in rows], **values)

    def heat(
        self,
        name: str,
        picture: str,
        cells: Sequence[tuple[str, str, str, float]],
        marked: Collection[tuple[str, str, str]] = (),
        more: Mapping[str, Any] | None = None,
        /,
        **values: object,
    ) -> Figure | None:
        """Return the heat map of (panel, row, column, value); None where there is no number."""
        rows, columns = (list(dict.fromkeys(cell[place] for cell in cells)) for place in (1, 2))
        options = {"rows": rows, "columns": columns} | self.declared(name)["chart"] | (more or {})
        panels = panels_of(cells, options["rows"], options["columns"], marked)
        return self.figure(name, heat_map(picture, panels, **options), **values) if panels else None

    def figure(
        self, name: str, svg: str, rows: Iterable[Mapping[str, Any]] = (), /, **values: object
    ) -> Figure:
        """Return a picture with the texts of an entry, whose text "each" is filled for rows."""
        entry = self.declared(name)
        each = [self.filled(entry.get("each", ""), row) for row in rows]
        values = {"values": entry.get("join", "; ").join(each)} | values
        return Figure(svg=svg, **self(name, **values))

    def section(
        self,
        name: str,
        /,
        *content: Content | Sequence[Content],
        anchor: str = "",
        **values: object,
    ) -> Section:
        """Return the section of an entry with its tables that have rows, figures and points."""
        texts = {"anchor": anchor} | self(name, **values)
        groups = (part if isinstance(part, list | tuple) else [part] for part in content)
        parts = list(chain.from_iterable(groups))
        return Section(
            tables=tuple(part for part in parts if isinstance(part, Table) and part.rows),
            figures=tuple(part for part in parts if isinstance(part, Figure)),
            points=tuple(part for part in parts if isinstance(part, str)),
            **texts,
        )

    def sections(self, contents: Contents, **values: Any) -> list[Section]:
        """Return the sections of some entries, without those that have no content."""
        made = [self.section(name, *parts, **values) for name, parts in contents.items()]
        return [each for each in made if each.tables or each.figures or each.points]


@cache
def _read(instrument: str) -> dict[str, dict[str, Any]]:
    path = files("goalmeter.pages").joinpath(f"{instrument}.toml")
    return {"shared": {}} | tomllib.loads(path.read_text(encoding="utf-8"))


def _style(chart: str, name: str, number: int = 0) -> dict[str, Any]:
    """A style of the file styles.toml, one of several in turn."""
    styles = _read("styles")[chart][name]
    style = styles[number % len(styles)] if isinstance(styles, list) else styles
    return {key: _COLOURS[each] if key == "colour" else each for key, each in style.items()}


def value_at(row: Any, path: str) -> Any:
    """Return what a path leads to from a row; None where something on the way is missing."""
    for step in path.split(".") if path else ():
        if row is None:
            return None
        if isinstance(row, Mapping):
            row = row.get(step)
        elif step.isdigit():
            row = row[int(step)]
        else:
            row = getattr(row, step)
        if callable(row):
            row = row()
    return row


@dataclass(frozen=True, kw_only=True)
class Part:
    """The content of a page from one instrument or one experiment of the demo."""

    sections: Sequence[Section]
    findings: Sequence[Finding] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    title: str = ""  # of the page, if there is nothing else on it
    lede: str = ""  # in a sentence or two, what was measured
    tables: tuple[Table, ...] = ()  # for a terminal
    runs: Sequence[dict[str, Any]] = ()  # JSON values about each run, in the order given


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return JSON values without some fields."""
    return {key: value for key, value in values.items() if key not in names}


def joined(parts: Sequence[Part]) -> Part:
    """Return the content of several parts in one; the last definition of a term counts."""
    return Part(
        sections=[section for part in parts for section in part.sections],
        findings=[line for part in parts for line in part.findings],
        glossary={term: text for part in parts for term, text in part.glossary.items()},
        lede=" ".join(part.lede for part in parts),
        tables=tuple(table for part in parts for table in part.tables),
    )
