"""Texts and tables of a study, from its file texts.toml; files of a study without a page.

A table of the file has a `caption`, its `meaning`, perhaps `notes`, and `columns`: lists of a title
(below a group's: "group | title"), the path of the value in a row ("rates.failure"), and how it
reads ("words" for text, else a name of `FORMATS` and digits). A row is a record of any kind:
a mapping, an object or a sequence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.commands.outcome import Outcome, json_text, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import (
    Cell,
    ColumnOf,
    Finding,
    Section,
    Table,
    column,
    gap,
    grouped,
    in_markdown,
    nats,
    number,
    p_value,
    percent,
    plus,
    points,
    table_of,
    words,
    write_text,
)
from goalmeter.statistics import Estimate

FORMATS: dict[str, Callable[..., str]] = {
    "gap": gap,
    "nats": nats,
    "number": number,
    "p": p_value,
    "percent": percent,
    "plus": plus,
    "points": points,
    "text": str,
}


class Texts:
    """The texts of one study; values are put in where a text has their names in braces.

    The entry `shared` of the file holds texts that other texts may have in braces, too.
    """

    def __init__(self, study: str) -> None:
        self._path = Path(__file__).parent / study / "texts.toml"

    def data(self, name: str) -> dict[str, Any]:
        """Return an entry of the file as it is."""
        entry: dict[str, Any] = _read(self._path)[name]
        return entry

    def __call__(self, name: str, /, **values: object) -> dict[str, Any]:
        """Return the texts of a table, figure or section, by its arguments; lists as tuples."""
        known = _read(self._path).get("shared", {}) | values
        return {
            key: tuple(line.format(**known) for line in text)
            if isinstance(text, list)
            else text.format(**known)
            for key, text in self.data(name).items()
            if key != "columns"
        }

    def line(self, name: str, /, **values: object) -> str:
        """Return one of the sentences of the entry `sentences`."""
        text: str = self.data("sentences")[name]
        return text.format(**values)

    def columns(self, name: str, /, **values: object) -> tuple[ColumnOf[Any], ...]:
        """Return the columns of a table."""
        return tuple(
            column_of(title.format(**values), *form) for title, *form in self.data(name)["columns"]
        )

    def table(
        self,
        name: str,
        rows: Iterable[Any],
        /,
        *more: ColumnOf[Any],
        notes: Iterable[str] = (),
        **values: object,
    ) -> Table:
        """Return a table of records, with `more` columns behind those of the file."""
        texts = self(name, **values)
        texts["notes"] = (*texts.get("notes", ()), *notes)
        return table_of(rows, (*self.columns(name, **values), *more), **texts)

    def report(
        self,
        out: Path,
        options: StudyOptions,
        sections: Sequence[Section],
        result: dict[str, Any],
        findings: Sequence[Finding | str],
        *,
        glossary: Mapping[str, str],
        tables: Iterable[Table] | None = None,
        text: str = "",
        **values: object,
    ) -> Outcome:
        """Write report.html, results.json and figures of a study; `values` are of `page`."""
        page = self("page", **values)
        return write_outcome(
            out,
            page["title"],
            sections,
            result,
            command=options.command(result["replication"]),
            lede=page["lede"],
            findings=findings,
            glossary=glossary,
            tables=tables,
            text=text,
        )


@cache
def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def column_of(title: str, path: str, form: str = "text", *marks: str) -> ColumnOf[Any]:
    """Return a column from its entry in a file."""
    group, _, head = title.rpartition(" | ")
    kind, *digits = form.split()
    value = partial(value_of, path=path)
    if kind == "words":
        made = words(head, value)
    else:
        shown = partial(_shown, kind, [int(digit) for digit in digits])
        made = column(head, value, shown, answer="answer" in marks)
    return grouped(group, made)[0] if group else made


def value_of(row: Any, path: str) -> Any:
    """Return what is at the end of a path: an estimate for its JSON; None where nothing is."""
    value = row
    for key in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(key)
        elif value is not None:
            value = value[int(key)] if key.isdigit() else getattr(value, key, None)
    if isinstance(value, Mapping) and {"value", "interval"} <= value.keys():
        return Estimate.from_json(value)
    return value


def _shown(form: str, digits: Sequence[int], value: Any) -> Cell | str:
    """A value as a text; what is one already stays."""
    return value if isinstance(value, Cell | str) else FORMATS[form](value, *digits)


def plain(value: Any) -> Any:
    """Return JSON values of results, which may hold estimates, arrays and other records."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def write_tables(out: Path, tables: Sequence[Table], result: dict[str, Any]) -> Outcome:
    """Write results.json and, as Markdown, tables.md; return the outcome of the command."""
    write_text(out / "tables.md", in_markdown(tables))
    file = write_text(out / "results.json", json_text(result) + "\n")
    return Outcome(tables=tuple(tables), json=result | {"results": str(file.resolve())})
