"""Every kind of table says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meg.causal.instances import (
    MEG_08,
    SIDE,
    TEN,
    mouse,
    quick,
)

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram

# --- Where tables come from -----------------------------------------------------------------------

NUMBERED = CausalBayesianNetwork(
    {"S": [0, 1], "D": [1, 2], "T": [False, True]},
    {"D": ["S"], "T": ["S", "D"]},
    {"S": [0.5, 0.5], "D": [[0.5, 0.5], [0.5, 0.5]], "T": lambda s, d: s + 1 == d},
)
ROWS = {"D": [1, 1, 2, 2, 2], "other": ["x", "", "?", "x", "x"], "S": [0, 0, 1, 1, 0]}


def test_every_kind_of_table_says_the_same(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    path = tmp_path / "outcomes.csv"
    lines = [" D , other,S", *(",".join(map(str, row)) for row in zip(*ROWS.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n\n")
    tables: list[Any] = [
        ROWS,
        {x: np.array(column) for x, column in ROWS.items()},
        {x: [str(value) for value in column] for x, column in ROWS.items()},
        pandas.DataFrame(ROWS),
        pandas.DataFrame(ROWS).astype({"S": "category"}),
        polars.DataFrame(ROWS),
        path,
        str(path),
    ]
    shown = [quick(NUMBERED, ["D"], table, targets=["T"]).to_json() for table in tables]
    for fields in shown[1:]:
        assert fields == shown[0]
    assert shown[0]["n"] == 5


def test_a_csv_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.csv"
    path.write_text("S,D\n0,1\n1,2\n", encoding="utf-8-sig")
    assert quick(NUMBERED, ["D"], path, targets=["T"]).n == 2


def test_decisions_that_do_not_count_need_no_columns() -> None:
    network = CausalBayesianNetwork(
        {"S": [0, 1], "D": [0, 1], "E": [0, 1], "T": [0, 1]},
        {"D": ["S"], "E": ["S"], "T": ["D"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.5, 0.5], [0.5, 0.5]],
            "E": [[0.5, 0.5], [0.5, 0.5]],
            "T": lambda d: d,
        },
    )
    result = quick(network, ["D", "E"], {"S": [0, 1, 1], "D": [1, 1, 0]}, targets=["T"])
    assert result.by_decision["E"] == 0.0
    assert result.recall == "single"


def test_a_diagram_brings_its_decisions_and_its_utility() -> None:
    diagram = InfluenceDiagram.of(mouse(), decisions=["D"], utilities={"U": (["T"], [1, -1])})
    assert quick(diagram, None, TEN).raw == pytest.approx(MEG_08, abs=1e-9)


def test_outcomes_of_an_intervention() -> None:
    data = {"S": ["left"] * 4, "D": ["left", "left", "left", "right"]}
    result = quick(mouse(), ["D"], data, targets=["T"], do={"S": "left"})
    assert result.do == {"S": "left"}
    assert result.raw == pytest.approx(np.log(2) + 0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    with pytest.raises(InvalidTrajectoryError, match="row 1 of the table has S = right at 'D'"):
        quick(mouse(), ["D"], {"S": SIDE, "D": SIDE}, targets=["T"], do={"S": "left"})
