"""`measure`: what the model of a navigation run holds of its worlds, and what of it it acts on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter.gridworld.contents import content
from goalmeter.navigation.playing import load
from goalmeter.navigation.record import Trajectory
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located, position
from goalmeter.representation.replay import Sample, digest_of, samples_of
from goalmeter.representation.result import FOLDER, Representation
from goalmeter.representation.stages.asked import MAPS, PARTS, PLAN, POSITIONS, PROBES, Asked, asked
from goalmeter.representation.stages.captures import captured
from goalmeter.representation.stages.maps import map_stage
from goalmeter.representation.stages.pictures import pictures
from goalmeter.representation.stages.plans import plan_stage
from goalmeter.representation.stages.store import Stages
from goalmeter.representation.stages.worlds import decoded_worlds, explained_stage

Tell = Callable[[str], None]


def measure(
    run: str | Path,
    *,
    model: str | None = None,
    layers: Sequence[int] | None = None,
    positions: Sequence[str] = POSITIONS,
    probes: Sequence[str] = PROBES,
    parts: Sequence[str] = PARTS,
    use_decisions: int = 120,
    draws: int = 0,
    seed: int = 0,
    progress: Tell | None = None,
) -> Representation:
    """Read the maps and plans of the model of a navigation run, and see what of them it acts on.

    Everything is kept in the folder "probe" of the run as soon as it is finished: called again, it
    goes on where it was interrupted, and returns at once when all is there.

    Args:
        run: the folder of a navigation run of a language model that ran on this machine.
        model: its name; None for the one that the run names.
        layers: which of 1 to L; None for all of a model of at most eight blocks, and else for a
            third, two thirds and the end of the way. The embedding is read beside them.
        positions: names of tokens, see `positions`; positions that no decision has are left out,
            and the result says so.
        probes: names in `PROBES`.
        parts: "maps", "use" and "plan". The use of a map needs the map.
        use_decisions: decisions whose prompts are asked again under interventions, at most.
        draws: answers for each of them, by which the effect in nats is measured; 0 for none.
        seed: of everything random.
        progress: told what is being done.

    Returns:
        The result, which is also kept as result.json in that folder.

    Raises:
        InvalidFileError: no navigation run, too little disk, or a folder with another probe.
        InvalidTrajectoryError: its decisions were recorded without their tokens.
        InvalidParameterError: an option that cannot be used, or too few grids for any map.
        MissingAbilityError: the model does not run on this machine.
        MissingExtraError: torch or transformers is not installed.
    """
    tell = progress or (lambda line: None)
    walked = load(run)
    # Before the model is loaded, which takes longer.
    samples = samples_of(walked.trajectories)
    network = Network.open(model or walked.plan.agent)
    wanted = asked(
        network,
        layers=layers,
        positions=positions,
        probes=probes,
        parts=parts,
        use_decisions=use_decisions,
        draws=draws,
        seed=seed,
    )
    folder = Path(run) / FOLDER
    what = {"run": _digest(samples), "model": network.name, "revision": network.revision}
    with Stages(folder, what | wanted.what(), tell) as stages:
        result = _all_parts(stages, Path(run), walked.trajectories, samples, network, wanted)
    result.save(run)
    return result


def _all_parts(
    stages: Stages,
    run: Path,
    trajectories: Sequence[Trajectory],
    samples: tuple[Sample, ...],
    network: Network,
    wanted: Asked,
) -> Representation:
    left_out: dict[str, str] = {}
    found = _present(samples, network, wanted.positions)
    for name in wanted.positions:
        if name not in found:
            left_out[name] = "no decision has this position"
    results: dict[str, Any] = {}
    if MAPS in wanted.parts:
        try:
            results |= _maps(stages, trajectories, samples, network, wanted, found)
        except InvalidParameterError as cause:
            left_out[MAPS] = str(cause)
    if PLAN in wanted.parts:
        try:
            results |= plan_stage(
                stages,
                samples,
                network,
                layers=wanted.layers,
                positions=found,
                seed=wanted.seed,
            )
        except (InvalidParameterError, InvalidTrajectoryError) as cause:
            left_out[PLAN] = str(cause)
    return Representation(
        run=run.resolve().name,
        model=network.name,
        revision=network.revision,
        decisions=len(samples),
        grids=len({content(sample.world) for sample in samples}),
        about=wanted.what(),
        left_out=left_out,
        **results,
    )


def _maps(
    stages: Stages,
    trajectories: Sequence[Trajectory],
    samples: tuple[Sample, ...],
    network: Network,
    wanted: Asked,
    positions: Sequence[str],
) -> dict[str, Any]:
    captures = captured(
        samples,
        network,
        stages.folder,
        layers=wanted.layers,
        positions=positions,
        seed=wanted.seed,
        tell=stages.tell,
    )
    maps, places, chosen = map_stage(
        stages,
        captures,
        layers=wanted.layers,
        positions=positions,
        probes=wanted.probes,
        seed=wanted.seed,
    )
    explained = explained_stage(stages, captures, trajectories, chosen, positions, wanted.seed)
    worlds = decoded_worlds(captures, trajectories, chosen, wanted.seed)
    return {
        "maps": maps,
        "places": places,
        "chosen": chosen,
        "explained": explained,
        "states": pictures(captures, worlds, {}, wanted.seed),
    }


def _present(
    samples: Sequence[Sample], network: Network, positions: Sequence[str]
) -> tuple[str, ...]:
    """The positions that some decision has."""
    left = dict.fromkeys(positions)
    present: set[str] = set()
    for sample in samples:
        located = Located(sample, network.local.tokenizer)
        present |= {name for name in left if position(name)(located)}
        left = {name: None for name in left if name not in present}
        if not left:
            break
    return tuple(name for name in positions if name in present)


def _digest(samples: Sequence[Sample]) -> str:
    """Which decisions these are, by their tokens."""
    return digest_of(int(sample.digest[:12], 16) for sample in samples)
