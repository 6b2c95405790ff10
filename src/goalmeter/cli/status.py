"""`goalmeter status` and `goalmeter runs`: how far runs are, from any shell."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter.cli.base import Json, UnusedSeed, app, argument, option, show

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

_EVERY = 1.0  # seconds, as often as a driver speaks
_PAUSE = 4  # times what a look takes, at least: those at a million trials leave the cores to others


@app.command()
def status(
    runs: list[Path] = argument("Folders of runs.", "RUN"),
    watch: bool = option("Again every second, until nobody fills them.", default=False),
    seed: UnusedSeed = 0,
    json: Json = False,
) -> None:
    """Show the progress of runs: done, failed, rate, time left.

    Nothing here is random; --seed is accepted and has no effect.
    """
    from goalmeter.commands.status import status as look

    outcome = look(runs)
    if watch:
        outcome = _watch(runs, outcome, as_json=json)
    show(outcome, as_json=json)


@app.command("runs")
def list_runs(
    folder: Path = argument("Where to look.", "FOLDER", default=Path("runs")),
    seed: UnusedSeed = 0,
    json: Json = False,
) -> None:
    """List the runs in a directory and their progress.

    Nothing here is random; --seed is accepted and has no effect.
    """
    from goalmeter.commands.status import runs as listed

    show(listed(folder), as_json=json)


def _watch(runs: list[Path], outcome: Outcome, *, as_json: bool) -> Outcome:
    """Look again until no run is being filled; the last look, which is not yet shown."""
    from goalmeter.commands.status import status as look

    in_terminal = sys.stdout.isatty() and not as_json
    last, taken = "", 0.0
    while any(run["state"] == "running" for run in outcome.json["runs"]):
        if in_terminal:
            sys.stdout.write("\x1b[H\x1b[2J")  # to the upper left, and nothing below
        # In a file or a pipe a line for each change says more than a table for each second.
        if as_json or in_terminal or outcome.text != last:
            show_once(outcome, as_json=as_json, tables=in_terminal)
        last = outcome.text
        time.sleep(max(_EVERY, _PAUSE * taken))
        begun = time.monotonic()
        outcome = look(runs)
        taken = time.monotonic() - begun
    if in_terminal:
        sys.stdout.write("\x1b[H\x1b[2J")
    return outcome


def show_once(outcome: Outcome, *, as_json: bool, tables: bool) -> None:
    """Print a look that others follow, at once: JSON on a line, tables, or sentences alone."""
    if as_json or tables:
        show(outcome, as_json=as_json)
    else:
        from goalmeter.report.terminal import printable

        print(printable(outcome.text))
    sys.stdout.flush()
