"""What studies share: types, colours, and the texts, tables and records of a file texts.toml.

A text has values in braces by a path and a format, {row.published} or {rates[goal]:percent:0}: one
of Python's formats or one of `goalmeter.pages`, perhaps with a number of digits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goalmeter import InvalidParameterError, MissingExtraError
from goalmeter.commands.outcome import Outcome as Outcome
from goalmeter.commands.outcome import json_text, write_outcome
from goalmeter.commands.replicate import StudyOptions as StudyOptions
from goalmeter.pages import Texts as PageTexts
from goalmeter.report import Finding, Section, Table, in_markdown, write_text

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
ProgressCallback = Callable[[str], None]
Interval = tuple[float, float]
DEFAULTS = StudyOptions()
# Averages over fewer runs have no verdict but this one.
FEWEST, TOO_FEW = 5, "too few seeds"

# The colours of the package's charts, which have counterparts in a dark scheme.
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
INK, MUTED, PAPER = "#1f2933", "#52606d", "#ffffff"
STROKES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))


class Texts(PageTexts):
    """The texts of one study, as `goalmeter.pages` describes them."""

    def __init__(self, study: str) -> None:
        self._path = Path(__file__).parent / study / "texts.toml"
        super().__init__(study)

    def declared(self, name: str) -> dict[str, Any]:
        """Return an entry as the file has it."""
        return _read(self._path)[name]

    def line(self, name: str, /, **values: object) -> str:
        """Return one of the sentences of the entry `sentences`."""
        return self.sentence("sentences", name, **values)

    def refusal(self, name: str, /, **values: object) -> InvalidParameterError:
        """Return an error with one of the sentences of the entry `refused`."""
        return InvalidParameterError(self.sentence("refused", name, **values))

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value as a column does, or as Python does; None is a dash."""
        return "–" if value is None else super().format_field(value, format_spec)

    def record(self, name: str, **values: object) -> dict[str, Any]:
        """Return JSON values by the paths of an entry; None where something on a path is None."""
        paths = self.declared(name)
        return {key: plain(_at(values, path)) for key, path in paths.items()}

    def report(
        self,
        out: Path,
        options: StudyOptions,
        sections: Sequence[Section],
        result: dict[str, Any],
        findings: Sequence[Finding | str],
        glossary: Mapping[str, str],
        tables: Iterable[Table] | None = None,
        lists: Mapping[str, Iterable[str]] | None = None,
        **values: object,
    ) -> Outcome:
        """Write a study's page, results.json, figures and, with lists of sentences, tables.md."""
        if lists is not None:
            shown_tables = [table for section in sections for table in section.tables]
            write_text(out / "tables.md", in_markdown(shown_tables, lists))
        page: dict[str, Any] = self("page", **values)
        # Findings that are among the results are told in the terminal, too.
        page["text"] = "\n".join(map(str, findings)) if "findings" in result else ""
        page["command"] = options.command(result["replication"])
        shown: dict[str, Any] = {"findings": findings, "glossary": glossary, "tables": tables}
        return write_outcome(out, page.pop("title"), sections, result, **page, **shown)


@cache
def _read(path: Path) -> dict[str, dict[str, Any]]:
    return {"shared": {}} | tomllib.loads(path.read_text(encoding="utf-8"))


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        if value is not None:
            value = value[step] if isinstance(value, Mapping) else getattr(value, step)
    return value


def plain(value: Any) -> Any:
    """Return JSON values of results, which may hold estimates, arrays and other records."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def known_mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are known; NaN where none is."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def write_tables(out: Path, tables: Sequence[Table], result: dict[str, Any]) -> Outcome:
    """Write results.json and, as Markdown, tables.md; return the outcome of the command."""
    write_text(out / "tables.md", in_markdown(tables))
    file = write_text(out / "results.json", json_text(result) + "\n")
    return Outcome(tables=tuple(tables), json=result | {"results": str(file.resolve())})


def optional(module: str, extra: str, feature: str) -> Any:
    """Return a module of an extra; raise MissingExtraError if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingExtraError(
            f"{feature} needs the package {module!r}, which is not installed; install it with: "
            f"pip install '.[{extra}]'"
        ) from error
