"""`goalmeter report`: run folders in, one page out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import join
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import check_writable
from goalmeter._text import shown
from goalmeter.commands.outcome import Outcome, provenance
from goalmeter.pages.part import (
    INSTRUMENTS,
    Part,
    all_findings,
    all_sections,
    all_terms,
    part_behind,
    part_of_runs,
)
from goalmeter.report import require_report_extra, write_report
from goalmeter.runs.reading import RUN, read_about


def report_runs(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Read finished runs, and write a page that shows them together.

    `runs` are folders, as `goalmeter reflect --out` and `goalmeter navigate --out` make them.
    """
    if not runs:
        raise InvalidParameterError("no run is given, expected the folder of at least one")
    folders = [Path(run).resolve() for run in runs]
    if twice := [run for run, path in zip(runs, folders, strict=True) if folders.count(path) > 1]:
        raise InvalidParameterError(f"{twice[0]} is given twice; give each run once")
    typed = dict(zip(folders, runs, strict=True))  # messages name folders as they were typed
    require_report_extra()
    check_writable(out)  # before the runs are read, which may take long
    _refuse_to_replace_data(Path(out))
    kinds = [kind_of(run) for run in runs]
    tell = progress or (lambda line: None)
    parts: list[Part] = []
    about: dict[Path, dict[str, Any]] = {}
    # A part for each kind of run, in the order in which kinds were typed first.
    for kind in dict.fromkeys(kinds):
        of_kind = [
            folder for folder, its_kind in zip(folders, kinds, strict=True) if its_kind == kind
        ]
        part = part_of_runs(kind, [typed[folder] for folder in of_kind], tell)
        parts.append(part)
        about |= dict(zip(of_kind, part.runs, strict=True))
        behind = part_behind(kind, [typed[folder] for folder in of_kind], tell)
        if behind is not None:
            parts.append(behind)
            for folder, more in zip(of_kind, behind.runs, strict=True):
                about[folder] |= more
    tell("report")
    path = write_report(
        out,
        parts[0].title if len(set(kinds)) == 1 else "How agents do: measured runs",
        all_sections(parts),
        lede=" ".join(part.lede for part in parts),
        findings=all_findings(parts),
        glossary=all_terms(parts),
        provenance=provenance(f"goalmeter report {join(map(str, runs))}"),
    ).resolve()
    return Outcome(
        tables=tuple(table for part in parts for table in part.tables),
        json={
            "report": str(path),
            "runs": [about[folder] | {"run": str(folder)} for folder in folders],
        },
        report=path,
    )


def _refuse_to_replace_data(out: Path) -> None:
    """Raise InvalidFileError if there is a file that is not a page, such as a run's trials."""
    if out.is_file() and out.stat().st_size:
        with out.open("rb") as file:
            start = file.read(200).lstrip().lower()
        if not start.startswith((b"<!doctype html", b"<html")):
            raise InvalidFileError(
                f"{out} exists and is not an HTML page, so it is not replaced; choose another --out"
            )


def kind_of(run: str | Path) -> str:
    """What sort of run a folder holds."""
    kind = read_about(Path(run) / RUN)["what"].get("kind")
    if not isinstance(kind, str) or kind not in INSTRUMENTS:
        raise InvalidFileError(
            f"{run} is a run of {shown(kind)}, expected one of {', '.join(map(repr, INSTRUMENTS))}"
        )
    return kind
