"""`goalmeter reflect`: self-reflection."""

from __future__ import annotations

from pathlib import Path

from goalmeter._arguments import MOST_SEED
from goalmeter.cli import completion
from goalmeter.cli.base import Json, On, Workers, app, argument, option, show, tell


@app.command()
def reflect(
    agent: str | None = argument(
        "A name, such as rc(naive), or your own: FILE.py:NAME.",
        "AGENT",
        default=None,
        autocompletion=completion.agents,
    ),
    environment: list[str] | None = option(
        "Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for your own; repeat "
        "for more. Default: the paper's battery.",
        "NAME",
        autocompletion=completion.environments,
    ),
    steps: int = option("Length of each trial, in percepts.", default=500, min=1),
    seeds: int = option("How many times each is played.", default=10, min=1),
    out: Path | None = option("Folder to keep the trials in, or to continue from.", "RUN"),
    on: On = None,
    workers: Workers = None,
    timeout: float | None = option(
        "Seconds for a trial, 0 for no limit; default 60 for your own code.", min=0
    ),
    opposite_reading: str = option("What an opposite is.", "literal|unnegated", default="literal"),
    step_counting: str = option("What a step is.", "percepts|actions", default="percepts"),
    against: str | None = option(
        "Compare with this agent on the same trials; with --out RUN they are kept in the folder "
        "RUN.against.",
        "AGENT",
        autocompletion=completion.agents,
    ),
    list_all: bool = option(
        "Show the environments and agents that have names.", flag="--list", default=False
    ),
    dry_run: bool = option("Say what it will cost, and begin nothing.", default=False),
    seed: int = option("The first seed.", default=0, min=0, max=MOST_SEED),
    json: Json = False,
) -> None:
    """Measure the self-reflection of an agent.

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
            on=on,
            workers=workers,
            timeout=timeout,
            opposite_reading=opposite_reading,
            step_counting=step_counting,
            against=against,
            dry_run=dry_run,
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
