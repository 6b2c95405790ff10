"""Tables of the page: for each, the rows of a model and their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter as of
from typing import Any

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    CONDITIONAL,
    MEASURES,
    PREFIX,
    SPANS,
    ShownModel,
    estimate_of,
    in_order,
    place_in_words,
    position_rank,
    row_place,
    say,
    what_moved,
    with_dose,
)
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, number, percent, points, rationality
from goalmeter.report.tables import ColumnOf, column, grouped, table_of, words
from goalmeter.representation.result_rows import (
    MapRow,
    MovedRow,
    PlaceRow,
    PlanRow,
    SubspaceRow,
    UsedRow,
)
from goalmeter.representation.use.causal_use import MARGIN
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate

Columns = Sequence[ColumnOf[Any]]
_VERDICTS = {
    claims.ABOVE: "above every control",
    claims.BELOW: "below a control",
    claims.OPEN: "cannot be told",
}


def _two(value: Any) -> str:
    return number(value, 2)


def read_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model at the place whose maps are decoded; None where no uncertain cell was scored."""
    rows = [(shown, shown.probe) for shown in models if shown.probe is not None]
    columns: Columns = (
        words("model", lambda row: row[0].name),
        words("beside its controls", lambda row: _VERDICTS[claims.read_above(row[0])], answer=True),
        *grouped(
            "AUROC",
            column("probe", lambda row: row[1].auroc, hundredths),
            column("best control", lambda row: _best(row[0].rivals)),
        ),
        column("gain, bits a cell", lambda row: row[1].gain_bits, _two),
        words("probe and place", lambda row: f"{row[1].probe}, {row_place(row[1])}"),
        column("decisions in grids", lambda r: f"{r[0].result.decisions} in {r[0].result.grids}"),
    )
    return table_of(rows, columns, anchor="representation-read", **say("summary")) if rows else None


def _best(controls: Sequence[MapRow]) -> str | None:
    highest = claims.best({str(row.control): row.auroc for row in controls})
    return None if highest is None else f"{number(highest[1], 2)}, {highest[0]}"


def used_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model's chosen intervention on the second half; None where there is none."""
    chosen = [(shown, claims.confirmed(shown.result)) for shown in models]
    rows = [(shown, row) for shown, row in chosen if row is not None]
    columns: Columns = (
        words("model", lambda row: row[0].name),
        words(
            "what it reads of needed cells is",
            lambda row: claims.use_of(row[0].result),
            answer=True,
        ),
        *grouped(
            "first moves that flip",
            column("needed cells", lambda row: row[1].flips, percent),
            column("unneeded cells", lambda row: row[1].unneeded_flips, percent),
            column("highest null", lambda row: row[1].null_flips, percent),
        ),
        words("intervention", lambda row: with_dose(row[1])),
        words("place", lambda row: row_place(row[1])),
        column("cells", lambda row: row[1].cells),
    )
    texts = say("used", margin=percent(MARGIN, 0))
    return table_of(rows, columns, anchor="representation-used", **texts) if rows else None


def table(shown: ShownModel, name: str) -> Table | None:
    """Return the table of a name in `TABLES`; None where the result has no such rows."""
    rows_of, columns = TABLES[name]
    rows = rows_of(shown)
    if not rows:
        return None
    listed = columns(rows) if callable(columns) else columns
    if listed is None:
        return None
    layer, position, _ = shown.chosen
    texts = say(name, model=shown.name, place=place_in_words(layer, position))
    if name in _NOTES:
        before, after = _NOTES[name](shown)
        texts["notes"] = (*before, *texts["notes"], *after)
    return table_of(rows, listed, anchor=f"{shown.prefix}-{name}", **texts)


def _controls(shown: ShownModel) -> list[MapRow]:
    return [] if shown.probe is None else [shown.probe, *shown.controls]


def _sizes(shown: ShownModel) -> list[tuple[MapRow, dict[str, Estimate]]]:
    """The probes of several sizes at the chosen place, with the gains of their controls."""
    place = shown.chosen[:2]
    rows = [row for row in shown.result.maps_of() if (row.layer, row.position) == place]
    probes = [row for row in rows if row.control is None]
    if len({row.probe for row in probes}) < 2:
        return []
    names = [
        str(name)
        for name in dict.fromkeys(row.control for row in in_order(rows))
        # Gains are over position alone, and a majority has no size.
        if name not in (None, claims.POSITION, claims.MAJORITY)
    ]
    gains = {(row.probe, row.control): row.gain_bits for row in rows}
    return [
        (row, {name: gains.get((row.probe, name)) for name in names})  # type: ignore[misc]
        for row in sorted(probes, key=lambda row: row.parameters)
    ]


def _size_columns(rows: Sequence[Any]) -> Columns:
    return (
        words("probe", lambda row: row[0].probe),
        column("fitted numbers", lambda row: row[0].parameters),
        *grouped(
            "gain, bits a cell",
            column("probe", lambda row: row[0].gain_bits, _two, answer=True),
            *(_entry(name, 1, hundredths) for name in rows[0][1]),
        ),
    )


def _places(shown: ShownModel) -> list[tuple[str, dict[str, PlaceRow]]]:
    """Agent and goal at the place whose maps are decoded, by control."""
    by_control: dict[str, dict[str, PlaceRow]] = {}
    for row in shown.result.places:
        if (row.layer, row.position, row.probe) == shown.chosen:
            name = row.control or f"the probe: {row.probe}"
            by_control.setdefault(name, {})[row.label] = row
    return list(by_control.items())


def _place_columns(rows: Sequence[Any]) -> Columns:
    heads: list[ColumnOf[Any]] = [words("", lambda row: row[0])]
    for label in dict.fromkeys(label for _, by_label in rows for label in by_label):
        heads += grouped(
            f"the {label}",
            _entry("right cell", 1, lambda row: percent(row.exact), key=label),
            _entry("steps off", 1, lambda row: number(row.distance, 1), key=label),
        )
    return heads


def _entry(
    title: str, at: int, shown: Callable[[Any], Any], *, key: str | None = None
) -> ColumnOf[Any]:
    """A column of an entry of a mapping at some place of a row."""
    return column(title, lambda row: row[at].get(title if key is None else key), shown)


def _use_name(row: UsedRow) -> str:
    kind = " (null)" if row.is_null else " (chosen)" if row.chosen else ""
    return f"{with_dose(row)}, {row_place(row)}{kind}"


def _moved_name(row: MovedRow) -> str:
    place = "the other question (ceiling)" if row.is_ceiling else row_place(row)
    return f"{what_moved(row)}: {place}"


def chance(row: SubspaceRow) -> str | None:
    """Return where the angle of random directions lies in 95 of 100 draws."""
    if len(row.chance) != 3:
        return None
    return f"{number(row.chance[0], 0)} to {number(row.chance[2], 0)}"


def _by_name(title: str, field: str, shown: Callable[[Any], Any]) -> ColumnOf[Any]:
    return column(title, lambda row: getattr(row, field).get(title), shown)


def _controls_of(rows: Sequence[claims.Measure]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.controls))


def _explained_columns(rows: Sequence[claims.Measure]) -> Columns:
    return (
        words("share", of("name")),
        column("decoded map", of("value"), percent, answer=True),
        *grouped("controls", *(_by_name(n, "controls", percent) for n in _controls_of(rows))),
    )


def _beyond_columns(rows: Sequence[claims.Measure]) -> Columns | None:
    names = _controls_of(rows)
    heads = grouped("decoded map less", *(_by_name(name, "beyond", points) for name in names))
    return (words("share", of("name")), *heads) if names else None


def _positions(shown: ShownModel) -> list[tuple[str, Mapping[str, Any]]]:
    """What the maps of each position explain, the chosen one first; none for one position."""
    explained = shown.result.explained
    others = explained.get("other_positions") or {}
    ours = [(str(shown.chosen[1]), explained)] if others else []
    return [*ours, *((name, others[name]) for name in sorted(others, key=position_rank))]


def _highest(explained: Mapping[str, Any]) -> Estimate | None:
    """Of the controls of explained errors, the one that explains most."""
    errors = explained.get("explained_errors") or {}
    highest = claims.best(claims.estimates_of(errors.get("controls")))
    return None if highest is None else highest[1]


def _json_estimate(title: str, key: str) -> ColumnOf[Any]:
    return column(title, lambda row: estimate_of(row[1].get(key)), percent)


def _counts(states: Mapping[str, Any], name: str) -> str:
    """What the shares rest on: decisions, errors, invalid answers, states without a map."""
    text = (
        f"In {name}: {states.get('steps', 0)} decisions, {states.get('errors', 0)} of them errors; "
        f"{states.get('unreadable', 0)} answers could not be read."
    )
    invalid = estimate_of(states.get("invalid"))
    return text + (
        ""
        if invalid is None
        else f" No valid map was decoded in {percent(invalid)} of them; these count, and explain "
        f"nothing."
    )


def _explained_notes(shown: ShownModel) -> tuple[list[str], list[str]]:
    explained = shown.result.explained
    detour = explained.get("detour")
    counts = [_counts(explained, "all states")]
    return counts + ([_counts(detour, "detour states")] if detour else []), []


def _world_name(shown: ShownModel) -> Callable[[claims.World], str]:
    unbelieved = "the true world without walls at unused places (not known to be believed)"

    def name(row: claims.World) -> str:
        # Tables in Markdown have no notes, so the row itself claims no belief.
        if shown.unbelieved and row.name == claims.WORLDS["meg_believed"]:
            return unbelieved
        return row.name + " (control)" * row.is_control

    return name


def _believed_notes(shown: ShownModel) -> tuple[list[str], list[str]]:
    believed, reason = shown.result.believed, shown.unbelieved
    before = [f"Nothing is said of a world that it believes in: {reason}."] if reason else []
    after = []
    if (maximum := believed.get("maximum")) is not None:
        after.append(f"The most there is to explain is {number(maximum, 1)} nats a walk.")
    if (missing := believed.get("missing")) is not None:
        after.append(
            f"Decisions without a believed world, which count as not explained: {missing}."
        )
    return before, after


def _plans(shown: ShownModel) -> list[PlanRow]:
    def key(row: PlanRow) -> Any:
        return position_rank(row.position), row.layer, row.decoder, row.n

    return sorted(shown.result.plan, key=key)


def _plan_columns(rows: Sequence[PlanRow]) -> Columns:
    names = list(dict.fromkeys(name for row in rows for name in row.baselines))

    def baseline(name: str, kind: str) -> ColumnOf[Any]:
        return column(name, lambda row: (row.baselines.get(name) or {}).get(kind), percent)

    return (
        words("actions", lambda row: f"{row.n}, {row.decoder}, {row_place(row)}"),
        *grouped(
            "first n right",
            column("read", of("prefix"), percent, answer=True),
            *(baseline(name, PREFIX) for name in names),
        ),
        *grouped(
            "action n right, if those before are",
            column("read", of("conditional"), percent),
            *(baseline(name, CONDITIONAL) for name in names),
        ),
    )


def _decided_columns(rows: Sequence[Any]) -> Columns:
    return (
        words("action", lambda row: f"{row.step}, {row_place(row)}"),
        column("read", of("accuracy"), percent, answer=True),
        *(
            _by_name(name, "baselines", percent)
            for name in dict.fromkeys(name for row in rows for name in row.baselines)
        ),
    )


def _share_from(title: str, field: str, *, answer: bool = False) -> ColumnOf[Any]:
    def text(row: Any) -> str:
        share = getattr(row, field)
        return "nowhere" if share is None else f"{share:g}"

    return column(title, text, answer=answer)


# By name: the rows of a model, and the columns or a function that makes them of the rows.
TABLES: dict[
    str,
    tuple[Callable[[ShownModel], Sequence[Any]], Columns | Callable[[Any], Columns | None]],
] = {
    "controls": (
        _controls,
        (
            words("", lambda row: row.control or f"the probe: {row.probe}"),
            column("AUROC", of("auroc"), hundredths, answer=True),
            column("gain, bits a cell", of("gain_bits"), _two),
            column("balanced accuracy", of("balanced_accuracy"), percent),
            column("accuracy", of("accuracy"), percent),
            column("fitted numbers", of("parameters")),
            words("scored on", of("scored")),
        ),
    ),
    "sizes": (_sizes, _size_columns),
    "places": (_places, _place_columns),
    "interventions": (
        lambda shown: [row for row in shown.result.use if row.half == CONFIRM],
        (
            words("intervention", _use_name),
            *grouped(
                "at needed cells",
                column("flips", of("flips"), percent, answer=True),
                column("as if it were so", of("as_if_changed"), percent),
                column("unreadable answers", of("unreadable"), percent),
                column("effect, nats", of("effect_nats"), _two),
                column("cells", of("cells")),
            ),
            *grouped("at unneeded cells", column("flips", of("unneeded_flips"), percent)),
            *grouped("highest null", column("flips", of("null_flips"), percent)),
        ),
    ),
    "spans": (
        lambda shown: shown.result.spans,
        (
            words("the cell is hidden", lambda row: SPANS.get(row.span, row.span)),
            *grouped(
                "at needed cells",
                column("flips", of("flips"), percent, answer=True),
                column("as if there were a wall", of("as_if_wall"), percent),
                column("unreadable answers", of("unreadable"), percent),
                column("cells", of("cells")),
            ),
            *grouped("another cell hidden", column("flips", of("other_flips"), percent)),
        ),
    ),
    "moved": (
        lambda shown: [row for row in shown.result.moved if row.half == CONFIRM],
        (
            words("exchanged", _moved_name),
            *grouped(
                "other moves are right there",
                column("follow", of("flips"), percent, answer=True),
                column("null", of("null_flips"), percent),
                column("unreadable answers", of("unreadable"), percent),
                column("pairs", of("pairs")),
            ),
            *grouped("the same are right", column("lost", of("same_flips"), percent)),
        ),
    ),
    "subspaces": (
        lambda shown: shown.result.subspaces,
        (
            words("exchanged", lambda row: f"{what_moved(row)}: {row_place(row)}"),
            words("verdict", of("verdict"), answer=True),
            *grouped(
                "moves that follow",
                column("learnt dimensions", of("flips"), percent),
                column("random ones", of("random_flips"), percent),
                column("whole stream", of("whole_flips"), percent),
            ),
            column("dimensions", of("rank")),
            column("pairs", of("pairs")),
            *grouped(
                "angle with a probe",
                column("degrees", of("degrees"), lambda angle: number(angle, 0)),
                column("by chance", chance),
            ),
        ),
    ),
    "explained": (lambda shown: claims.measures(shown.result.explained), _explained_columns),
    "beyond": (lambda shown: claims.measures(shown.result.explained), _beyond_columns),
    "positions": (
        _positions,
        (
            words("position", lambda row: row[0]),
            *(_json_estimate(name, key) for key, name in MEASURES.items()),
            column("highest control of explained errors", lambda row: _highest(row[1]), percent),
            _json_estimate("no valid map", "invalid"),
        ),
    ),
    "believed": (
        lambda shown: [
            (_world_name(shown)(row), row) for row in claims.worlds(shown.result.believed)
        ],
        (
            words("world", lambda row: row[0]),
            column("MEG, nats a walk", lambda row: row[1].nats, _two, answer=True),
            column("share explained", lambda row: row[1].share, percent),
            column("rationality", lambda row: row[1].rationality, rationality),
            column("less the true world", lambda row: row[1].less_true, _two),
            column("believed world less it", lambda row: row[1].believed_less, _two),
        ),
    ),
    "plan": (_plans, _plan_columns),
    "settled": (
        lambda shown: sorted(shown.result.settled, key=lambda row: (row.step, row.layer)),
        (
            words("action", lambda row: f"{row.step}, layer {row.layer}"),
            _share_from("read above position alone from", "share", answer=True),
            _share_from("adds to position from", "added"),
        ),
    ),
    "decided": (
        lambda shown: sorted(
            shown.result.decided, key=lambda r: (r.step, position_rank(r.position), r.layer)
        ),
        _decided_columns,
    ),
}
# Notes before and after those of the texts.
_NOTES = {"explained": _explained_notes, "believed": _believed_notes}
