"""`goalmeter probe`: what a model's activations hold, and what of it the model acts on."""

from __future__ import annotations

from pathlib import Path

import typer

from goalmeter.cli.base import INCOMPLETE, Json, Seed, app, argument, option, show, tell


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
    from goalmeter.commands.probe import probe as measured
    from goalmeter.commands.suite_options import numbers, words

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
