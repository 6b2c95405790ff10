"""`goalmeter navigate`: behaviour in grid worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from goalmeter._arguments import MOST_SECONDS, MOST_WORKERS
from goalmeter.cli import completion
from goalmeter.cli.base import INCOMPLETE, Json, Seed, app, show, tell
from goalmeter.cli.grouped_help import GroupedCommand
from goalmeter.cli.suite_options import with_suite_options
from goalmeter.navigation.suites.registry import SUITES

# Groups of its options.
ASKED = "How a language model is asked"
REACHED = "How it is reached"


@app.command(cls=GroupedCommand)
@with_suite_options
def navigate(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            autocompletion=completion.navigators,
            help="A reference agent, such as greedy or boltzmann(2), or a language model as "
            "Inspect spells it, such as vllm/openai/gpt-oss-20b.",
        ),
    ] = None,
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.suites,
            help=f"Which worlds: {', '.join(SUITES)}, or a suite of another package.",
        ),
    ] = "maze",
    meg_too: Annotated[
        bool,
        typer.Option("--meg", help="Goal-directedness towards goal and key too."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Folder to keep the walks in, or to continue from."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Processes that walk at once.")
    ] = 1,
    seed: Seed = 0,
    json: Json = False,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="plain/1,keys/1",
            help="What it is asked; several are compared. Default keys/1 where there are keys.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    history: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=10_000,
            help="Past steps that a prompt shows; default 0.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="How often a step is asked for until the answer can be read; default 3.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    token_cap: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, help="Output tokens of a whole walk.", rich_help_panel=ASKED
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, max=100, help="Default 0.7.", rich_help_panel=ASKED)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Default 0.95.", rich_help_panel=ASKED)
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, max=10**8, help="Of one answer; default 10000.", rich_help_panel=ASKED),
    ] = None,
    reasoning_effort: Annotated[
        str | None,
        typer.Option(
            metavar="low|medium|high|...",
            help="Default the model's; for gpt-oss with --paper low, in worlds with a key medium.",
            rich_help_panel=ASKED,
        ),
    ] = None,
    logprobs: Annotated[
        bool,
        typer.Option(
            "--logprobs",
            help="Ask for log-probabilities, 20 a token, and keep those of the moves.",
            rich_help_panel=ASKED,
        ),
    ] = False,
    no_seeds: Annotated[
        bool,
        typer.Option(
            "--no-seeds", help="Send none, to servers that refuse them.", rich_help_panel=ASKED
        ),
    ] = False,
    model_option: Annotated[
        list[str] | None,
        typer.Option(
            "-M",
            metavar="NAME=VALUE",
            help="Of the provider, such as dtype=bfloat16; repeat for more.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    model_base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Of the server; default from the environment, such as VLLM_BASE_URL.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    max_connections: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Questions at once.", rich_help_panel=REACHED),
    ] = None,
    max_retries: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="How often a question that the server failed is put again; default 5.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_SECONDS,
            help="Seconds for one answer; default 600.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="How often walks that the server failed are made again; default 2.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    from_log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.eval",
            help="Take over the walks of `inspect eval goalmeter/...`, from a log or a folder of "
            "them; repeat for more.",
            rich_help_panel=REACHED,
        ),
    ] = None,
    **suite_options: Any,
) -> None:
    """Behaviour of an agent in grid worlds, beside agents that plan, follow a compass, or err.

    Walks that the server of a language model failed count as not arrived, and the exit status then
    is 3; the same command makes them again.
    """
    from goalmeter.commands.model_options import ModelOptions
    from goalmeter.commands.navigate import navigate as run
    from goalmeter.commands.suite_options import suite_options as typed_values
    from goalmeter.commands.suite_options import words

    try:
        outcome = run(
            agent,
            suite=suite,
            **typed_values(suite_options),
            meg=meg_too,
            out=out,
            workers=workers,
            seed=seed,
            progress=tell,
            model=ModelOptions(
                prompts=words(prompt),
                history=history,
                attempts=attempts,
                token_cap=token_cap,
                temperature=temperature,
                top_p=top_p,
                max_tokens=max_tokens,
                reasoning_effort=reasoning_effort,
                logprobs=logprobs,
                no_seeds=no_seeds,
                options=tuple(model_option or ()),
                base_url=model_base_url,
                max_connections=max_connections,
                max_retries=max_retries,
                timeout=timeout,
                rounds=rounds,
                from_log=tuple(from_log or ()),
            ),
        )
    except KeyboardInterrupt:
        if out is not None:
            tell(f"goalmeter: {out} keeps what is finished; the same command continues it")
        raise
    show(outcome, as_json=json)
    if outcome.json.get("failed"):
        raise typer.Exit(INCOMPLETE)
