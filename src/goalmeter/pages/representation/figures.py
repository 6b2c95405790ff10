"""Figures of the page: heat maps, states, doses, spans, believed worlds and plans."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
from goalmeter.report.charts import short
from goalmeter.report.maps import Marked, Place, belief_map
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
    cells = [
        (row.control or "the probe", f"layer {row.layer}", row.position, _value(row, field))
        for row in rows
    ]
    layers = [f"layer {layer}" for layer in sorted({row.layer for row in rows})]
    positions = sorted({row.position for row in rows}, key=position_rank)
    most = max((abs(cell[3]) for cell in cells if not math.isnan(cell[3])), default=0.0) or 1.0
    more = {"scale": (-most, most)} if name == "gain_map" else {}
    return _heat(shown, name, cells, layers, positions, more=more)


def flips_map(shown: ShownModel) -> Figure | None:
    """Flips of the screened interventions by layer, nulls last."""
    rows = sorted((r for r in shown.result.use if r.half == SCREEN), key=lambda row: row.is_null)
    places = Counter(
        intervention for intervention, _ in {(r.intervention, r.position) for r in rows}
    )
    names = [
        say.sentence("flips_rows", "several" if places[row.intervention] > 1 else "one", row=row)
        for row in rows
    ]
    return _layer_map(shown, "flips_map", rows, names)


def moved_map(shown: ShownModel) -> Figure | None:
    """Moves that follow at every place of the first half."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    return _layer_map(
        shown, "moved_map", rows, [f"{say.shown(r, 'moved')}, {r.position}" for r in rows]
    )


def _layer_map(
    shown: ShownModel, name: str, rows: Sequence[Any], names: Sequence[str]
) -> Figure | None:
    """A panel for each declared field by name and layer; chosen rows are hatched in the first."""
    # Single layers first, in order; then windows of several.
    layers = sorted(
        dict.fromkeys(row.layer for row in rows),
        key=lambda layer: (isinstance(layer, str), 0 if isinstance(layer, str) else layer),
    )
    fields = say.declared(name)["panels"]
    cells = [
        (title, line, claims.layers_in_words(row.layer), _value(row, field))
        for title, field in fields
        for row, line in zip(rows, names, strict=True)
    ]
    chosen = [cells[n][:3] for n, row in enumerate(rows) if row.chosen]
    columns = list(map(claims.layers_in_words, layers))
    return _heat(shown, name, cells, list(dict.fromkeys(names)), columns, marked=chosen)


def _heat(
    shown: ShownModel,
    name: str,
    cells: Sequence[tuple[str, str, str, float]],
    rows: Sequence[str],
    columns: Sequence[str],
    **more: Any,
) -> Figure | None:
    known = [cell for cell in cells if not math.isnan(cell[3])]
    highest = max((cell[3] for cell in known if cell[0] == known[0][0]), default=0.0)
    texts = {"model": shown.name, "probe": shown.chosen[2], "highest": highest}
    picture = f"{shown.prefix}-{name}".replace("_", "-")
    return say.heat(name, picture, known, rows, columns, **texts, **more)


def _value(row: Any, field: str) -> float:
    estimate: Estimate | None = getattr(row, field)
    return math.nan if estimate is None else estimate.value


# --- Curves and dots ------------------------------------------------------------------------------
def dose_figures(shown: ShownModel) -> list[Figure | None]:
    """Flips by the dose of a write, with random directions and invalid answers."""
    by_write: dict[tuple[str, str], list[Any]] = {}
    for row in shown.result.doses:
        by_write.setdefault((row.intervention, row_place(row)), []).append(row)
    out = []
    for count, rows in enumerate(by_write.values(), start=1):
        rows.sort(key=lambda row: row.dose)
        texts = {"model": shown.name, "first": rows[0]}
        picture = f"{shown.prefix}-dose-{count}"
        out.append(say.series("doses", picture, [row.dose for row in rows], rows, **texts))
    return out


def plan_figures(shown: ShownModel) -> list[Figure | None]:
    """Accuracy of the first n actions and of action n alone, two charts for each position."""
    out = []
    for count, reader in enumerate(claims.best_readers(shown), start=1):
        ns = [float(row.n) for row in reader.rows]
        texts = {"model": shown.name, "place": reader.place, "more": {"ticks": ns}}
        for kind in (claims.PREFIX, claims.CONDITIONAL):
            picture = f"{shown.prefix}-plan-{count}-{kind}"
            out.append(say.series(kind, picture, ns, reader.rows, **texts))
    return out


def decided_figures(shown: ShownModel) -> list[Figure | None]:
    """Accuracy along the reasoning, a chart for each of the first four actions."""
    out = []
    for step in sorted({row.step for row in shown.result.decided})[:4]:
        rows = claims.along_reasoning(shown, step)
        times = [claims.time_of(row.position) or 0.0 for row in rows]
        texts = {"model": shown.name, "first": rows[0] if rows else None}
        picture = f"{shown.prefix}-decided-{step}"
        out.append(say.series("decided_figure", picture, times, rows, **texts))
    return out


def spans_figure(shown: ShownModel) -> Figure | None:
    """Flips by span, with the cell hidden and with another one."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    lines = [str(say.shown(row, "span")) for row in rows]
    return say.dots("spans_figure", f"{shown.prefix}-spans-figure", lines, rows, model=shown.name)


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
