"""Figures of the page: heat maps, states, doses, spans, believed worlds and plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    CONDITIONAL,
    MAJORITY,
    POSITION,
    PREFIX,
    SPANS,
    ShownModel,
    in_order,
    layers_in_words,
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
    DotPanel,
    Dots,
    Panel,
    curve_chart,
    dot_chart,
    heat_map,
    short,
)
from goalmeter.report.maps import Marked, Place, belief_map
from goalmeter.report.numbers import number, percent
from goalmeter.representation.result_rows import DoseRow, StatePicture, UsedRow
from goalmeter.representation.use.trials import SCREEN
from goalmeter.statistics.clusters import Estimate

# An AUROC of one half is no information, so colours begin there.
_CHANCE = 0.5
_PROBE = "the probe"
# Cells where more moves than this flip are outlined as used.
_HALF = 0.5
_WALL, _AGENT = "#", "A"
_LIMITS = (-0.02, 1.02)
_SIZE = (4.0, 3.7)  # inches: two side by side on a page, one on a phone
_TICKS = {"prompt": -0.2, "0": 0.0, "0.5": 0.5, "1": 1.0, "answer": 1.2}
_STEPS = 4  # actions whose curves are drawn; all are in the table
# Baselines differ in stroke and marker too, since colours may not be distinguishable.
_STYLES = (
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (INK, ":", "D"),
    (MUTED, "--", "v"),
    (VERMILION, ":", "x"),
    (GREEN, "--", "P"),
    (INK, "-.", "*"),
)
Take = Callable[[Any], Estimate | None]


def _panel(
    title: str,
    rows: Iterable[Any],
    heads: tuple[Sequence[Any], Sequence[Any]],
    place: Callable[[Any], tuple[Any, Any]],
    take: Take,
    hatched: Callable[[Any], bool] = lambda row: False,
) -> Panel:
    """The values of rows by the heads of their row and column; NaN where there is none."""
    values = np.full((len(heads[0]), len(heads[1])), math.nan)
    marked = set()
    for row in rows:
        down, across = place(row)
        at = heads[0].index(down), heads[1].index(across)
        if (value := take(row)) is not None:
            values[at] = value.value
        if hatched(row):
            marked.add(at)
    return Panel(title=title, values=values, hatched=frozenset(marked))


def _has_numbers(panel: Panel) -> bool:
    return not bool(np.isnan(np.asarray(panel.values)).all())


def _map_figure(
    shown: ShownModel, name: str, take: Take, without: str, **scale: Any
) -> Figure | None:
    """A number by layer and position, of the probe and each control."""
    rows = in_order(
        row
        for row in shown.result.maps_of()
        if row.probe == shown.chosen[2] and row.control not in (MAJORITY, without)
    )
    layers = sorted({row.layer for row in rows})
    positions = sorted({row.position for row in rows}, key=position_rank)

    def of_control(title: str) -> Panel:
        those = (row for row in rows if (row.control or _PROBE) == title)
        return _panel(title, those, (layers, positions), lambda r: (r.layer, r.position), take)

    titles = dict.fromkeys(row.control or _PROBE for row in rows)
    panels = list(filter(_has_numbers, map(of_control, titles)))
    if not panels:
        return None
    if "limit" not in scale:
        scale["limit"] = max(float(np.nanmax(np.abs(panel.values))) for panel in panels) or 1.0
    svg = heat_map(
        f"{shown.prefix}-{name.removesuffix('_map')}",
        panels,
        rows=[f"layer {layer}" for layer in layers],
        columns=positions,
        means=False,
        **scale,
    )
    highest = number(float(np.nanmax(np.asarray(panels[0].values))), 2)
    texts = say(name, model=shown.name, probe=shown.chosen[2], highest=highest)
    return Figure(svg=svg, **texts)


def auroc_map(shown: ShownModel) -> Figure | None:
    """AUROC of walls by layer and position."""
    scale = {"limit": 1.0, "signed": False, "least": _CHANCE}
    label = "AUROC, pale at 0.5 and below"
    return _map_figure(shown, "auroc_map", lambda row: row.auroc, MAJORITY, label=label, **scale)


def gain_map(shown: ShownModel) -> Figure | None:
    """Gain in bits over position alone, which is a control by itself."""
    label = "gain over position alone, bits a cell"
    return _map_figure(shown, "gain_map", lambda row: row.gain_bits, POSITION, label=label)


def _layer_map(
    name: str,
    label: str,
    rows: Sequence[Any],
    named: Callable[[Any], str],
    values: Mapping[str, Take],
) -> str | None:
    """A panel for each number by name and layer; chosen rows are hatched in the first."""
    names: list[str] = list(dict.fromkeys(map(named, rows)))
    layers: list[int | str] = list(dict.fromkeys(row.layer for row in rows))
    single = sorted(layer for layer in layers if isinstance(layer, int))
    heads = names, [*single, *(layer for layer in layers if isinstance(layer, str))]

    def panel(title: str, take: Take) -> Panel:
        chosen = (lambda row: row.chosen) if title == next(iter(values)) else (lambda row: False)
        return _panel(title, rows, heads, lambda row: (named(row), row.layer), take, chosen)

    panels = [panel(title, take) for title, take in values.items()]
    panels = list(filter(_has_numbers, panels))
    if not panels:
        return None
    return heat_map(
        name,
        panels,
        rows=heads[0],
        columns=[layers_in_words(layer) for layer in heads[1]],
        label=label,
        limit=1.0,
        signed=False,
        means=False,
    )


def flips_map(shown: ShownModel) -> Figure | None:
    """Flips of the screened interventions by layer, nulls last."""
    rows = sorted((r for r in shown.result.use if r.half == SCREEN), key=lambda row: row.is_null)
    positions: dict[str, set[str]] = {}
    for row in rows:
        positions.setdefault(row.intervention, set()).add(row.position)

    def named(row: UsedRow) -> str:
        where = f", {row.position}" if len(positions[row.intervention]) > 1 else ""
        return f"{with_dose(row)}{where}{' (null)' * row.is_null}"

    values: dict[str, Take] = {
        "needed cells": lambda row: row.flips,
        "unneeded cells": lambda row: row.unneeded_flips,
    }
    label = "share of first moves that flip"
    svg = _layer_map(f"{shown.prefix}-flips", label, rows, named, values)
    return None if svg is None else Figure(svg=svg, **say("flips_map", model=shown.name))


def moved_map(shown: ShownModel) -> Figure | None:
    """Moves that follow at every place of the first half."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    values: dict[str, Take] = {
        "follow": lambda row: row.flips,
        "null": lambda row: row.null_flips,
        "lost": lambda row: row.same_flips,
    }
    name, label = f"{shown.prefix}-moved-map", "share of moves"
    svg = _layer_map(name, label, rows, lambda row: f"{what_moved(row)}, {row.position}", values)
    return None if svg is None else Figure(svg=svg, **say("moved_map", model=shown.name))


def _banded(label: str, x: Sequence[float], values: Sequence[Estimate], **style: Any) -> Curve:
    """A curve of estimates with their intervals as a band; a gap where there is no number."""
    intervals = [claims.ends(each) or (math.nan, math.nan) for each in values]
    return Curve(
        label=label,
        x=x,
        y=[each.value for each in values],
        low=[low for low, _ in intervals],
        high=[high for _, high in intervals],
        **style,
    )


def _unknown(values: Iterable[Estimate]) -> bool:
    return all(math.isnan(each.value) for each in values)


def dose_figures(shown: ShownModel) -> list[Figure]:
    """Flips by the dose of a write, with random directions and invalid answers."""
    by_write: dict[tuple[str, str], list[DoseRow]] = {}
    for row in shown.result.doses:
        by_write.setdefault((row.intervention, row_place(row)), []).append(row)
    out = []
    for count, ((intervention, place), rows) in enumerate(by_write.items(), start=1):
        rows.sort(key=lambda row: row.dose)
        doses, ours = [row.dose for row in rows], [row.flips for row in rows]
        nulls, invalid = [row.null_flips for row in rows], [row.unreadable for row in rows]
        if _unknown([*ours, *nulls]):
            continue
        random = {"colour": VERMILION, "stroke": "--", "marker": "s"}
        curves = [
            _banded("along the probe’s direction", doses, ours, marker="o"),
            _banded("along random directions", doses, nulls, **random),
        ]
        if not _unknown(invalid):
            style: dict[str, Any] = {"colour": MUTED, "stroke": ":", "marker": "^", "hollow": True}
            y = [each.value for each in invalid]
            curves.append(Curve(label="answers that cannot be read", x=doses, y=y, **style))
        svg = curve_chart(
            f"{shown.prefix}-dose-{count}",
            curves,
            x_label="dose, mean distances from open to wall",
            y_label="share of first moves that flip",
            limits=_LIMITS,
        )
        values = "; ".join(
            f"{number(row.dose, 1)}: {percent(row.flips.value)}, random "
            f"{percent(row.null_flips.value)}, unreadable {percent(row.unreadable.value)}"
            for row in rows
        )
        names = {"model": shown.name, "intervention": intervention, "place": place}
        out.append(Figure(svg=svg, **say("doses", **names, values=values)))
    return out


def spans_figure(shown: ShownModel) -> Figure | None:
    """Flips by span, with the cell hidden and with another one."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    names = [SPANS.get(row.span, row.span) for row in rows]
    series = (
        Dots.of("the cell hidden", [row.flips for row in rows]),
        Dots.of("another cell hidden", [row.other_flips for row in rows], hollow=True, marker="s"),
    )
    panel = DotPanel(x_label="share of first moves that flip", series=series)
    values = "; ".join(
        f"{name}: {percent(row.flips)}, another cell {percent(row.other_flips)}"
        for name, row in zip(names, rows, strict=True)
    )
    svg = dot_chart(f"{shown.prefix}-spans-figure", names, [panel])
    return Figure(svg=svg, wide=True, **say("spans_figure", model=shown.name, values=values))


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
    ours = [None if world.is_control else world.nats for _, world in rows]
    controls = [world.nats if world.is_control else None for _, world in rows]
    series = [Dots.of("worlds of the agent", ours)]
    if any(controls):
        series.append(Dots.of("controls", controls, hollow=True, marker="s"))
    panel = DotPanel(x_label="MEG, nats a walk", series=tuple(series), joined=True)
    values = "; ".join(f"{line}: {number(world.nats.value, 2)}" for line, world in rows)
    svg = dot_chart("representation-believed", [line for line, _ in rows], [panel])
    return Figure(svg=svg, wide=True, **say("believed_figure", values=values))


def _curves(
    x: Sequence[float],
    values: Sequence[Estimate],
    baselines: Sequence[Mapping[str, Estimate | None]],
) -> list[Curve]:
    """What was read with its band, and each baseline; none where nothing is known."""
    if _unknown(values):
        return []
    curves = [_banded("read of activations", x, values, marker="o")]
    for count, name in enumerate(dict.fromkeys(name for row in baselines for name in row)):
        known = [row.get(name) for row in baselines]
        y = [math.nan if each is None else each.value for each in known]
        colour, stroke, marker = _STYLES[count % len(_STYLES)]
        style: dict[str, Any] = {"colour": colour, "stroke": stroke, "marker": marker}
        curves.append(Curve(label=name, x=x, y=y, hollow=True, **style))
    return curves


def plan_figures(shown: ShownModel) -> list[Figure]:
    """Accuracy of the first n actions and of action n alone, two charts for each position."""
    out = []
    labels = {PREFIX: "n, actions", CONDITIONAL: "n, number of the action"}
    for count, reader in enumerate(claims.best_readers(shown), start=1):
        counts = [float(row.n) for row in reader.rows]
        for kind, label in labels.items():
            values: list[Estimate] = [getattr(row, kind) for row in reader.rows]
            baselines = [
                {name: v.get(kind) for name, v in row.baselines.items() if v is not None}
                for row in reader.rows
            ]
            if curves := _curves(counts, values, baselines):
                svg = curve_chart(
                    f"{shown.prefix}-plan-{count}-{kind}",
                    curves,
                    x_label=label,
                    y_label="share of walks",
                    limits=_LIMITS,
                    ticks=counts,
                    size=_SIZE,
                )
                pairs = zip(counts, values, strict=True)
                listed = ", ".join(f"{place:g}: {percent(each.value)}" for place, each in pairs)
                texts = say(kind, model=shown.name, place=reader.place, values=listed)
                out.append(Figure(svg=svg, **texts))
    return out


def decided_figures(shown: ShownModel) -> list[Figure]:
    """Accuracy along the reasoning, a chart for each of the first actions."""
    out = []
    for step in sorted({row.step for row in shown.result.decided})[:_STEPS]:
        rows = claims.along_reasoning(shown, step)
        times = [time for row in rows if (time := claims.time_of(row.position)) is not None]
        if curves := _curves(times, [r.accuracy for r in rows], [r.baselines for r in rows]):
            svg = curve_chart(
                f"{shown.prefix}-decided-{step}",
                curves,
                x_label="share of the reasoning that is written",
                y_label="share of walks",
                limits=_LIMITS,
                ticks=list(_TICKS.values()),
                tick_names=list(_TICKS),
                size=_SIZE,
            )
            values = ", ".join(f"{row.position}: {percent(row.accuracy.value)}" for row in rows)
            names = {"model": shown.name, "step": step, "layer": rows[0].layer}
            out.append(Figure(svg=svg, **say("decided_figure", **names, values=values)))
    return out


def state_figures(shown: ShownModel) -> list[Figure]:
    """Two pictures of each chosen state: as it is, and as it is read."""
    out = []
    for index, state in enumerate(shown.result.states, start=1):
        name = f"{shown.prefix}-state-{index}"
        out += [_true_figure(shown, state, f"{name}-true"), _read_figure(state, f"{name}-read")]
    return out


def used_cells(state: StatePicture) -> tuple[frozenset[Place], frozenset[Place]]:
    """Return the places that were tried: those of used cells, and the others."""
    tried = {
        (row, column): share
        for row, line in enumerate(state.used)
        for column, share in enumerate(line)
        if share is not None and not math.isnan(share)
    }
    used = frozenset(place for place, share in tried.items() if share > _HALF)
    return used, frozenset(tried) - used


def wrong_walls(state: StatePicture) -> frozenset[Place]:
    """Return the places that are a wall either in truth or on the decoded map."""
    return frozenset(
        (row, column)
        for row, lines in enumerate(zip(state.truth, state.decoded, strict=False))
        for column, (true, read) in enumerate(zip(*lines, strict=False))
        if (true == _WALL) != (read == _WALL)
    )


def _true_figure(shown: ShownModel, state: StatePicture, name: str) -> Figure:
    walls = [[float(cell == _WALL) for cell in line] for line in state.truth]
    texts = say(
        "true_state",
        model=shown.name,
        # A key of a walk contains its grid and its number, which may be long.
        walk=short(state.walk, 60),
        step=state.step,
        taken=_taken(state.action, state.optimal),
        optimal=_listed(state.optimal),
    )
    marked = _marked(state.truth, state.action, state.optimal)
    return Figure(svg=belief_map(name, walls, marked), **texts)


def _read_figure(state: StatePicture, name: str) -> Figure:
    (used, unused), wrong = used_cells(state), wrong_walls(state)
    # The probability of a wall in each cell of the true grid; NaN where none is there.
    cells = [[math.nan] * len(line) for line in state.truth]
    for row, line in enumerate(state.wall[: len(cells)]):
        for entry, share in enumerate(line[: len(cells[row])]):
            cells[row][entry] = math.nan if share is None else float(share)
    places = {"framed": used, "dotted": unused, "crossed": wrong}
    marked = _marked(state.decoded, state.action, state.optimal_decoded, **places)
    texts = say(
        "read_state" if state.decoded else "unread_state",
        taken=_taken(state.action, state.optimal_decoded),
        optimal=_listed(state.optimal_decoded),
        wrong=len(wrong),
    )
    tried = say(
        "tried" if used or unused else "not_tried", used=len(used), tried=len(used | unused)
    )
    svg = belief_map(name, cells, marked, label="probability of a wall, as read")
    alt, caption = (f"{texts[key]} {tried['text']}" for key in ("alt", "caption"))
    return Figure(svg=svg, alt=alt, caption=caption)


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
        start=next((place for place, letter in letters.items() if letter == _AGENT), None),
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
