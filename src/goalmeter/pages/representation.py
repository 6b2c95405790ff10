"""Report part about representation: tables, sections with figures, and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import isnan, nan
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, in_a_line
from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.navigation.rollouts import load
from goalmeter.pages import Content
from goalmeter.pages.part import Part, without
from goalmeter.pages.representation_claims import (
    ABOVE,
    BELOW,
    CONDITIONAL,
    MAJORITY,
    POSITION,
    PREFIX,
    ShownModel,
    above_simple,
    along_reasoning,
    best,
    best_readers,
    compare,
    estimates_of,
    in_order,
    is_low,
    layers_in_words,
    map_place,
    measures,
    position_rank,
    row_place,
    say,
    shown_models,
    sign,
    signs,
    simple_baselines,
    time_of,
    worlds_of,
)
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.charts import Marked, Place, belief_map, short
from goalmeter.report.numbers import percent
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.replay import BEFORE, run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.representation.use import causal_use
from goalmeter.representation.use.patching import CARRIES
from goalmeter.representation.use.trials import CONFIRM, SCREEN
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

# --- Tables ---------------------------------------------------------------------------------------
MISSING = "representation-missing"  # id of the section on what a result lacks
_UNBELIEVED = "the true world without walls at unused places (not known to be believed)"


def summary(models: Sequence[ShownModel], name: str) -> Table | None:
    """Every model where its maps are decoded ("read") or as its cells are "used"; None for none."""
    rows = [shown for shown in models if (shown.probe if name == "read" else shown.confirmed)]
    texts = {"anchor": f"representation-{name}", "margin": percent(causal_use.MARGIN, 0)}
    return say.table("summary" if name == "read" else name, rows, **texts) if rows else None


def _sizes(shown: ShownModel) -> Iterator[Any]:
    """The probes of several sizes at the chosen place, with the gains of their controls."""
    maps = in_order(shown.result.maps_of())
    rows = [row for row in maps if (row.layer, row.position) == shown.chosen[:2]]
    probes = [row for row in rows if row.control is None]
    if len({row.probe for row in probes}) < 2:
        return
    # Gains are over position alone, and a majority has no size.
    without = (None, POSITION, MAJORITY)
    names = dict.fromkeys(row.control for row in rows if row.control not in without)
    gains = {(row.probe, row.control): row.gain_bits for row in rows}
    for row in sorted(probes, key=lambda row: row.parameters):
        yield row, {name: gains.get((row.probe, name)) for name in names}


def _places(shown: ShownModel) -> Iterable[Any]:
    """Agent and goal at the place whose maps are decoded, by control."""
    by_control: dict[Any, dict[str, Any]] = {}
    for row in shown.result.places:
        if map_place(row) == shown.chosen:
            by_control.setdefault(say.shown(row, "reading"), {})[row.label] = row
    return by_control.items()


def _positions(shown: ShownModel) -> Iterator[Any]:
    """What the maps of each position explain, the chosen one first; none for one position."""
    others = shown.result.explained.get("other_positions") or {}
    positions = {str(shown.chosen[1]): shown.result.explained} if others else {}
    positions |= {name: others[name] for name in sorted(others, key=position_rank)}
    for position, states in positions.items():
        shares = {name: states.get(key) for key, name in say("measure_names").items()}
        errors = states.get("explained_errors") or {}
        highest = best(estimates_of(errors.get("controls")))
        yield position, shares, highest and highest[1], states.get("invalid")


def _worlds(shown: ShownModel) -> Iterable[Any]:
    worlds = worlds_of(shown.result.believed)
    # Tables in Markdown have no notes, so the row itself claims no belief.
    if shown.unbelieved and "meg_believed" in worlds:
        worlds["meg_believed"]["name"] = _UNBELIEVED
    return worlds.values()


# Table -> the rows of a model.
_ROWS: dict[str, Callable[[ShownModel], Iterable[Any]]] = {
    "controls": lambda shown: shown.readings if shown.probe is not None else (),
    "sizes": _sizes,
    "places": _places,
    "interventions": lambda shown: [row for row in shown.result.use if row.half == CONFIRM],
    "spans": lambda shown: shown.result.spans,
    "moved": lambda shown: [row for row in shown.result.moved if row.half == CONFIRM],
    "subspaces": lambda shown: shown.result.subspaces,
    "explained": lambda shown: measures(shown.result.explained),
    "beyond": lambda s: [row for row in measures(s.result.explained) if row[1].get("controls")],
    "positions": _positions,
    "believed": _worlds,
    "plan": lambda shown: sorted(
        shown.result.plan, key=lambda r: (position_rank(r.position), r.layer, r.decoder, r.n)
    ),
    "settled": lambda shown: sorted(shown.result.settled, key=lambda row: (row.step, row.layer)),
    "decided": lambda shown: sorted(
        shown.result.decided, key=lambda r: (r.step, position_rank(r.position), r.layer)
    ),
}


def table(shown: ShownModel, name: str) -> Table | None:
    """Return the table of a model; None where its result has no such rows."""
    rows = list(_ROWS[name](shown))
    if not rows:
        return None
    explained, believed = shown.result.explained, shown.result.believed
    before, after = [], []
    states = {"all states": explained, "detour states": explained.get("detour")}
    for where, found in states.items() if name == "explained" else ():
        if found:
            counts = {"steps": 0, "errors": 0, "unreadable": 0, **found}
            kind = "invalid" if counts.get("invalid") else "all_valid"
            before.append(say.sentence("explained_counts", kind, name=where, of=counts))
    if name == "believed":
        if reason := shown.unbelieved:
            before.append(f"Nothing is said of a world that it believes in: {reason}.")
        for field in ("maximum", "missing"):
            if (value := believed.get(field)) is not None:
                after.append(say.sentence("believed_notes", field, value=value))
    layer, position, _ = shown.chosen
    texts = {"model": shown.name, "place": f"{layers_in_words(layer)}, {position}"}
    anchor = f"{shown.prefix}-{name}"
    return say.table(name, rows, anchor=anchor, before=before, notes=after, **texts)


# --- Heat maps ------------------------------------------------------------------------------------
_Named = tuple[Any, str]  # a row with a suffix of its name


def _by_layer(named: _Named) -> tuple[bool, int]:
    # Single layers first, in order; then windows of several.
    is_window = isinstance(named[0].layer, str)
    return is_window, 0 if is_window else named[0].layer


def _probe_map(shown: ShownModel, *, name: str, without: str) -> list[Figure | None]:
    """The probe and each control but one, whose numbers are known, by layer and position."""
    rows = in_order(row for row in shown.result.maps_of() if row.probe == shown.chosen[2])
    named = [(row, "") for row in rows if row.control not in (MAJORITY, without)]
    return _heat(shown, name, named, _by_layer, lambda each: position_rank(each[0].position))


def flips_map(shown: ShownModel) -> list[Figure | None]:
    """Flips of the screened interventions by layer, nulls last."""
    rows = sorted((r for r in shown.result.use if r.half == SCREEN), key=lambda row: row.is_null)
    places = Counter(each for each, _ in {(row.intervention, row.position) for row in rows})
    named = [(row, f", {row.position}" * (places[row.intervention] > 1)) for row in rows]
    return _heat(shown, "flips_map", named, lambda named: 0, _by_layer)


def moved_map(shown: ShownModel) -> list[Figure | None]:
    """Moves that follow at every place of the first half."""
    named = [(row, "") for row in shown.result.moved if row.half == SCREEN]
    return _heat(shown, "moved_map", named, lambda named: 0, _by_layer)


def _heat(
    shown: ShownModel, name: str, rows: Sequence[_Named], *orders: Callable[[_Named], Any]
) -> list[Figure | None]:
    """The declared panels of rows, in the order of keys down and across; chosen ones hatched."""
    entry = say.declared(name)
    places = [say.filled(entry["place"], {"row": row}) for row in rows]
    cells = []
    for title, field in entry["panels"]:
        for row, place in zip(rows, places, strict=True):
            estimate = getattr(row[0], field)
            value = nan if estimate is None else estimate.value
            cells.append((say.filled(title, {"row": row}), *place, value))
    known = [cell for cell in cells if not isnan(cell[3])]
    texts: dict[str, Any] = {"model": shown.name, "probe": shown.chosen[2]}
    texts["highest"] = max((cell[3] for cell in known if cell[0] == known[0][0]), default=0.0)
    most = max((abs(cell[3]) for cell in known), default=0.0) or 1.0
    scale = {} if "scale" in entry["chart"] else {"scale": (-most, most)}
    lines, columns = (
        list(dict.fromkeys(say.filled(text, {"row": row}) for row in sorted(rows, key=order)))
        for text, order in zip(entry["place"], orders, strict=True)
    )
    # In the first panel alone.
    chosen = [cells[n][:3] for n, (row, _) in enumerate(rows) if getattr(row, "chosen", False)]
    picture = f"{shown.prefix}-{name}".replace("_", "-")
    return [say.heat(name, picture, known, lines, columns, chosen, scale, **texts)]


# --- Curves and dots ------------------------------------------------------------------------------
def dose_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Flips by the dose of a write, with random directions and invalid answers."""
    by_write: dict[tuple[str, str], list[Any]] = {}
    for row in shown.result.doses:
        by_write.setdefault((row.intervention, row_place(row)), []).append(row)
    for count, rows in enumerate(by_write.values(), start=1):
        rows.sort(key=lambda row: row.dose)
        doses, picture = [row.dose for row in rows], f"{shown.prefix}-dose-{count}"
        yield say.series("doses", picture, doses, rows, model=shown.name, first=rows[0])


def plan_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Accuracy of the first n actions and of action n alone, two charts for each position."""
    for count, reader in enumerate(best_readers(shown), start=1):
        ns, texts = [float(row.n) for row in reader.rows], {"model": shown.name}
        for kind in (PREFIX, CONDITIONAL):
            picture, more = f"{shown.prefix}-plan-{count}-{kind}", {"ticks": ns}
            yield say.series(kind, picture, ns, reader.rows, more, place=reader.place, **texts)


def decided_figures(shown: ShownModel) -> Iterator[Figure | None]:
    """Accuracy along the reasoning, a chart for each of the first four actions."""
    for step in sorted({row.step for row in shown.result.decided})[:4]:
        rows = along_reasoning(shown, step)
        times = [time_of(row.position) or 0.0 for row in rows]
        texts: dict[str, Any] = {"model": shown.name, "first": rows[0] if rows else None}
        yield say.series("decided_figure", f"{shown.prefix}-decided-{step}", times, rows, **texts)


def spans_figure(shown: ShownModel) -> Iterator[Figure]:
    """Flips by span, with the cell hidden and with another one."""
    if rows := [row for row in shown.result.spans if not isnan(row.flips.value)]:
        lines, picture = (
            [str(say.shown(row, "span")) for row in rows],
            f"{shown.prefix}-spans-figure",
        )
        yield say.dots("spans_figure", picture, lines, rows, model=shown.name)


def believed_figure(models: Sequence[ShownModel]) -> Figure | None:
    """MEG of every model that has a believed world, on one scale."""
    lines, rows = [], []
    for shown in models:
        worlds = {} if shown.unbelieved else worlds_of(shown.result.believed)
        for key, world in worlds.items():
            nats = Estimate.from_json(world["nats"])
            lines.append(f"{shown.name}: {world['name'].removesuffix(' (control)')}")
            rows.append({"ours" if key.startswith("meg_") else "control": nats, "nats": nats})
    return say.dots("believed_figure", "representation-believed", lines, rows) if rows else None


# --- States ---------------------------------------------------------------------------------------
def state_figures(shown: ShownModel) -> Iterator[Figure]:
    """Two pictures of each chosen state: as it is, and as it is read."""
    for index, state in enumerate(shown.result.states, start=1):
        name = f"{shown.prefix}-state-{index}"
        walls = [[float(cell == "#") for cell in line] for line in state.truth]
        yield say.figure(
            "true_state",
            belief_map(f"{name}-true", walls, _marked(state.truth, state.action, state.optimal)),
            **_in_words(state.action, state.optimal),
            model=shown.name,
            walk=short(state.walk, 60),
            step=state.step,
        )
        tried = {
            (row, column): share
            for row, line in enumerate(state.used)
            for column, share in enumerate(line)
            if share is not None and not isnan(share)
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
        cells = [[nan] * len(line) for line in state.truth]
        for known, line in zip(cells, state.wall, strict=False):
            for column, share in enumerate(line[: len(known)]):
                known[column] = nan if share is None else float(share)
        places = {"framed": used, "dotted": frozenset(tried) - used, "crossed": wrong}
        marked = _marked(state.decoded, state.action, state.optimal_decoded, **places)
        figure = say.figure(
            "read_state" if state.decoded else "unread_state",
            belief_map(f"{name}-read", cells, marked, label="probability of a wall, as read"),
            **_in_words(state.action, state.optimal_decoded),
            wrong=len(wrong),
        )
        use = say.sentence("tried" if tried else "not_tried", used=len(used), tried=len(tried))
        yield replace(figure, alt=f"{figure.alt} {use}", caption=f"{figure.caption} {use}")


def _marked(
    grid: Sequence[str], action: int | None, optimal: Sequence[int], **places: frozenset[Place]
) -> Marked:
    taken = None if action is None else MOVES[action]
    return Marked(grid=grid, moves=[MOVES[each] for each in optimal], taken=taken, **places)


def _in_words(action: int | None, optimal: Sequence[int]) -> dict[str, str]:
    """What the agent did, and what is optimal on a map."""
    taken = "its answer could not be read" if action is None else f"it goes {ACTIONS[action]}"
    if action is not None and optimal:
        taken += f", which is {'' if action in optimal else 'not '}optimal"
    listed = " or ".join(ACTIONS[each] for each in optimal)
    return {"taken": taken, "optimal": listed or "nothing: no way leads to the goal"}


# --- Sections -------------------------------------------------------------------------------------
# Section, in the order of the page -> its figures of a model; its tables are with its texts.
_SECTIONS: dict[str, tuple[Callable[[ShownModel], Iterable[Figure | None]], ...]] = {
    "reading": (
        # Colours begin at one half, which is no information, and at position alone.
        partial(_probe_map, name="auroc_map", without=MAJORITY),
        partial(_probe_map, name="gain_map", without=POSITION),
    ),
    "states": (state_figures,),
    "using": (flips_map, dose_figures),
    "looking": (spans_figure,),
    "following": (moved_map,),
    "explaining": (),
    "believing": (),
    "planning": (plan_figures,),
    "deciding": (decided_figures,),
}
# Section -> the table or figure of all models together.
_JOINT: dict[str, Callable[[Sequence[ShownModel]], Content]] = {
    "reading": partial(summary, name="read"),
    "using": partial(summary, name="used"),
    "believing": believed_figure,
}


def sections(models: Sequence[ShownModel]) -> list[Section]:
    """The body: what is read, what is used, what it explains, and what none of it shows."""
    out = [section for name in _SECTIONS if (section := _section(name, models)) is not None]
    title, *limits = say("limits").items()
    # By the field of a result whose numbers a paragraph is about.
    text = [text for field, text in limits if _has(models, [field])]
    out.append(Section(anchor="representation-limits", title=title[1], text=tuple(text)))
    points = [
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in missing(shown)
    ]
    return out + ([say.section("missing", anchor=MISSING, points=points)] if points else [])


def _has(models: Sequence[ShownModel], fields: Sequence[str]) -> bool:
    return any(getattr(shown.result, field) for shown in models for field in fields)


def _section(name: str, models: Sequence[ShownModel]) -> Section | None:
    """A section; None without one of its fields of a result or, without fields, without content."""
    content = say.declared(name)["content"]
    names = content.get("tables", ())
    joint = _JOINT[name](models) if name in _JOINT else None
    tables = [table(shown, each) for shown in models for each in names]
    drawn = [each for shown in models for figures in _SECTIONS[name] for each in figures(shown)]
    if "fields" in content:
        is_shown = _has(models, content["fields"])
    else:
        is_shown = any(tables) or isinstance(joint, Table) or (any(drawn) and not names)
    anchor = f"representation-{content['anchor']}"
    return say.section(name, joint, tables, drawn, anchor=anchor) if is_shown else None


# --- Findings -------------------------------------------------------------------------------------
# Sentences derived from the numbers and their intervals. They are templates of
# `representation.toml`, in the entries "found_…"; those of a verdict have its name.


def missing(shown: ShownModel) -> list[tuple[str, str]]:
    """Return the name of each missing result, with the reason that the run gives."""
    reasons = dict(shown.result.left_out)
    out: list[tuple[str, str]] = []
    used: set[str] = set()
    # Field of the result: in words, and the parts of a probe whose reason is that of the field.
    for field, (in_words, *parts) in say("missing_names").items():
        if not getattr(shown.result, field):
            known = next((name for name in (field, *parts) if name in reasons), "")
            used.add(known)
            out.append((in_words, reasons.get(known, "")))
    # A position that no decision has, a control that could not be made.
    return out + [(name, reason) for name, reason in reasons.items() if name not in used]


# Each is a lead, which may be empty, and a text.
_Lines = Iterator[tuple[str, str]]


def _best_in_words(named: Mapping[str, Estimate | None], form: str) -> str:
    """The largest number and its name, put into a text; "" where none is known."""
    highest = best(named)
    return "" if highest is None else form.format(highest[0], percent(highest[1]))


def _read(shown: ShownModel) -> _Lines:
    if shown.probe is None:
        return
    highest = shown.best_rival
    kind = "rivals" if highest else "alone"
    rivals = say.sentence("found_read", kind, n=len(shown.rivals), highest=highest)
    if SHUFFLED in shown.result.left_out:
        rivals += f", and {SHUFFLED} could not be made"
    lead = say.sentence("found_read", shown.read)
    yield lead, say.sentence("found_read", row=shown.probe, rivals=rivals)


def _used(shown: ShownModel) -> _Lines:
    if row := shown.confirmed:
        null = f"; the highest null flips {percent(row.null_flips)}" if row.null_flips else ""
        texts = say("found_used", row=row, cells="cell" + "s" * (row.cells != 1), null=null)
        yield texts[shown.use], texts["text" if row.cells else "no_cells"]


def _believed(shown: ShownModel) -> _Lines:
    worlds = worlds_of(shown.result.believed)
    true, inner = worlds.get("meg_true"), worlds.get("meg_believed")
    if true is None or inner is None:
        return
    if reason := shown.unbelieved:
        yield "", f"nothing is said of a world that it believes in: {reason}."
        return
    less = inner["less_true"] and Estimate.from_json(inner["less_true"])
    text = say.sentence("found_believed", inner=inner, true=true)
    if less is not None:
        kind = "difference" if less.interval is not None else "difference_alone"
        text += say.sentence("found_believed", kind, less=less)
    text += "."
    beyond = estimates_of(shown.result.believed.get("beyond")).values()
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # together with the difference only.
    if beyond and less is not None:
        text += " " + say.sentence("found_believed", f"controls_{signs(beyond)}")
    yield say.sentence("found_believed", sign(less)), text


def _looked_up(shown: ShownModel) -> _Lines:
    rows = [row for row in shown.result.spans if row.span != causal_use.ANSWERING]
    above = [row for row in rows if compare(row.flips, [row.other_flips]) == ABOVE]
    low = [row for row in rows if row.span == causal_use.PROMPT and is_low(row.flips)][:1]
    texts = [say.sentence("found_looked_up", row=row) for row in above]
    texts += [say.sentence("found_looked_up", "reading", row=row) for row in low]
    if above:
        yield "", f"{'; '.join(texts)}."


def _followed(shown: ShownModel) -> _Lines:
    rows = shown.result.moved
    for row in (row for row in rows if row.chosen and row.half == CONFIRM):
        ceiling = next((r.flips for r in rows if r.is_ceiling and r.moved == row.moved), None)
        follows = compare(row.flips, [row.null_flips]) == ABOVE
        if follows or (is_low(row.flips) and compare(ceiling, [row.flips]) == ABOVE):
            kind = "follow" if follows else "follow_question"
            yield "", say.sentence("found_moved", kind, row=row, ceiling=ceiling)


def _carried(shown: ShownModel) -> _Lines:
    for row in (row for row in shown.result.subspaces if row.verdict == CARRIES):
        text = say.sentence("found_carried", row=row)
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            where = "no nearer to" if row.degrees <= high else "farther from"
            where = "nearer to" if row.degrees < low else where
            text += " " + say.sentence("found_carried", "angle", row=row, where=where)
        yield "", text


def _explained(shown: ShownModel) -> _Lines:
    errors = say("measure_names")["explained_errors"]
    for name, states in measures(shown.result.explained):
        share = Estimate.from_json(states)
        if not name.startswith(errors) or isnan(share.value):
            continue
        controls = estimates_of(states.get("controls"))
        where = name.removeprefix(errors).replace(", ", " in ")
        control = _best_in_words(controls, " ({}: {})")
        texts = say("found_explained", where=where, share=share, control=control)
        beyond = estimates_of(states.get("beyond")).values()
        yield "", f"{texts['text']} {texts[signs(beyond)]}"


def _planned(shown: ShownModel) -> _Lines:
    for reader in best_readers(shown):
        first = reader.rows[0]
        if first.n != 1 or isnan(first.prefix.value):
            continue
        baselines = simple_baselines(first)
        highest = {name: values.get(PREFIX) for name, values in baselines.items()}
        when = "before" if reader.position.startswith(f"{BEFORE}/") else "after"
        control = _best_in_words(highest, ", {} in {}")
        texts = say("found_planned", when=when, first=first, reader=reader, control=control)
        kind = ("open", "one")[reader.horizon] if reader.horizon < 2 else "several"
        below = above_simple(first) == BELOW
        yield "", f"{texts['text']} {texts['below' if below else kind]}"


def _decided(shown: ShownModel) -> _Lines:
    rows = along_reasoning(shown, 1)
    above = [*takewhile(lambda row: sign(row.beyond) == ABOVE, reversed(rows))]
    if rows:
        first = above[-1] if above else None
        yield "", say.sentence("found_decided", "text" if first else "nowhere", first=first)


# Table that a finding leads to -> its leads and texts.
_KINDS = {
    "read": _read,
    "used": _used,
    "believed": _believed,
    "spans": _looked_up,
    "moved": _followed,
    "subspaces": _carried,
    "explained": _explained,
    "plan": _planned,
    "decided": _decided,
}


def findings(shown: ShownModel, summaries: Mapping[str, Table | None]) -> list[Finding]:
    """Return all that there is to say about a model; `summaries` are tables of all models."""
    out = []
    for kind, sentences in _KINDS.items():
        summary = summaries.get(kind)
        anchor = f"{shown.prefix}-{kind}" if summary is None else summary.row_anchor(shown.name)
        for lead, text in sentences(shown):
            lead, text = (f"{shown.name}: {lead}", text) if lead else ("", f"{shown.name}: {text}")
            out.append(Finding(lead=lead, text=text, links=(Link("numbers", anchor),)))
    if lines := missing(shown):
        names = ", ".join(name for name, _ in lines)
        text = f"{shown.name}: {names} {'is' if len(lines) == 1 else 'are'} not in these results."
        out.append(Finding(text=text, links=(Link("why", MISSING),)))
    return out


# --- Part -----------------------------------------------------------------------------------------
def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """Return the part of a page about the results of probes, in the order given."""
    models = shown_models(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    summaries = {name: summary(models, name) for name in ("read", "used")}
    lines = [line for shown in models for line in findings(shown, summaries)]
    # What a model reads, uses and believes comes first, of every model.
    lines.sort(key=lambda line: not line.lead)
    return Part(
        **say("part"),
        sections=sections(models),
        findings=lines,
        glossary=say("glossary"),
        tables=tuple(each for each in summaries.values() if each is not None),
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
