"""Results of probes, made by hand: what each number is, the test that uses it decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from goalmeter.representation.result import Representation
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

NAN = math.nan
NOTHING = Estimate(NAN, None, 0, 0)
TRUTH = ("#######", "#A____#", "#_###_#", "#___#_#", "###_#_#", "#____G#", "#######")
READ = ("#######", "#A____#", "#___#_#", "#_#_#_#", "###_#_#", "#____G#", "#######")
CONTROLS = {
    "position only": 0.56,
    "majority": 0.5,
    "shuffled activations": 0.54,
    "random weights": 0.71,
    "embeddings alone": 0.77,
    "control task": 0.62,
}


def est(value: float, half: float = 0.03, n: int = 400, *, clusters: int = 60) -> Estimate:
    """An estimate with an interval of some half-width."""
    return Estimate(value, (value - half, value + half), n, clusters)


def share(value: float, half: float = 0.05) -> Estimate:
    """The same within 0 and 1."""
    return Estimate(value, (max(value - half, 0.0), min(value + half, 1.0)), 200, 40)


_MAP = MapRow(
    *(3, "pre/end", "ridge", None, "wall", "uncertain"),
    *(share(0.9), share(0.88), None, NOTHING, 1200, "test grids"),
)


def map_row(
    auroc: Estimate | None, control: str | None = None, *, gain: float = 0.6, **changes: Any
) -> MapRow:
    return replace(_MAP, auroc=auroc, control=control, gain_bits=est(gain), **changes)


def map_rows(top: float = 0.99) -> tuple[MapRow, ...]:
    """A probe and its controls at two layers and two positions; a second probe at one."""
    rows = []
    for layer in (2, 3):
        for number, position in enumerate(("pre/end", "post/end")):
            reached = min(top, 0.9 + 0.03 * layer) - 0.09 * number
            where: dict[str, Any] = {"layer": layer, "position": position}
            rows.append(map_row(est(reached, 0.01), gain=0.2 * layer, **where))
            for control, value in CONTROLS.items():
                gain = {"majority": -0.26, "position only": 0.0}.get(control, value - 0.54)
                rows.append(map_row(est(value, 0.02), control, gain=gain, **where))
    for control, gain in ((None, 0.66), ("control task", 0.3)):
        rows.append(map_row(est(0.98, 0.01), control, probe="mlp", gain=gain, parameters=90_000))
    return tuple(rows)


def place_rows() -> tuple[PlaceRow, ...]:
    return tuple(
        PlaceRow(3, "pre/end", "ridge", control, label, share(exact), est(3 * (1 - exact), 0.2))
        for control, exact in ((None, 0.99), ("position only", 0.12), ("random weights", 0.4))
        for label in ("agent", "goal")
    )


_USED = UsedRow(
    *("confirm", "knock-out", "all", "pre/cell", False, False, 28),
    *(NOTHING, NOTHING, share(0.02, 0.03), share(0.03, 0.04), None, None),
)


def used_row(flips: Estimate, intervention: str = "knock-out", **changes: Any) -> UsedRow:
    fields = {"intervention": intervention, "flips": flips, "as_if_changed": flips}
    return replace(_USED, **{**fields, **changes})  # type: ignore[arg-type]


def use_rows(flips: float = 0.9) -> tuple[UsedRow, ...]:
    rows = []
    for layer in ("all", 1, 2, 3):
        value = flips if layer == "all" else 0.3 * flips
        rows.append(used_row(share(value), half="screen", layer=layer, chosen=layer == "all"))
        if layer != "all":
            rows += [
                used_row(share(0.1), "write", half="screen", layer=layer),
                used_row(share(0.0), "patch, end", half="screen", layer=layer, position="pre/end"),
            ]
    null = share(0.02, 0.06)
    rows.append(used_row(null, "knock-out, other", half="screen", is_null=True))
    rows.append(used_row(share(flips), chosen=True, null_flips=null, effect_nats=est(1.9, 0.3)))
    return (*rows, used_row(null, "knock-out, other", is_null=True))


def dose_rows(top: float = 0.7) -> tuple[DoseRow, ...]:
    def row(dose: float) -> DoseRow:
        shares = map(share, (min(top, 0.25 * dose), 0.03 * dose, 0.02 * dose))
        return DoseRow("write", 2, "pre/cell", dose, *shares)

    return tuple(map(row, (0.5, 1.0, 2.0, 4.0)))


def span_rows(neighbours: float = 0.9) -> tuple[SpanRow, ...]:
    """A cell is looked up at the turns of its neighbours, and not while the prompt is read."""
    return tuple(
        SpanRow("confirm", span, 28, share(flips), share(flips), share(0.0), share(0.02))
        for span, flips in (
            ("prompt", 0.01),
            ("neighbours", neighbours),
            ("own", 0.03),
            ("answering", neighbours),
        )
    )


def moved_row(half: str, moved: str, flips: float, **changes: Any) -> MovedRow:
    estimates = map(share, (flips, 0.04, 0.02, 0.0))
    row = MovedRow(half, moved, 1, f"pre/{moved}", False, False, 26, *estimates)
    return replace(row, **changes)


def moved_rows(followed: float = 0.8) -> tuple[MovedRow, ...]:
    """Moves follow the goal at its word, and nothing the agent."""
    rows = []
    for moved, flips in (("goal", followed), ("agent", 0.05)):
        rows += [
            moved_row("screen", moved, flips, chosen=True),
            moved_row("screen", moved, 0.1, layer="1-2"),
            moved_row("screen", moved, 0.0, position="pre/end"),
            moved_row("confirm", moved, flips, chosen=True),
            moved_row("confirm", moved, 0.95, layer=0, position="pre/all", is_ceiling=True),
        ]
    return tuple(rows)


def subspace_row(verdict: str = "carries it", **changes: Any) -> SubspaceRow:
    row = SubspaceRow(
        *("confirm", "goal", 1, "pre/goal", 4, 24, (3.0, 0.4), 26),
        *(share(0.7), share(0.05), share(0.8), verdict, 31.0, (64.0, 71.0, 78.0)),
    )
    return replace(row, **changes)


def plan_rows(first: float = 0.9) -> tuple[PlanRow, ...]:
    rows = []
    for position, part in (("pre/end", 0.6), ("post/end", 1.0)):
        for n in (1, 2, 3, 4):
            right = part * first**n
            names = {
                "repeat the first": right if n == 1 else 0.5**n,
                "majority": 0.3**n,
                "position only": 0.52**n,
                "shuffled activations": 0.27**n,
                "optimal plan": 0.85**n,
                "stated plan": 0.95**n,
                "asked again": 0.97**n,
            }
            baselines = {
                name: {"prefix": share(value, 0.02), "conditional": share(value ** (1 / n), 0.02)}
                for name, value in names.items()
            }
            conditional = share(right ** (1 / n), 0.02)
            rows.append(
                PlanRow(3, position, "linear", n, share(right, 0.02), conditional, baselines)
            )
    return tuple(rows)


def decided_rows() -> tuple[DecidedRow, ...]:
    positions = ("pre/end", "post/0.0", "post/0.25", "post/0.5", "post/0.75", "post/1.0")
    rows = []
    for step in (1, 2):
        for number, position in enumerate((*positions, "post/answer")):
            told = min(0.45 + 0.12 * number - 0.1 * step, 0.98)
            rows.append(
                DecidedRow(
                    3,
                    position,
                    step,
                    accuracy=share(told, 0.03),
                    baselines={"position only": share(0.5, 0.03), "majority": share(0.3, 0.03)},
                    beyond=est(told - 0.5, 0.06),
                    joint=share(max(told, 0.5), 0.03),
                    added=est(max(told - 0.5, 0.0), 0.06),
                )
            )
    return tuple(rows)


def picture(*, decoded: bool = True, used: bool = True, action: int | None = 3) -> StatePicture:
    wall = [[0.99 if READ[row][column] == "#" else 0.02 for column in range(7)] for row in range(7)]
    wall[2][2], wall[3][2] = 0.31, 0.74
    flips: list[list[float | None]] = [[None] * 7 for _ in range(7)]
    flips[2][1], flips[3][3], flips[2][5], flips[1][3] = 0.95, 0.8, 0.1, 0.0
    return StatePicture(
        "size 7, complexity 0.6, grid 3, walk 0",
        0,
        TRUTH,
        READ if decoded else (),
        tuple(map(tuple, wall)),
        tuple(map(tuple, flips)) if used else ((None,) * 7,) * 7,
        action,
        (3,),
        (1,) if decoded else (),
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
    return states | {"detour": states | {"steps": 200, "errors": 40}, "other_positions": others}


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
        "subspaces": (subspace_row("inconclusive", degrees=None, chance=()),),
        "believed": believed(est(1.8, 0.6)),
        "states": (picture(), picture(used=False, action=None), picture(decoded=False)),
    }
    return result(**{**fields, **changes})


def bare(**changes: Any) -> Representation:
    """One of which only maps were read."""
    rows: tuple[str, ...] = ("places", "use", "doses", "spans", "moved", "subspaces")
    rows += ("plan", "decided", "settled", "states")
    empty: dict[str, Any] = dict.fromkeys(rows, ())
    empty |= {"explained": {}, "believed": {}, "verdict": ""}
    return result(**{**empty, **changes})
