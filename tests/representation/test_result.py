"""A probe's result is the same after it was written and read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.representation.result import FOLDER, RESULT, Representation, has_result
from goalmeter.representation.result_rows import (
    DecidedRow,
    DoseRow,
    MapRow,
    MovedRow,
    PlaceRow,
    PlanRow,
    SettledRow,
    SpanRow,
    StatePicture,
    SubspaceRow,
    UsedRow,
)
from goalmeter.statistics.clusters import Estimate

HALF = Estimate(0.5, (0.4, 0.6), 20, 10)
NONE = Estimate(math.nan, None, 0, 0)


def a_result() -> Representation:
    """A result with a row of every kind."""
    return Representation(
        run="walks",
        model="goalmeter/mouse",
        revision="abc",
        decisions=20,
        grids=10,
        about={"layers": [1], "seed": 0},
        chosen={"layer": 1, "position": "pre/end", "probe": "ridge"},
        maps=(
            MapRow(
                *(1, "pre/end", "ridge", None, "wall", "uncertain"),
                *(HALF, HALF, Estimate(0.97, (0.9, 0.99), 20, 10), HALF, 12, "test grids"),
            ),
            MapRow(
                *(1, "pre/end", "ridge", "position only", "wall", "uncertain"),
                *(HALF, HALF, Estimate(0.61, (0.5, 0.7), 20, 10), HALF, 0, "test grids"),
            ),
            MapRow(
                *(1, "pre/end", "ridge", "majority", "wall", "uncertain"),
                *(HALF, HALF, None, HALF, 0, "test grids"),
            ),
        ),
        places=(PlaceRow(1, "pre/end", "ridge", None, "goal", HALF, HALF),),
        use=(
            UsedRow(
                *("confirm", "knock-out", "all", "pre/cell", False, True, 20),
                *(Estimate(0.9, (0.8, 0.95), 20, 10), HALF, NONE, NONE, HALF, None),
            ),
        ),
        verdict="used",
        doses=(DoseRow("write", 2, "pre/cell", 1.5, HALF, NONE, NONE),),
        spans=(SpanRow("confirm", "own", 9, HALF, HALF, NONE, HALF),),
        moved=(
            MovedRow(
                *("confirm", "goal", "1-2", "pre/goal", True, False, 9),
                *(HALF, HALF, NONE, HALF),
            ),
        ),
        subspaces=(
            SubspaceRow(
                *("confirm", "goal", 1, "pre/goal", 4, 9, (3.0, 0.5), 9, HALF, HALF, HALF),
                *("carries it", 31.5, (60.0, 70.0, 80.0)),
            ),
            SubspaceRow(
                *("confirm", "agent", 1, "pre/agent", 4, 9, (3.0, 0.5), 9, HALF, NONE, HALF),
                *("cannot be told", None, ()),
            ),
        ),
        plan=(PlanRow(1, "post/end", "decoder", 2, HALF, NONE, {"majority": {"prefix": HALF}}),),
        decided=(DecidedRow(1, "post/0.5", 1, HALF, {"position only": HALF}, NONE, HALF, NONE),),
        settled=(SettledRow(1, 1, 0.25, None),),
        states=(
            StatePicture(
                *("walk", 3, ("###", "#A#", "###"), (), ((1.0, 0.2),), ((None, 0.5),)),
                *(None, (0, 2), ()),
            ),
        ),
        left_out={"plan": "no reasoning"},
    )


def edited(**changes: object) -> str:
    return json.dumps(a_result().to_json() | changes)


def test_a_result_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Also what is undefined, which JSON has no number for."""
    result = a_result()
    result.save(tmp_path)
    read = Representation.load(tmp_path)
    assert read.to_json() == result.to_json()
    assert read.maps == result.maps and read.states == result.states
    assert read.subspaces[0] == result.subspaces[0] and read.settled == result.settled
    assert read.moved[0].layer == "1-2" and read.spans[0].other_flips == HALF
    assert math.isnan(read.use[0].unreadable.value) and read.use[0].effect_nats is None
    assert read.plan[0].baselines["majority"]["prefix"] == HALF


def test_a_result_of_another_run_is_refused(tmp_path: Path) -> None:
    replace(a_result(), about={"run": "this"}).save(tmp_path)
    assert Representation.load(tmp_path, "this").model == "goalmeter/mouse"
    with pytest.raises(InvalidFileError, match="does not name the decisions of this run"):
        Representation.load(tmp_path, "another")


def test_the_json_has_the_names_of_the_contract() -> None:
    """A measured number is a value with its interval and count."""
    value = json.loads(json.dumps(a_result().to_json()))
    assert {"run", "model", "maps", "use", "explained", "believed", "plan"} <= set(value)
    row = value["maps"][0]
    assert {"layer", "position", "probe", "control", "class", "accuracy", "auroc"} <= set(row)
    assert row["class"] == "wall" and row["auroc"]["interval"] == [0.9, 0.99]
    assert row["auroc"]["n"] == 20 and value["maps"][2]["auroc"] is None
    names = {"layer", "position", "intervention", "cells", "flips", "null_flips", "effect_nats"}
    assert names <= set(value["use"][0])


def test_it_prints_the_probe_beside_its_best_control() -> None:
    """And the intervention that was confirmed, beside its null."""
    text = str(a_result())
    assert "0.97 [0.90, 0.99]" in text and "position only 0.61" in text
    assert "90.0% [80.0, 95.0]" in text and "is used" in text
    assert "0.97" in a_result()._repr_html_()


@pytest.mark.parametrize(
    ("gain", "places", "reason"),
    [
        (Estimate(0.5, (0.4, 0.6), 20, 10), {"used": 3}, ""),
        (Estimate(0.5, (0.4, 0.6), 20, 10), {"not used": 1, "unknown": 4}, ""),
        (Estimate(-0.6, (-1.7, 0.4), 20, 10), {"used": 3}, "better than from places alone"),
        (Estimate(0.5, (0.4, 0.6), 20, 10), {"unknown": 3}, "of no cell it could be told"),
    ],
)
def test_a_world_is_called_believed_where_it_was_read_and_its_use_told(
    gain: Estimate, places: dict[str, int], reason: str
) -> None:
    result = a_result()
    ours, *controls = result.maps
    nats = {"nats": HALF.to_json()}
    text = str(
        replace(
            result,
            maps=(replace(ours, gain_bits=gain), *controls),
            verdict="cannot be told",
            believed={"meg_true": nats, "meg_believed": nats, "places": places},
        )
    )
    assert "MEG in the believed world" in text and reason in text
    assert ("nothing is said of a believed world" in text) == bool(reason)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "holds nothing that was read of its model"),
        ("{", "is no result of this version"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1}', "KeyError"),
        ("[]", "is no result of this version"),
        (edited(about={"parts": None}), "is no result of this version"),
        (edited(about={"probes": ["ridge", 1]}), "is no result of this version"),
        (edited(left_out={"plan": 1}), "is no result of this version"),
        (edited(believed=[]), "is no result of this version"),
    ],
)
def test_a_file_that_is_no_result_is_refused(
    tmp_path: Path, text: str | None, message: str
) -> None:
    """In one sentence that says what to do."""
    if text is not None:
        (tmp_path / FOLDER).mkdir()
        (tmp_path / FOLDER / RESULT).write_text(text)
    with pytest.raises(InvalidFileError, match=message) as caught:
        Representation.load(tmp_path)
    assert "probe" in str(caught.value)
    assert has_result(tmp_path) == (text is not None)
