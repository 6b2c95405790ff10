"""`goalmeter status`, `runs` and `report`, and how to resume an incomplete run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.simulator.result import KIND as SIMULATOR
from goalmeter.navigation.plan import KIND as NAVIGATION
from goalmeter.navigation.plan import command_of as navigation_command
from goalmeter.organisms.training import training_status
from goalmeter.pages.runs import page_of, part_of_runs, runs_table, status_table, workers_tables
from goalmeter.reflection.measure import KIND as REFLECTION
from goalmeter.reflection.measure import command_of as reflection_command
from goalmeter.report import require_report_extra, write_report
from goalmeter.report.page import check_replaceable, provenance
from goalmeter.runs.status import UNREADABLE, runs_below, status_of


def how_to_continue(error: IncompleteRunError) -> str:
    """Return what a run lacks, and the command or call that makes it, from its run.json."""
    # A sweep knows its worlds by content, and not by the file or the folder that named them.
    command = f"the command that began it, with --out {shlex.quote(error.folder)}"
    known = {NAVIGATION: navigation_command, REFLECTION: reflection_command}
    if make := known.get(error.what["kind"]):
        command = make(error.what, error.folder)
    return f"{error.shortage}; make them with: {command}"


@dataclass(frozen=True, kw_only=True)
class _StatusOptions:
    runs: Sequence[Path] = argument("RUN  Run directories.")
    watch: bool = option("Repeat every second while a run is running.", default=False)


@command(_StatusOptions)
def status(o: _StatusOptions, tell: Tell) -> Outcome:
    """Show the progress of runs: done, failed, rate, time left."""
    folders = map(Path, o.runs)
    runs = [training_status(folder) or status_of(folder, trial_count) for folder in folders]
    unreadable = [run for run in runs if run.state == UNREADABLE]
    if unreadable and len(runs) == 1:
        raise InvalidFileError(runs[0].sentence)
    table = status_table(runs[0]) if len(runs) == 1 else runs_table(runs, "Runs")
    return Outcome(
        text="\n".join(f"{run.folder}: {run.sentence}" for run in runs if run not in unreadable),
        tables=[table, *workers_tables(runs)],
        json={"runs": [run.to_json() for run in runs]},
        incomplete="; ".join(run.sentence for run in unreadable),
    )


@dataclass(frozen=True, kw_only=True)
class _RunsOptions:
    folder: Path = argument("FOLDER  Directory to search.", default=Path("runs"))


@command(_RunsOptions)
def runs(o: _RunsOptions, tell: Tell) -> Outcome:
    """List the runs in a directory and their progress."""
    below = runs_below(o.folder, trial_count)
    return Outcome(
        text="" if below else f"There is no run below {o.folder}.",
        tables=[runs_table(below, f"Runs below {o.folder}")] if below else [],
        json={"folder": str(o.folder), "runs": [run.to_json() for run in below]},
    )


def trial_count(what: Mapping[str, Any]) -> int | None:
    """Return the number of trials of a run from run.json; None where that takes long."""
    with suppress(KeyError, TypeError):
        if what.get("kind") == REFLECTION:
            return len(what["seeds"]) * len(what["environments"])
    return 1 if what.get("kind") == SIMULATOR else None


@dataclass(frozen=True, kw_only=True)
class _ReportOptions:
    runs: Sequence[Path] = argument("RUN  Directories of finished runs.")
    out: Path = option("Path of the page.", default=Path("report.html"))


@command(_ReportOptions)
def report_runs(o: _ReportOptions, tell: Tell) -> Outcome:
    """Write an HTML report of one or more runs."""
    folders = [Path(run).resolve() for run in o.runs]
    if twice := [run for run, path in zip(o.runs, folders, strict=True) if folders.count(path) > 1]:
        raise InvalidParameterError(f"{twice[0]} is given twice; give each run once")
    require_report_extra()
    check_replaceable(o.out)  # before the runs are read, which may take long
    part = part_of_runs(o.runs, tell)
    tell("report")
    made_by = provenance(f"goalmeter report {shlex.join(map(str, o.runs))}")
    path = write_report(o.out, **page_of(part), provenance=made_by).resolve()
    runs = [each | {"run": str(folder)} for each, folder in zip(part.runs, folders, strict=True)]
    return Outcome(tables=part.tables, json={"report": str(path), "runs": runs}, report=path)
