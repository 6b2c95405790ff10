"""Every kind of table says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meg.causal.instances import (
    quick,
)

from goalmeter.causal import CausalBayesianNetwork

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
