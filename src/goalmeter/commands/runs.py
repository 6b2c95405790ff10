"""`goalmeter status`, `runs` and `report`, and how to resume an incomplete run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import join
from typing import Any

from goalmeter._errors import (
    GoalmeterError,
    IncompleteRunError,
    InvalidFileError,
    InvalidParameterError,
    shortened,
    shown,
)
from goalmeter._files import check_writable
from goalmeter.agents.local_models import is_organism
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import typed_options
from goalmeter.commands.outcome import Outcome, provenance
from goalmeter.meg.simulator.measure import KIND as SIMULATOR
from goalmeter.navigation.plan import KIND as NAVIGATION
from goalmeter.navigation.prompts import Asking
from goalmeter.organisms.kinds import MANIFEST
from goalmeter.organisms.network import SETTINGS, read_settings
from goalmeter.pages.part import (
    INSTRUMENTS,
    Part,
    all_findings,
    all_sections,
    all_terms,
    part_behind,
    part_of_runs,
)
from goalmeter.reflection.environments.registry import BATTERY, opposite
from goalmeter.reflection.measure import KIND as REFLECTION
from goalmeter.reflection.measure import readings_of
from goalmeter.report import Table, require_report_extra, write_report
from goalmeter.report.numbers import percent, storage
from goalmeter.report.tables import ColumnOf, column, summary_table, table_of, words
from goalmeter.runs.progress import in_words
from goalmeter.runs.reading import RUN, read_about
from goalmeter.runs.status import (
    FINISHED,
    INCOMPLETE,
    UNREADABLE,
    RunStatus,
    Worker,
    runs_below,
    status_of,
)

# --- Resuming -------------------------------------------------------------------------------------


def how_to_continue(error: IncompleteRunError) -> str:
    """Return what a run lacks, and the command or call that makes it.

    >>> print(how_to_continue(IncompleteRunError("run", {"kind": "navigation", "agent": "greedy",
    ...     "suite": "key-door", "sizes": [9], "grids": [0, 1], "trajectories": [0], "cap": 30,
    ...     "seed": 0}, missing=1, total=2, trials="walks")))
    run lacks 1 of 2 walks; make them with: goalmeter navigate greedy --suite key-door --sizes 9 \
--grids 2 --trajectories 1 --cap 30 --out run
    """
    return f"{error.shortage}; make them with: {resuming_command(error.what, error.folder)}"


def resuming_command(what: Mapping[str, Any], folder: str) -> str:
    """Return the command that resumes a run in a folder, from what its run.json says."""
    return _COMMANDS.get(what["kind"], _again)(what, folder)


def _navigate(what: Mapping[str, Any], folder: str) -> str:
    agent = what["agent"]
    typed = typed_options(what, held_out_by_default=is_organism(agent))
    if "prompts" in what:
        typed += ["--prompt", ",".join(what["prompts"])]
        typed += ["--history", str(what["history"])] if what.get("history") else []
        typed += _asking(Asking.from_json(what))
    words = ["goalmeter", "navigate", agent, "--suite", what["suite"], *typed, "--out", folder]
    return shlex.join(words)


# What is the default is not typed, so that the command reads as a user would have typed it.
def _asking(asking: Asking) -> list[str]:
    """Return the options that ask a language model in this way."""
    default, typed = Asking(), []
    for field in fields(asking):
        value = getattr(asking, field.name)
        if value == getattr(default, field.name):
            continue
        match field.name:
            case "options":
                for name, given in asking.to_json()["options"].items():
                    text = given if isinstance(given, str) else json.dumps(given)
                    typed += ["-M", f"{name}={text}"]
            case "seeded":
                typed.append("--no-seeds")
            case "logprobs":
                typed.append("--logprobs")
            case name:
                typed += [f"--{name.replace('_', '-')}", str(value)]
    return typed


def _reflect(what: Mapping[str, Any], folder: str) -> str:
    agent, seeds, names = what["agent"], what["seeds"], what["environments"]
    first, readings = seeds[0], readings_of(dict(what))
    # An environment that is named is played with its opposite, which is not typed again.
    environments = [n for n in names if not (n[:9] == "opposite(" and n[9:-1] in names)]
    if names == [way for e in BATTERY for way in (e.name, opposite(e.name))]:
        environments = []  # the battery is the default
    if seeds != list(range(first, first + len(seeds))):
        # The command counts seeds from the first one, so only a call can name these.
        options = {"out": folder} | ({"environments": environments} if environments else {})
        named = "".join(f", {name}={value!r}" for name, value in (options | readings).items())
        return f"goalmeter.reflection.measure({agent!r}, {what['steps']}, {seeds}{named})"
    words = ["goalmeter", "reflect", agent]
    for name in environments:
        words += ["--environment", name]
    words += ["--steps", what["steps"], "--seeds", len(seeds)]
    words += ["--seed", first] if first else []
    for name, value in readings.items():
        words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(map(str, [*words, "--out", folder]))


# A sweep knows its worlds by content, and not by the file or the folder that named them.
def _again(what: Mapping[str, Any], folder: str) -> str:
    return f"the command that began it, with --out {shlex.quote(folder)}"


_COMMANDS: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    NAVIGATION: _navigate,
    REFLECTION: _reflect,
}


# --- Status ---------------------------------------------------------------------------------------
_LONGEST = 60  # characters of a trial's key, or of a reason, in a table


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """Options of `goalmeter status`."""

    runs: Sequence[str | Path] = argument(list[Path], "Run directories.", "RUN")
    watch: bool = option(bool, "Repeat every second while a run is running.", default=False)


@command(StatusOptions)
def status(o: StatusOptions, tell: Tell) -> Outcome:
    """Show the progress of runs: done, failed, rate, time left."""
    runs = [_status(Path(folder)) for folder in o.runs]
    unreadable = [run for run in runs if run.state == UNREADABLE]
    if unreadable and len(runs) == 1:
        raise InvalidFileError(runs[0].sentence)
    working = [(run, worker) for run in runs for worker in run.working]
    tables = [_summary(run) for run in runs] if len(runs) == 1 else [_listed(runs, "Runs")]
    if working:
        tables.append(_working(working))
    return Outcome(
        text="\n".join(f"{run.folder}: {run.sentence}" for run in runs if run not in unreadable),
        tables=tuple(tables),
        json={"runs": [run.to_json() for run in runs]},
        incomplete="; ".join(run.sentence for run in unreadable),
    )


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of `goalmeter runs`."""

    folder: str | Path = argument(Path, "Directory to search.", "FOLDER", default=Path("runs"))


@command(RunsOptions)
def runs(o: RunsOptions, tell: Tell) -> Outcome:
    """List the runs in a directory and their progress."""
    below = runs_below(o.folder, trial_count)
    return Outcome(
        text="" if below else f"There is no run below {o.folder}.",
        tables=(_listed(below, f"Runs below {o.folder}"),) if below else (),
        json={"folder": str(o.folder), "runs": [run.to_json() for run in below]},
    )


def trial_count(what: Mapping[str, Any]) -> int | None:
    """Return the number of trials of a run from run.json; None where that takes long."""
    if what.get("kind") == SIMULATOR:
        return 1
    if what.get("kind") != REFLECTION:
        return None
    try:
        return len(what["seeds"]) * len(what["environments"])
    except (KeyError, TypeError, GoalmeterError):
        return None


def _status(folder: Path) -> RunStatus:
    run = status_of(folder, trial_count)
    if run.state != UNREADABLE or not (folder / SETTINGS).is_file():
        return run
    # A training that is over keeps its weights and nothing that is said of a machine.
    name = str(read_settings(folder).get("name"))
    is_over = (folder / MANIFEST).exists()
    sentence = "it is finished: its weights are there" if is_over else "nobody trains it"
    return RunStatus(
        str(folder), FINISHED if is_over else INCOMPLETE, sentence, kind="steps", agent=name
    )


# --- Tables ---------------------------------------------------------------------------------------
def _summary(run: RunStatus) -> Table:
    rows = [
        ("state", run.state),
        ("kind", run.kind),
        ("agent", run.agent),
        ("done", _done(run)),
        ("failed", f"{run.failed:,}"),
        ("left", "" if run.left is None else f"{run.left:,}"),
        ("rate", rate_in_words(run.rate)),
        ("time left", "" if run.left_seconds is None else in_words(run.left_seconds)),
        ("where", " ".join(filter(None, [run.place, _process(run)]))),
        ("begun", run.began),
        ("last heard of", run.updated),
        ("version", run.version),
        ("size", storage(run.size)),
    ]
    return summary_table(
        [row for row in rows if row[1]],
        caption=f"Run {run.folder}",
        meaning=f"done counts the {run.noun}s that the folder holds; times are in UTC.",
    )


def _working(working: Sequence[tuple[RunStatus, Worker]]) -> Table:
    columns: list[ColumnOf[tuple[RunStatus, Worker]]] = [
        words("worker", lambda row: row[1].worker),
        words("works on", lambda row: _trials(row[1])),
        column("for", lambda row: in_words(row[1].seconds)),
        words("since", lambda row: row[1].since),
    ]
    if len({run.folder for run, _ in working}) > 1:
        columns.insert(1, words("run", lambda row: row[0].folder))
    hidden = sum(
        run.workers - len(run.working) for run in {r.folder: r for r, _ in working}.values()
    )
    return table_of(
        working,
        columns,
        caption="Workers",
        meaning="As the driver last wrote it.",
        notes=[f"{hidden} more work"] if hidden > 0 else [],
    )


def _listed(runs: Sequence[RunStatus], caption: str) -> Table:
    return table_of(
        runs,
        [
            words("run", lambda run: run.folder),
            words("state", lambda run: run.state),
            words("kind", lambda run: run.kind or None),
            words("agent", lambda run: run.agent or None),
            column("done", lambda run: None if run.state == UNREADABLE else _done(run)),
            column("failed", lambda run: run.failed or None),
            column("time left", lambda run: run.left_seconds, in_words),
            words("last heard of", lambda run: run.updated or None),
            column("size", lambda run: storage(run.size)),
        ],
        caption=caption,
        meaning="done counts what each folder holds; times are in UTC.",
        notes=[
            f"{run.folder}: {shortened(run.sentence, 4 * _LONGEST)}"
            for run in runs
            if run.state == UNREADABLE
        ],
    )


def _done(run: RunStatus) -> str:
    if run.total is None:
        return f"{run.done:,}"
    share = f" ({percent(run.done / run.total, 0)})" if run.total else ""
    return f"{run.done:,} of {run.total:,}{share}"


def rate_in_words(rate: float | None) -> str:
    """Return a number of trials a second, in a readable unit of time.

    >>> [rate_in_words(rate) for rate in (120.0, 0.1, 0.001, None)]
    ['120 a second', '6 a minute', '3.6 an hour', '']
    """
    if rate is None:
        return ""
    for times, unit in ((1, "a second"), (60, "a minute")):
        if rate * times >= 1:
            return f"{rate * times:.3g} {unit}"
    return f"{rate * 3600:.3g} an hour"


def _process(run: RunStatus) -> str:
    return f"(process {run.pid} on {run.host})" if run.pid else ""


def _trials(worker: Worker) -> str:
    if not worker.count:
        return ""
    more = f" and {worker.count - len(worker.trials)} more"
    keys = ", ".join(shortened(key, _LONGEST) for key in worker.trials)
    return keys + (more if worker.count > len(worker.trials) else "")


# --- Report ---------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of `goalmeter report`."""

    runs: Sequence[str | Path] = argument(list[Path], "Directories of finished runs.", "RUN")
    out: str | Path = option(Path, "Path of the page.", default=Path("report.html"))


@command(ReportOptions)
def report_runs(o: ReportOptions, tell: Tell) -> Outcome:
    """Write an HTML report of one or more runs."""
    runs, out = o.runs, o.out
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
    """Raise an error if there is a file that is not a page, such as a run's trials."""
    if out.is_file() and out.stat().st_size:
        with out.open("rb") as file:
            start = file.read(200).lstrip().lower()
        if not start.startswith((b"<!doctype html", b"<html")):
            raise InvalidFileError(
                f"{out} exists and is not an HTML page, so it is not replaced; choose another --out"
            )


def kind_of(run: str | Path) -> str:
    """Return the kind of run that a folder holds."""
    kind = read_about(Path(run) / RUN)["what"].get("kind")
    if not isinstance(kind, str) or kind not in INSTRUMENTS:
        raise InvalidFileError(
            f"{run} is a run of {shown(kind)}, expected one of {', '.join(map(repr, INSTRUMENTS))}"
        )
    return kind
