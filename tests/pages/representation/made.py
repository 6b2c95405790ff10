"""Results of probes, made by hand of rows."""

from __future__ import annotations

from typing import Any

from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import SettledRow
from goalmeter.statistics.clusters import Estimate

from .made_rows import (
    decided_rows,
    dose_rows,
    est,
    map_rows,
    moved_rows,
    picture,
    place_rows,
    plan_rows,
    share,
    span_rows,
    subspace_row,
    use_rows,
)


def compared(value: float, control: float, *, above: float | None = None) -> dict[str, Any]:
    """A share beside two controls, by how much above them if that is not the difference."""
    names = ("empty room", "greedy")
    beyond = value - control if above is None else above
    return share(value).to_json() | {
        "controls": {name: share(control).to_json() for name in names},
        "beyond": {name: est(beyond, 0.05).to_json() for name in names},
    }


def explained(value: float = 0.6, control: float = 0.3) -> dict[str, Any]:
    states = {
        "steps": 900,
        "errors": 120,
        "unreadable": 4,
        "invalid": share(0.08).to_json(),
        "explained_errors": compared(value, control),
        "map_corrects": compared(0.2, 0.25),
        "on_map": compared(0.9, 0.8),
        "agreement": compared(0.95, 0.9),
    }
    others = {"post/end": states | {"explained_errors": compared(0.4, control)}}
    return states | {
        "detour": states | {"steps": 200, "errors": 40},
        "other_positions": others,
    }


def fit(nats: float) -> dict[str, Any]:
    return {
        "nats": est(nats, 0.4).to_json(),
        "share": share(nats / 12).to_json(),
        "rationality": 3.2,
    }


def believed(difference: Estimate, beyond: Estimate | None = None) -> dict[str, Any]:
    return {
        "meg_true": fit(5.1),
        "meg_decoded": fit(5.2),
        "meg_believed": fit(5.1 + difference.value),
        "difference": difference.to_json(),
        "decoded_difference": est(0.1, 0.3).to_json(),
        "controls": {"empty room": fit(4.0), "another map": fit(1.2)},
        "beyond": {
            name: (beyond or est(1.4, 0.3)).to_json() for name in ("empty room", "another map")
        },
        "maximum": 11.8,
        "missing": 31,
        "places": {"used": 9, "not used": 4, "unknown": 2},
    }


def result(**changes: Any) -> Representation:
    """A result with everything in it, as a model has it that uses the map which it reads."""
    fields: dict[str, Any] = {
        "run": "walks",
        "model": "goalmeter/mouse",
        "revision": "0123456789abcdef",
        "decisions": 1200,
        "grids": 160,
        "about": {"layers": [1, 2, 3], "positions": ["pre/end", "post/0.5", "post/end"]},
        "chosen": {"layer": 3, "position": "pre/end", "probe": "ridge"},
        "maps": map_rows(),
        "places": place_rows(),
        "explained": explained(),
        "believed": believed(est(0.2, 0.5)),
        "use": use_rows(),
        "verdict": "used",
        "doses": dose_rows(),
        "spans": span_rows(),
        "moved": moved_rows(),
        "subspaces": (subspace_row(),),
        "plan": plan_rows(),
        "decided": decided_rows(),
        "settled": (SettledRow(3, 1, 0.25, 0.5), SettledRow(3, 2, None, None)),
        "states": (picture(), picture(action=1)),
    }
    return Representation(**{**fields, **changes})


def unused(**changes: Any) -> Representation:
    """One that reads as well and does not use what it reads."""
    fields: dict[str, Any] = {
        "model": "goalmeter/mole",
        "use": use_rows(0.04),
        "verdict": "not used",
        "doses": dose_rows(0.1),
        "spans": span_rows(0.04),
        "moved": moved_rows(0.1),
        "subspaces": (subspace_row("cannot be told", degrees=None, chance=()),),
        "believed": believed(est(1.8, 0.6)),
        "states": (picture(), picture(used=False, action=None), picture(decoded=False)),
    }
    return result(**{**fields, **changes})


def bare(**changes: Any) -> Representation:
    """One of which only maps were read."""
    empty: dict[str, Any] = dict.fromkeys(
        (
            *("places", "use", "doses", "spans", "moved", "subspaces"),
            *("plan", "decided", "settled", "states"),
        ),
        (),
    ) | {"explained": {}, "believed": {}, "verdict": ""}
    return result(**{**empty, **changes})
