"""Heat maps: where in a network something is read or changed, beside what should do less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from goalmeter.pages.representation.by_layer import ByLayer, has_numbers, values_at
from goalmeter.pages.representation.shown import (
    MAJORITY,
    POSITION,
    Shown,
    in_order,
    position_rank,
    say,
)
from goalmeter.pages.representation.uses import with_dose
from goalmeter.report import Figure
from goalmeter.report.charts.heat_map import Panel, heat_map
from goalmeter.report.numbers import number
from goalmeter.representation.result_rows import MapRow, UsedRow
from goalmeter.representation.use.halves import SCREEN
from goalmeter.statistics.clustered import Estimate

# An AUROC of one half is no information, so colours begin there.
_CHANCE = 0.5
_PROBE = "the probe"


def auroc_map(shown: Shown) -> Figure | None:
    """AUROC of walls by layer and position, of the probe and its controls; None without numbers."""
    panels, layers, positions = _panels(shown, lambda row: row.auroc)
    if not panels:
        return None
    svg = _drawn(
        shown,
        "auroc",
        panels,
        layers,
        positions,
        label="AUROC, pale at 0.5 and below",
        limit=1.0,
        signed=False,
        least=_CHANCE,
    )
    texts = say("auroc_map", model=shown.name, probe=shown.chosen[2], highest=_highest(panels[0]))
    return Figure(svg=svg, **texts)


def gain_map(shown: Shown) -> Figure | None:
    """The same of the gain in bits over position alone, which is a control by itself."""
    panels, layers, positions = _panels(
        shown, lambda row: row.gain_bits, without=(POSITION, MAJORITY)
    )
    if not panels:
        return None
    most = max(float(np.nanmax(np.abs(panel.values))) for panel in panels) or 1.0
    label = "gain over position alone, bits a cell"
    svg = _drawn(shown, "gain", panels, layers, positions, label=label, limit=most)
    texts = say("gain_map", model=shown.name, probe=shown.chosen[2], highest=_highest(panels[0]))
    return Figure(svg=svg, **texts)


def flips_map(shown: Shown) -> Figure | None:
    """Flips of the screened interventions by layer, nulls below the others; None without a screen.

    Chosen is the intervention with the hatched cell.
    """
    rows = [row for row in shown.result.use if row.half == SCREEN]
    # Nulls last, and everything else as it was tried.
    named = _names(rows)
    names = list(dict.fromkeys(named(row) for row in sorted(rows, key=lambda row: row.is_null)))
    tried = ByLayer(rows, named, names)
    panels = [
        tried.panel("needed cells", lambda row: row.flips, hatched=True),
        tried.panel("unneeded cells", lambda row: row.unneeded_flips),
    ]
    if not any(map(has_numbers, panels)):
        return None
    svg = tried.drawn(f"{shown.prefix}-flips", panels, "share of first moves that flip")
    return Figure(svg=svg, **say("flips_map", model=shown.name))


def _drawn(
    shown: Shown,
    name: str,
    panels: Sequence[Panel],
    layers: Sequence[int],
    positions: Sequence[str],
    **scale: Any,
) -> str:
    """Panels by layer and position as SVG; `scale` are options of `heat_map`."""
    return heat_map(
        f"{shown.prefix}-{name}",
        panels,
        rows=[f"layer {layer}" for layer in layers],
        columns=positions,
        means=False,
        **scale,
    )


def _panels(
    shown: Shown, take: Callable[[MapRow], Estimate | None], without: Sequence[str] = (MAJORITY,)
) -> tuple[list[Panel], list[int], list[str]]:
    """A panel for the probe and each control, with the layers and positions of all."""
    rows = in_order(
        row
        for row in shown.result.maps_of()
        if row.probe == shown.chosen[2] and row.control not in without
    )
    layers = sorted({row.layer for row in rows})
    positions = sorted({row.position for row in rows}, key=position_rank)
    panels = [
        Panel(
            title=title,
            values=values_at(
                (row for row in rows if (row.control or _PROBE) == title),
                lambda row: (row.layer, row.position),
                (layers, positions),
                take,
            ),
        )
        for title in dict.fromkeys(row.control or _PROBE for row in rows)
    ]
    panels = list(filter(has_numbers, panels))
    return panels, layers, positions


def _highest(panel: Panel) -> str:
    return number(float(np.nanmax(np.asarray(panel.values))), 2)


def _names(rows: Sequence[UsedRow]) -> Callable[[UsedRow], str]:
    """How interventions are called: with their position where one is tried at several."""
    positions: dict[str, set[str]] = {}
    for row in rows:
        positions.setdefault(row.intervention, set()).add(row.position)

    def named(row: UsedRow) -> str:
        where = f", {row.position}" if len(positions[row.intervention]) > 1 else ""
        return f"{with_dose(row)}{where}{' (null)' * row.is_null}"

    return named
