"""Tables of what is read of maps: each probe beside its controls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.shown import (
    MAJORITY,
    POSITION,
    Shown,
    in_order,
    place_in_words,
    say,
)
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, number, percent
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.representation.result_rows import MapRow, PlaceRow

SUMMARY = "representation-read"
# The name of a control, None for the probe, with its row of agent and of goal.
_OfControl = tuple[str | None, dict[str, PlaceRow]]
_VERDICTS = {
    claims.ABOVE: "above every control",
    claims.BELOW: "below a control",
    claims.OPEN: "cannot be told",
}
Read = tuple[Shown, MapRow, tuple[MapRow, ...]]


def read_above(shown: Shown) -> str:
    """Whether walls of uncertain cells are read better than by every control."""
    ours, controls = shown.at_chosen()
    return claims.OPEN if ours is None else claims.beside(ours.auroc, [c.auroc for c in controls])


def summary_table(models: Sequence[Shown]) -> Table | None:
    """Every model at the place whose maps are decoded; None where no uncertain cell was scored."""
    rows: list[Read] = []
    for shown in models:
        ours, controls = shown.at_chosen()
        if ours is not None:
            rows.append((shown, ours, controls))
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("model", lambda row: row[0].name),
            words("beside its controls", lambda row: _VERDICTS[read_above(row[0])], answer=True),
            *grouped(
                "AUROC",
                column("probe", lambda row: row[1].auroc, hundredths),
                column("best control", lambda row: _best(row[2])),
            ),
            column("gain, bits a cell", lambda row: number(row[1].gain_bits, 2)),
            words(
                "probe and place",
                lambda row: f"{row[1].probe}, {place_in_words(row[1].layer, row[1].position)}",
            ),
            column(
                "decisions in grids", lambda r: f"{r[0].result.decisions} in {r[0].result.grids}"
            ),
        ),
        anchor=SUMMARY,
        **say("summary"),
    )


def controls_table(shown: Shown) -> Table | None:
    """The probe and its controls where maps are decoded; None where nothing was read."""
    ours, controls = shown.at_chosen()
    if ours is None:
        return None
    return table_of(
        [ours, *controls],
        (
            words("", lambda row: row.control or f"the probe: {row.probe}"),
            column("AUROC", lambda row: row.auroc, hundredths, answer=True),
            column("gain, bits a cell", lambda row: number(row.gain_bits, 2)),
            column("balanced accuracy", lambda row: percent(row.balanced_accuracy)),
            column("accuracy", lambda row: percent(row.accuracy)),
            column("fitted numbers", lambda row: row.parameters),
            words("scored on", lambda row: row.scored),
        ),
        anchor=f"{shown.prefix}-controls",
        **say("controls", model=shown.name, place=place_in_words(ours.layer, ours.position)),
    )


def sizes_table(shown: Shown) -> Table | None:
    """Probes of several sizes at one place; None where there are not several."""
    layer, position, _ = shown.chosen
    rows = [row for row in shown.result.maps_of() if (row.layer, row.position) == (layer, position)]
    probes = [row for row in rows if row.control is None]
    if len({row.probe for row in probes}) < 2:
        return None
    of_control = {(row.probe, row.control): row.gain_bits for row in rows}
    controls = [
        name
        for name in dict.fromkeys(row.control for row in in_order(rows))
        # Gains are over position alone, and a majority has no size.
        if name not in (None, POSITION, MAJORITY)
    ]

    def gain(control: str | None) -> ColumnOf[MapRow]:
        return column(
            str(control),
            lambda row: of_control.get((row.probe, control)),
            hundredths,
        )

    return table_of(
        sorted(probes, key=lambda row: row.parameters),
        (
            words("probe", lambda row: row.probe),
            column("fitted numbers", lambda row: row.parameters),
            *grouped(
                "gain, bits a cell",
                column("probe", lambda row: number(row.gain_bits, 2), answer=True),
                *map(gain, controls),
            ),
        ),
        anchor=f"{shown.prefix}-sizes",
        **say("sizes", model=shown.name, place=place_in_words(layer, position)),
    )


def places_table(shown: Shown) -> Table | None:
    """Agent and goal at the place whose maps are decoded; None where nobody located them."""
    rows = [
        row for row in shown.result.places if (row.layer, row.position, row.probe) == shown.chosen
    ]
    if not rows:
        return None
    by_control: dict[str | None, dict[str, PlaceRow]] = {}
    for row in rows:
        by_control.setdefault(row.control, {})[row.label] = row
    heads: list[ColumnOf[_OfControl]] = []
    for label in dict.fromkeys(row.label for row in rows):
        heads += grouped(
            f"the {label}",
            column("right cell", partial(_of_label, label), _exact),
            column("steps off", partial(_of_label, label), _distance),
        )
    return table_of(
        list(by_control.items()),
        (words("", lambda each: each[0] or f"the probe: {shown.chosen[2]}"), *heads),
        anchor=f"{shown.prefix}-places",
        **say("places", model=shown.name, place=place_in_words(*shown.chosen[:2])),
    )


def _of_label(label: str, each: _OfControl) -> PlaceRow | None:
    return each[1].get(label)


def _exact(row: PlaceRow) -> str:
    return percent(row.exact)


def _distance(row: PlaceRow) -> str:
    return number(row.distance, 1)


def _size(shown: Shown) -> str:
    return f"{shown.result.decisions} in {shown.result.grids}"


def _best(controls: Sequence[MapRow]) -> str | None:
    highest = claims.best({str(row.control): row.auroc for row in controls})
    return None if highest is None else f"{number(highest[1], 2)}, {highest[0]}"
