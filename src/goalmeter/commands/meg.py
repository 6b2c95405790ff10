"""`goalmeter meg mdp` and `goalmeter meg sweep`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import GoalmeterError, InvalidParameterError, shown
from goalmeter._files import check_writable
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.trained_policies import is_trained
from goalmeter.commands.options import chosen_place
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.outcome import shown as told
from goalmeter.meg.result import MegResult, slowly
from goalmeter.meg.sweeps.chunk import FAILED
from goalmeter.meg.sweeps.plan import forecast_of
from goalmeter.meg.sweeps.sweep import plan_sweep, play
from goalmeter.meg.sweeps.table import Sweep, require_parquet, write_csv, write_parquet
from goalmeter.pages.meg import result_table
from goalmeter.pages.sweep import short_tables
from goalmeter.tabular.arrays import load_features, load_policy
from goalmeter.tabular.trajectories import load_trajectories

# --- Meg mdp --------------------------------------------------------------------------------------
CLASSES = ("state", "state-action", "time-state")
NETWORK = "network"
NETWORK_SEEDS = 5
# The optimal policy as a baseline is an array [H, S, A]; of worlds larger than this it is left out.
BASELINE_ENTRIES = 10_000_000


class Interrupted(KeyboardInterrupt):
    """A measurement was interrupted at the keyboard; `outcome` is what it had by then."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("interrupted")
        self.outcome = outcome


def measure_mdp(
    mdp: str | Path,
    *,
    policy: str | Path | None = None,
    trajectories: str | Path | None = None,
    unknown: str | None = None,
    reference: str | Path | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """MEG of a policy or of logged trajectories, all read from .npz files.

    Exactly one of `policy` (a file, or a trained policy's name such as sb3:PATH.zip) and
    `trajectories` is given. `unknown` is None for the MDP's reward, "state", "state-action",
    "time-state", "network", or the path of a features file; `reference` is the policy that scores
    0, by default the uniform one; `seed` is of the network's initialisation or of the bootstrap;
    `timeout`, in seconds, of the search for an unknown utility.
    """
    if (policy is None) == (trajectories is None):
        how_many = "neither" if policy is None else "both"
        raise InvalidParameterError(
            f"--policy and --trajectories: {how_many} given, expected exactly one of them, the "
            f"behaviour to measure"
        )
    if unknown == NETWORK and trajectories is not None:
        raise InvalidParameterError(
            "--unknown network goes with --policy only: a network is fitted to a policy; for "
            "trajectories use --unknown state or a features file"
        )
    if timeout is not None and (unknown is None or trajectories is not None):
        raise InvalidParameterError(
            "--timeout goes with --policy and --unknown only, the one search that may take long; "
            "leave it out"
        )
    tell = progress or (lambda line: None)
    tell(f"reading {mdp}")
    world = gm.TabularMDP.from_npz(mdp)
    against = None if reference is None else load_policy(reference)
    features = None if unknown in (None, NETWORK, *CLASSES) else _features(str(unknown))
    tell(f"measuring in {world!r}")
    if trajectories is not None:
        from goalmeter.meg.trajectories import from_trajectories

        estimate = from_trajectories(
            world,
            load_trajectories(trajectories),
            unknown=unknown if features is None else features,
            reference=against,
            rng=np.random.default_rng(seed),
        )
        return Outcome(tables=(result_table(estimate),), json=estimate.to_json())
    # What is left has a policy: a file of it, or what a library saved.
    assert policy is not None, "checked above"
    measured = _of_agent(str(policy), world) if is_trained(str(policy)) else load_policy(policy)
    now_and_then = slowly(tell)

    def hear(progress: gm.meg.Progress) -> None:
        if progress.stage.startswith(NETWORK) and progress.step == 1:
            tell(progress.stage)  # each restart of a network, however soon it comes
        now_and_then(progress)

    over: Any = unknown if unknown in CLASSES else "state"
    result: MegResult
    try:
        if unknown is None:
            result = gm.meg.known_utility(world, measured, reference=against, progress=hear)
        else:
            result = gm.meg.unknown_utility(
                world,
                measured,
                features=features,
                over=over,
                network=unknown == NETWORK,
                reference=against,
                seeds=range(seed, seed + NETWORK_SEEDS),
                progress=hear,
                timeout=timeout,
            )
    except gm.meg.FitInterrupted as so_far:
        raise Interrupted(
            Outcome(tables=(result_table(so_far.result),), json=so_far.result.to_json())
        ) from None
    # Only against the uniform policy does the uniform policy score 0.
    baselines = _baselines(world) if unknown is None and against is None else {}
    return Outcome(
        tables=(result_table(result, baselines),), json=result.to_json() | {"baselines": baselines}
    )


def _of_agent(name: str, world: gm.TabularMDP) -> FloatArray:
    """The policy of a trained agent in a world."""
    agent = named_agent(name)
    if Ability.TABLE not in agent.abilities:
        raise InvalidParameterError(
            f"{agent.name} does not act on numbered states, so it has no policy in this world; "
            f"measure it in its environment: goalmeter meg simulator ENV_ID --agent {agent.name}"
        )
    return agent.in_table(world)


def _baselines(world: gm.TabularMDP) -> dict[str, float]:
    """What the ends of the scale score towards the reward."""
    out = {"uniform": 0.0}  # by definition: it is the reference
    if world.steps * world.n_states * world.n_actions <= BASELINE_ENTRIES:
        out["optimal"] = gm.meg.known_utility(world, gm.optimal_policy(world)).value
    return out


def _features(path: str) -> FloatArray:
    try:
        return load_features(path)
    except GoalmeterError as error:
        if Path(path).exists():
            raise
        # There is no such file, so that it may be the name of a class, mistyped.
        raise InvalidParameterError(
            f"--unknown is {path!r}, expected {', '.join(CLASSES)}, {NETWORK}, or the path of a "
            f"features file ({error})"
        ) from error


# --- Meg sweep ------------------------------------------------------------------------------------
def sweep_worlds(
    worlds: str | Path,
    *,
    policies: Sequence[str] = (),
    utilities: Sequence[str] = (),
    unknown: Sequence[str] = (),
    arguments: Sequence[str] = (),
    seed: int = 0,
    timeout: float | None = None,
    on: str | None = None,
    workers: int | None = None,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """MEG of policies × utilities × worlds, as `goalmeter.meg.sweep` has it.

    `worlds` is a TOML file, a folder of MDP files or FILE.py:NAME; `arguments` are those of the
    latter, each as NAME=VALUE with a value of TOML. `csv` and `parquet` are files for all rows;
    with `dry_run` nothing is measured and the outcome says what all of it will cost.
    """
    chosen_place(on, workers)  # for its errors, before any world is made
    if parquet is not None:
        require_parquet()
    plan = plan_sweep(
        worlds,
        policies=policies,
        utilities=[*utilities, *({"unknown": name} for name in unknown)],
        arguments=_arguments(arguments),
        seed=seed,
        timeout=timeout,
    )
    if dry_run:
        place = chosen_place(on, workers, seconds=plan.seconds)
        return told([forecast_of(plan, on=place, out=out)])
    inputs = {Path(path).resolve() for path in plan.contents} | {Path(worlds).resolve()}
    for path in (csv, parquet):
        if path is not None:
            if Path(path).resolve() in inputs:
                raise InvalidParameterError(f"{path} is an input of the sweep; name another file")
            check_writable(path)  # before all is measured, which may take long
    place = chosen_place(on, workers, seconds=plan.seconds)
    sweep = Sweep(plan, play(plan, on=place, out=out, progress=progress))
    written: dict[str, str] = {} if out is None else {"run": str(Path(out).resolve())}
    if csv is not None:
        written["csv"] = str(write_csv(sweep, csv).resolve())
    if parquet is not None:
        written["parquet"] = str(write_parquet(sweep, parquet).resolve())
    return Outcome(
        tables=short_tables(sweep), json=sweep.to_json() | written, incomplete=_incomplete(sweep)
    )


def _arguments(texts: Sequence[str]) -> Mapping[str, Any]:
    """The arguments that are spelled as NAME=VALUE, with values of TOML; a bare word is text."""
    out: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip().isidentifier()):
            raise InvalidParameterError(
                f"--argument is {shown(text)}, expected NAME=VALUE, such as length=[3,4] or "
                f"'seed={{from=0,count=100}}'"
            )
        if name.strip() in out:
            raise InvalidParameterError(
                f"--argument {name.strip()} is given twice; give a list: {name.strip()}=[1,2]"
            )
        try:
            out[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:  # no TOML, or a number that is too long
            out[name.strip()] = value
    return out


def _incomplete(sweep: Sweep) -> str:
    """That no row could be measured; "" if one could."""
    failed = sweep.counts[FAILED]
    if failed < len(sweep):
        return ""
    sentence = next(iter(sweep.sentences(FAILED)))
    rows = "the only row" if failed == 1 else f"all {failed} rows"
    return f"{rows} failed, so nothing was measured; most often: {sentence}"
