"""`goalmeter agents`: the names of all agents; and `train-organism`, which makes four of them."""

from __future__ import annotations

from pathlib import Path

from goalmeter._arguments import finite
from goalmeter.cli import completion
from goalmeter.cli.base import Json, Seed, UnusedSeed, app, argument, option, show, tell


@app.command()
def agents(seed: UnusedSeed = 0, json: Json = False) -> None:
    """List available agents and the measures that support each.

    Nothing here is random; --seed is accepted and has no effect.
    """
    from goalmeter.commands.agents import agents as run

    show(run(), as_json=json)


@app.command("train-organism")
def train_organism(
    name: str = argument(
        "mouse, magpie, mole or moth.", "NAME", autocompletion=completion.organisms
    ),
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
