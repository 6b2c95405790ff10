"""What is kept of decoded maps belongs to the probe and the layer that were chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goalmeter.representation.stages.worlds import Decoding, explained_stage
from goalmeter.runs import Stages


class Labelled(Decoding):
    """Maps of which nothing is known but where they were read."""

    def at(self, position: str) -> Any:
        raise LookupError(f"{self.chosen['probe']} at {self.chosen['layer']}, {position}")


def test_another_probe_explains_anew(tmp_path: Path) -> None:
    """A probe that is added to a finished run, and reads better, does not get old shares."""

    def decoding(probe: str, layer: int) -> Decoding:
        chosen = {"probe": probe, "layer": layer, "position": "pre/end"}
        return Labelled(SimpleNamespace(), (), chosen, 0)  # type: ignore[arg-type]

    with Stages(tmp_path / "probe", {"kind": "probe"}) as stages:
        ridge = decoding("ridge", 3)
        stages.keep(ridge.key("explained"), {"optimal": 0.5})
        kept = explained_stage(stages, ridge, ["pre/end"])
        assert kept == {"optimal": 0.5, "other_positions": {}}
        for other in (decoding("mlp", 3), decoding("ridge", 2)):
            with pytest.raises(LookupError, match=f"{other.chosen['probe']} at"):
                explained_stage(stages, other, ["pre/end"])
