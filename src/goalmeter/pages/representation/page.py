"""Report part about representation: sections with tables and figures, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    in_order,
    position_rank,
    row_place,
    say,
    shown_models,
    with_dose,
)
from goalmeter.pages.representation.findings import MISSING, findings, missing
from goalmeter.report import Section, Table
from goalmeter.report.numbers import number, percent
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.representation.use.causal_use import MARGIN
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.runs.progress import Tell

# --- Tables ---------------------------------------------------------------------------------------
_VERDICTS = {
    claims.ABOVE: "above every control",
    claims.BELOW: "below a control",
    claims.OPEN: "cannot be told",
}
_UNBELIEVED = "the true world without walls at unused places (not known to be believed)"


def read_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model at the place whose maps are decoded; None where no uncertain cell was scored."""

    def row(shown: ShownModel, highest: tuple[str, Any] | None) -> dict[str, Any]:
        assert shown.probe is not None
        return {
            "name": shown.name,
            "probe": shown.probe,
            "read_in_words": _VERDICTS[claims.read_above(shown)],
            "best_control": highest and f"{number(highest[1], 2)}, {highest[0]}",
            "probe_and_place": f"{shown.probe.probe}, {row_place(shown.probe)}",
            "decisions_in_grids": f"{shown.result.decisions} in {shown.result.grids}",
        }

    rows = [row(shown, shown.best_rival) for shown in models if shown.probe is not None]
    return say.table("summary", rows, anchor="representation-read") if rows else None


def used_table(models: Sequence[ShownModel]) -> Table | None:
    """Every model's chosen intervention on the second half; None where there is none."""
    chosen = [(shown, claims.confirmed(shown.result)) for shown in models]
    rows = [
        (shown, row, claims.use_of(shown.result), with_dose(row), row_place(row))
        for shown, row in chosen
        if row is not None
    ]
    margin = percent(MARGIN, 0)
    return say.table("used", rows, anchor="representation-used", margin=margin) if rows else None


def _sizes(shown: ShownModel) -> list[Any]:
    """The probes of several sizes at the chosen place, with the gains of their controls."""
    place = shown.chosen[:2]
    rows = [row for row in shown.result.maps_of() if (row.layer, row.position) == place]
    probes = [row for row in rows if row.control is None]
    if len({row.probe for row in probes}) < 2:
        return []
    # Gains are over position alone, and a majority has no size.
    without = (None, claims.POSITION, claims.MAJORITY)
    names = dict.fromkeys(row.control for row in in_order(rows) if row.control not in without)
    gains = {(row.probe, row.control): row.gain_bits for row in rows}
    return [
        (row, {name: gains.get((row.probe, name)) for name in names})
        for row in sorted(probes, key=lambda row: row.parameters)
    ]


def _places(shown: ShownModel) -> list[Any]:
    """Agent and goal at the place whose maps are decoded, by control."""
    by_control: dict[str, dict[str, Any]] = {}
    for row in shown.result.places:
        if claims.map_place(row) == shown.chosen:
            name = row.control or f"the probe: {row.probe}"
            by_control.setdefault(name, {})[row.label] = row
    return list(by_control.items())


def _use_name(row: Any) -> str:
    kind = " (null)" if row.is_null else " (chosen)" if row.chosen else ""
    return f"{with_dose(row)}, {row_place(row)}{kind}"


def _moved_name(row: Any) -> str:
    is_ceiling = getattr(row, "is_ceiling", False)
    place = "the other question (ceiling)" if is_ceiling else row_place(row)
    return f"{claims.what_moved(row)}: {place}"


def _positions(shown: ShownModel) -> list[Any]:
    """What the maps of each position explain, the chosen one first; none for one position."""
    explained = shown.result.explained
    others = explained.get("other_positions") or {}
    ours = [(str(shown.chosen[1]), explained)] if others else []
    rows = []
    for name, states in [
        *ours,
        *((name, others[name]) for name in sorted(others, key=position_rank)),
    ]:
        shares = {name: estimate_of(states.get(key)) for key, name in claims.MEASURES.items()}
        errors = states.get("explained_errors") or {}
        highest = claims.best(claims.estimates_of(errors.get("controls")))
        rows.append((name, shares, highest and highest[1], estimate_of(states.get("invalid"))))
    return rows


def _believed(shown: ShownModel) -> list[Any]:
    def name(world: claims.World) -> str:
        # Tables in Markdown have no notes, so the row itself claims no belief.
        if shown.unbelieved and world.name == claims.WORLDS["meg_believed"]:
            return _UNBELIEVED
        return world.name + " (control)" * world.is_control

    return [(name(world), world) for world in claims.worlds(shown.result.believed)]


def _share(share: float | None) -> str:
    return "nowhere" if share is None else f"{share:g}"


# Table -> the rows of a model.
_ROWS: dict[str, Callable[[ShownModel], Sequence[Any]]] = {
    "controls": lambda shown: [
        (row.control or f"the probe: {row.probe}", row)
        for row in ([shown.probe, *shown.controls] if shown.probe is not None else [])
    ],
    "sizes": _sizes,
    "places": _places,
    "interventions": lambda shown: [
        (_use_name(row), row) for row in shown.result.use if row.half == CONFIRM
    ],
    "spans": lambda shown: [
        (claims.SPANS.get(row.span, row.span), row) for row in shown.result.spans
    ],
    "moved": lambda shown: [
        (_moved_name(row), row) for row in shown.result.moved if row.half == CONFIRM
    ],
    "subspaces": lambda shown: [
        (_moved_name(row), row, claims.chance(row)) for row in shown.result.subspaces
    ],
    "explained": lambda shown: claims.measures(shown.result.explained),
    "beyond": lambda shown: [
        *(row for row in claims.measures(shown.result.explained) if row.controls)
    ],
    "positions": _positions,
    "believed": _believed,
    "plan": lambda shown: [
        (f"{row.n}, {row.decoder}, {row_place(row)}", row)
        for row in sorted(
            shown.result.plan, key=lambda r: (position_rank(r.position), r.layer, r.decoder, r.n)
        )
    ],
    "settled": lambda shown: [
        (f"{row.step}, layer {row.layer}", _share(row.share), _share(row.added))
        for row in sorted(shown.result.settled, key=lambda row: (row.step, row.layer))
    ],
    "decided": lambda shown: [
        (f"{row.step}, {row_place(row)}", row)
        for row in sorted(
            shown.result.decided, key=lambda r: (r.step, position_rank(r.position), r.layer)
        )
    ],
}


def table(shown: ShownModel, name: str) -> Table | None:
    """Return the table of a model; None where its result has no such rows."""
    rows = _ROWS[name](shown)
    if not rows:
        return None
    layer, position, _ = shown.chosen
    before, after = _notes(shown, name)
    return say.table(
        name,
        rows,
        anchor=f"{shown.prefix}-{name}",
        before=before,
        notes=after,
        model=shown.name,
        place=claims.place_in_words(layer, position),
    )


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
        if (maximum := believed.get("maximum")) is not None:
            after.append(f"The most there is to explain is {number(maximum, 1)} nats a walk.")
        if (count := believed.get("missing")) is not None:
            after.append(
                f"Decisions without a believed world, which count as not explained: {count}."
            )
    return before, after


def _counts(states: Mapping[str, Any], name: str) -> str:
    """What the shares rest on: decisions, errors, invalid answers, states without a map."""
    text = (
        f"In {name}: {states.get('steps', 0)} decisions, {states.get('errors', 0)} of them errors; "
        f"{states.get('unreadable', 0)} answers could not be read."
    )
    if (invalid := estimate_of(states.get("invalid"))) is not None:
        share = percent(invalid)
        text += f" No valid map was decoded in {share} of them; these count, and explain nothing."
    return text


# --- Sections -------------------------------------------------------------------------------------
# Section, in the order of the page -> its figures; its tables and its anchor are with its texts.
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
    made = [_section(name, models) for name in _SECTIONS]
    limits = say("limits")
    points = [
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in missing(shown)
    ]
    # By the field of a result whose numbers a paragraph is about.
    paragraphs = [
        text
        for field, text in limits.items()
        if field != "title" and any(getattr(shown.result, field) for shown in models)
    ]
    anchor = "representation-limits"
    made.append(Section(anchor=anchor, title=limits["title"], text=tuple(paragraphs)))
    made.append(say.section("missing", anchor=MISSING, points=points) if points else None)
    return [section for section in made if section is not None]


def _section(name: str, models: Sequence[ShownModel]) -> Section | None:
    """A section; None without one of its fields of a result or, without fields, without content."""
    content = say.declared(name)["content"]
    names = content.get("tables", ())
    joint = _JOINT[name](models) if name in _JOINT else None
    tables = [table(shown, each) for shown in models for each in names]
    drawn = [figure(shown) for shown in models for figure in _SECTIONS[name]]
    if fields := content.get("fields"):
        if not any(getattr(shown.result, field) for shown in models for field in fields):
            return None
    elif not (any(tables) or isinstance(joint, Table) or (any(drawn) and not names)):
        return None
    return say.section(name, joint, tables, *drawn, anchor=f"representation-{content['anchor']}")


# --- Part -----------------------------------------------------------------------------------------
def in_short(shown: ShownModel) -> dict[str, Any]:
    """The numbers of one model as JSON values, without pictures and with verdicts.

    "unbelieved" is why nothing is said of a believed world, and empty where something is.
    """
    plain = shown.result.to_json()
    del plain["states"]
    verdicts = {"read": claims.read_above(shown), "used": claims.use_of(shown.result)}
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
        runs=[in_short(shown) for shown in models],
    )


def part_of_runs(runs: Sequence[str | Path], tell: Tell) -> Part | None:
    """Return the part about the probes of navigation runs; None if there are none.

    The entries of `runs` are {"representation": ...}, and empty for a run without a probe.
    """
    probed = [run for run in runs if has_result(run)]
    if not probed:
        return None
    digests = [run_digest(load(run).trajectories) for run in probed]
    results = [Representation.load(run, of) for run, of in zip(probed, digests, strict=True)]
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
