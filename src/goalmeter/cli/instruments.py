"""`goalmeter navigate`, `goalmeter probe` and `goalmeter reflect`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from goalmeter._errors import MOST_SECONDS, MOST_SEED
from goalmeter.cli import base
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
from goalmeter.commands.options import (
    MODEL_OPTIONS,
    SUITE_OPTIONS,
    ModelOptions,
    SpelledOption,
    values_of,
)
from goalmeter.navigation.suites import SUITES

# --- Option tables --------------------------------------------------------------------------------
Command = Callable[..., None]


def with_options(**tables: Mapping[str, SpelledOption]) -> Callable[[Command], Command]:
    """A command with a parameter for each option of some tables, in place of its **options.

    Args:
        tables: name of a parameter -> the options that the help lists behind it.
    """

    def with_parameters(command: Command) -> Command:
        # Typer makes the options of a command of its signature, so that is what is changed.
        signature = inspect.signature(command, eval_str=True)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            table = tables.get(parameter.name, {})
            parameters += [_parameter(name, option) for name, option in table.items()]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return command

    return with_parameters


def _parameter(name: str, option: SpelledOption) -> inspect.Parameter:
    is_flag = option.kind is bool and "/" not in option.flag
    typed: Any = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        rich_help_panel=option.group,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_flag else None,
        annotation=Annotated[bool if is_flag else option.kind | None, typed],
    )


class GroupedCommand(TyperCommand):
    """A command whose options are listed under their `rich_help_panel`, where they have one.

    Typer lists them so itself only where it draws boxes around them.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a group, and each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or plain
                groups.setdefault(group, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


# --- Navigate -------------------------------------------------------------------------------------
@app.command(cls=GroupedCommand)
@with_options(suite=SUITE_OPTIONS, json=MODEL_OPTIONS)
def navigate(
    agent: str | None = argument(
        "A reference agent, such as greedy or boltzmann(2), or a language model as Inspect spells "
        "it, such as vllm/openai/gpt-oss-20b.",
        "AGENT",
        default=None,
        autocompletion=base.navigators,
    ),
    suite: str = option(
        f"Which worlds: {', '.join(SUITES)}, or a suite of another package.",
        "NAME",
        default="maze",
        autocompletion=base.suites,
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
        from goalmeter.commands.outcome import of_navigation

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


# --- Probe ----------------------------------------------------------------------------------------
@app.command()
def probe(
    run: Path = argument(
        "Folder of a navigation run of a language model that ran on this machine.", "RUN"
    ),
    model: str | None = option(
        "Whose activations; default the model that walked, which any other name has to be a copy "
        "of.",
        "NAME",
    ),
    layers: str | None = option(
        "Blocks, with commas; default all of up to eight, else a third, two thirds and the end of "
        "the way.",
        "K,...",
    ),
    positions: str | None = option(
        "Tokens by their names, with commas; default pre/end,post/end.", "NAME,..."
    ),
    probes: str | None = option(
        "ridge, logistic, bilinear, mlp or those of the paper, with commas; default ridge.",
        "NAME,...",
    ),
    parts: str | None = option("maps, use, plan, with commas; default all.", "PART,..."),
    interventions: str | None = option(
        "knock-out, patch, windows, write, ablate, open, with commas; default all but windows.",
        "KIND,...",
    ),
    use_decisions: int = option(
        "Decisions whose prompts are asked again with a cell changed, at most.",
        default=120,
        min=4,
        max=100_000,
    ),
    draws: int = option(
        "Answers for each of them, to measure the effect in nats; 0 for none.",
        default=0,
        min=0,
        max=1000,
    ),
    decoders: str | None = option(
        "Layers of the transformers that read plans, with commas; default 2.", "K,..."
    ),
    dry_run: bool = option("Say what it will cost, and begin nothing.", default=False),
    token_rate: float | None = option(
        "With --dry-run: tokens that the model reads a second, instead of measuring it.",
        min=1e-3,
        max=1e12,
    ),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Probe what a model's activations encode and what it uses.

    Everything is kept in the folder "probe" of the run as soon as it is finished; the same command
    goes on where it was interrupted, and `goalmeter report RUN` then shows it. The exit status is 3
    if a part could not be measured.
    """
    from goalmeter.commands.options import numbers, words
    from goalmeter.commands.probe import probe as measured

    try:
        outcome = measured(
            run,
            model=model,
            layers=numbers("--layers", layers, int),
            positions=words(positions),
            probes=words(probes),
            parts=words(parts),
            interventions=words(interventions),
            use_decisions=use_decisions,
            draws=draws,
            decoders=numbers("--decoders", decoders, int),
            seed=seed,
            dry_run=dry_run,
            token_rate=token_rate,
            progress=tell,
        )
    except KeyboardInterrupt:
        tell(f"goalmeter: {run} keeps what is finished; the same command continues it")
        raise
    show(outcome, as_json=json)
    if outcome.incomplete:
        raise typer.Exit(INCOMPLETE)


# --- Reflect --------------------------------------------------------------------------------------
@app.command()
def reflect(
    agent: str | None = argument(
        "A name, such as rc(naive), or your own: FILE.py:NAME.",
        "AGENT",
        default=None,
        autocompletion=base.agents,
    ),
    environment: list[str] | None = option(
        "Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for your own; repeat "
        "for more. Default: the paper's battery.",
        "NAME",
        autocompletion=base.environments,
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
        autocompletion=base.agents,
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
        from goalmeter.commands.agents import catalogue

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
