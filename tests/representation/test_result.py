"""A probe's result is the same after it was written and read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.representation.result import FOLDER, RESULT, Representation, has_result
from goalmeter.representation.result_rows import MapRow, UsedRow
from goalmeter.statistics.clusters import Estimate

HALF = Estimate(0.5, (0.4, 0.6), 20, 10)
NONE = Estimate(math.nan, None, 0, 0)
PLAIN: dict[Any, Any] = {int: 3, float: 0.25, str: "text", bool: True, Any: 1, Estimate: HALF}


def made(hint: Any) -> Any:
    """A value of a type; a row with a value in every field."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: made(hints[name]) for name in hint.__dataclass_fields__})  # type: ignore[operator]
    if origin in (Union, UnionType):
        return made(inner[0])
    if origin is tuple:
        return (made(inner[0]),) * 2
    assert issubclass(origin, Mapping)  # type: ignore[arg-type]
    return {"a name": made(inner[1])}


def a_result() -> Representation:
    """A result with a row of every kind, and the controls of one probe."""
    place: Any = (1, "pre/end", "ridge")
    rows = [
        MapRow(*place, control, "wall", "uncertain", HALF, HALF, auroc, HALF, 12, "test grids")
        for control, auroc in (
            (None, Estimate(0.97, (0.9, 0.99), 20, 10)),
            ("position only", Estimate(0.61, (0.5, 0.7), 20, 10)),
            ("majority", None),
        )
    ]
    use = replace(
        made(UsedRow),
        half="confirm",
        intervention="knock-out",
        layer="all",
        flips=Estimate(0.9, (0.8, 0.95), 20, 10),
        unreadable=NONE,
        effect_nats=None,
    )
    return replace(
        made(Representation),
        about={"layers": [1], "seed": 0},
        chosen=dict(zip(("layer", "position", "probe"), place, strict=True)),
        maps=tuple(rows),
        use=(use,),
        believed={},
        verdict="used",
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
    assert math.isnan(read.use[0].unreadable.value) and read.use[0].effect_nats is None
    for name in ("maps", "places", "doses", "spans", "moved", "subspaces", "decided", "states"):
        assert getattr(read, name) == getattr(result, name)
    row = json.loads(edited())["maps"][0]
    assert row["class"] == "wall" and row["auroc"]["interval"] == [0.9, 0.99]
    replace(result, about={"run": "this"}).save(tmp_path)
    assert Representation.load(tmp_path, "this").model == result.model
    with pytest.raises(InvalidFileError, match="belongs to the decisions of another run"):
        Representation.load(tmp_path, "another")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "contains no result of a probe"),
        ("{", "is not a result of this version"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1}', "KeyError"),
        ("[]", "is not a result of this version"),
        (edited(about={"probes": ["ridge", 1]}), "is not a result of this version"),
        (edited(left_out={"plan": 1}), "is not a result of this version"),
        (edited(believed=[]), "is not a result of this version"),
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


def test_a_result_of_another_run_is_refused(tmp_path: Path) -> None:
    replace(a_result(), about={"run": "this"}).save(tmp_path)
    assert Representation.load(tmp_path, "this").about == {"run": "this"}
    with pytest.raises(InvalidFileError, match="belongs to the decisions of another run"):
        Representation.load(tmp_path, "another")
