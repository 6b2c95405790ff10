"""Report part about representation: tables, figures and sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isnan, nan
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, in_a_line
from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.navigation.rollouts import load
from goalmeter.pages import Content, Part, value_at, without
from goalmeter.pages import representation_claims as claims
from goalmeter.pages.representation_claims import ShownModel, position_rank, say, shown_models
from goalmeter.report import Figure, Section, Table
from goalmeter.report.charts import Marked, belief_map, short
from goalmeter.report.numbers import percent
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.representation.use import causal_use
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate


# --- Tables ---------------------------------------------------------------------------------------
def summary(models: Sequence[ShownModel], name: str) -> Table:
    """Every model where its maps are decoded ("read") or as its cells are "used"."""
    rows = [shown for shown in models if value_at(shown, say.declared(name)["has"])]
    return say.table(name, rows, margin=percent(causal_use.MARGIN, 0))


# How rows are sorted by a field, where it is not by its value.
_RANKS: dict[str, Callable[[Any], Any]] = {
    "": lambda row: 0,
    "position": lambda row: position_rank(row.position),
    # Single layers first, in order; then windows of several.
    "layer": lambda row: (True, 0) if isinstance(row.layer, str) else (False, row.layer),
}


def _rows(shown: ShownModel, name: str) -> list[Any]:
    """The declared rows of a table or of a heat map, sorted."""
    declared = say.declared(name)["rows"]
    rows = value_at(shown, declared["of"])
    rows = list(rows.values() if isinstance(rows, dict) else rows)
    if "half" in declared:
        rows = [row for row in rows if row.half == declared["half"]]
    if "hidden" in declared:
        rows = [row for row in rows if row.control not in declared["hidden"]]
    if "has" in declared:
        rows = [row for row in rows if value_at(row, declared["has"])]
    order = [_RANKS.get(each, attrgetter(each)) for each in declared.get("order", ())]
    return sorted(rows, key=lambda row: [rank(row) for rank in order])


def table(shown: ShownModel, name: str) -> Table:
    """Return the table of a model, without rows where its result has none."""
    explained, missing = shown.result.explained, shown.result.believed.get("missing")
    none: dict[str, Any] = {"steps": 0, "errors": 0, "unreadable": 0, "invalid": None}
    states = {"all states": explained, "detour states": explained.get("detour")}
    layer, position, _ = shown.chosen
    return say.table(
        name,
        _rows(shown, name),
        anchor=f"{shown.prefix}-{name}",
        model=shown.name,
        place=f"{claims.layers_in_words(layer)}, {position}",
        counts=[
            say.sentence("explained_counts", name=where, of={**none, **found}) if found else ""
            for where, found in states.items()
        ],
        unbelieved=shown.unbelieved,
        maximum=shown.result.believed.get("maximum"),
        missing="" if missing is None else f"{missing}",
    )


# --- Figures --------------------------------------------------------------------------------------
def heat_map(shown: ShownModel, name: str) -> Iterator[Figure | None]:
    """Draw the declared panels of a model's rows; the chosen places are hatched."""
    entry, rows = say.declared(name), _rows(shown, name)
    # An intervention at several positions is named with them.
    named = {(getattr(row, "intervention", ""), row.position) for row in rows}
    positions = Counter(name for name, _ in named)
    placed = []
    for row in rows:
        values = {"row": row, "several": positions[getattr(row, "intervention", "")] > 1}
        placed.append((row, [say.filled(text, values) for text in entry["place"]]))
    cells = []
    for title, field in entry["panels"]:
        for row, place in placed:
            value = value_at(row, f"{field}.value")
            cells.append((say.filled(title, {"row": row}), *place, nan if value is None else value))
    known = [cell for cell in cells if not isnan(cell[3])]
    lines, columns = (
        list(dict.fromkeys(place[n] for _, place in sorted(placed, key=lambda each: rank(each[0]))))
        for n, rank in enumerate(map(_RANKS.__getitem__, entry["axes"]))
    )
    options: dict[str, Any] = {"rows": lines, "columns": columns}
    if "scale" not in entry["chart"]:
        most = max((abs(cell[3]) for cell in known), default=0.0) or 1.0
        options["scale"] = (-most, most)
    # In the first panel alone.
    chosen = [cells[n][:3] for n, row in enumerate(rows) if getattr(row, "chosen", False)]
    highest = max((cell[3] for cell in known if cell[0] == known[0][0]), default=0.0)
    texts = {"model": shown.name, "probe": shown.chosen[2], "highest": highest}
    picture = f"{shown.prefix}-{name}".replace("_", "-")
    yield say.heat(name, picture, known, chosen, options, **texts)


def dose_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Flips by the dose of a write, with random directions and invalid answers."""
    by_write: dict[tuple[str, str], list[Any]] = {}
    for row in shown.result.doses:
        by_write.setdefault((row.intervention, claims.row_place(row)), []).append(row)
    for count, rows in enumerate(by_write.values(), start=1):
        rows.sort(key=lambda row: row.dose)
        doses, picture = [row.dose for row in rows], f"{shown.prefix}-dose-{count}"
        yield say.series("doses", picture, doses, rows, model=shown.name, first=rows[0])


def plan_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Accuracy of the first n actions and of action n alone, two charts for each position."""
    for count, reader in enumerate(claims.best_readers(shown), start=1):
        ns, texts = [float(row.n) for row in reader.rows], {"model": shown.name}
        for kind in ("prefix", "conditional"):
            picture, more = f"{shown.prefix}-plan-{count}-{kind}", {"ticks": ns}
            yield say.series(kind, picture, ns, reader.rows, more, place=reader.place, **texts)


def decided_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Accuracy along the reasoning, a chart for each of the first four actions."""
    for step in sorted({row.step for row in shown.result.decided})[:4]:
        rows = claims.along_reasoning(shown, step)
        times = [claims.time_of(row.position) or 0.0 for row in rows]
        texts: dict[str, Any] = {"model": shown.name, "first": rows[0] if rows else None}
        yield say.series("decided_figure", f"{shown.prefix}-decided-{step}", times, rows, **texts)


def spans_figure(shown: ShownModel) -> Iterator[Figure]:
    """Flips by span, with the cell hidden and with another one."""
    if rows := [row for row in shown.result.spans if not isnan(row.flips.value)]:
        lines = [str(say.shown(row, "span")) for row in rows]
        picture = f"{shown.prefix}-spans-figure"
        yield say.dots("spans_figure", picture, lines, rows, model=shown.name)


def believed_figure(models: Sequence[ShownModel]) -> Figure | None:
    """MEG of every model that has a believed world, on one scale."""
    lines, rows = [], []
    for shown in models:
        worlds = {} if shown.unbelieved else shown.worlds()
        for key, world in worlds.items():
            nats = Estimate.from_json(world["nats"])
            lines.append(f"{shown.name}: {world['name'].removesuffix(' (control)')}")
            rows.append({"ours" if key.startswith("meg_") else "control": nats, "nats": nats})
    return say.dots("believed_figure", "representation-believed", lines, rows) if rows else None


def state_figures(shown: ShownModel) -> Iterator[Figure]:
    """Two pictures of each chosen state: as it is, and as it is read."""
    for index, state in enumerate(shown.result.states, start=1):
        name = f"{shown.prefix}-state-{index}"
        walls = [[float(cell == "#") for cell in line] for line in state.truth]
        svg, texts = _map(f"{name}-true", walls, (state.truth, state.action, state.optimal))
        walk = short(state.walk, 60)
        yield say.figure("true_state", svg, model=shown.name, walk=walk, step=state.step, **texts)
        shares = np.ndenumerate(np.array(state.used, dtype=float))
        tried = {place: share for place, share in shares if not isnan(share)}
        # Cells where more than half of the moves flip are outlined as used.
        used = frozenset(place for place, share in tried.items() if share > 0.5)
        wrong = frozenset(
            (row, column)
            for row, lines in enumerate(zip(state.truth, state.decoded, strict=False))
            for column, (true, read) in enumerate(zip(*lines, strict=False))
            if (true == "#") != (read == "#")
        )
        # The probability of a wall in each cell of the true grid; NaN where none is there.
        cells = [[nan] * len(line) for line in state.truth]
        for known, line in zip(cells, state.wall, strict=False):
            read_as = [nan if share is None else float(share) for share in line[: len(known)]]
            known[: len(read_as)] = read_as
        view = state.decoded, state.action, state.optimal_decoded
        places = {"framed": used, "dotted": frozenset(tried) - used, "crossed": wrong}
        svg, texts = _map(f"{name}-read", cells, view, "probability of a wall, as read", **places)
        counts = {"used": len(used), "tried": len(tried), "wrong": len(wrong)}
        yield say.figure("read_state" if state.decoded else "unread_state", svg, **counts, **texts)


def _map(
    name: str, cells: list[list[float]], view: tuple[Any, ...], label: str = "", **places: Any
) -> tuple[str, dict[str, str]]:
    """A map with the move of the agent and those that are optimal on it, and both in words."""
    grid, action, optimal = view  # of a state, as it is or as it is read
    taken = "its answer could not be read" if action is None else f"it goes {ACTIONS[action]}"
    if action is not None and optimal:
        taken += f", which is {'' if action in optimal else 'not '}optimal"
    move = None if action is None else MOVES[action]
    marked = Marked(grid=grid, moves=[MOVES[each] for each in optimal], taken=move, **places)
    listed = " or ".join(ACTIONS[each] for each in optimal)
    texts = {"taken": taken, "optimal": listed or "nothing: no way leads to the goal"}
    return belief_map(name, cells, marked, label=label), texts


# --- Sections -------------------------------------------------------------------------------------
# Figures of a model by their names in the texts; all others are heat maps.
_FIGURES: dict[str, Callable[[ShownModel], Iterable[Figure | None]]] = {
    "states": state_figures,
    "doses": dose_figures,
    "spans_figure": spans_figure,
    "plans": plan_figures,
    "decided_figure": decided_figures,
}


def sections(models: Sequence[ShownModel]) -> list[Section]:
    """The body: what is read, what is used, what it explains, and what none of it shows."""
    known = {name for shown in models for name, value in vars(shown.result).items() if value}
    out = []
    for name, content in say("sections").items():
        joint: list[Content] = [
            believed_figure(models) if each == "believed_figure" else summary(models, each)
            for each in content.get("joint", ())
        ]
        tables = [table(shown, each) for shown in models for each in content.get("tables", ())]
        figures = content.get("figures", ())
        drawers = [_FIGURES.get(each, partial(heat_map, name=each)) for each in figures]
        drawn = [figure for shown in models for draw in drawers for figure in draw(shown)]
        has_content = any(each.rows for each in tables) if tables else any(drawn)
        if known & {*content["fields"]} if "fields" in content else has_content:
            out.append(say.section(name, joint, tables, drawn))
    # A paragraph is about the numbers of a field of a result.
    fields: dict[str, Any] = {name: name in known for name in vars(models[0].result)}
    out.append(say.section("limits", **fields))
    points = [
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in claims.missing(shown)
    ]
    return out + say.sections({"missing": points})


# --- Part -----------------------------------------------------------------------------------------
def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """Return the part of a page about the results of probes, in the order given."""
    models = shown_models(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    summaries = {name: summary(models, name) for name in ("read", "used")}
    lines = [line for shown in models for line in claims.findings(shown, summaries)]
    # What a model reads, uses and believes comes first, of every model.
    lines.sort(key=lambda line: not line.lead)
    return Part(
        **say("part"),
        sections=sections(models),
        findings=lines,
        glossary=say("glossary"),
        tables=tuple(each for each in summaries.values() if each.rows),
        runs=[
            without(shown.result.to_json(), "states")
            | {"read": shown.read, "used": shown.use, "unbelieved": shown.unbelieved}
            for shown in models
        ],
    )


def part_of_runs(runs: Sequence[str | Path], tell: Tell) -> Part | None:
    """Return the part about the probes of navigation runs; None if there are none."""
    probed = [run for run in runs if has_result(run)]
    if not probed:
        return None
    results = [Representation.load(run, run_digest(load(run).trajectories)) for run in probed]
    try:
        part = part_of_results(results, tell)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as cause:
        raise InvalidFileError(
            f"{RESULT} of {', '.join(map(str, probed))} cannot be shown ({in_a_line(cause)}); if "
            f"it was edited, delete it and probe the run again"
        ) from cause
    entries = dict(zip(map(str, probed), part.runs, strict=True))
    more = [{"representation": entries[str(run)]} if str(run) in entries else {} for run in runs]
    return replace(part, runs=more)
