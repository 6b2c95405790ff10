"""`goalmeter meg mdp`: MEG in a tabular world."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.commands import declare
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.result import slowly
from goalmeter.pages.meg import result_table
from goalmeter.tabular.arrays import load_features, load_policy, naming
from goalmeter.tabular.trajectories import load_trajectories

CLASSES = ("state", "state-action", "time-state")
NETWORK, NETWORK_SEEDS = "network", 5
# The optimal policy as a baseline is an array [H, S, A]; of worlds larger than this it is left out.
BASELINE_ENTRIES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class _MdpOptions(declare.SeedOptions):
    mdp: Path = argument("MDP.npz  The world.")
    policy: str | None = option("POLICY.npz  The policy, or a trained one such as sb3:PATH.zip.")
    trajectories: Path | None = option("T.npz  Or the logged trajectories to measure.")
    unknown: str | None = option(
        "CLASS  Towards the best utility of a class instead of the reward: state, state-action, "
        "time-state, network, or a features file."
    )
    reference: Path | None = option("POLICY.npz  The policy that scores 0; default uniform.")
    timeout: float | None = declare.search_time("Limit of a search, which ends with its best.")


@command(_MdpOptions)
def measure_mdp(o: _MdpOptions, tell: Tell) -> Outcome:
    """Measure the MEG of a policy or of logged trajectories."""
    declare.check_exactly_one({"--policy": o.policy, "--trajectories": o.trajectories})
    if o.timeout is not None and (o.unknown is None or o.trajectories is not None):
        raise InvalidParameterError(
            "--timeout goes with --policy and --unknown only, the one search that may take long"
        )
    tell(f"reading {o.mdp}")
    world = gm.TabularMDP.from_npz(o.mdp)
    reference = None if o.reference is None else load_policy(o.reference)
    unknown: Any = o.unknown
    if unknown not in (None, NETWORK, *CLASSES):
        with naming(f"--unknown, expected {', '.join(CLASSES)}, {NETWORK} or a features file"):
            unknown = load_features(unknown)
    tell(f"measuring in {world!r}")
    if o.trajectories is not None:
        log, rng = load_trajectories(o.trajectories), np.random.default_rng(o.seed)
        how: dict[str, Any] = {"unknown": unknown, "reference": reference, "rng": rng}
        estimate = gm.meg.from_trajectories(world, log, **how)
        return Outcome(tables=[result_table(estimate)], json=estimate.to_json())
    now_and_then = slowly(tell)

    def hear(progress: gm.meg.Progress) -> None:
        if progress.stage.startswith(NETWORK) and progress.step == 1:
            tell(progress.stage)  # each restart of a network, however soon it comes
        now_and_then(progress)

    measure: Any = gm.meg.known_utility
    if o.unknown is not None:
        kinds: dict[str, Any] = {name: {"over": name} for name in CLASSES}
        kinds[NETWORK] = {"network": True, "seeds": range(o.seed, o.seed + NETWORK_SEEDS)}
        kind = kinds.get(o.unknown, {"features": unknown})
        measure = partial(gm.meg.unknown_utility, timeout=o.timeout, **kind)
    try:
        policy = _policy(str(o.policy), world)
        result = measure(world, policy, reference=reference, progress=hear)
    except gm.meg.FitInterrupted as so_far:
        tables, json = [result_table(so_far.result)], so_far.result.to_json()
        note = "interrupted; this is the best so far, with the bound proven by then"
        return Outcome(tables=tables, json=json, incomplete=note, is_interrupted=True)
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
    from goalmeter.agents.registry import agent

    return agent(name).in_table(world, asker="meg mdp, unlike meg simulator,")
