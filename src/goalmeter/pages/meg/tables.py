"""One goal-directedness as a table: everything that defends the number."""

from __future__ import annotations

from goalmeter.meg.result import MegResult
from goalmeter.report import Cell, Column, Table
from goalmeter.report.numbers import nats, percent, rationality, signed


def result_table(result: MegResult, baselines: dict[str, float] | None = None) -> Table:
    """Everything that defends one MEG, as a table of names and numbers."""
    rows: list[tuple[Cell | str, ...]] = []
    data = result.to_json()
    if "interval" in data:
        low, high = data["interval"]
        rows += [
            ("MEG, estimate", f"{nats(data['corrected'])} nats"),
            *_without_floor(data["unfloored"]),
            (f"{data['confidence']:.0%} interval", f"{nats(low)} to {nats(high)} nats"),
            ("trajectories", str(data["n"])),
            ("held out", f"{signed(data['held_out'], 4)} nats"),
            ("p, against the reference", f"{data['p_value']:.3g}"),
            ("sample average, biased upwards", f"{nats(result.value)} nats"),
        ]
    else:
        rows += [
            ("MEG", f"{nats(result.value)} nats"),
            ("proven gap to the bound", f"{gap(result)} nats"),
        ]
    rows += [
        ("upper bound", f"{nats(result.upper_bound)} nats"),
        *([("stopped by", f"the {result.stopped}")] if result.stopped else []),
        ("maximum", f"{nats(result.maximum)} nats"),
        ("share of maximum", Cell(percent(result.fraction), share=result.fraction)),
        ("rationality β", rationality(result.rationality)),
        ("method", result.method),
    ]
    rows += [
        (f"baseline: {name} policy", f"{nats(v)} nats") for name, v in (baselines or {}).items()
    ]
    return Table(
        caption=f"Goal-directedness towards {result.target}",
        columns=(Column("", numeric=False), Column("value", numeric=False)),
        rows=tuple(rows),
        meaning="MEG is how many nats of the behaviour's decisions the goal explains, over an "
        f"episode; the {result.reference} scores 0, a fully predictable agent the maximum.",
        notes=result.notes,
    )


def _without_floor(unfloored: float) -> list[tuple[str, str]]:
    """The estimate before it was raised to 0, where it was."""
    return [("the same without a floor at 0", f"{signed(unfloored, 4)} nats")] * (unfloored < 0)


def gap(result: MegResult) -> str:
    """How far the proven bound is above the value."""
    return f"{max(result.gap, 0.0):.0e}" if result.gap > 0 else "0"


def share(result: MegResult) -> Cell:
    """The fraction of the maximum, with a bar."""
    return Cell(percent(result.fraction), share=result.fraction)
