"""`goalmeter demo`, `report` and `replicate`: what ends with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter.cli import completion
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
    from goalmeter.commands.place import chosen_place
    from goalmeter.experiments.demo.run import demo as run
    from goalmeter.experiments.demo.run import dry_run as told

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
    from goalmeter.commands.report import report_runs

    show(report_runs(runs, out, progress=tell), as_json=json)


@app.command()
def replicate(
    name: str = argument(
        f"Which: {', '.join(REPLICATIONS)}.",
        "NAME",
        autocompletion=completion.replications,
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
    from goalmeter.commands.place import chosen_place
    from goalmeter.commands.replicate import dry_run
    from goalmeter.commands.replicate import replicate as run

    options: dict[str, Any] = {"agents": agents, "steps": steps, "run": run_folders}
    options |= {"seeds": seeds, "seed": seed, "on": chosen_place(on, workers)}
    if rehearse:
        outcome = dry_run(name, out, **options)
    else:
        outcome = run(name, out, progress=tell, **options)
    show(outcome, as_json=json)
