"""`goalmeter meg`: maximum entropy goal-directedness."""

from __future__ import annotations

from pathlib import Path

import typer

from goalmeter.cli.base import Json, On, Seed, Workers, app, argument, option, show, tell

meg = typer.Typer(
    help="Measure maximum entropy goal-directedness (MEG).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(meg, name="meg")


@meg.callback()
def meg_root() -> None:
    """Measure maximum entropy goal-directedness (MEG)."""


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
    """Measure the MEG of a policy or of logged trajectories."""
    from goalmeter.commands.meg import Interrupted, measure_mdp

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


@meg.command("simulator")
def meg_simulator(
    env: str = argument(
        "A Gymnasium environment: its id, MODULE:ID, or a function that makes it, "
        "FILE.py:FUNCTION.",
        "ENV_ID",
    ),
    agent: str = option(
        "Who is measured: a name, sb3:PATH.zip, or FILE.py:NAME of an agent, of a function of the "
        "observation, or of a function without parameters that returns a model.",
        "AGENT",
        default=...,
    ),
    utility: list[str] | None = option(
        "What a decision pays: reward (the default), learnt (fitted to some episodes, bounded with "
        "others), or NAME=FILE.py:FUNCTION with a function of (observation, info); repeat for "
        "more, and for their differences.",
        "NAME=FILE.py:FUNCTION",
    ),
    combined: bool = option(
        "Measure the best linear combination of the utilities too.", default=False
    ),
    horizon: int | None = option(
        "Decisions that are measured; default the environment's time limit.", min=1
    ),
    budget: int = option("Steps of the simulator, in all.", default=200_000, min=1),
    level: float = option("Probability with which the interval holds.", default=0.95),
    precision: float = option(
        "End before the budget is spent when the lower end is within this share of the estimate.",
        default=0.02,
    ),
    state: str | None = option(
        "Which states are the same: observation, or a function of (observation, info) that names "
        "the state.",
        "observation|FILE.py:FUNCTION",
    ),
    bounds: list[str] | None = option(
        "What one decision pays at least and at most, and what all that follow do; repeat for "
        "more utilities.",
        "[NAME=]LOW,HIGH[,LEAST,MOST]",
    ),
    reference: str | None = option(
        "What continuous actions are compared with: uniform, gaussian(SCALE) or "
        "gaussian(SCALE,CENTRE).",
        "REFERENCE",
    ),
    chance: str | None = option(
        "Where chance comes from: generator (all of it from the environment's np_random), none, or "
        "unknown; default generator for Gymnasium's own environments and ours, else unknown.",
        "generator|none|unknown",
    ),
    env_option: list[str] | None = option(
        "A keyword for the environment, such as size=7; repeat for more.", "KEY=JSON"
    ),
    out: Path | None = option("Folder to keep the results in, with a page.", "RUN"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure the MEG of an agent in a simulator."""
    from goalmeter.commands.meg_simulator import Interrupted, measure_simulator

    try:
        outcome = measure_simulator(
            env,
            agent=agent,
            utilities=utility or (),
            combined=combined,
            horizon=horizon,
            budget=budget,
            level=level,
            precision=precision,
            state=state,
            bounds=bounds or (),
            reference=reference,
            chance=chance,
            env_options=env_option or (),
            seed=seed,
            out=out,
            progress=tell,
        )
    except Interrupted as so_far:
        show(so_far.outcome, as_json=json)
        tell("goalmeter: interrupted; this is what was proven by then, and nothing is kept")
        raise
    show(outcome, as_json=json)


@meg.command("sweep")
def meg_sweep(
    worlds: str = argument("A TOML file, a folder of MDP files, or FILE.py:NAME.", "SWEEP"),
    policy: list[str] | None = option(
        "optimal, uniform, epsilon_greedy(0,0.1), soft_optimal(1,10), FILES-{world}.npz or "
        "FILE.py:NAME; repeat for more.",
        "POLICY",
    ),
    utility: list[str] | None = option(
        "reward (the default), an .npz file or FILE.py:NAME; repeat for more.", "UTILITY"
    ),
    unknown: list[str] | None = option(
        "The best utility of a class: state, state-action, time-state, or features as an .npz file "
        "or FILE.py:NAME; repeat for more.",
        "CLASS",
    ),
    args: list[str] | None = option(
        "Of FILE.py:NAME: a value, a list, or {from=0,count=100}; repeat for more.",
        "NAME=VALUE",
        flag="--argument",
    ),
    timeout: float | None = option(
        "End the search of a row after so long, with the best so far.",
        "SECONDS",
        min=0.001,
        max=1e9,
    ),
    csv: Path | None = option("A file for all rows.", "FILE.csv"),
    parquet: Path | None = option("The same as Parquet; needs pyarrow.", "FILE.parquet"),
    out: Path | None = option("Folder to keep the rows in, or to continue from.", "RUN"),
    on: On = None,
    workers: Workers = None,
    dry_run: bool = option("Say how much there is to do, and stop.", default=False),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure policies × utilities × worlds, one row each.

    What is wrong with a world or a policy is said in its rows; the exit status is 3 where no row
    could be measured.
    """
    from goalmeter.commands.meg import sweep_worlds

    try:
        outcome = sweep_worlds(
            worlds,
            policies=policy or (),
            utilities=utility or (),
            unknown=unknown or (),
            arguments=args or (),
            seed=seed,
            timeout=timeout,
            on=on,
            workers=workers,
            out=out,
            csv=csv,
            parquet=parquet,
            dry_run=dry_run,
            progress=tell,
        )
    except KeyboardInterrupt:
        tell(
            "goalmeter: nothing is kept; with --out RUN the finished rows would have been"
            if out is None
            else f"goalmeter: {out} keeps what is finished; the same command continues it"
        )
        raise
    show(outcome, as_json=json)


@meg.command("causal")
def meg_causal(
    model: Path = argument("The network: .bif, .xmlbif, packed, or asia.", "MODEL.bif"),
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
    """Measure the MEG of variables of a causal model."""
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
