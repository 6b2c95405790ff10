"""`goalmeter status`, `runs` and `report`, and how to resume an incomplete run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError, shortened
from goalmeter._files import check_writable
from goalmeter.agents.local_models import is_organism
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import MODEL_OPTIONS, SUITE_OPTIONS
from goalmeter.commands.outcome import Outcome, provenance
from goalmeter.meg.simulator.measure import KIND as SIMULATOR
from goalmeter.navigation.prompts import Asking
from goalmeter.organisms.kinds import MANIFEST
from goalmeter.organisms.network import SETTINGS, read_settings
from goalmeter.pages import Texts
from goalmeter.pages.part import INSTRUMENTS, Part, joined, parts_of_runs
from goalmeter.reflection.environments.registry import BATTERY, opposite
from goalmeter.reflection.measure import KIND as REFLECTION
from goalmeter.reflection.measure import readings_of
from goalmeter.report import Table, require_report_extra, write_report
from goalmeter.report.numbers import percent, storage
from goalmeter.report.tables import summary_table
from goalmeter.runs.progress import FINISHED, in_words
from goalmeter.runs.reading import RUN, read_about
from goalmeter.runs.status import INCOMPLETE, UNREADABLE, RunStatus, Worker, runs_below, status_of

say = Texts("commands")


# --- Resuming -------------------------------------------------------------------------------------
def how_to_continue(error: IncompleteRunError) -> str:
    """Return what a run lacks, and the command or call that makes it, from its run.json."""
    # A sweep knows its worlds by content, and not by the file or the folder that named them.
    command = f"the command that began it, with --out {shlex.quote(error.folder)}"
    if error.what["kind"] == "navigation":
        command = shlex.join(_navigate(error.what, error.folder))
    if error.what["kind"] == REFLECTION:
        command = _reflect(error.what, error.folder)
    return f"{error.shortage}; make them with: {command}"


def _navigate(what: Mapping[str, Any], folder: str) -> list[str]:
    typed: list[str] = []
    for name, declared in SUITE_OPTIONS.items():
        value = what.get(name)
        if name == "held_out":  # by default where organisms walk
            if bool(value) != is_organism(what["agent"]):
                typed.append(declared.flag.split("/")[not value])
        elif value not in (None, False, [], ["key"]):  # a key is placed by default
            for item in value if declared.kind == list[str] else [value]:
                typed += [declared.flag, declared.write(item)]
    typed += ["--seed", str(what["seed"])] if what["seed"] else []
    if "prompts" in what:
        typed += ["--prompt", ",".join(what["prompts"])]
        typed += ["--history", str(what["history"])] if what.get("history") else []
        usual = Asking()
        for name, value in Asking.from_json(what).to_json().items():
            if name == "options":
                for option, given in value.items():
                    text = given if isinstance(given, str) else json.dumps(given)
                    typed += ["-M", f"{option}={text}"]
            elif value != getattr(usual, name):  # the command reads as a user would type it
                flag = "--no-seeds" if name == "seeded" else MODEL_OPTIONS[name].flag
                typed += [flag] if isinstance(value, bool) else [flag, str(value)]
    start = ["goalmeter", "navigate", what["agent"], "--suite", what["suite"]]
    return [*start, *typed, "--out", folder]


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


# --- Status ---------------------------------------------------------------------------------------
_LONGEST = 60  # characters of a trial's key, or of a reason, in a table


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """Options of `goalmeter status`."""

    runs: Sequence[Path] = argument("RUN  Run directories.")
    watch: bool = option("Repeat every second while a run is running.", default=False)


@command(StatusOptions)
def status(o: StatusOptions, tell: Tell) -> Outcome:
    """Show the progress of runs: done, failed, rate, time left."""
    runs = [_status(Path(folder)) for folder in o.runs]
    unreadable = [run for run in runs if run.state == UNREADABLE]
    if unreadable and len(runs) == 1:
        raise InvalidFileError(runs[0].sentence)
    tables = [_summary(runs[0]) if len(runs) == 1 else _listed(runs, "Runs")]
    working = [
        (run.folder, worker.worker, _trials(worker), in_words(worker.seconds))
        for run in runs
        for worker in run.working
    ]
    if working:
        hidden = sum(run.workers for run in runs) - len(working)
        notes = [f"{hidden} more batches"] if hidden > 0 else []
        tables.append(say.table("at_work", working, notes=notes))
    return Outcome(
        text="\n".join(f"{run.folder}: {run.sentence}" for run in runs if run not in unreadable),
        tables=tuple(tables),
        json={"runs": [run.to_json() for run in runs]},
        incomplete="; ".join(run.sentence for run in unreadable),
    )


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of `goalmeter runs`."""

    folder: Path = argument("FOLDER  Directory to search.", default=Path("runs"))


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
    with suppress(KeyError, TypeError):
        if what.get("kind") == REFLECTION:
            return len(what["seeds"]) * len(what["environments"])
    return 1 if what.get("kind") == SIMULATOR else None


def _status(folder: Path) -> RunStatus:
    run = status_of(folder, trial_count)
    if run.state != UNREADABLE or not (folder / SETTINGS).is_file():
        return run
    # A training that is over keeps its weights and nothing that is said of a machine.
    name = str(read_settings(folder).get("name"))
    is_over = (folder / MANIFEST).exists()
    sentence = "it is finished: its weights are there" if is_over else "nobody trains it"
    state = FINISHED if is_over else INCOMPLETE
    return RunStatus(str(folder), state, sentence, kind="steps", agent=name)


# --- Tables ---------------------------------------------------------------------------------------
def _summary(run: RunStatus) -> Table:
    process = f"(process {run.pid} on {run.host})" if run.pid else ""
    rows = [
        ("state", run.state),
        ("kind", run.kind),
        ("agent", run.agent),
        ("done", _done(run)),
        ("failed", f"{run.failed:,}"),
        ("left", "" if run.left is None else f"{run.left:,}"),
        ("rate", "" if run.rate is None else _rate(run.rate)),
        ("time left", "" if run.left_seconds is None else in_words(run.left_seconds)),
        ("where", f"{run.place} {process}".strip()),
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


def _listed(runs: Sequence[RunStatus], caption: str) -> Table:
    rows = [
        {name: value or None for name, value in vars(run).items()}
        | {
            "done": None if run.state == UNREADABLE else _done(run),
            "left": None if run.left_seconds is None else in_words(run.left_seconds),
            "size": storage(run.size),
        }
        for run in runs
    ]
    notes = [
        f"{run.folder}: {shortened(run.sentence, 4 * _LONGEST)}"
        for run in runs
        if run.state == UNREADABLE
    ]
    return say.table("runs", rows, notes=notes, caption=caption)


def _done(run: RunStatus) -> str:
    if run.total is None:
        return f"{run.done:,}"
    share = f" ({percent(run.done / run.total, 0)})" if run.total else ""
    return f"{run.done:,} of {run.total:,}{share}"


def _rate(a_second: float) -> str:
    for times, unit in ((1, "a second"), (60, "a minute")):
        if a_second * times >= 1:
            return f"{a_second * times:.3g} {unit}"
    return f"{a_second * 3600:.3g} an hour"


def _trials(worker: Worker) -> str:
    more = worker.count - len(worker.trials)
    keys = ", ".join(shortened(key, _LONGEST) for key in worker.trials)
    return keys + (f" and {more} more" if more > 0 else "")


# --- Report ---------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of `goalmeter report`."""

    runs: Sequence[Path] = argument("RUN  Directories of finished runs.")
    out: Path = option("Path of the page.", default=Path("report.html"))


@command(ReportOptions)
def report_runs(o: ReportOptions, tell: Tell) -> Outcome:
    """Write an HTML report of one or more runs."""
    if not o.runs:
        raise InvalidParameterError("no run is given, expected the folder of at least one")
    folders = [Path(run).resolve() for run in o.runs]
    if twice := [run for run, path in zip(o.runs, folders, strict=True) if folders.count(path) > 1]:
        raise InvalidParameterError(f"{twice[0]} is given twice; give each run once")
    require_report_extra()
    check_writable(o.out)  # before the runs are read, which may take long
    if Path(o.out).is_file():
        with Path(o.out).open("rb") as file:
            start = file.read(200).lower()
        if start and not start.lstrip().startswith((b"<!doctype html", b"<html")):
            raise InvalidFileError(
                f"{o.out} exists and is no HTML page, so it is not replaced; choose another --out"
            )
    kinds: dict[str, list[int]] = {}  # numbers of the runs of each kind, in the order of typing
    for number, run in enumerate(o.runs):
        kind = read_about(Path(run) / RUN)["what"].get("kind")
        if not isinstance(kind, str) or kind not in INSTRUMENTS:
            known = ", ".join(map(repr, INSTRUMENTS))
            raise InvalidFileError(f"{run} is a run of {kind!r}, expected one of {known}")
        kinds.setdefault(kind, []).append(number)
    parts: list[Part] = []
    about: list[dict[str, Any]] = [{} for _ in folders]
    for kind, numbers in kinds.items():
        typed = [o.runs[number] for number in numbers]  # messages name folders as they were typed
        for part in parts_of_runs(kind, typed, tell):
            parts.append(part)
            for number, more in zip(numbers, part.runs, strict=True):
                about[number] |= more
    tell("report")
    page = joined(parts)
    path = write_report(
        o.out,
        parts[0].title if len(kinds) == 1 else "How agents do: measured runs",
        page.sections,
        lede=page.lede,
        findings=page.findings,
        glossary=page.glossary,
        provenance=provenance(f"goalmeter report {shlex.join(map(str, o.runs))}"),
    ).resolve()
    runs = [each | {"run": str(folder)} for each, folder in zip(about, folders, strict=True)]
    return Outcome(
        tables=page.tables,
        json={"report": str(path), "runs": runs},
        report=path,
    )
