"""`goalmeter status` and `goalmeter runs`: folders of runs in, how far each of them is out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._text import shortened
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.simulator.measurement import KIND as SIMULATOR
from goalmeter.organisms.keeping import SETTINGS, read_settings
from goalmeter.organisms.manifest import MANIFEST
from goalmeter.reflection.plan import KIND as REFLECTION
from goalmeter.report import Table
from goalmeter.report.numbers import percent, storage
from goalmeter.report.table_of import ColumnOf, column, summary_table, table_of, words
from goalmeter.runs.drivers import Worker
from goalmeter.runs.progress import in_words
from goalmeter.runs.status import INCOMPLETE, UNREADABLE, RunStatus, runs_below, status_of
from goalmeter.runs.watching import FINISHED

_LONGEST = 60  # characters of a trial's key, or of a reason, in a table


def status(folders: Sequence[str | Path]) -> Outcome:
    """How far some runs are, whether or not somebody fills them."""
    runs = [_status(Path(folder)) for folder in folders]
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


def runs(folder: str | Path) -> Outcome:
    """The runs below a folder; those that cannot be read say why."""
    below = runs_below(folder, trials_asked_for)
    return Outcome(
        text="" if below else f"There is no run below {folder}.",
        tables=(_listed(below, f"Runs below {folder}"),) if below else (),
        json={"folder": str(folder), "runs": [run.to_json() for run in below]},
    )


def trials_asked_for(what: Mapping[str, Any]) -> int | None:
    """How many trials a run is of, where its driver never said; None where that takes long."""
    if what.get("kind") == SIMULATOR:
        return 1
    if what.get("kind") != REFLECTION:
        return None
    try:
        return len(what["seeds"]) * len(what["environments"])
    except (KeyError, TypeError, GoalmeterError):
        return None


def _status(folder: Path) -> RunStatus:
    run = status_of(folder, trials_asked_for)
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
        caption="Who works on what",
        meaning="As the driver said when it was last heard of.",
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
    """A number of trials a second, by the unit of time that makes it easy to read.

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
