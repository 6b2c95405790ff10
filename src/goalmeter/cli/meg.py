"""`goalmeter meg`: maximum entropy goal-directedness."""

from __future__ import annotations

from pathlib import Path

import typer

from goalmeter.cli.base import Json, Seed, app, argument, option, show, tell

meg = typer.Typer(
    help="Maximum entropy goal-directedness of one agent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(meg, name="meg")


@meg.callback()
def meg_root() -> None:
    """Maximum entropy goal-directedness of one agent."""


@meg.command("mdp")
def meg_mdp(
    mdp: Path = argument("The world.", "MDP.npz"),
    policy: Path | None = option("The policy to measure.", "POLICY.npz"),
    trajectories: Path | None = option("Or the logged trajectories to measure.", "T.npz"),
    unknown: str | None = option(
        "Towards the best utility of a class instead of the reward: state, state-action, "
        "time-state, network, or a features file.",
        "CLASS",
    ),
    reference: Path | None = option("The policy that scores 0; default uniform.", "POLICY.npz"),
    timeout: float | None = option(
        "End a search for an unknown utility after so long, with the best so far.",
        "SECONDS",
        min=0.001,
        max=1e9,
    ),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """MEG of a policy, or of logged trajectories, in an MDP."""
    from goalmeter.commands.meg_mdp import Interrupted, measure_mdp

    try:
        outcome = measure_mdp(
            mdp,
            policy=policy,
            trajectories=trajectories,
            unknown=unknown,
            reference=reference,
            seed=seed,
            timeout=timeout,
            progress=tell,
        )
    except Interrupted as so_far:
        show(so_far.outcome, as_json=json)
        tell("goalmeter: interrupted; this is the best so far, with the bound proven by then")
        raise
    show(outcome, as_json=json)


@meg.command("causal")
def meg_causal(
    model: Path = argument("The network: .bif, .xmlbif, or packed.", "MODEL.bif"),
    decision: list[str] = option(
        "A candidate decision, its policy the model's CPD; repeat for more.", "D", default=...
    ),
    target: list[str] | None = option(
        "A variable that the goal may be about; repeat for more.", "T"
    ),
    utility: Path | None = option("Or a known utility.", "UTILITY.json"),
    sensitivity: int | None = option("Or a table of every set of up to K targets.", "K", min=1),
    do: list[str] | None = option("Measure under this intervention; repeat to set more.", "X=x"),
    shift: list[str] | None = option(
        "Does the goal predict in this changed world too? Repeat for more worlds.", "X=x[,Y=y]"
    ),
    data: Path | None = option(
        "Observed outcomes, to measure instead of the model's policy.", "TABLE.csv"
    ),
    drawing: Path | None = option("Draw the diagram to this file.", "FILE.svg"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """MEG of variables of a causal model, towards others or towards a utility."""
    from goalmeter.commands.meg_causal import measure_causal

    outcome = measure_causal(
        model,
        decisions=decision,
        targets=target or (),
        utility=utility,
        sensitivity=sensitivity,
        do=do or (),
        shift=shift or (),
        data=data,
        drawing=drawing,
        seed=seed,
        progress=tell,
    )
    show(outcome, as_json=json)
