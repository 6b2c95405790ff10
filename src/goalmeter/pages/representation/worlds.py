"""What decoded maps explain of actions, and goal-directedness in the world that is believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.shown import (
    Shown,
    estimate_of,
    estimates_of,
    position_rank,
    say,
)
from goalmeter.report import Figure, Table
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number, percent, points, rationality
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.representation.belief import unbelieved
from goalmeter.statistics.clustered import Estimate

# What is counted, as `Explained` names it -> in words.
MEASURES = {
    "explained_errors": "explained errors",
    "map_corrects": "map corrects",
    "on_map": "actions on the map",
    "agreement": "agreement",
}
DETOUR = "detour"
# The worlds of `Believed`, in words.
WORLDS = {
    "meg_true": "the true world",
    "meg_decoded": "the decoded map",
    "meg_believed": "the believed world",
}
_NO_BELIEF = "the true world without walls at unused places (not known to be believed)"


@dataclass(frozen=True)
class Measure:
    """One share beside its controls.

    Attributes:
        name: with the states that it is of.
        value: of the decoded map.
        controls: the same of each control.
        beyond: the share less that of each control.
    """

    name: str
    value: Estimate
    controls: Mapping[str, Estimate]
    beyond: Mapping[str, Estimate]


def measures(explained: Mapping[str, Any]) -> Iterator[Measure]:
    """Every share in all states, and then in detour states."""
    for where, states in (("", explained), (", detour states", explained.get(DETOUR) or {})):
        for key, words_of in MEASURES.items():
            if (value := states.get(key)) is not None:
                controls, beyond = map(estimates_of, (value.get("controls"), value.get("beyond")))
                yield Measure(f"{words_of}{where}", Estimate.from_json(value), controls, beyond)


def explained_tables(shown: Shown) -> list[Table]:
    """What the decoded maps explain, and by how much more than each control."""
    explained = shown.result.explained
    rows = list(measures(explained))
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row.controls))
    notes = [_counts(explained, "all states")]
    if detour := explained.get(DETOUR):
        notes.append(_counts(detour, "detour states"))
    shares, beyond = say("explained", model=shown.name), say("beyond", model=shown.name)
    shares["notes"] = (*notes, *shares["notes"])
    of_map = table_of(
        rows,
        (
            words("share", lambda row: row.name),
            column("decoded map", lambda row: percent(row.value), answer=True),
            *grouped("controls", *(_of_control(name) for name in names)),
        ),
        anchor=f"{shown.prefix}-explained",
        **shares,
    )
    if not names:
        return [of_map]
    return [
        of_map,
        table_of(
            rows,
            (
                words("share", lambda row: row.name),
                *grouped("decoded map less", *(_beyond(name) for name in names)),
            ),
            anchor=f"{shown.prefix}-beyond",
            **beyond,
        ),
    ]


def positions_table(shown: Shown) -> Table | None:
    """What the maps of other positions explain, the chosen one first; None where there is one."""
    explained = shown.result.explained
    others = explained.get("other_positions") or {}
    if not others:
        return None
    rows = [(str(shown.chosen[1]), explained)]
    rows += [(name, others[name]) for name in sorted(others, key=position_rank)]
    return table_of(
        rows,
        (
            words("position", lambda row: row[0]),
            *(column(name, partial(_of_key, key), percent) for key, name in MEASURES.items()),
            column("highest control of explained errors", lambda row: _highest(row[1]), percent),
            column("no valid map", lambda row: estimate_of(row[1].get("invalid")), percent),
        ),
        anchor=f"{shown.prefix}-positions",
        **say("positions", model=shown.name),
    )


@dataclass(frozen=True)
class World:
    """Goal-directedness in one world.

    Attributes:
        name: of the world.
        is_control: whether it is no world that anybody believes in.
        nats: a walk.
        share: of what there is to explain.
        rationality: of the fit; None where it is not known.
        less_true: it less the true world; None for controls.
        believed_less: the believed world less it; None where it was not compared.
    """

    name: str
    is_control: bool
    nats: Estimate
    share: Estimate
    rationality: float | None
    less_true: Estimate | None = None
    believed_less: Estimate | None = None


def worlds(believed: Mapping[str, Any]) -> list[World]:
    """The worlds in which the same walks were judged."""
    beyond = estimates_of(believed.get("beyond"))
    less = {"meg_decoded": "decoded_difference", "meg_believed": "difference"}
    out = []
    for key, name in WORLDS.items():
        if (fit := believed.get(key)) is not None:
            less_true = estimate_of(believed.get(less[key])) if key in less else None
            out.append(_world(name, fit, is_control=False, less_true=less_true))
    for name, fit in (believed.get("controls") or {}).items():
        out.append(_world(name, fit, is_control=True, believed_less=beyond.get(name)))
    return out


def unbelieved_of(shown: Shown) -> str:
    """Why nothing is said of a world that a model believes in; "" where something is."""
    ours, _ = shown.at_chosen()
    gain = None if ours is None else ours.gain_bits
    return unbelieved(gain, shown.result.believed.get("places"))


def believed_table(shown: Shown) -> Table | None:
    """MEG in each world; None where nobody asked."""
    believed = shown.result.believed
    rows = worlds(believed)
    if not rows:
        return None
    texts = say("believed", model=shown.name)
    if reason := unbelieved_of(shown):
        sentence = f"Nothing is said of a world that it believes in: {reason}."
        texts["notes"] = (sentence, *texts["notes"])
        # Tables in Markdown have no notes, so the row itself claims no belief.
        inner = WORLDS["meg_believed"]
        rows = [replace(row, name=_NO_BELIEF) if row.name == inner else row for row in rows]
    if (maximum := believed.get("maximum")) is not None:
        texts["notes"] += (f"The most there is to explain is {number(maximum, 1)} nats a walk.",)
    if (missing := believed.get("missing")) is not None:
        texts["notes"] += (
            f"Decisions without a believed world, which count as not explained: {missing}.",
        )
    return table_of(
        rows,
        (
            words("world", lambda row: row.name + " (control)" * row.is_control),
            column("MEG, nats a walk", lambda row: number(row.nats, 2), answer=True),
            column("share explained", lambda row: percent(row.share)),
            column("rationality", lambda row: row.rationality, rationality),
            column("less the true world", lambda row: row.less_true, _difference),
            column("believed world less it", lambda row: row.believed_less, _difference),
        ),
        anchor=f"{shown.prefix}-believed",
        **texts,
    )


def believed_figure(models: Sequence[Shown]) -> Figure | None:
    """MEG of every model that has a believed world, on one scale; None where none has."""
    told = [shown for shown in models if not unbelieved_of(shown)]
    rows = [(shown, world) for shown in told for world in worlds(shown.result.believed)]
    if not rows:
        return None
    lines = [f"{shown.name}: {world.name}" for shown, world in rows]
    ours = [None if world.is_control else world.nats for _, world in rows]
    controls = [world.nats if world.is_control else None for _, world in rows]
    series = [Dots.of("worlds of the agent", ours)]
    if any(controls):
        series.append(Dots.of("controls", controls, hollow=True, marker="s"))
    panel = DotPanel(x_label="MEG, nats a walk", series=tuple(series), joined=True)
    values = "; ".join(
        f"{line}: {number(world.nats.value, 2)}"
        for line, (_, world) in zip(lines, rows, strict=True)
    )
    svg = dot_chart("representation-believed", lines, [panel])
    return Figure(svg=svg, wide=True, **say("believed_figure", values=values))


def _world(
    name: str,
    fit: Mapping[str, Any],
    *,
    is_control: bool,
    less_true: Estimate | None = None,
    believed_less: Estimate | None = None,
) -> World:
    nats, share = (Estimate.from_json(fit[key]) for key in ("nats", "share"))
    return World(name, is_control, nats, share, fit.get("rationality"), less_true, believed_less)


def _of_key(key: str, row: tuple[str, Mapping[str, Any]]) -> Estimate | None:
    return estimate_of(row[1].get(key))


def _highest(explained: Mapping[str, Any]) -> Estimate | None:
    """Of the controls of explained errors, the one that explains most."""
    controls = estimates_of((explained.get("explained_errors") or {}).get("controls"))
    highest = claims.best(controls)
    return None if highest is None else highest[1]


def _of_control(name: str) -> ColumnOf[Measure]:
    return column(name, lambda row: row.controls.get(name), percent)


def _beyond(name: str) -> ColumnOf[Measure]:
    return column(name, lambda row: row.beyond.get(name), points)


def _difference(difference: Estimate) -> str:
    return number(difference, 2)


def _counts(states: Mapping[str, Any], name: str) -> str:
    """What the shares rest on: decisions, errors, unreadable answers, states without a map."""
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
