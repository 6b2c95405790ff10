"""The stage of the decoded maps: what they explain of the actions, and MEG in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.record import Trajectory
from goalmeter.representation.believed import WalkSteps
from goalmeter.representation.decoded import DecodedMaps, Maps, decoded
from goalmeter.representation.explained import explained
from goalmeter.representation.map_controls import (
    ANOTHER,
    ANOTHER_WALLS,
    EMPTY_ROOM,
    empty_rooms,
    map_controls,
)
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
        controls: maps that know nothing of what was believed, by name.
        left_out: why such a map could not be made, by its name.
    """

    scenes: Scenes
    walk_steps: WalkSteps
    maps: DecodedMaps
    controls: Mapping[str, Maps]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Decoding:
    """The maps at the layer that was chosen, decoded when a stage first asks for them.

    Attributes:
        captures: the activations.
        trajectories: the walks.
        chosen: {"layer", "position", "probe"} whose maps are looked at further.
        seed: of folds, fits and controls.
    """

    captures: Captured
    trajectories: Sequence[Trajectory]
    chosen: Mapping[str, Any]
    seed: int

    def key(self, stage: str, position: str | None = None) -> str:
        """What a stage is kept under: with another probe or layer chosen, it is another one.

        Args:
            stage: what is made of the maps.
            position: of the maps; None for the chosen one.
        """
        chosen = self.chosen
        position = position or chosen["position"]
        return f"{stage}/{chosen['probe']}/layer-{chosen['layer']}/{position}"

    @cached_property
    def worlds(self) -> DecodedWorlds:
        """Those at the chosen place."""
        return self._decoded(self.chosen["position"])

    def at(self, position: str) -> DecodedWorlds:
        """Those at a position; the chosen one is decoded once, the others each time."""
        return self.worlds if position == self.chosen["position"] else self._decoded(position)

    def _decoded(self, position: str) -> DecodedWorlds:
        reading = self.captures.reading(self.chosen["layer"], position)
        parts = folds(reading.scenes, _FOLDS, seed=self.seed)
        posterior = cross_fitted(probe(self.chosen["probe"]), reading, parts, seed=self.seed)
        maps = decoded(posterior, reading.scenes)
        left_out: dict[str, str] = {}
        try:
            controls = map_controls(maps, reading.scenes, seed=self.seed)
        except InvalidParameterError as cause:
            # Only what is borrowed from another grid needs one for each.
            controls = {EMPTY_ROOM: Maps.of(empty_rooms(reading.scenes))}
            left_out = dict.fromkeys((ANOTHER, ANOTHER_WALLS), str(cause))
        return DecodedWorlds(
            reading.scenes,
            _walk_steps(self.captures, self.trajectories),
            maps,
            controls,
            left_out,
        )


def explained_stage(stages: Stages, decoding: Decoding, positions: Sequence[str]) -> dict[str, Any]:
    """What the maps of the chosen layer explain: at the chosen position, and at each.

    Controls that could not be made are named under "left_out", with the reason, if there are any.
    """

    def at(position: str) -> dict[str, Any]:
        worlds = decoding.at(position)
        parts = explained(worlds.maps, worlds.controls, worlds.scenes)
        out = {part.states: part.to_json() for part in parts}
        missing = {"left_out": dict(worlds.left_out)} if worlds.left_out else {}
        return out["all"] | {"detour": out.get("detour"), "reasons": worlds.maps.counts} | missing

    by_position: dict[str, dict[str, Any]] = {
        position: stages.value(decoding.key("explained", position), partial(at, position))
        for position in positions
    }
    chosen = decoding.chosen["position"]
    others = {name: value for name, value in by_position.items() if name != chosen}
    return by_position[chosen] | {"other_positions": others}


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
