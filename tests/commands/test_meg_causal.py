"""`goalmeter meg causal`: what is asked of a file is answered, with what defends the number."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter import GoalmeterError
from goalmeter.causal.examples import example_1
from goalmeter.commands.meg_causal import measure_causal
from goalmeter.report import Table

# log 2 - H(0.8): the paper's Example 1.
MEG = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
KEYS = {"meg", "upper_bound", "maximum", "fraction", "rationality", "method"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    example_1(0.8).to_bif(folder / "m.bif")
    example_1(1.0).to_xmlbif(folder / "always.xmlbif")
    utility = [{"variables": ["T"], "values": [1, -1]}]
    (folder / "u.json").write_text(json.dumps(utility))
    both = [*utility, {"variables": ["S", "M"], "values": [[1, 0], [0, 1]]}]
    (folder / "both.json").write_text(json.dumps(both))
    (folder / "t.csv").write_text("S,D\n" + "left,left\n" * 8 + "left,right\n" * 2)
    return folder


def cells(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.cells]


# --- What is answered -----------------------------------------------------------------------------
def test_targets(files: Path) -> None:
    outcome = measure_causal(files / "m.bif", decisions=["D"], targets=["T"])
    assert outcome.json.keys() >= KEYS
    assert outcome.json["meg"] == pytest.approx(MEG, abs=1e-9)
    assert outcome.json["upper_bound"] == pytest.approx(MEG, abs=1e-6)
    assert outcome.json["rationality"] == pytest.approx(np.log(2))
    result, goal = outcome.tables
    assert result.caption == "Goal-directedness of D towards some utility over T"
    assert ["what the graph says", "one decision influences the utility"] in cells(result)
    assert cells(goal) == [["cheese", "+1"], ["none", "−1"]]
    assert "[D]  {left, right}   ← S" in outcome.text.splitlines()


def test_shifts_score_the_goal_of_the_original_world(files: Path) -> None:
    outcome = measure_causal(
        files / "m.bif", decisions=["D"], targets=["T"], shift=["S=left", "S=left,M=right"]
    )
    assert outcome.json["meg"] == pytest.approx(MEG, abs=1e-9)
    rows = outcome.json["interventions"]["rows"]
    assert [row["do"] for row in rows] == [{}, {"S": "left"}, {"S": "left", "M": "right"}]
    assert [row["gap"] for row in rows] == pytest.approx([0, 0, 0], abs=1e-6)
    table = outcome.tables[-1]
    assert [row[0] for row in cells(table)] == [
        "as it is",
        "do(S = left)",
        "do(S = left, M = right)",
    ]
    known = measure_causal(
        files / "m.bif", decisions=["D"], utility=files / "u.json", shift=["S=right"]
    )
    assert known.json["interventions"]["rows"][1]["transferred"] == pytest.approx(MEG, abs=1e-9)


def test_outcomes_give_an_interval(files: Path) -> None:
    outcome = measure_causal(
        files / "m.bif", decisions=["D"], targets=["T"], data=files / "t.csv", seed=1
    )
    low, high = outcome.json["interval"]
    assert low < outcome.json["corrected"] < high and outcome.json["n"] == 10
    assert outcome.json["meg"] == pytest.approx(MEG, abs=1e-6)
    assert ["rows of the table", "10"] in cells(outcome.tables[0])


# --- Nothing to influence -------------------------------------------------------------------------


# --- Pictures and text ----------------------------------------------------------------------------
def test_the_drawing_shows_the_question(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "d.svg"
    for options, words in (
        ({"targets": ["T"], "do": ["S=left"]}, ["D (decision)", "T (chance)"]),
        ({"utility": files / "u.json"}, ["D (decision)", "U (utility)"]),
        ({"utility": files / "both.json"}, ["U1 (utility)", "U2 (utility)"]),
        ({"sensitivity": 1}, ["D (decision)"]),
    ):
        outcome = measure_causal(files / "m.bif", decisions=["D"], drawing=path, **options)  # type: ignore[arg-type]
        svg = path.read_text(encoding="utf-8")
        assert svg.startswith("<svg") and all(f"<title>{word}</title>" in svg for word in words)
        assert outcome.json["drawing"] == str(path)


# --- What is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--target, --utility, --sensitivity: none of them given, expected exactly one"),
        ({"targets": ["T"], "utility": "u.json"}, "--target and --utility given, expected exactly"),
        ({"decisions": [], "targets": ["T"]}, "decisions are missing, expected one or more"),
        ({"sensitivity": 1, "data": "t.csv"}, "--sensitivity and --data are both given"),
        ({"targets": ["T"], "drawing": "d.png"}, "--drawing is 'd.png', expected a name that"),
        ({"targets": ["T"], "do": ["S=lift"]}, "--do: state of 'S': 'lift' does not exist"),
        ({"targets": ["T"], "do": ["D=left"]}, "do sets the decision 'D', expected other"),
        ({"targets": ["t"]}, "target 't' does not exist, expected one of S, D, M, T; did you"),
        ({"decisions": ["E"], "targets": ["T"]}, "decision 'E' does not exist, expected one of"),
        ({"utility": "none.json"}, "none.json: file not found"),
    ],
)
def test_what_is_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(files)
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        measure_causal("m.bif", **({"decisions": ["D"]} | options))
