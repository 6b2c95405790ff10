"""The stage of the map: probes at every place, and the one whose maps are looked at further."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalmeter._json import json_value
from goalmeter.representation.probes.comparison import (
    UNCERTAIN,
    Comparison,
    compare,
    scored_cells,
)
from goalmeter.representation.probes.position import PositionOnly
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.probes.scores import scores
from goalmeter.representation.probes.splits import Split, split
from goalmeter.representation.result_rows import MapRow, PlaceRow
from goalmeter.representation.rows import row_from
from goalmeter.representation.scenes import CLASSES
from goalmeter.representation.stages.asked import Asked
from goalmeter.representation.stages.captures import Captured
from goalmeter.runs import Stages

_WALL = "wall"


def map_stage(
    stages: Stages, captures: Captured, wanted: Asked
) -> tuple[tuple[MapRow, ...], tuple[PlaceRow, ...], dict[str, Any]]:
    """The rows of all places, and the place whose maps are decoded.

    That place is chosen by what the probe gains on the grids that stop its fit; those that it is
    scored on have no say, so that the best of many is not taken for its luck.
    """
    seed = wanted.seed
    parts = split(captures.scenes.where(captures.rows), seed=seed)
    maps: list[MapRow] = []
    places: list[PlaceRow] = []
    gains: dict[tuple[str, int, str], float] = {}
    for name in wanted.probes:
        for layer in wanted.layers:
            for position in wanted.positions:

                def made(name: str = name, layer: int = layer, position: str = position) -> Any:
                    return _compared(captures, name, layer, position, parts, seed)

                value = stages.value(f"maps/{name}/layer-{layer}/{position}", made)
                maps += [row_from(MapRow, row) for row in value["maps"]]
                places += [row_from(PlaceRow, row) for row in value["places"]]
                gains[name, layer, position] = value["validation_gain"]
    # The first of equals, which is of the lowest layer.
    name, layer, position = max(gains, key=lambda place: gains[place])
    return tuple(maps), tuple(places), {"layer": layer, "position": position, "probe": name}


def _compared(
    captures: Captured, name: str, layer: int, position: str, parts: Split, seed: int
) -> dict[str, Any]:
    reading = captures.reading(layer, position)
    result = compare(
        probe(name),
        reading,
        parts,
        alternatives=captures.alternatives(layer, position),
        seed=seed,
    )
    maps = [
        MapRow(
            layer,
            position,
            row.probe,
            row.control,
            score.label,
            score.cells,
            score.accuracy,
            score.balanced_accuracy,
            score.auroc,
            score.gain_bits,
            row.parameters,
            row.scored,
        )
        for row in result.rows
        for score in row.scores
    ]
    places = [
        PlaceRow(layer, position, row.probe, row.control, each.label, each.exact, each.distance)
        for row in result.rows
        for each in row.places
    ]
    return {
        "maps": json_value(maps),
        "places": json_value(places),
        "validation_gain": _validation_gain(result, reading, parts, seed),
    }


def _validation_gain(result: Comparison, reading: Reading, parts: Split, seed: int) -> float:
    """Bits a cell over position alone, of walls in uncertain cells of the validation grids."""
    train, beside = reading.where(parts.train), reading.where(parts.validation)
    shapes = beside.scenes.shapes
    position = PositionOnly().fit(train, beside, seed=seed)
    cells = scored_cells(train.scenes, beside.scenes)
    rows = scores(
        result.fitted.posterior(beside.activations, shapes),
        position.posterior(beside.activations, shapes),
        beside.scenes,
        {UNCERTAIN: cells[UNCERTAIN]},
    )
    gains = [r.gain_bits.value for r in rows if (r.cells, r.label) == (UNCERTAIN, _WALL)]
    # Where no cell is uncertain there is nothing to choose by.
    return gains[0] if gains and np.isfinite(gains[0]) else -float(len(CLASSES))
