"""`goalmeter agents`: the names of all agents."""

from __future__ import annotations

from typing import Annotated

import typer

from goalmeter._arguments import MOST_SEED
from goalmeter.cli.base import Json, app, show


@app.command()
def agents(
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Not used: nothing here is random.")
    ] = 0,
    json: Json = False,
) -> None:
    """Every agent that can be named, and which instruments can measure it."""
    from goalmeter.commands.agents import agents as run

    show(run(), as_json=json)
