"""Activations of all decisions of a run: of the model, of its embedding, of random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.capture import capture
from goalmeter.representation.network import Network
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.scenes import Scenes
from goalmeter.representation.untrained import alternatives_of, untrained
from goalmeter.runs.progress import Tell

# Folders of the probe in which activations lie.
ACTIVATIONS, RANDOM_WEIGHTS = "activations", "random-weights"


@dataclass(frozen=True)
class Captured:
    """What was captured of the decisions of a run.

    Attributes:
        samples: the decisions, [N].
        scenes: what they look like, [N].
        trained: activations of the model.
        replay_random: replays them through the same architecture with random weights.
        rows: numbers of the decisions that have every position, so that positions can be compared.
    """

    samples: tuple[Sample, ...]
    scenes: Scenes
    trained: Activations
    replay_random: Callable[[], Activations]
    rows: IntArray

    @cached_property
    def random(self) -> Activations:
        """Activations of the same architecture with random weights, replayed when first needed."""
        return self.replay_random()

    def reading(self, layer: int, position: str) -> Reading:
        """Activations at a place, tokens side by side, of decisions that have every position."""
        return Reading(self._flat(layer, position), self.scenes.where(self.rows))

    def alternatives(self, layer: int, position: str) -> dict[str, FloatArray]:
        """What might hold as much without having learnt anything, by name."""
        return alternatives_of(self.trained, layer, position, random=self.random, rows=self.rows)

    def _flat(self, layer: int, position: str) -> FloatArray:
        rows = self.trained.at(layer, position)[self.rows]
        return rows.reshape(len(rows), -1)


def captured(
    samples: tuple[Sample, ...],
    network: Network,
    folder: Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    seed: int,
    tell: Tell,
) -> Captured:
    """Replay all decisions through the model and, when they are needed, through random weights."""
    of_random = folder / RANDOM_WEIGHTS
    trained = capture(
        samples,
        network,
        folder / ACTIVATIONS,
        layers=[0, *layers],
        positions=positions,
        later={of_random: layers},
        progress=tell,
    )

    def replay_random() -> Activations:
        # Such a network is made and hashed even if its activations are all kept: some seconds.
        return capture(
            samples,
            untrained(network, seed=seed),
            of_random,
            layers=layers,
            positions=positions,
            progress=tell,
        )

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer"
        )
    return Captured(
        samples,
        scenes_of(samples),
        trained,
        replay_random,
        np.flatnonzero(complete),
    )
