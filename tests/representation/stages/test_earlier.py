"""A narrower question leaves an earlier result as it is, and begins nothing that was not asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from goalmeter.representation.measure import RemainingWork, continued
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.result import Representation

WANTED = ProbeOptions((1,), ("pre/end",), ("ridge",), ("maps",), ("knock-out",), 12)


def result(**changes: Any) -> Representation:
    asked = replace(WANTED, parts=("maps", "plan"), probes=("ridge", "logistic"))
    values: dict[str, Any] = {
        "run": "run",
        "model": "goalmeter/mouse",
        "revision": "the weights",
        "decisions": 3,
        "grids": 2,
        "about": {"run": "decisions"} | asked.to_json(),
        "chosen": {"layer": 1},
    }
    return Representation(**values | changes)


def work(earlier: Representation | None, **wanted: Any) -> RemainingWork:
    return continued(earlier, replace(WANTED, **wanted), "the weights")


def test_parts_and_probes_are_joined() -> None:
    """Those of before in front, and the parts in their own order."""
    together = work(result(), parts=("use",), probes=("mlp",)).together
    assert together.parts == ("maps", "use", "plan")
    # Probes are of the maps, which were not asked for.
    assert together.probes == ("ridge", "logistic")
    again = work(result(), probes=("mlp",)).together
    assert (again.parts, again.probes) == (("maps", "plan"), ("ridge", "logistic", "mlp"))


def test_only_what_is_asked_for_is_made() -> None:
    """But use beside maps asks for the believed world, which opens these again."""
    assert work(result()).finished == ("maps", "plan")
    assert work(result(), parts=("plan",)).made == ("plan",)
    assert work(result(), parts=("use",)).made == ("maps", "use")
    joined = work(result(believed={"meg_true": 1}), parts=("use",))
    assert joined.made == ("use",) and joined.fields["believed"] == {"meg_true": 1}
    assert set(work(result()).fields) == {"plan", "decided", "settled"}
    failed = result(left_out={"plan": "few grids", "control task": "one grid"})
    assert work(failed).finished == ("maps",) and work(failed).left_out == failed.left_out
    assert work(failed, parts=("plan",)).left_out == {"control task": "one grid"}


@pytest.mark.parametrize(
    "other",
    [
        None,
        result(revision="other weights"),
        result(about=result().about | {"seed": 1}),
        result(about=result().about | {"layers": [2]}),
    ],
)
def test_of_another_probe_or_none_nothing_is_taken_over(other: Representation | None) -> None:
    left = work(other, parts=("use",))
    assert left == (replace(WANTED, parts=("use",)), ("use",), (), {}, {})
