"""The stage of the decoded maps: what they explain of the actions, and MEG in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.record import Trajectory
from goalmeter.representation.believed import WalkSteps
from goalmeter.representation.decoded import DecodedMaps, decoded
from goalmeter.representation.explained import explained
from goalmeter.representation.map_controls import map_controls
from goalmeter.representation.probes.comparison import cross_fitted
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.probes.splits import folds
from goalmeter.representation.scenes import Scenes
from goalmeter.representation.stages.captures import Captured
from goalmeter.runs import Stages

_FOLDS = 5


@dataclass(frozen=True)
class DecodedWorlds:
    """The maps of all decisions at one place, each by a fit that saw nothing of its grid.

    Attributes:
        scenes: the decisions, [N].
        walk_steps: where each stands in its walk.
        maps: what was decoded.
        controls: worlds that know nothing of what was believed, by name.
    """

    scenes: Scenes
    walk_steps: WalkSteps
    maps: DecodedMaps
    controls: Mapping[str, tuple[GridWorld | None, ...]]


def decoded_worlds(
    captures: Captured, trajectories: Sequence[Trajectory], chosen: Mapping[str, Any], seed: int
) -> DecodedWorlds:
    """Decode the maps of all decisions at a place.

    Raises:
        InvalidParameterError: too few grids.
    """
    reading = captures.reading(chosen["layer"], chosen["position"])
    parts = folds(reading.scenes, _FOLDS, seed=seed)
    posterior = cross_fitted(probe(chosen["probe"]), reading, parts, seed=seed)
    maps = decoded(posterior, reading.scenes)
    return DecodedWorlds(
        reading.scenes,
        _walk_steps(captures, trajectories),
        maps,
        {
            name: control.worlds
            for name, control in map_controls(maps, reading.scenes, seed=seed).items()
        },
    )


def explained_stage(
    stages: Stages,
    captures: Captured,
    trajectories: Sequence[Trajectory],
    chosen: Mapping[str, Any],
    positions: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    """What the maps of the chosen layer explain: at the chosen position, and at each."""

    def at(position: str) -> dict[str, Any]:
        worlds = decoded_worlds(captures, trajectories, {**chosen, "position": position}, seed)
        controls = map_controls(worlds.maps, worlds.scenes, seed=seed)
        parts = explained(worlds.maps, controls, worlds.scenes)
        out = {part.states: part.to_json() for part in parts}
        return out["all"] | {"detour": out.get("detour"), "reasons": worlds.maps.counts}

    by_position: dict[str, dict[str, Any]] = {
        position: stages.value(f"explained/{position}", partial(at, position))
        for position in positions
    }
    others = {name: value for name, value in by_position.items() if name != chosen["position"]}
    return by_position[chosen["position"]] | {"other_positions": others}


def _walk_steps(captures: Captured, trajectories: Sequence[Trajectory]) -> WalkSteps:
    """Where each decision that has every position stands in its walk."""
    caps = {made_of(trajectory).name: trajectory.cap for trajectory in trajectories}
    numbers = {name: number for number, name in enumerate(caps)}
    kept = [captures.samples[row] for row in captures.rows.tolist()]
    return WalkSteps(
        np.array([numbers[sample.walk] for sample in kept]),
        np.array([sample.step for sample in kept]),
        np.array([caps[sample.walk] for sample in kept]),
    )
