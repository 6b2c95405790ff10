"""Which cells organisms are asked about, and the table of what they act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from goalmeter._errors import InvalidParameterError
from goalmeter.experiments.organism_use import questions, replicate
from goalmeter.gridworld.contents import held_out
from goalmeter.gridworld.world import GridWorld
from goalmeter.organisms import organism
from goalmeter.representation import Network
from goalmeter.representation.use.cells import target_cells

SHARE = {"value": 0.5, "interval": [0.25, 0.75], "n": 8, "clusters": 4}
NONE = {"value": None, "interval": None, "n": 0, "clusters": 0}


@pytest.fixture(scope="module")
def network() -> Network:
    return Network.open("goalmeter/mouse")


@pytest.mark.parametrize("cells", ["seen", "unseen", "far"])
def test_each_decision_needs_a_cell_of_its_question(network: Network, cells: str) -> None:
    """And it is one of those that the mole sees, or does not, or one that is not beside the agent.

    The prompt's tokens are the question's own, and no recipe taught the grid.
    """
    wants = questions.wanted(cells)
    decisions = questions.decisions(network, wants, 7, 6, 0)
    assert len(decisions) > 6
    for sample in decisions:
        needed = [
            target.cell
            for target in target_cells(sample.world, sample.state)
            if target.needed and wants(sample, target.cell)
        ]
        assert needed and held_out(sample.world)
        for cell in needed:
            at = sample.state.cell
            far = abs(at.row - cell.row) + abs(at.column - cell.column) > 1
            # A wall there would be on the mole's map, or would not.
            walls = sample.world.walls.copy()
            walls[cell] = True
            closed = GridWorld(walls, sample.world.start, sample.world.goal)
            seen = bool(organism("mole").walls(closed)[cell])
            assert far if cells == "far" else seen == (cells == "seen")
        words = network.local.tokenizer.decode(sample.prompt)
        assert "".join(sample.question.split()) in "".join(words.split())


def fake_use(name: str, cells: str, size: int, grids: int, seed: int) -> Any:
    """A result of the shape of `Use`, of which every share is a half."""

    class Fake:
        def to_json(self) -> dict[str, Any]:
            effect = {"flips": SHARE, "as_if_wall": SHARE, "unreadable": SHARE}
            row = {"position": "pre/cell", "is_null": False, "needed": effect, "unneeded": effect}
            return {
                "model": f"goalmeter/{name}",
                "confirmed": row | {"intervention": "knock-out", "layer": 1},
                "nulls": [
                    row | {"intervention": "knock-out, other", "layer": "all", "is_null": True}
                ],
                "screened": [
                    row
                    | {"intervention": "patch, end", "layer": "all"}
                    | {"needed": effect | {"flips": NONE}}
                ],
                "verdict": "used" if cells == "seen" else "cannot be told",
            }

    return Fake()


def test_a_row_for_each_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    def answer(name: str, cells: str, size: int, grids: int, seed: int) -> Any:
        asked.append((name, cells, size))
        return fake_use(name, cells, size, grids, seed)

    monkeypatch.setattr(replicate, "answer", answer)
    outcome = replicate.replicate(tmp_path, seeds=3)
    assert len(asked) == 10 and len(set(asked)) == 10
    (table,) = outcome.tables
    assert len(table.rows) == 10
    text = (tmp_path / "tables.md").read_text()
    assert "| mouse | seen, size 7 | knock-out, layer 1 | 50.0% [25.0, 75.0] |" in text
    assert outcome.json["answers"][0]["verdict"] == "used"
    # What is kept is not asked again.
    replicate.replicate(tmp_path, seeds=3)
    assert len(asked) == 10
    with pytest.raises(InvalidParameterError, match="seeds is 1, expected at least 2"):
        replicate.replicate(tmp_path, seeds=1)
