"""A run of each architecture goes through replay, capture, comparison and knock-out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("inspect_ai")

import goalmeter as gm
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.prompts import Asking
from goalmeter.representation.capture import EMBEDDINGS, RANDOM_WEIGHTS, alternatives_of, untrained
from goalmeter.representation.replay import Located
from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.interventions import knock_out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gpt-oss", "gpt2", "qwen"])
def test_from_a_run_to_a_changed_answer(
    networks: dict[str, Any], name: str, tmp_path: Path
) -> None:
    gm.navigation.measure(
        networks[name].name,
        sizes=[7],
        complexities=[0.6],
        grids=8,
        trajectories=1,
        cap=1,
        beside=[],
        asking=Asking(max_tokens=3, temperature=0.0, options={"device": "cpu"}),
        out=tmp_path / "run",
    )
    decisions, network = gm.representation.replay(tmp_path / "run")
    assert len(decisions) == 8 and network.revision == networks[name].revision
    places: dict[str, Any] = {"layers": [0, 2], "positions": ["pre/end"]}
    ours = gm.representation.capture(decisions, network, tmp_path / "ours", **places)
    random = gm.representation.capture(
        decisions, untrained(network, seed=0), tmp_path / "random", **places
    )
    scenes = gm.representation.scenes_of(decisions)
    result = gm.representation.compare(
        gm.representation.probe("ridge"),
        gm.representation.Reading(ours.at(2, "pre/end").reshape(8, -1), scenes),
        gm.representation.split(scenes, validation=0.3, test=0.3),
        alternatives=alternatives_of(ours, 2, "pre/end", random=random),
    )
    assert {EMBEDDINGS, RANDOM_WEIGHTS, "position only"} <= {row.control for row in result.rows}
    located = Located(decisions[0], network.local.tokenizer)
    tokens = {t for row in range(7) for column in range(7) for t in located.cell(Cell(row, column))}
    change = knock_out(sorted(tokens), range(1, len(network.blocks) + 1))
    before, after = (
        answer_all(network, decisions[:1], changes, tokens=12)[0].tokens
        for changes in (None, [change])
    )
    # Asked again as it was, it writes what the run recorded; without the grid it writes otherwise.
    assert before[: len(decisions[0].answer)] == decisions[0].answer
    assert after != before
