"""What is kept of decoded maps belongs to the probe and the layer that were chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from representation.planted import Plant, planted

from goalmeter.representation.beliefs.decoded_maps import ANOTHER, ANOTHER_WALLS, EMPTY_ROOM, GREEDY
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.stages.decoding import Decoding, ProbeRun, explained_stage
from goalmeter.runs import Stages


def test_maps_that_no_grid_can_lend_are_left_out_and_nothing_else(tmp_path: Path) -> None:
    """More than half of the decisions in one grid: the empty room needs no other grid."""
    made = planted(Plant(grids=12, size=5, dimensions=32, noise=0.5), seed=0)
    grids = made.believed_scenes.grids
    crowded = np.flatnonzero(grids == grids[0])
    whole = Reading(made.activations, made.believed_scenes)
    for times, missing in ((0, set()), (40, {ANOTHER, ANOTHER_WALLS})):
        rows = np.concatenate([np.arange(len(grids)), *[crowded] * times])
        captures: Any = SimpleNamespace(
            reading=lambda layer, position, rows=rows: whole.where(rows),
            samples=(),
            rows=np.zeros(0, int),
        )
        chosen = {"probe": "ridge", "layer": 1, "position": "pre/end"}
        with Stages(tmp_path / str(times), {"kind": "probe"}) as stages:
            run = ProbeRun(stages, (), None, ProbeOptions(positions=("pre/end",)))  # type: ignore[arg-type]
            kept = explained_stage(run, Decoding(captures, (), chosen, 0))
        assert set(kept.get("left_out", {})) == missing
        assert all("are in one grid" in reason for reason in kept.get("left_out", {}).values())
        controls = set(kept["explained_errors"]["controls"])
        assert {EMPTY_ROOM, GREEDY} <= controls and controls.isdisjoint(missing)
        assert missing or {ANOTHER, ANOTHER_WALLS} <= controls
        assert kept["steps"] == len(rows)
