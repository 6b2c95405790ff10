"""A narrower question leaves an earlier result as it is, and begins nothing that was not asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalmeter.representation.measure import EarlierResult
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.result import Representation

WANTED = ProbeOptions((1,), ("pre/end",), ("ridge",), ("maps",), ("knock-out",), 12)


class Weights:
    """What is asked of a network here."""

    revision = "the weights"


def result(**changes: Any) -> Representation:
    asked = replace(WANTED, parts=("maps", "plan"), probes=("ridge", "logistic"))
    values: dict[str, Any] = {
        "run": "run",
        "model": "goalmeter/mouse",
        "revision": Weights.revision,
        "decisions": 3,
        "grids": 2,
        "about": {"run": "decisions"} | asked.to_json(),
        "chosen": {"layer": 1},
        "states": (),
        "verdict": "",
    }
    return Representation(**values | changes)


def held(folder: Path, kept: Representation | None, wanted: ProbeOptions = WANTED) -> EarlierResult:
    if kept is not None:
        kept.save(folder)
    return EarlierResult.of(folder, wanted, Weights(), "decisions")  # type: ignore[arg-type]


def test_parts_and_probes_are_joined(tmp_path: Path) -> None:
    """Those of before in front, and the parts in their own order."""
    before = held(tmp_path, result())
    together = before.together(replace(WANTED, parts=("use",), probes=("mlp",)))
    assert together.parts == ("maps", "use", "plan")
    # Probes are of the maps, which were not asked for.
    assert together.probes == ("ridge", "logistic")
    again = before.together(replace(WANTED, probes=("mlp",)))
    assert (again.parts, again.probes) == (("maps", "plan"), ("ridge", "logistic", "mlp"))


def test_only_what_is_asked_for_is_made(tmp_path: Path) -> None:
    """But use beside maps asks for the believed world, which opens these again."""
    before = held(tmp_path, result())
    assert before.parts == ("maps", "plan")
    assert before.to_make(("plan",)) == ("plan",)
    assert before.to_make(("use",)) == ("maps", "use")
    joined = held(tmp_path, result(believed={"meg_true": 1}))
    assert joined.to_make(("use",)) == ("use",)
    assert joined.fields(("use",))["believed"] == {"meg_true": 1}
    assert set(joined.fields(("maps",))) == {"plan", "decided", "settled"}


@pytest.mark.parametrize(
    "other",
    [
        None,
        result(revision="other weights"),
        result(about=result().about | {"seed": 1}),
        result(about=result().about | {"layers": [2]}),
    ],
)
def test_of_another_probe_or_none_nothing_is_taken_over(
    tmp_path: Path, other: Representation | None
) -> None:
    before = held(tmp_path, other)
    assert before.parts == () and before.fields(()) == {} and before.left_out(()) == {}
    assert before.together(WANTED) == WANTED
    assert before.to_make(("use",)) == ("use",)
