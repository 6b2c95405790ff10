"""What becomes of moves when a cell's representation is changed: tables, and curves by dose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.shown import Shown, place_in_words, say
from goalmeter.report import Figure, Table
from goalmeter.report.charts.colours import MUTED, VERMILION
from goalmeter.report.charts.curves import Curve, curve_chart
from goalmeter.report.numbers import number, percent
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.representation.result_rows import DoseRow, UsedRow
from goalmeter.representation.use.causal_use import MARGIN
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.statistics.clustered import Estimate

SUMMARY = "representation-used"


def summary_table(models: Sequence[Shown]) -> Table | None:
    """Every model's chosen intervention on the half that confirms; None where there is none."""
    rows = [(shown, row) for shown in models if (row := claims.confirmed(shown.result)) is not None]
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("model", lambda row: row[0].name),
            words(
                "what it reads of needed cells is",
                lambda row: claims.use_of(row[0].result),
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
    intervals = [claims.ends(each) or (math.nan, math.nan) for each in values]
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
