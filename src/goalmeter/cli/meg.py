"""`goalmeter meg`: maximum entropy goal-directedness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goalmeter.cli.base import Json, Seed, app, show, tell

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
    mdp: Annotated[Path, typer.Argument(metavar="MDP.npz", help="The world.")],
    policy: Annotated[
        Path | None, typer.Option(metavar="POLICY.npz", help="The policy to measure.")
    ] = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="T.npz", help="Or the logged trajectories to measure.")
    ] = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Towards the best utility of a class instead of the reward: state, state-action, "
            "time-state, network, or a features file.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="POLICY.npz", help="The policy that scores 0; default uniform."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.001,
            max=1e9,
            help="End a search for an unknown utility after so long, with the best so far.",
        ),
    ] = None,
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
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.bif", help="The network: .bif, .xmlbif, or packed.")
    ],
    decision: Annotated[
        list[str],
        typer.Option(
            metavar="D", help="A candidate decision, its policy the model's CPD; repeat for more."
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="A variable that the goal may be about; repeat for more."),
    ] = None,
    utility: Annotated[
        Path | None, typer.Option(metavar="UTILITY.json", help="Or a known utility.")
    ] = None,
    sensitivity: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Or a table of every set of up to K targets."),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(metavar="X=x", help="Measure under this intervention; repeat to set more."),
    ] = None,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X=x[,Y=y]",
            help="Does the goal predict in this changed world too? Repeat for more worlds.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE.csv", help="Observed outcomes, to measure instead of the model's policy."
        ),
    ] = None,
    drawing: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the diagram to this file.")
    ] = None,
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
