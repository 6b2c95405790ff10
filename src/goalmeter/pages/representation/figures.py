"""Figures of the page: heat maps, states, doses, spans, believed worlds and plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    MAJORITY,
    POSITION,
    ShownModel,
    position_rank,
    row_place,
    say,
)
from goalmeter.report import Figure
from goalmeter.report.canvas import GREEN, INK, MUTED, VERMILION
from goalmeter.report.charts import Curve, Panel, heat_map, short
from goalmeter.report.maps import Marked, Place, belief_map
from goalmeter.report.numbers import number
from goalmeter.representation.result_rows import StatePicture
from goalmeter.representation.use.trials import SCREEN
from goalmeter.statistics.clusters import Estimate


# --- Heat maps ------------------------------------------------------------------------------------
def auroc_map(shown: ShownModel) -> Figure | None:
    """AUROC of walls by layer and position; colours begin at one half, which is no information."""
    return _probe_map(shown, "auroc_map", "auroc", MAJORITY)


def gain_map(shown: ShownModel) -> Figure | None:
    """Gain in bits over position alone, which is a control by itself."""
    return _probe_map(shown, "gain_map", "gain_bits", POSITION)


def _probe_map(shown: ShownModel, name: str, field: str, without: str) -> Figure | None:
    """A number by layer and position, of the probe and each control."""
    rows = claims.in_order(
        row
        for row in shown.result.maps_of()
        if row.probe == shown.chosen[2] and row.control not in (MAJORITY, without)
    )
    layers = {layer: f"layer {layer}" for layer in sorted({row.layer for row in rows})}
    positions = sorted({row.position for row in rows}, key=position_rank)
    panels = [
        Panel.of(
            control or "the probe",
            {(r.layer, r.position): _value(r, field) for r in rows if r.control == control},
            [*layers],
            positions,
        )
        for control in dict.fromkeys(row.control for row in rows)
    ]
    names = {"rows": [*layers.values()], "columns": positions}
    return _heat(shown, name, panels, names)


def flips_map(shown: ShownModel) -> Figure | None:
    """Flips of the screened interventions by layer, nulls last."""
    rows = sorted((r for r in shown.result.use if r.half == SCREEN), key=lambda row: row.is_null)
    places = {(row.intervention, row.position) for row in rows}

    def named(row: Any) -> str:
        several = sum(intervention == row.intervention for intervention, _ in places) > 1
        where = f", {row.position}" if several else ""
        return f"{say.shown(row, 'dose')}{where}{' (null)' * row.is_null}"

    values = {"needed cells": "flips", "unneeded cells": "unneeded_flips"}
    return _layer_map(shown, "flips_map", rows, named, values)


def moved_map(shown: ShownModel) -> Figure | None:
    """Moves that follow at every place of the first half."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    values = {"follow": "flips", "null": "null_flips", "lost": "same_flips"}

    def named(row: Any) -> str:
        return f"{say.shown(row, 'moved')}, {row.position}"

    return _layer_map(shown, "moved_map", rows, named, values)


def _layer_map(
    shown: ShownModel,
    name: str,
    rows: Sequence[Any],
    named: Callable[[Any], str],
    values: Mapping[str, str],
) -> Figure | None:
    """A panel for each field by name and layer; chosen rows are hatched in the first."""
    names = list(dict.fromkeys(map(named, rows)))
    # Single layers first, in order; then windows of several.
    layers = sorted(
        dict.fromkeys(row.layer for row in rows),
        key=lambda layer: (isinstance(layer, str), 0 if isinstance(layer, str) else layer),
    )
    hatched = [(named(row), row.layer) for row in rows if row.chosen]
    panels = []
    for title, field in values.items():
        places = {(named(row), row.layer): _value(row, field) for row in rows}
        panels.append(Panel.of(title, places, names, layers, hatched=hatched))
        hatched = []
    columns = list(map(claims.layers_in_words, layers))
    return _heat(shown, name, panels, {"rows": names, "columns": columns})


def _heat(
    shown: ShownModel, name: str, panels: Sequence[Panel], names: dict[str, Any]
) -> Figure | None:
    """The panels that have numbers, with names of rows and columns; None where none has any."""
    panels = [panel for panel in panels if not panel.is_empty]
    if not panels:
        return None
    options = names | {"means": False}
    if name == "gain_map":
        most = max(float(np.nanmax(np.abs(panel.values))) for panel in panels) or 1.0
        options["scale"] = (-most, most)
    values = {"probe": shown.chosen[2], "highest": number(float(np.nanmax(panels[0].values)), 2)}
    picture = f"{shown.prefix}-{name}".replace("_", "-")
    return say.draw(name, heat_map, picture, panels, options, model=shown.name, **values)


def _value(row: Any, field: str) -> float:
    estimate: Estimate | None = getattr(row, field)
    return math.nan if estimate is None else estimate.value


# --- Curves ---------------------------------------------------------------------------------------
# Baselines differ in stroke and marker too, since colours may not be distinguishable.
_STYLES: tuple[dict[str, Any], ...] = (
    {"colour": VERMILION, "stroke": "--", "marker": "s"},
    {"colour": GREEN, "stroke": "-.", "marker": "^"},
    {"colour": INK, "stroke": ":", "marker": "D"},
    {"colour": MUTED, "stroke": "--", "marker": "v"},
    {"colour": VERMILION, "stroke": ":", "marker": "x"},
    {"colour": GREEN, "stroke": "--", "marker": "P"},
    {"colour": INK, "stroke": "-.", "marker": "*"},
)
_INVALID: dict[str, Any] = {"colour": MUTED, "stroke": ":", "marker": "^"}


def _is_known(values: Iterable[Estimate]) -> bool:
    return any(not math.isnan(each.value) for each in values)


def dose_figures(shown: ShownModel) -> list[Figure]:
    """Flips by the dose of a write, with random directions and invalid answers."""
    by_write: dict[tuple[str, str], list[Any]] = {}
    for row in shown.result.doses:
        by_write.setdefault((row.intervention, row_place(row)), []).append(row)
    out = []
    for count, ((intervention, place), rows) in enumerate(by_write.items(), start=1):
        rows.sort(key=lambda row: row.dose)
        doses = [row.dose for row in rows]
        ours, random = [row.flips for row in rows], [row.null_flips for row in rows]
        if not _is_known([*ours, *random]):
            continue
        curves = [
            Curve.of("along the probe’s direction", doses, ours, marker="o"),
            Curve.of("along random directions", doses, random, **_STYLES[0]),
        ]
        if _is_known(row.unreadable for row in rows):
            y = [row.unreadable.value for row in rows]
            label = "answers that cannot be read"
            curves.append(Curve(label=label, x=doses, y=y, hollow=True, **_INVALID))
        names = {"model": shown.name, "intervention": intervention, "place": place}
        picture = f"{shown.prefix}-dose-{count}"
        out.append(say.curves("doses", picture, curves, rows=rows, **names))
    return out


def _share_curves(
    x: Sequence[float],
    values: Sequence[Estimate],
    baselines: Sequence[Mapping[str, Estimate | None]],
) -> list[Curve]:
    """What was read with its band, beside each baseline; none where nothing is known."""
    if not _is_known(values):
        return []
    curves = [Curve.of("read of activations", x, values, marker="o")]
    for count, label in enumerate(dict.fromkeys(name for row in baselines for name in row)):
        known = [row.get(label) for row in baselines]
        y = [math.nan if each is None else each.value for each in known]
        curves.append(Curve(label=label, x=x, y=y, hollow=True, **_STYLES[count % len(_STYLES)]))
    return curves


def plan_figures(shown: ShownModel) -> list[Figure]:
    """Accuracy of the first n actions and of action n alone, two charts for each position."""
    out = []
    for count, reader in enumerate(claims.best_readers(shown), start=1):
        ns = [float(row.n) for row in reader.rows]
        for kind in (claims.PREFIX, claims.CONDITIONAL):
            values: list[Estimate] = [getattr(row, kind) for row in reader.rows]
            baselines = [
                {name: v.get(kind) for name, v in row.baselines.items() if v is not None}
                for row in reader.rows
            ]
            if curves := _share_curves(ns, values, baselines):
                picture = f"{shown.prefix}-plan-{count}-{kind}"
                names = {"model": shown.name, "place": reader.place}
                ticks = {"ticks": ns}
                out.append(say.curves(kind, picture, curves, ticks, rows=reader.rows, **names))
    return out


def decided_figures(shown: ShownModel) -> list[Figure]:
    """Accuracy along the reasoning, a chart for each of the first four actions."""
    out = []
    for step in sorted({row.step for row in shown.result.decided})[:4]:
        rows = claims.along_reasoning(shown, step)
        times = [claims.time_of(row.position) or 0.0 for row in rows]
        accuracies = [row.accuracy for row in rows]
        if curves := _share_curves(times, accuracies, [row.baselines for row in rows]):
            names = {"model": shown.name, "step": step, "layer": rows[0].layer}
            picture = f"{shown.prefix}-decided-{step}"
            out.append(say.curves("decided_figure", picture, curves, rows=rows, **names))
    return out


# --- Dots -----------------------------------------------------------------------------------------
def spans_figure(shown: ShownModel) -> Figure | None:
    """Flips by span, with the cell hidden and with another one."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    lines, picture = [str(say.shown(row, "span")) for row in rows], f"{shown.prefix}-spans-figure"
    return say.dots("spans_figure", picture, lines, rows, model=shown.name)


def believed_figure(models: Sequence[ShownModel]) -> Figure | None:
    """MEG of every model that has a believed world, on one scale."""
    lines, rows = [], []
    for shown in models:
        for world in () if shown.unbelieved else claims.worlds(shown.result.believed):
            lines.append(f"{shown.name}: {world.name}")
            rows.append({"control" if world.is_control else "ours": world.nats, "nats": world.nats})
    return say.dots("believed_figure", "representation-believed", lines, rows) if rows else None


# --- States ---------------------------------------------------------------------------------------
def state_figures(shown: ShownModel) -> list[Figure]:
    """Two pictures of each chosen state: as it is, and as it is read."""
    out = []
    for index, state in enumerate(shown.result.states, start=1):
        name = f"{shown.prefix}-state-{index}"
        walls = [[float(cell == "#") for cell in line] for line in state.truth]
        true = say.figure(
            "true_state",
            belief_map(f"{name}-true", walls, _marked(state.truth, state.action, state.optimal)),
            **_in_words(state.action, state.optimal),
            model=shown.name,
            walk=short(state.walk, 60),
            step=state.step,
        )
        out += [true, _read_figure(state, f"{name}-read")]
    return out


def _read_figure(state: StatePicture, name: str) -> Figure:
    tried = {
        (row, column): share
        for row, line in enumerate(state.used)
        for column, share in enumerate(line)
        if share is not None and not math.isnan(share)
    }
    # Cells where more than half of the moves flip are outlined as used.
    used = frozenset(place for place, share in tried.items() if share > 0.5)
    wrong = frozenset(
        (row, column)
        for row, lines in enumerate(zip(state.truth, state.decoded, strict=False))
        for column, (true, read) in enumerate(zip(*lines, strict=False))
        if (true == "#") != (read == "#")
    )
    # The probability of a wall in each cell of the true grid; NaN where none is there.
    cells = [[math.nan] * len(line) for line in state.truth]
    for row, line in enumerate(state.wall[: len(cells)]):
        for column, share in enumerate(line[: len(cells[row])]):
            cells[row][column] = math.nan if share is None else float(share)
    places = {"framed": used, "dotted": frozenset(tried) - used, "crossed": wrong}
    marked = _marked(state.decoded, state.action, state.optimal_decoded, **places)
    figure = say.figure(
        "read_state" if state.decoded else "unread_state",
        belief_map(name, cells, marked, label="probability of a wall, as read"),
        **_in_words(state.action, state.optimal_decoded),
        wrong=len(wrong),
    )
    use = say.sentence("tried" if tried else "not_tried", used=len(used), tried=len(tried))
    return replace(figure, alt=f"{figure.alt} {use}", caption=f"{figure.caption} {use}")


def _marked(
    grid: Sequence[str], action: int | None, optimal: Sequence[int], **places: frozenset[Place]
) -> Marked:
    letters = {
        (row, column): cell
        for row, line in enumerate(grid)
        for column, cell in enumerate(line)
        if cell.isalpha()
    }
    return Marked(
        letters=letters,
        start=next((place for place, letter in letters.items() if letter == "A"), None),
        moves=[MOVES[each] for each in optimal],
        taken=None if action is None else MOVES[action],
        **places,
    )


def _in_words(action: int | None, optimal: Sequence[int]) -> dict[str, str]:
    """What the agent did, and what is optimal on a map."""
    taken = "its answer could not be read" if action is None else f"it goes {ACTIONS[action]}"
    if action is not None and optimal:
        taken += f", which is {'' if action in optimal else 'not '}optimal"
    listed = " or ".join(ACTIONS[each] for each in optimal)
    return {"taken": taken, "optimal": listed or "nothing: no way leads to the goal"}
