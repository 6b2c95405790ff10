"""Figures of the page: heat maps, states, doses, spans, believed worlds and plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    MAJORITY,
    POSITION,
    ShownModel,
    in_order,
    position_rank,
    row_place,
    say,
    what_moved,
    with_dose,
)
from goalmeter.report import Figure
from goalmeter.report.canvas import GREEN, INK, MUTED, VERMILION
from goalmeter.report.charts import (
    Curve,
    Panel,
    heat_map,
    short,
)
from goalmeter.report.maps import Marked, Place, belief_map
from goalmeter.report.numbers import number, percent
from goalmeter.representation.result_rows import StatePicture
from goalmeter.representation.use.trials import SCREEN
from goalmeter.statistics.clusters import Estimate


# --- Heat maps ------------------------------------------------------------------------------------
def auroc_map(shown: ShownModel) -> Figure | None:
    """AUROC of walls by layer and position; colours begin at one half, which is no information."""
    return _map_figure(shown, "auroc_map", "auroc", MAJORITY)


def gain_map(shown: ShownModel) -> Figure | None:
    """Gain in bits over position alone, which is a control by itself."""
    return _map_figure(shown, "gain_map", "gain_bits", POSITION)


def _map_figure(shown: ShownModel, name: str, field: str, without: str) -> Figure | None:
    """A number by layer and position, of the probe and each control."""
    probe = shown.chosen[2]
    rows = in_order(
        row
        for row in shown.result.maps_of()
        if row.probe == probe and row.control not in (MAJORITY, without)
    )
    layers = sorted({row.layer for row in rows})
    positions = sorted({row.position for row in rows}, key=position_rank)
    panels = [
        Panel.of(
            control or "the probe",
            {(r.layer, r.position): _value(r, field) for r in rows if r.control == control},
            layers,
            positions,
        )
        for control in dict.fromkeys(row.control for row in rows)
    ]
    named = [f"layer {layer}" for layer in layers]
    return _heat(shown, name, name.removesuffix("_map"), panels, (named, positions))


def _heat(
    shown: ShownModel,
    texts: str,
    name: str,
    panels: Sequence[Panel],
    names: tuple[Sequence[str], Sequence[str]],
) -> Figure | None:
    """The panels that have numbers, with names of rows and columns; None where none has any."""
    shown_panels = [panel for panel in panels if not panel.is_empty]
    if not shown_panels:
        return None
    options: dict[str, Any] = {"rows": names[0], "columns": names[1], "means": False}
    if texts == "gain_map":
        most = max(float(np.nanmax(np.abs(panel.values))) for panel in shown_panels)
        options["scale"] = (-(most or 1.0), most or 1.0)
    return say.draw(
        texts,
        heat_map,
        f"{shown.prefix}-{name}",
        shown_panels,
        options,
        model=shown.name,
        probe=shown.chosen[2],
        highest=number(float(np.nanmax(shown_panels[0].values)), 2),
    )


def flips_map(shown: ShownModel) -> Figure | None:
    """Flips of the screened interventions by layer, nulls last."""
    rows = sorted((r for r in shown.result.use if r.half == SCREEN), key=lambda row: row.is_null)
    places = {(row.intervention, row.position) for row in rows}

    def named(row: Any) -> str:
        several = sum(intervention == row.intervention for intervention, _ in places) > 1
        where = f", {row.position}" if several else ""
        return f"{with_dose(row)}{where}{' (null)' * row.is_null}"

    values = {"needed cells": "flips", "unneeded cells": "unneeded_flips"}
    return _layer_map(shown, "flips_map", "flips", rows, named, values)


def moved_map(shown: ShownModel) -> Figure | None:
    """Moves that follow at every place of the first half."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    values = {"follow": "flips", "null": "null_flips", "lost": "same_flips"}

    def named(row: Any) -> str:
        return f"{what_moved(row)}, {row.position}"

    return _layer_map(shown, "moved_map", "moved-map", rows, named, values)


def _layer_map(
    shown: ShownModel,
    texts: str,
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
    chosen = [(named(row), row.layer) for row in rows if row.chosen]
    panels = [
        Panel.of(
            title,
            {(named(row), row.layer): _value(row, field) for row in rows},
            names,
            layers,
            hatched=chosen if title == next(iter(values)) else (),
        )
        for title, field in values.items()
    ]
    columns = list(map(claims.layers_in_words, layers))
    return _heat(shown, texts, name, panels, (names, columns))


def _value(row: Any, field: str) -> float:
    estimate: Estimate | None = getattr(row, field)
    return math.nan if estimate is None else estimate.value


# --- Curves ---------------------------------------------------------------------------------------
# Baselines differ in stroke and marker too, since colours may not be distinguishable.
_STYLES = (
    {"colour": VERMILION, "stroke": "--", "marker": "s"},
    {"colour": GREEN, "stroke": "-.", "marker": "^"},
    {"colour": INK, "stroke": ":", "marker": "D"},
    {"colour": MUTED, "stroke": "--", "marker": "v"},
    {"colour": VERMILION, "stroke": ":", "marker": "x"},
    {"colour": GREEN, "stroke": "--", "marker": "P"},
    {"colour": INK, "stroke": "-.", "marker": "*"},
)


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
        ours, random, invalid = (
            [getattr(row, field) for row in rows] for field in ("flips", "null_flips", "unreadable")
        )
        if not _is_known([*ours, *random]):
            continue
        curves = [
            Curve.of("along the probe’s direction", doses, ours, marker="o"),
            Curve.of("along random directions", doses, random, **_STYLES[0]),
        ]
        if _is_known(invalid):
            y = [each.value for each in invalid]
            style: dict[str, Any] = {"colour": MUTED, "stroke": ":", "marker": "^", "hollow": True}
            curves.append(Curve(label="answers that cannot be read", x=doses, y=y, **style))
        picture = f"{shown.prefix}-dose-{count}"
        values = "; ".join(
            f"{number(row.dose, 1)}: {percent(row.flips.value)}, random "
            f"{percent(row.null_flips.value)}, unreadable {percent(row.unreadable.value)}"
            for row in rows
        )
        names = {"model": shown.name, "intervention": intervention, "place": place}
        out.append(say.curves("doses", picture, curves, **names, values=values))
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
        style: dict[str, Any] = _STYLES[count % len(_STYLES)]
        curves.append(Curve(label=label, x=x, y=y, hollow=True, **style))
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
                pairs = zip(ns, values, strict=True)
                listed = ", ".join(f"{n:g}: {percent(each.value)}" for n, each in pairs)
                texts = {"model": shown.name, "place": reader.place, "values": listed}
                out.append(say.curves(kind, picture, curves, {"ticks": ns}, **texts))
    return out


def decided_figures(shown: ShownModel) -> list[Figure]:
    """Accuracy along the reasoning, a chart for each of the first four actions."""
    out = []
    for step in sorted({row.step for row in shown.result.decided})[:4]:
        rows = claims.along_reasoning(shown, step)
        times = [claims.time_of(row.position) or 0.0 for row in rows]
        if curves := _share_curves(
            times, [row.accuracy for row in rows], [row.baselines for row in rows]
        ):
            picture = f"{shown.prefix}-decided-{step}"
            values = ", ".join(f"{row.position}: {percent(row.accuracy.value)}" for row in rows)
            names = {"model": shown.name, "step": step, "layer": rows[0].layer, "values": values}
            out.append(say.curves("decided_figure", picture, curves, **names))
    return out


# --- Dots -----------------------------------------------------------------------------------------
def spans_figure(shown: ShownModel) -> Figure | None:
    """Flips by span, with the cell hidden and with another one."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    lines = [claims.SPANS.get(row.span, row.span) for row in rows]
    values = "; ".join(
        f"{line}: {percent(row.flips)}, another cell {percent(row.other_flips)}"
        for line, row in zip(lines, rows, strict=True)
    )
    name, texts = f"{shown.prefix}-spans-figure", {"model": shown.name, "values": values}
    return say.dots("spans_figure", name, lines, rows, **texts)


def believed_figure(models: Sequence[ShownModel]) -> Figure | None:
    """MEG of every model that has a believed world, on one scale."""
    rows = [
        (f"{shown.name}: {world.name}", world)
        for shown in models
        if not shown.unbelieved
        for world in claims.worlds(shown.result.believed)
    ]
    if not rows:
        return None
    lines = [line for line, _ in rows]
    values = "; ".join(f"{line}: {number(world.nats.value, 2)}" for line, world in rows)
    nats = [{"control" if world.is_control else "ours": world.nats} for _, world in rows]
    return say.dots("believed_figure", "representation-believed", lines, nats, values=values)


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
            model=shown.name,
            walk=short(state.walk, 60),
            step=state.step,
            taken=_taken(state.action, state.optimal),
            optimal=_listed(state.optimal),
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
        for entry, share in enumerate(line[: len(cells[row])]):
            cells[row][entry] = math.nan if share is None else float(share)
    places = {"framed": used, "dotted": frozenset(tried) - used, "crossed": wrong}
    marked = _marked(state.decoded, state.action, state.optimal_decoded, **places)
    figure = say.figure(
        "read_state" if state.decoded else "unread_state",
        belief_map(name, cells, marked, label="probability of a wall, as read"),
        taken=_taken(state.action, state.optimal_decoded),
        optimal=_listed(state.optimal_decoded),
        wrong=len(wrong),
    )
    use = say("tried" if tried else "not_tried", used=len(used), tried=len(tried))["text"]
    return Figure(svg=figure.svg, alt=f"{figure.alt} {use}", caption=f"{figure.caption} {use}")


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


def _taken(action: int | None, optimal: Sequence[int]) -> str:
    """What the agent did, and whether it is optimal on a map: the end of a sentence."""
    if action is None:
        return "its answer could not be read"
    if not optimal:
        return f"it goes {ACTIONS[action]}"
    return f"it goes {ACTIONS[action]}, which is {'' if action in optimal else 'not '}optimal"


def _listed(actions: Sequence[int]) -> str:
    return " or ".join(ACTIONS[action] for action in actions) or "nothing: no way leads to the goal"
