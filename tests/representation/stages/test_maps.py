"""The stage of the map: what it keeps, also where one grid has most of the decisions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from representation.planted import Plant, planted

from goalmeter.representation.probes.comparison import CONTROL_TASK, SHUFFLED
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.stages.decoding import map_stage
from goalmeter.runs import Stages

MADE = planted(Plant(grids=24, size=5, dimensions=32, noise=0.5), seed=0)


def captures_of(rows: Any) -> Any:
    """Planted activations as a replay has them, of some decisions."""
    reading = Reading(MADE.activations, MADE.believed_scenes).where(rows)
    return SimpleNamespace(
        scenes=reading.scenes,
        rows=np.arange(len(rows)),
        reading=lambda layer, position: reading,
        alternatives=lambda layer, position: {},
    )


@pytest.mark.parametrize(("times", "missing"), [(1, set()), (40, {SHUFFLED})])
def test_a_control_that_cannot_be_made_leaves_all_other_numbers(
    tmp_path: Path, times: int, missing: set[str]
) -> None:
    grids = MADE.believed_scenes.grids
    crowded = np.flatnonzero(grids == grids[0])
    rows = np.concatenate([np.arange(len(grids)), *[crowded] * (times - 1)])
    asked: Any = SimpleNamespace(seed=0, probes=["ridge"], layers=[1], positions=["pre/end"])
    with Stages(tmp_path / "probe", {"kind": "probe"}) as stages:
        maps, places, chosen, left_out = map_stage(stages, captures_of(rows), asked)
        again = map_stage(stages, captures_of(rows), asked)
    controls = {row.control for row in maps}
    assert {None, "position only", "majority"} <= controls and places
    assert chosen == {"layer": 1, "position": "pre/end", "probe": "ridge"}
    assert missing <= set(left_out) <= {SHUFFLED, CONTROL_TASK}
    assert controls.isdisjoint(left_out) and controls | set(left_out) >= {SHUFFLED, CONTROL_TASK}
    assert bool(left_out) == bool(missing)
    # Kept with the rest, so that a probe that goes on says the same.
    assert again[3] == left_out
