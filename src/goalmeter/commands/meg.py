"""`goalmeter meg mdp`: MEG in a tabular world."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.commands.declare import (
    InterruptedCommand,
    SeedOptions,
    Tell,
    argument,
    check_exactly_one,
    command,
    option,
    search_time,
)
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.result import MegResult, slowly
from goalmeter.pages.meg import result_table
from goalmeter.tabular.arrays import load_features, load_policy
from goalmeter.tabular.trajectories import load_trajectories

CLASSES = ("state", "state-action", "time-state")
NETWORK, NETWORK_SEEDS = "network", 5
# The optimal policy as a baseline is an array [H, S, A]; of worlds larger than this it is left out.
BASELINE_ENTRIES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class MdpOptions(SeedOptions):
    """Options of `goalmeter meg mdp`."""

    mdp: Path = argument("MDP.npz  The world.")
    policy: str | Path | None = option(
        "POLICY.npz  The policy to measure: a file, or a trained policy such as sb3:PATH.zip.",
        kind=str,
    )
    trajectories: Path | None = option("T.npz  Or the logged trajectories to measure.")
    unknown: str | None = option(
        "CLASS  Towards the best utility of a class instead of the reward: state, state-action, "
        "time-state, network, or a features file."
    )
    reference: Path | None = option("POLICY.npz  The policy that scores 0; default uniform.")
    timeout: float | None = search_time("Limit of a search, which ends with the best so far.")


@command(MdpOptions)
def measure_mdp(o: MdpOptions, tell: Tell) -> Outcome:
    """Measure the MEG of a policy or of logged trajectories."""
    check_exactly_one({"--policy": o.policy, "--trajectories": o.trajectories})
    if o.timeout is not None and (o.unknown is None or o.trajectories is not None):
        raise InvalidParameterError(
            "--timeout goes with --policy and --unknown only, the one search that may take long"
        )
    tell(f"reading {o.mdp}")
    world = gm.TabularMDP.from_npz(o.mdp)
    reference = None if o.reference is None else load_policy(o.reference)
    features = None if o.unknown in (None, NETWORK, *CLASSES) else _features(str(o.unknown))
    tell(f"measuring in {world!r}")
    if o.trajectories is not None:
        unknown = o.unknown if features is None else features
        log, rng = load_trajectories(o.trajectories), np.random.default_rng(o.seed)
        estimate = gm.meg.from_trajectories(
            world, log, unknown=unknown, reference=reference, rng=rng
        )
        return Outcome(tables=[result_table(estimate)], json=estimate.to_json())
    policy, now_and_then = _policy(str(o.policy), world), slowly(tell)

    def hear(progress: gm.meg.Progress) -> None:
        if progress.stage.startswith(NETWORK) and progress.step == 1:
            tell(progress.stage)  # each restart of a network, however soon it comes
        now_and_then(progress)

    measure: Any = gm.meg.known_utility
    if o.unknown is not None:
        measure = partial(
            gm.meg.unknown_utility,
            features=features,
            over=o.unknown if o.unknown in CLASSES else "state",
            network=o.unknown == NETWORK,
            seeds=range(o.seed, o.seed + NETWORK_SEEDS),
            timeout=o.timeout,
        )
    try:
        result: MegResult = measure(world, policy, reference=reference, progress=hear)
    except gm.meg.FitInterrupted as so_far:
        raise InterruptedCommand(
            Outcome(tables=[result_table(so_far.result)], json=so_far.result.to_json()),
            "interrupted; this is the best so far, with the bound proven by then",
        ) from None
    baselines: dict[str, float] = {}
    if o.unknown is None and reference is None:
        baselines["uniform"] = 0.0  # by definition: it is the reference
        if world.steps * world.n_states * world.n_actions <= BASELINE_ENTRIES:
            optimal = gm.optimal_policy(world)
            baselines["optimal"] = gm.meg.known_utility(world, optimal).value
    json = result.to_json() | {"baselines": baselines}
    return Outcome(tables=[result_table(result, baselines)], json=json)


def _policy(name: str, world: gm.TabularMDP) -> FloatArray:
    if not name.startswith(("sb3:", "policy:")):
        return load_policy(name)
    from goalmeter.agents.abilities import Ability
    from goalmeter.agents.registry import agent as named_agent

    agent = named_agent(name)
    if Ability.TABLE not in agent.abilities:
        raise InvalidParameterError(
            f"{agent.name} does not act on numbered states, so it has no policy in this world; "
            f"measure it by: goalmeter meg simulator ENV_ID --agent {agent.name}"
        )
    return agent.in_table(world)


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
