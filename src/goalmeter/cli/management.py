"""`goalmeter agents`, `train-organism`, `demo`, `report`, `replicate`, `status` and `runs`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import finite
from goalmeter.cli import base
from goalmeter.cli.base import (
    Json,
    On,
    Seed,
    UnusedSeed,
    Workers,
    app,
    argument,
    option,
    show,
    tell,
)
from goalmeter.commands.replicate import REPLICATIONS

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome


# --- Agents ---------------------------------------------------------------------------------------
@app.command()
def agents(seed: UnusedSeed = 0, json: Json = False) -> None:
    """List available agents and the measures that support each.

    Nothing here is random; --seed is accepted and has no effect.
    """
    from goalmeter.commands.agents import agents as run

    show(run(), as_json=json)


@app.command("train-organism")
def train_organism(
    name: str = argument("mouse, magpie, mole or moth.", "NAME", autocompletion=base.organisms),
    out: Path | None = option("Folder; default runs/organism-NAME."),
    steps: int | None = option(
        "Steps of training; default as the recipe has it.", min=1, max=10_000_000
    ),
    rate: float | None = option("Learning rate; default as the recipe has it."),
    begin_with: str | None = option(
        "Organism or folder whose weights it begins with, or nothing.", flag="--from"
    ),
    sizes: str | None = option("Sizes of grids, with commas; default 5,7,9,11."),
    keys: bool = option("Worlds with keys too.", flag="--keys/--no-keys", default=True),
    device: str | None = option("cpu, cuda, ...; default the first GPU if there is one."),
    workers: int | None = option("Processes; default two if there are cores.", min=1, max=2),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a small language model whose goal is known.

    An interrupted training is resumed by the same command.
    """
    from goalmeter.commands.agents import train_organism as run
    from goalmeter.commands.options import numbers

    outcome = run(
        name,
        out,
        steps=steps,
        rate=None if rate is None else finite(rate, "--rate", least=1e-12, most=10.0),
        begin_with=begin_with,
        sizes=numbers("--sizes", sizes, int),
        keys=keys,
        device=device,
        workers=workers,
        seed=seed,
        progress=tell,
    )
    show(outcome, as_json=json)


# --- Pages ----------------------------------------------------------------------------------------
# Of repetitions, and of the length of a trial: more of either would take weeks.
MOST_SEEDS, MOST_STEPS = 10_000, 10_000_000


@app.command()
def demo(
    out: Path = option(
        "Folder for the report; walks that it holds are not made again.",
        default=Path("goalmeter-demo"),
    ),
    on: On = None,
    workers: Workers = None,
    dry_run: bool = option("Say what it will cost, and begin nothing.", default=False),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure four small language models and write a report.

    The last line of the output is the path of report.html.
    """
    from goalmeter.commands.options import chosen_place
    from goalmeter.demo.run import demo as run
    from goalmeter.demo.run import dry_run as told

    place = chosen_place(on, workers)
    if dry_run:
        outcome = told(out, seed=seed, on=place)
    else:
        outcome = run(out, seed=seed, on=place, progress=tell)
    show(outcome, as_json=json)


@app.command()
def report(
    runs: list[Path] = argument("Folders of finished runs.", "RUN"),
    out: Path = option("The page.", default=Path("report.html")),
    seed: UnusedSeed = 0,
    json: Json = False,
) -> None:
    """Write an HTML report of one or more runs.

    Nothing here is random; --seed is accepted and has no effect.
    """
    from goalmeter.commands.runs import report_runs

    show(report_runs(runs, out, progress=tell), as_json=json)


@app.command()
def replicate(
    name: str = argument(
        f"Which: {', '.join(REPLICATIONS)}.",
        "NAME",
        autocompletion=base.replications,
    ),
    out: Path | None = option("Folder; default runs/NAME."),
    seeds: int | None = option(
        "How many; default as the experiment has it.", min=0, max=MOST_SEEDS
    ),
    on: On = None,
    workers: Workers = None,
    agents: str | None = option(
        "Rows of reflection-table-1; or names, with commas between them.", "scripted|neural|all"
    ),
    steps: int | None = option(
        "Length of the trials, where it can be chosen.", min=1, max=MOST_STEPS
    ),
    run_folders: list[Path] | None = option(
        "A run to show in lm-navigation; repeat for more.", "RUN", flag="--run"
    ),
    rehearse: bool = option(
        "Say what it will cost, as far as that is known, and begin nothing.",
        flag="--dry-run",
        default=False,
    ),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Replicate a published table and compare the numbers.

    The last line of the output is the path of report.html.
    """
    from goalmeter.commands.options import chosen_place
    from goalmeter.commands.replicate import dry_run
    from goalmeter.commands.replicate import replicate as run

    options: dict[str, Any] = {"agents": agents, "steps": steps, "run": run_folders}
    options |= {"seeds": seeds, "seed": seed, "on": chosen_place(on, workers)}
    if rehearse:
        outcome = dry_run(name, out, **options)
    else:
        outcome = run(name, out, progress=tell, **options)
    show(outcome, as_json=json)


# --- Status ---------------------------------------------------------------------------------------
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
    from goalmeter.commands.runs import status as look

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
    from goalmeter.commands.runs import runs as listed

    show(listed(folder), as_json=json)


def _watch(runs: list[Path], outcome: Outcome, *, as_json: bool) -> Outcome:
    """Look again until no run is being filled; the last look, which is not yet shown."""
    from goalmeter.commands.runs import status as look

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
        from goalmeter.report.tables import printable

        print(printable(outcome.text))
    sys.stdout.flush()
