"""Tables and figures of causal use: interventions, doses, spans, patches, heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from goalmeter.pages.representation import estimates
from goalmeter.pages.representation.estimates import (
    MAJORITY,
    POSITION,
    ByLayer,
    Shown,
    has_numbers,
    in_order,
    place_in_words,
    position_rank,
    say,
    values_at,
)
from goalmeter.report import Figure, Table
from goalmeter.report.canvas import MUTED, VERMILION
from goalmeter.report.charts import Curve, DotPanel, Dots, Panel, curve_chart, dot_chart, heat_map
from goalmeter.report.numbers import number, percent
from goalmeter.report.tables import column, grouped, table_of, words
from goalmeter.representation.result_rows import (
    DoseRow,
    MapRow,
    MovedRow,
    SpanRow,
    SubspaceRow,
    UsedRow,
)
from goalmeter.representation.use import look_ups
from goalmeter.representation.use.causal_use import MARGIN
from goalmeter.representation.use.trials import CONFIRM, SCREEN
from goalmeter.statistics.clusters import Estimate

# --- Uses -----------------------------------------------------------------------------------------
SUMMARY = "representation-used"


def summary_table(models: Sequence[Shown]) -> Table | None:
    """Every model's chosen intervention on the half that confirms; None where there is none."""
    rows = [
        (shown, row) for shown in models if (row := estimates.confirmed(shown.result)) is not None
    ]
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("model", lambda row: row[0].name),
            words(
                "what it reads of needed cells is",
                lambda row: estimates.use_of(row[0].result),
                answer=True,
            ),
            *grouped(
                "first moves that flip",
                column("needed cells", lambda row: percent(row[1].flips)),
                column("unneeded cells", lambda row: percent(row[1].unneeded_flips)),
                column("highest null", lambda row: row[1].null_flips, percent),
            ),
            words("intervention", lambda row: with_dose(row[1])),
            words("place", lambda row: place_in_words(row[1].layer, row[1].position)),
            column("cells", lambda row: row[1].cells),
        ),
        anchor=SUMMARY,
        **say("used", margin=percent(MARGIN, 0)),
    )


def interventions_table(shown: Shown) -> Table | None:
    """All that was tried on the half that confirms; None where nothing was."""
    rows = [row for row in shown.result.use if row.half == CONFIRM]
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("intervention", _named),
            *grouped(
                "at needed cells",
                column("flips", lambda row: percent(row.flips), answer=True),
                column("as if it were so", lambda row: percent(row.as_if_changed)),
                column("unreadable answers", lambda row: percent(row.unreadable)),
                column("effect, nats", lambda row: row.effect_nats, lambda e: number(e, 2)),
                column("cells", lambda row: row.cells),
            ),
            *grouped("at unneeded cells", column("flips", lambda row: percent(row.unneeded_flips))),
            *grouped("highest null", column("flips", lambda row: row.null_flips, percent)),
        ),
        anchor=f"{shown.prefix}-interventions",
        **say("interventions", model=shown.name),
    )


def dose_figures(shown: Shown) -> list[Figure]:
    """Flips by the strength of a write, beside a random direction and unreadable answers."""
    by_write: dict[tuple[str, str], list[DoseRow]] = {}
    for row in shown.result.doses:
        place = place_in_words(row.layer, row.position)
        by_write.setdefault((row.intervention, place), []).append(row)
    out = []
    for count, ((intervention, place), rows) in enumerate(by_write.items(), start=1):
        rows.sort(key=lambda row: row.dose)
        ours = [row.flips for row in rows]
        nulls = [row.null_flips for row in rows]
        doses = [row.dose for row in rows]
        if all(math.isnan(each.value) for each in [*ours, *nulls]):
            continue
        curves = [
            banded("along the probe’s direction", doses, ours, marker="o"),
            banded(
                "along random directions", doses, nulls, colour=VERMILION, stroke="--", marker="s"
            ),
        ]
        unreadable = [row.unreadable for row in rows]
        if any(not math.isnan(each.value) for each in unreadable):
            style = {"colour": MUTED, "stroke": ":", "marker": "^", "hollow": True}
            y = [each.value for each in unreadable]
            curves.append(Curve(label="answers that cannot be read", x=doses, y=y, **style))  # type: ignore[arg-type]
        svg = curve_chart(
            f"{shown.prefix}-dose-{count}",
            curves,
            x_label="dose, mean distances from open to wall",
            y_label="share of first moves that flip",
            limits=(-0.02, 1.02),
        )
        values = "; ".join(
            f"{number(dose, 1)}: {percent(each.value)}, random {percent(null.value)}, unreadable "
            f"{percent(odd.value)}"
            for dose, each, null, odd in zip(doses, ours, nulls, unreadable, strict=True)
        )
        texts = say(
            "doses", model=shown.name, intervention=intervention, place=place, values=values
        )
        out.append(Figure(svg=svg, **texts))
    return out


def banded(label: str, x: Sequence[float], values: Sequence[Estimate], **style: object) -> Curve:
    """A curve of estimates with their intervals as a band; a gap where there is no number."""
    intervals = [estimates.ends(each) or (math.nan, math.nan) for each in values]
    return Curve(
        label=label,
        x=x,
        y=[each.value for each in values],
        low=[low for low, _ in intervals],
        high=[high for _, high in intervals],
        **style,  # type: ignore[arg-type]
    )


def _named(row: UsedRow) -> str:
    kind = " (null)" if row.is_null else " (chosen)" if row.chosen else ""
    return f"{with_dose(row)}, {place_in_words(row.layer, row.position)}{kind}"


def with_dose(row: UsedRow) -> str:
    """The intervention, and how strong it is if it is a write."""
    return row.intervention + ("" if row.dose is None else f", dose {row.dose:g}")


# --- Spans ----------------------------------------------------------------------------------------
# The spans in words, in the order in which a model writes; all but the prompt comes last.
SPANS = {
    look_ups.PROMPT: "while the prompt is read",
    look_ups.BEFORE: "until the cell is named",
    look_ups.NEIGHBOURS: "at the turns of its neighbours",
    look_ups.OWN: "at its own turn",
    look_ups.BEHIND: "in later reasoning",
    look_ups.PLAN: "in the plan",
    look_ups.ANSWER: "in the answer",
    look_ups.ANSWERING: "in all that is written",
}


def describe_span(row: SpanRow) -> str:
    """When the cell is hidden."""
    return SPANS.get(row.span, row.span)


def look_up(row: SpanRow) -> str:
    """Whether more moves flip than with another cell hidden: a word of `claims`."""
    return estimates.beside(row.flips, [row.other_flips])


def spans_table(shown: Shown) -> Table | None:
    """Every span on the half that confirms; None where nobody asked."""
    rows = shown.result.spans
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("the cell is hidden", describe_span),
            *grouped(
                "at needed cells",
                column("flips", lambda row: percent(row.flips), answer=True),
                column("as if there were a wall", lambda row: percent(row.as_if_wall)),
                column("unreadable answers", lambda row: percent(row.unreadable)),
                column("cells", lambda row: row.cells),
            ),
            *grouped("another cell hidden", column("flips", lambda row: percent(row.other_flips))),
        ),
        anchor=f"{shown.prefix}-spans",
        **say("spans", model=shown.name),
    )


def spans_figure(shown: Shown) -> Figure | None:
    """Flips by span, with the cell hidden and with another one; None without numbers."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    series = (
        Dots.of("the cell hidden", [row.flips for row in rows]),
        Dots.of("another cell hidden", [row.other_flips for row in rows], hollow=True, marker="s"),
    )
    panel = DotPanel(x_label="share of first moves that flip", series=series)
    values = "; ".join(
        f"{describe_span(row)}: {percent(row.flips)}, another cell {percent(row.other_flips)}"
        for row in rows
    )
    svg = dot_chart(f"{shown.prefix}-spans-figure", list(map(describe_span, rows)), [panel])
    return Figure(svg=svg, wide=True, **say("spans_figure", model=shown.name, values=values))


# --- Moved ----------------------------------------------------------------------------------------
MOVED = {"goal": "the goal moved", "agent": "the agent moved", "isometry": "the grid turned"}


def describe_patch(row: MovedRow | SubspaceRow) -> str:
    """What is another in the other question."""
    return MOVED.get(row.moved, row.moved)


def moved_map(shown: Shown) -> Figure | None:
    """What followed at every place of the half that screens; None without a screen."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    tried = ByLayer(rows, _moved_named, list(dict.fromkeys(map(_moved_named, rows))))
    panels = [
        tried.panel("follow", lambda row: row.flips, hatched=True),
        tried.panel("null", lambda row: row.null_flips),
        tried.panel("lost", lambda row: row.same_flips),
    ]
    panels = list(filter(has_numbers, panels))
    if not panels:
        return None
    svg = tried.drawn(f"{shown.prefix}-moved-map", panels, "share of moves")
    return Figure(svg=svg, **say("moved_map", model=shown.name))


def moved_table(shown: Shown) -> Table | None:
    """The chosen place of each kind on the half that confirms, and the other question asked."""
    rows = [row for row in shown.result.moved if row.half == CONFIRM]
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("exchanged", _exchanged),
            *grouped(
                "other moves are right there",
                column("follow", lambda row: percent(row.flips), answer=True),
                column("null", lambda row: percent(row.null_flips)),
                column("unreadable answers", lambda row: percent(row.unreadable)),
                column("pairs", lambda row: row.pairs),
            ),
            *grouped("the same are right", column("lost", lambda row: percent(row.same_flips))),
        ),
        anchor=f"{shown.prefix}-moved",
        **say("moved", model=shown.name),
    )


def subspace_table(shown: Shown) -> Table | None:
    """What a few dimensions carry, and how near a probe's directions lie to them."""
    rows = shown.result.subspaces
    if not rows:
        return None
    return table_of(
        rows,
        (
            words(
                "exchanged",
                lambda row: f"{describe_patch(row)}: {place_in_words(row.layer, row.position)}",
            ),
            words("verdict", lambda row: row.verdict, answer=True),
            *grouped(
                "moves that follow",
                column("learnt dimensions", lambda row: percent(row.flips)),
                column("random ones", lambda row: percent(row.random_flips)),
                column("whole stream", lambda row: percent(row.whole_flips)),
            ),
            column("dimensions", lambda row: row.rank),
            column("pairs", lambda row: row.pairs),
            *grouped(
                "angle with a probe",
                column("degrees", lambda row: row.degrees, lambda angle: number(angle, 0)),
                column("by chance", lambda row: chance(row) or None),
            ),
        ),
        anchor=f"{shown.prefix}-subspaces",
        **say("subspaces", model=shown.name),
    )


def ceiling_of(shown: Shown, row: MovedRow) -> MovedRow | None:
    """What becomes of moves when the other question itself is asked; None if it was not."""
    return next((r for r in shown.result.moved if r.is_ceiling and r.moved == row.moved), None)


def chance(row: SubspaceRow) -> str:
    """Where the angle of random directions lies in 95 of 100 draws; empty where there is none."""
    if len(row.chance) != 3:
        return ""
    return f"{number(row.chance[0], 0)} to {number(row.chance[2], 0)}"


def _exchanged(row: MovedRow) -> str:
    if row.is_ceiling:
        return f"{describe_patch(row)}: the other question (ceiling)"
    return f"{describe_patch(row)}: {place_in_words(row.layer, row.position)}"


def _moved_named(row: MovedRow) -> str:
    return f"{describe_patch(row)}, {row.position}"


# --- Heat maps ------------------------------------------------------------------------------------
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
