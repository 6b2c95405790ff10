"""Report part about representation: sections with tables and figures, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, in_a_line
from goalmeter.navigation.rollouts import load
from goalmeter.pages import Content
from goalmeter.pages.part import Part
from goalmeter.pages.representation import claims, figures
from goalmeter.pages.representation.claims import (
    ShownModel,
    estimate_of,
    position_rank,
    say,
    shown_models,
)
from goalmeter.pages.representation.findings import MISSING, findings, missing
from goalmeter.report import Section, Table
from goalmeter.report.numbers import percent
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.representation.use.causal_use import MARGIN
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.runs.progress import Tell

# --- Tables ---------------------------------------------------------------------------------------
_UNBELIEVED = "the true world without walls at unused places (not known to be believed)"


def read_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model at the place whose maps are decoded; None where no uncertain cell was scored."""
    rows = [shown for shown in models if shown.probe is not None]
    return say.table("summary", rows, anchor="representation-read") if rows else None


def used_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model's chosen intervention on the second half; None where there is none."""
    rows = [shown for shown in models if shown.confirmed is not None]
    margin = percent(MARGIN, 0)
    return say.table("used", rows, anchor="representation-used", margin=margin) if rows else None


def _sizes(shown: ShownModel) -> Iterator[Any]:
    """The probes of several sizes at the chosen place, with the gains of their controls."""
    maps = claims.in_order(shown.result.maps_of())
    rows = [row for row in maps if (row.layer, row.position) == shown.chosen[:2]]
    probes = [row for row in rows if row.control is None]
    if len({row.probe for row in probes}) < 2:
        return
    # Gains are over position alone, and a majority has no size.
    without = (None, claims.POSITION, claims.MAJORITY)
    names = dict.fromkeys(row.control for row in rows if row.control not in without)
    gains = {(row.probe, row.control): row.gain_bits for row in rows}
    for row in sorted(probes, key=lambda row: row.parameters):
        yield row, {name: gains.get((row.probe, name)) for name in names}


def _places(shown: ShownModel) -> Iterable[Any]:
    """Agent and goal at the place whose maps are decoded, by control."""
    by_control: dict[Any, dict[str, Any]] = {}
    for row in shown.result.places:
        if claims.map_place(row) == shown.chosen:
            by_control.setdefault(say.shown(row, "reading"), {})[row.label] = row
    return by_control.items()


def _positions(shown: ShownModel) -> Iterator[Any]:
    """What the maps of each position explain, the chosen one first; none for one position."""
    others = shown.result.explained.get("other_positions") or {}
    positions = {name: others[name] for name in sorted(others, key=position_rank)}
    if others:
        positions = {str(shown.chosen[1]): shown.result.explained} | positions
    for position, states in positions.items():
        shares = {name: states.get(key) for key, name in claims.MEASURES.items()}
        errors = states.get("explained_errors") or {}
        highest = claims.best(claims.estimates_of(errors.get("controls")))
        yield position, shares, highest and highest[1], states.get("invalid")


def _believed(shown: ShownModel) -> Iterator[Any]:
    for world in claims.worlds(shown.result.believed):
        name = world.name + " (control)" * world.is_control
        # Tables in Markdown have no notes, so the row itself claims no belief.
        hidden = shown.unbelieved and world.name == claims.BELIEVED
        yield _UNBELIEVED if hidden else name, world


# Table -> the rows of a model.
_ROWS: dict[str, Callable[[ShownModel], Iterable[Any]]] = {
    "controls": lambda shown: shown.readings if shown.probe is not None else (),
    "sizes": _sizes,
    "places": _places,
    "interventions": lambda shown: [row for row in shown.result.use if row.half == CONFIRM],
    "spans": lambda shown: shown.result.spans,
    "moved": lambda shown: [row for row in shown.result.moved if row.half == CONFIRM],
    "subspaces": lambda shown: shown.result.subspaces,
    "explained": lambda shown: claims.measures(shown.result.explained),
    "beyond": lambda shown: [
        row for row in claims.measures(shown.result.explained) if row[1].get("controls")
    ],
    "positions": _positions,
    "believed": _believed,
    "plan": lambda shown: sorted(
        shown.result.plan, key=lambda r: (position_rank(r.position), r.layer, r.decoder, r.n)
    ),
    "settled": lambda shown: sorted(shown.result.settled, key=lambda row: (row.step, row.layer)),
    "decided": lambda shown: sorted(
        shown.result.decided, key=lambda row: (row.step, position_rank(row.position), row.layer)
    ),
}


def table(shown: ShownModel, name: str) -> Table | None:
    """Return the table of a model; None where its result has no such rows."""
    rows = list(_ROWS[name](shown))
    if not rows:
        return None
    layer, position, _ = shown.chosen
    texts = {"model": shown.name, "place": f"{claims.layers_in_words(layer)}, {position}"}
    before, after = _notes(shown, name)
    anchor = f"{shown.prefix}-{name}"
    return say.table(name, rows, anchor=anchor, before=before, notes=after, **texts)


def _notes(shown: ShownModel, name: str) -> tuple[list[str], list[str]]:
    """Notes from the numbers, before and after those of the texts."""
    explained, believed = shown.result.explained, shown.result.believed
    before, after = [], []
    if name == "explained":
        before.append(_counts(explained, "all states"))
        if detour := explained.get("detour"):
            before.append(_counts(detour, "detour states"))
    if name == "believed":
        if reason := shown.unbelieved:
            before.append(f"Nothing is said of a world that it believes in: {reason}.")
        for field in ("maximum", "missing"):
            if (value := believed.get(field)) is not None:
                after.append(say.sentence("believed_notes", field, value=value))
    return before, after


def _counts(states: Mapping[str, Any], name: str) -> str:
    """What the shares rest on: decisions, errors, invalid answers, states without a map."""
    counts = {"steps": 0, "errors": 0, "unreadable": 0} | states
    text = say.sentence("explained_counts", "text", name=name, counts=counts)
    if (invalid := estimate_of(states.get("invalid"))) is not None:
        text += say.sentence("explained_counts", "invalid", invalid=invalid)
    return text


# --- Sections -------------------------------------------------------------------------------------
# Section, in the order of the page -> its figures of a model; its tables are with its texts.
_SECTIONS: dict[str, tuple[Callable[[ShownModel], Content | Sequence[Content]], ...]] = {
    "reading": (figures.auroc_map, figures.gain_map),
    "states": (figures.state_figures,),
    "using": (figures.flips_map, figures.dose_figures),
    "looking": (figures.spans_figure,),
    "following": (figures.moved_map,),
    "explaining": (),
    "believing": (),
    "planning": (figures.plan_figures,),
    "deciding": (figures.decided_figures,),
}
# Section -> the table or figure of all models together.
_JOINT: dict[str, Callable[[Sequence[ShownModel]], Content]] = {
    "reading": read_table,
    "using": used_table,
    "believing": figures.believed_figure,
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
    drawn = [figure(shown) for shown in models for figure in _SECTIONS[name]]
    if "fields" in content:
        is_shown = _has(models, content["fields"])
    else:
        is_shown = any(tables) or isinstance(joint, Table) or (any(drawn) and not names)
    anchor = f"representation-{content['anchor']}"
    return say.section(name, joint, tables, *drawn, anchor=anchor) if is_shown else None


# --- Part -----------------------------------------------------------------------------------------
def _in_short(shown: ShownModel) -> dict[str, Any]:
    """The numbers of one model as JSON values, without pictures and with verdicts."""
    plain = shown.result.to_json()
    del plain["states"]
    verdicts = {"read": shown.read, "used": shown.use}
    return plain | verdicts | {"unbelieved": shown.unbelieved}


def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """Return the part of a page about the results of probes, in the order given."""
    models = shown_models(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    summaries = {"read": read_table(models), "used": used_table(models)}
    lines = [line for shown in models for line in findings(shown, summaries)]
    # What a model reads, uses and believes comes first, of every model.
    lines.sort(key=lambda line: not line.lead)
    return Part(
        **say("part"),
        sections=sections(models),
        findings=lines,
        glossary=say("glossary"),
        tables=tuple(each for each in summaries.values() if each is not None),
        runs=list(map(_in_short, models)),
    )


def part_of_runs(runs: Sequence[str | Path], tell: Tell) -> Part | None:
    """Return the part about the probes of navigation runs; None if there are none.

    The entries of `runs` are {"representation": ...}, and empty for a run without a probe.
    """
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
