"""Which cells organisms are asked about, and the table of what they act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalmeter.commands.replicate import replicate as run_study

pytest.importorskip("transformers")

from goalmeter._errors import InvalidParameterError
from goalmeter.representation import Network
from replications.organism_use import study
from replications.organism_use.study import decoding

SHARE = {"value": 0.5, "interval": [0.25, 0.75], "n": 8, "clusters": 4}
NONE = {"value": None, "interval": None, "n": 0, "clusters": 0}


@pytest.fixture(scope="module")
def network() -> Network:
    return Network.open("goalmeter/mouse")


def fake_use(question: study.CellQuestion, families: tuple[str, ...]) -> Any:
    """A result of the shape of `Use`, of which every share is a half."""

    class Fake:
        outcomes: tuple[Any, ...] = ()
        outcomes_of_screen: tuple[Any, ...] = ()

        def to_json(self) -> dict[str, Any]:
            effect = {"flips": SHARE, "as_if_changed": SHARE, "unreadable": SHARE}
            row = {"position": "pre/cell", "is_null": False, "needed": effect, "unneeded": effect}
            names = ("write, turn", "write, turn, random")
            written = [row | {"intervention": name, "layer": 1} for name in names]
            family = {"row": written[0], "nulls": written[1:]}
            return {
                "model": question.model,
                "confirmed": row | {"intervention": "knock-out", "layer": 1},
                "nulls": [
                    row | {"intervention": "knock-out, other", "layer": "all", "is_null": True}
                ],
                "screened": [
                    row
                    | {"intervention": "patch, end", "layer": "all"}
                    | {"needed": effect | {"flips": NONE}}
                ],
                "families": [family] if "write" in families else [],
                "verdict": "used" if question.cells == "seen" else "inconclusive",
            }

    return Fake()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is asked, in place of asking it."""
    out: list[tuple[Any, ...]] = []

    def answer(
        question: study.CellQuestion, size: int, grids: int, seed: int, **options: Any
    ) -> Any:
        out.append((question.model, question.cells, size, options["families"][0]))
        return fake_use(question, tuple(options["families"]))

    monkeypatch.setattr(study, "answer", answer)
    monkeypatch.setattr(study.Network, "open", lambda name: None)
    monkeypatch.setattr(study, "decoding", lambda *_, **__: {"the model": SHARE})
    return out


def test_a_row_for_each_question(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    outcome = run_study("organism-use", tmp_path, seeds=3, on="here")
    assert len(asked) == 19 and len(set(asked)) == 19
    used, written, apart = outcome.tables
    assert [len(table.rows) for table in (used, written, apart)] == [15, 4, 3]
    text = (tmp_path / "tables.md").read_text()
    assert "| mouse | seen, size 7 | 0.50 [0.25, 0.75] | – | – | knock-out, layer 1 |" in text
    assert "| mole | unseen, size 7 | write, turn, layer 1 | pre/cell | 50.0%" in text
    assert outcome.json["answers"][0]["verdict"] == "used"
    # What is kept is not asked again.
    run_study("organism-use", tmp_path, seeds=3, on="here")
    assert len(asked) == 19
    with pytest.raises(InvalidParameterError, match="seeds is 1, expected at least 2"):
        run_study("organism-use", tmp_path, seeds=1, on="here")


@pytest.mark.slow
def test_what_decodes_of_a_kind_of_cells_stands_beside_controls(network: Network) -> None:
    """A network with random weights lets listed cells be read too, and position does not."""
    read = decoding(network, "seen", layer=1, size=7, grids=20, seed=0)
    assert set(read) == {"the model", "position only", "random weights"}
    for value in read.values():
        assert 0.4 < value["value"] <= 1.0 and value["clusters"] > 5
    assert read["random weights"]["interval"][0] > read["position only"]["value"]
