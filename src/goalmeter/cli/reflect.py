"""`goalmeter reflect`: self-reflection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goalmeter._arguments import MOST_SEED
from goalmeter.cli import completion
from goalmeter.cli.base import Json, Workers, app, show, tell


@app.command()
def reflect(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            autocompletion=completion.agents,
            help="A name, such as rc(naive), or your own: FILE.py:NAME.",
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.environments,
            help="Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for your own; "
            "repeat for more. Default: the paper's battery.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Length of each trial, in percepts.")] = 500,
    seeds: Annotated[int, typer.Option(min=1, help="How many times each is played.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Folder to keep the trials in, or to continue from."),
    ] = None,
    workers: Workers = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds for a trial, 0 for no limit; default 60 for your own code."
        ),
    ] = None,
    opposite_reading: Annotated[
        str, typer.Option(metavar="literal|unnegated", help="What an opposite is.")
    ] = "literal",
    step_counting: Annotated[
        str, typer.Option(metavar="percepts|actions", help="What a step is.")
    ] = "percepts",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            autocompletion=completion.agents,
            help="Compare with this agent on the same trials; with --out RUN they are kept in the "
            "folder RUN.against.",
        ),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="Show the environments and agents that have names.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The first seed.")] = 0,
    json: Json = False,
) -> None:
    """Self-reflection of an agent: how it does in environments that simulate it.

    Trials that an agent fails count with the reward they had; the exit status is 3 where none was
    finished.
    """
    if list_all:
        from goalmeter.commands.reflect_list import catalogue

        show(catalogue(), as_json=json)
        return
    from goalmeter.commands.reflect import reflect as run

    try:
        outcome = run(
            agent,
            environments=environment or (),
            steps=steps,
            seeds=seeds,
            seed=seed,
            out=out,
            workers=workers,
            timeout=timeout,
            opposite_reading=opposite_reading,
            step_counting=step_counting,
            against=against,
            progress=tell,
        )
    except KeyboardInterrupt:
        tell(
            "goalmeter: nothing is kept; with --out RUN the finished trials would have been"
            if out is None
            else f"goalmeter: {out} keeps what is finished; the same command continues it"
        )
        raise
    show(outcome, as_json=json)
