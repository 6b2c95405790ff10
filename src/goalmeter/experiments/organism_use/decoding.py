"""What decodes of the cells that an organism was made to see, and of those that it was not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.experiments.organism_use.questions import mazes, question_at, wanted, with_tokens
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell
from goalmeter.representation.capture import capture
from goalmeter.representation.network import Network
from goalmeter.representation.probes.comparison import UNCERTAIN, compare, scored_cells
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.ridge import Ridge
from goalmeter.representation.probes.scores import scores
from goalmeter.representation.probes.splits import split
from goalmeter.representation.replay import scenes_of
from goalmeter.representation.untrained import untrained

TRAINED, POSITION, RANDOM = "the model", "position only", "random weights"
_POSITION_NAME = "pre/end"


def decoding(
    network: Network, cells: str, *, layer: int, size: int, grids: int, seed: int
) -> dict[str, Any]:
    """The AUROC of walls of some cells, read from the last tokens of prompts.

    Args:
        network: the organism.
        cells: "seen", "unseen" or "far", as in `questions`.
        layer: that is read.
        size: of the mazes.
        grids: of each complexity; no organism learnt in them.
        seed: of the mazes and fits.

    Returns:
        By name an estimate as JSON values: of the model, of position only, and of the same network
        with random weights.
    """
    samples = [
        with_tokens(network, question_at(task, State(task.world.start)))
        for task in mazes(size, grids, seed)
    ]
    scenes = scenes_of(samples)
    parts = split(scenes, seed=seed)
    tested = scenes.where(parts.test)
    wants = wanted(cells)
    mask = scored_cells(scenes.where(parts.train), tested)[UNCERTAIN]
    for number, place in enumerate(parts.test.tolist()):
        for row, column in np.argwhere(mask[number]).tolist():
            mask[number, row, column] = wants(samples[place], Cell(row, column))
    out: dict[str, Any] = {}
    for name, source in ((TRAINED, network), (RANDOM, untrained(network, seed=seed))):
        with tempfile.TemporaryDirectory() as folder:
            read = capture(
                samples, source, Path(folder), layers=[layer], positions=[_POSITION_NAME]
            ).at(layer, _POSITION_NAME)
        reading = Reading(read.reshape(len(samples), -1), scenes)
        result = compare(Ridge(), reading, parts, seed=seed)
        out[name] = _auroc(result.posterior, result.position, tested, mask)
        out[POSITION] = _auroc(result.position, result.position, tested, mask)
    return out


def _auroc(posterior: Any, position: Any, scenes: Any, mask: Any) -> dict[str, Any] | None:
    rows = scores(posterior, position, scenes, {"asked": mask})
    walls = [row.auroc for row in rows if (row.cells, row.label) == ("asked", "wall")]
    return walls[0].to_json() if walls and walls[0] is not None else None
