"""`goalmeter agents`: the names of all agents; and `train-organism`, which makes four of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goalmeter._arguments import finite
from goalmeter.cli import completion
from goalmeter.cli.base import Json, Seed, UnusedSeed, app, show, tell


@app.command()
def agents(seed: UnusedSeed = 0, json: Json = False) -> None:
    """Every agent that can be named, and which instruments can measure it."""
    from goalmeter.commands.agents import agents as run

    show(run(), as_json=json)


@app.command("train-organism")
def train_organism(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.organisms,
            help="mouse, magpie, mole or moth.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/organism-NAME.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000_000, help="Steps of training; default as the recipe has it."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Learning rate; default as the recipe has it.")
    ] = None,
    begin_with: Annotated[
        str | None,
        typer.Option("--from", help="Organism or folder whose weights it begins with, or nothing."),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Sizes of grids, with commas; default 5,7,9,11.")
    ] = None,
    keys: Annotated[bool, typer.Option("--keys/--no-keys", help="Worlds with keys too.")] = True,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, ...; default the first GPU if there is one.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=2, help="Processes; default two if there are cores.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train one of the small language models whose goals are known; goes on where it stopped."""
    from goalmeter.commands.suite_options import numbers
    from goalmeter.commands.train_organism import train_organism as run

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
