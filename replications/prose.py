"""Texts and tables of a study, from its file texts.toml; files of a study without a page."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.commands.outcome import Outcome, json_text, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.pages import Texts as PageTexts
from goalmeter.report import Finding, Section, Table, in_markdown, write_text


class Texts(PageTexts):
    """The texts of one study, as `goalmeter.pages` describes them.

    The entry `shared` of the file holds texts that other texts may have in braces, too.
    """

    def __init__(self, study: str) -> None:
        self._path = Path(__file__).parent / study / "texts.toml"
        super().__init__(study)

    def declared(self, name: str) -> dict[str, Any]:
        """Return an entry as the file has it."""
        return _read(self._path)[name]

    def line(self, name: str, /, **values: object) -> str:
        """Return one of the sentences of the entry `sentences`."""
        text: str = self.declared("sentences")[name]
        return text.format(**values)

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
def _read(path: Path) -> dict[str, dict[str, Any]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


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
