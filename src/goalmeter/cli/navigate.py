"""`goalmeter navigate`: behaviour in grid worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from goalmeter._arguments import MOST_SECONDS
from goalmeter.cli import completion
from goalmeter.cli.base import (
    INCOMPLETE,
    Json,
    On,
    Seed,
    Workers,
    app,
    argument,
    option,
    show,
    tell,
)
from goalmeter.cli.option_tables import GroupedCommand, with_options
from goalmeter.commands.model_options import MODEL_OPTIONS, ModelOptions
from goalmeter.commands.suite_options import SUITE_OPTIONS, values_of
from goalmeter.navigation.suites.registry import SUITES


@app.command(cls=GroupedCommand)
@with_options(suite=SUITE_OPTIONS, json=MODEL_OPTIONS)
def navigate(
    agent: str | None = argument(
        "A reference agent, such as greedy or boltzmann(2), or a language model as Inspect spells "
        "it, such as vllm/openai/gpt-oss-20b.",
        "AGENT",
        default=None,
        autocompletion=completion.navigators,
    ),
    suite: str = option(
        f"Which worlds: {', '.join(SUITES)}, or a suite of another package.",
        "NAME",
        default="maze",
        autocompletion=completion.suites,
    ),
    meg_too: bool = option(
        "Goal-directedness towards goal and key too.", flag="--meg", default=False
    ),
    out: Path | None = option("Folder to keep the walks in, or to continue from.", "RUN"),
    on: On = None,
    workers: Workers = None,
    dry_run: bool = option("Say what it will cost, and begin nothing.", default=False),
    call_seconds: float | None = option(
        "With --dry-run: what a call to the model takes.", min=0, max=MOST_SECONDS
    ),
    answer_tokens: int | None = option(
        "With --dry-run: tokens of an answer with its reasoning.", min=1, max=10**8
    ),
    seed: Seed = 0,
    json: Json = False,
    **options: Any,
) -> None:
    """Evaluate an agent in grid worlds against baseline agents.

    Walks that the server of a language model failed count as not arrived, and the exit status then
    is 3; the same command makes them again. It is 3 too where --budget ended the run; a larger one
    goes on from there.
    """
    from goalmeter.commands.navigate import navigate as run

    # Typer says None where nothing was typed; the defaults are those of the record.
    of_model = {k: v for k, v in values_of(options, MODEL_OPTIONS).items() if v is not None}
    if dry_run:
        from goalmeter.commands.dry_run import of_navigation

        forecast = of_navigation(
            agent,
            suite=suite,
            **values_of(options, SUITE_OPTIONS),
            out=out,
            on=on,
            workers=workers,
            seed=seed,
            model=ModelOptions(**of_model),
            call_seconds=call_seconds,
            answer_tokens=answer_tokens,
        )
        show(forecast, as_json=json)
        return
    try:
        outcome = run(
            agent,
            suite=suite,
            **values_of(options, SUITE_OPTIONS),
            meg=meg_too,
            out=out,
            on=on,
            workers=workers,
            seed=seed,
            progress=tell,
            model=ModelOptions(**of_model),
        )
    except KeyboardInterrupt:
        if out is not None:
            tell(f"goalmeter: {out} keeps what is finished; the same command continues it")
        raise
    show(outcome, as_json=json)
    if outcome.json.get("failed"):
        raise typer.Exit(INCOMPLETE)
