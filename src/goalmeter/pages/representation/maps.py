"""Tables and figures of decoded maps: scores, single states and believed worlds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.pages.representation import estimates
from goalmeter.pages.representation.estimates import (
    MAJORITY,
    POSITION,
    Shown,
    estimate_of,
    estimates_of,
    in_order,
    place_in_words,
    position_rank,
    say,
)
from goalmeter.report import Figure, Table
from goalmeter.report.charts import DotPanel, Dots, dot_chart, short
from goalmeter.report.maps import Marked, Place, belief_map
from goalmeter.report.numbers import hundredths, number, percent, points, rationality
from goalmeter.report.tables import ColumnOf, column, grouped, table_of, words
from goalmeter.representation.beliefs.used_cells import unbelieved
from goalmeter.representation.result_rows import MapRow, PlaceRow, StatePicture
from goalmeter.statistics.clusters import Estimate

# --- Maps -----------------------------------------------------------------------------------------
SUMMARY = "representation-read"
# The name of a control, None for the probe, with its row of agent and of goal.
_OfControl = tuple[str | None, dict[str, PlaceRow]]
_VERDICTS = {
    estimates.ABOVE: "above every control",
    estimates.BELOW: "below a control",
    estimates.OPEN: "cannot be told",
}
Read = tuple[Shown, MapRow, tuple[MapRow, ...]]


def read_above(shown: Shown) -> str:
    """Whether walls of uncertain cells are read better than by every control on the same grids."""
    ours, _ = shown.at_chosen()
    if ours is None:
        return estimates.OPEN
    return estimates.beside(ours.auroc, [row.auroc for row in shown.rivals()])


def summary_table(models: Sequence[Shown]) -> Table | None:
    """Every model at the place whose maps are decoded; None where no uncertain cell was scored."""
    rows: list[Read] = []
    for shown in models:
        ours, _ = shown.at_chosen()
        if ours is not None:
            rows.append((shown, ours, shown.rivals()))
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
    highest = estimates.best({str(row.control): row.auroc for row in controls})
    return None if highest is None else f"{number(highest[1], 2)}, {highest[0]}"


# --- States ---------------------------------------------------------------------------------------
# Cells where more moves than this flip are outlined as used.
HALF = 0.5
_WALL, _AGENT = "#", "A"


def state_figures(shown: Shown) -> list[Figure]:
    """Two pictures of each chosen state, which stand beside each other where there is room."""
    out = []
    for index, state in enumerate(shown.result.states, start=1):
        out += [
            _true(shown, state, f"{shown.prefix}-state-{index}-true"),
            _read(shown, state, f"{shown.prefix}-state-{index}-read"),
        ]
    return out


def used_cells(state: StatePicture) -> tuple[frozenset[Place], frozenset[Place]]:
    """The places that were tried: those of used cells, and the others."""
    tried = {
        (row, column): share
        for row, line in enumerate(state.used)
        for column, share in enumerate(line)
        if share is not None and not math.isnan(share)
    }
    used = frozenset(place for place, share in tried.items() if share > HALF)
    return used, frozenset(tried) - used


def wrong_walls(state: StatePicture) -> frozenset[Place]:
    """Places that are a wall either in truth or on the decoded map, and not on both."""
    if not state.decoded:
        return frozenset()
    return frozenset(
        (row, column)
        for row, lines in enumerate(zip(state.truth, state.decoded, strict=False))
        for column, (true, read) in enumerate(zip(*lines, strict=False))
        if (true == _WALL) != (read == _WALL)
    )


def _true(shown: Shown, state: StatePicture, name: str) -> Figure:
    walls = [[float(cell == _WALL) for cell in line] for line in state.truth]
    texts = say(
        "true_state",
        model=shown.name,
        # A key of a walk names its grid and its number, which may be long.
        walk=short(state.walk, 60),
        step=state.step,
        taken=_taken(state.action, state.optimal),
        optimal=_listed(state.optimal),
    )
    marked = _marked(state.truth, state.action, state.optimal)
    return Figure(svg=belief_map(name, walls, marked), **texts)


def _read(shown: Shown, state: StatePicture, name: str) -> Figure:
    used, unused = used_cells(state)
    wrong = wrong_walls(state)
    cells = _posterior(state)
    marked = _marked(state.decoded, state.action, state.optimal_decoded, used, unused, wrong)
    if state.decoded:
        on_map = say(
            "decoded_map",
            taken=_taken(state.action, state.optimal_decoded),
            optimal=_listed(state.optimal_decoded),
            wrong=len(wrong),
        )
    else:
        on_map = say("no_decoded_map")
    if used or unused:
        tried = say("tried", used=len(used), tried=len(used) + len(unused))
    else:
        tried = say("not_tried")
    texts = say("read_state", on_map=on_map["text"], tried=tried["text"])
    svg = belief_map(name, cells, marked, label="probability of a wall, as read")
    return Figure(svg=svg, **texts)


def _posterior(state: StatePicture) -> list[list[float]]:
    """The probability of a wall in each cell of the true grid; NaN where none is there."""
    shares = [[math.nan] * len(line) for line in state.truth]
    for row, line in enumerate(state.wall[: len(shares)]):
        for entry, share in enumerate(line[: len(shares[row])]):
            # JSON has no NaN.
            shares[row][entry] = math.nan if share is None else float(share)
    return shares


def _marked(
    grid: Sequence[str],
    action: int | None,
    optimal: Sequence[int],
    framed: frozenset[Place] = frozenset(),
    dotted: frozenset[Place] = frozenset(),
    crossed: frozenset[Place] = frozenset(),
) -> Marked:
    letters = {
        (row, column): cell
        for row, line in enumerate(grid)
        for column, cell in enumerate(line)
        if cell.isalpha()
    }
    start = next((place for place, letter in letters.items() if letter == _AGENT), None)
    return Marked(
        letters=letters,
        start=start,
        moves=[MOVES[each] for each in optimal],
        taken=None if action is None else MOVES[action],
        framed=framed,
        dotted=dotted,
        crossed=crossed,
    )


def _taken(action: int | None, optimal: Sequence[int]) -> str:
    """What the agent did, and whether it is optimal on a map: the end of a sentence."""
    if action is None:
        return "its answer could not be read"
    if not optimal:
        return f"it goes {ACTIONS[action]}"
    return f"it goes {ACTIONS[action]}, which is {'' if action in optimal else 'not '}optimal"


def _listed(actions: Sequence[int]) -> str:
    return " or ".join(ACTIONS[action] for action in actions) or "nothing: no way leads to the goal"


# --- Worlds ---------------------------------------------------------------------------------------
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
    highest = estimates.best(controls)
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
