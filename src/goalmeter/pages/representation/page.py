"""What was read of models, and what of it they act on, as a part of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._text import in_a_line
from goalmeter.navigation.playing import load
from goalmeter.pages.part import Part
from goalmeter.pages.representation import (
    claims,
    heat_maps,
    maps,
    missing,
    moved,
    plans,
    spans,
    uses,
    worlds,
)
from goalmeter.pages.representation.findings import findings
from goalmeter.pages.representation.shown import Shown, say, shown_of
from goalmeter.pages.representation.states import state_figures
from goalmeter.report import Figure, Section, Table
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.runs.progress import Tell

GLOSSARY: dict[str, str] = say("glossary")


def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """What the results of probes have to say, several models beside each other.

    Args:
        results: of the runs of some models, in the order in which they are to be shown.
        tell: told what is being drawn.
    """
    models = shown_of(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    lines = [line for shown in models for line in findings(shown, models)]
    return Part(
        **say("part"),
        sections=sections(models),
        # What a model reads, uses and believes comes first, of every model.
        findings=[line for line in lines if line.lead] + [line for line in lines if not line.lead],
        glossary=GLOSSARY,
        tables=tuple(_present([maps.summary_table(models), uses.summary_table(models)])),
        runs=[in_short(shown) for shown in models],
    )


def part_of_runs(runs: Sequence[str | Path], tell: Tell) -> Part | None:
    """What was read of the models of navigation runs; None if nothing was. See `pages.part`.

    The entries of `runs` are {"representation": ...}, and empty for a run that holds nothing.
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


def in_short(shown: Shown) -> dict[str, Any]:
    """What is said of one model as JSON values: its numbers without pictures, and verdicts.

    "unbelieved" is why nothing is said of a believed world, and empty where something is.
    """
    plain = shown.result.to_json()
    del plain["states"]
    verdicts = {"read": maps.read_above(shown), "used": claims.use_of(shown.result)}
    return plain | verdicts | {"unbelieved": worlds.unbelieved_of(shown)}


def sections(models: Sequence[Shown]) -> list[Section]:
    """The body: what is read, what is used, what it explains, and what none of it shows."""
    wanted = (
        _reading(models),
        _states(models),
        _using(models),
        _looking(models),
        _following(models),
        _explaining(models),
        _believing(models),
        _planning(models),
        _deciding(models),
        _limits(models),
        missing.section(models),
    )
    return [section for section in wanted if section is not None]


def _reading(models: Sequence[Shown]) -> Section | None:
    tables: list[Table | None] = [maps.summary_table(models)]
    figures: list[Figure | None] = []
    for shown in models:
        tables += [maps.controls_table(shown), maps.places_table(shown), maps.sizes_table(shown)]
        figures += [heat_maps.auroc_map(shown), heat_maps.gain_map(shown)]
    if not any(shown.result.maps or shown.result.places for shown in models):
        return None
    return Section(
        anchor="representation-maps",
        tables=tuple(_present(tables)),
        figures=tuple(_present(figures)),
        **say("reading"),
    )


def _states(models: Sequence[Shown]) -> Section | None:
    figures = tuple(figure for shown in models for figure in state_figures(shown))
    return (
        Section(anchor="representation-states", figures=figures, **say("states"))
        if figures
        else None
    )


def _using(models: Sequence[Shown]) -> Section | None:
    if not any(shown.result.use or shown.result.doses for shown in models):
        return None
    tables: list[Table | None] = [uses.summary_table(models)]
    figures: list[Figure | None] = []
    for shown in models:
        tables.append(uses.interventions_table(shown))
        figures += [heat_maps.flips_map(shown), *uses.dose_figures(shown)]
    return Section(
        anchor="representation-use",
        tables=tuple(_present(tables)),
        figures=tuple(_present(figures)),
        **say("using"),
    )


def _looking(models: Sequence[Shown]) -> Section | None:
    tables = _present([spans.spans_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-spans",
        tables=tuple(tables),
        figures=tuple(_present([spans.spans_figure(shown) for shown in models])),
        figures_first=True,
        **say("looking"),
    )


def _following(models: Sequence[Shown]) -> Section | None:
    tables: list[Table | None] = []
    for shown in models:
        tables += [moved.moved_table(shown), moved.subspace_table(shown)]
    if not _present(tables):
        return None
    return Section(
        anchor="representation-moved",
        tables=tuple(_present(tables)),
        figures=tuple(_present([moved.moved_map(shown) for shown in models])),
        **say("following"),
    )


def _explaining(models: Sequence[Shown]) -> Section | None:
    tables = []
    for shown in models:
        tables += worlds.explained_tables(shown)
        tables += _present([worlds.positions_table(shown)])
    if not tables:
        return None
    return Section(anchor="representation-explained", tables=tuple(tables), **say("explaining"))


def _believing(models: Sequence[Shown]) -> Section | None:
    tables = _present([worlds.believed_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-believed",
        tables=tuple(tables),
        figures=tuple(_present([worlds.believed_figure(models)])),
        **say("believing"),
    )


def _planning(models: Sequence[Shown]) -> Section | None:
    tables = _present([plans.plan_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-plan",
        tables=tuple(tables),
        figures=tuple(figure for shown in models for figure in plans.plan_figures(shown)),
        figures_first=True,
        **say("planning"),
    )


def _deciding(models: Sequence[Shown]) -> Section | None:
    tables = _present(
        [table(shown) for shown in models for table in (plans.settled_table, plans.decided_table)]
    )
    if not tables:
        return None
    return Section(
        anchor="representation-decided",
        tables=tuple(tables),
        figures=tuple(figure for shown in models for figure in plans.decided_figures(shown)),
        figures_first=True,
        **say("deciding"),
    )


def _limits(models: Sequence[Shown]) -> Section:
    """A paragraph for each number that is there: what it does not show."""
    paragraphs = say("limits")
    title = paragraphs.pop("title")
    # By the name of the field whose numbers a paragraph is about.
    text = [
        paragraph
        for field, paragraph in paragraphs.items()
        if any(getattr(shown.result, field) for shown in models)
    ]
    return Section(anchor="representation-limits", title=title, text=tuple(text))


def _present(parts: Sequence[Any]) -> list[Any]:
    return [part for part in parts if part is not None]
