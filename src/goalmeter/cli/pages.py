"""`goalmeter demo`, `report` and `replicate`: what ends with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goalmeter.cli import completion
from goalmeter.cli.base import Json, Seed, UnusedSeed, Workers, app, show, tell

# Of repetitions, and of the length of a trial: more of either would take weeks.
MOST_SEEDS, MOST_STEPS = 10_000, 10_000_000


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the report; walks that it holds are not made again.")
    ] = Path("goalmeter-demo"),
    workers: Workers = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Four small language models, measured; ends with the path of report.html."""
    from goalmeter.experiments.demo.run import demo as run
    from goalmeter.runs import cores

    outcome = run(out, seed=seed, workers=workers or cores(), progress=tell)
    show(outcome, as_json=json)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    seed: UnusedSeed = 0,
    json: Json = False,
) -> None:
    """One page about finished runs; ends with its path."""
    from goalmeter.commands.report import report_runs

    show(report_runs(runs, out, progress=tell), as_json=json)


@app.command()
def replicate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.replications,
            help="Which: meg-cliffworld, reflection-table-1, tempting-button, lm-navigation, "
            "calibration, organisms.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/NAME.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_SEEDS, help="How many; default as the experiment has it."),
    ] = None,
    workers: Workers = None,
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="scripted|neural|all",
            help="Rows of reflection-table-1; or names, with commas between them.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_STEPS, help="Length of the trials, where it can be chosen."),
    ] = None,
    run_folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--run", metavar="RUN", help="A run to show in lm-navigation; repeat for more."
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """A published table, ours beside theirs; ends with the path of report.html."""
    from goalmeter.commands.replicate import replicate as run
    from goalmeter.runs import cores

    outcome = run(
        name,
        out,
        seeds=seeds,
        seed=seed,
        workers=workers or cores(),
        progress=tell,
        agents=agents,
        steps=steps,
        run=run_folders,
    )
    show(outcome, as_json=json)
