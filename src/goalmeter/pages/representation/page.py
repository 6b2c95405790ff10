"""Report part about representation: findings, and sections with tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter._errors import InvalidFileError, in_a_line
from goalmeter.navigation.rollouts import load
from goalmeter.pages.part import Part
from goalmeter.pages.representation import claims, figures
from goalmeter.pages.representation.claims import ShownModel, say, shown_models
from goalmeter.pages.representation.findings import MISSING, findings, missing
from goalmeter.pages.representation.tables import read_table, table, used_table
from goalmeter.report import Figure, Section, Table
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.runs.progress import Tell

GLOSSARY: dict[str, str] = say("glossary")
OfModels = Callable[[Sequence[ShownModel]], Table | Figure | None]
OfModel = Callable[[ShownModel], Figure | list[Figure] | None]


class _SectionContent(NamedTuple):
    """What a section consists of: tables and figures of each model, and a joint one.

    There is no section without one of the fields of the result or, without fields, without content.
    """

    texts: str
    anchor: str
    tables: tuple[str, ...] = ()
    figures: tuple[OfModel, ...] = ()
    joint: OfModels | None = None
    figures_first: bool = False
    fields: tuple[str, ...] = ()


_SECTIONS = (
    _SectionContent(
        "reading",
        "maps",
        ("controls", "places", "sizes"),
        (figures.auroc_map, figures.gain_map),
        read_table,
        fields=("maps", "places"),
    ),
    _SectionContent("states", "states", figures=(figures.state_figures,)),
    _SectionContent(
        "using",
        "use",
        ("interventions",),
        (figures.flips_map, figures.dose_figures),
        used_table,
        fields=("use", "doses"),
    ),
    _SectionContent("looking", "spans", ("spans",), (figures.spans_figure,), figures_first=True),
    _SectionContent("following", "moved", ("moved", "subspaces"), (figures.moved_map,)),
    _SectionContent("explaining", "explained", ("explained", "beyond", "positions")),
    _SectionContent("believing", "believed", ("believed",), joint=figures.believed_figure),
    _SectionContent("planning", "plan", ("plan",), (figures.plan_figures,), figures_first=True),
    _SectionContent(
        "deciding",
        "decided",
        ("settled", "decided"),
        (figures.decided_figures,),
        figures_first=True,
    ),
)


def sections(models: Sequence[ShownModel]) -> list[Section]:
    """The body: what is read, what is used, what it explains, and what none of it shows."""
    made = [_section(content, models) for content in _SECTIONS]
    return [section for section in (*made, _limits(models), missing_section(models)) if section]


def _section(content: _SectionContent, models: Sequence[ShownModel]) -> Section | None:
    joint = content.joint(models) if content.joint is not None else None
    tables = [joint if isinstance(joint, Table) else None]
    tables += [table(shown, name) for shown in models for name in content.tables]
    drawn: list[Figure] = []
    for made in (figure(shown) for shown in models for figure in content.figures):
        drawn += made if isinstance(made, list) else [made] if made is not None else []
    if isinstance(joint, Figure):
        drawn.append(joint)
    present = tuple(each for each in tables if each is not None)
    if content.fields:
        if not any(getattr(shown.result, f) for shown in models for f in content.fields):
            return None
    elif not (present or (drawn and not content.tables)):
        return None
    return Section(
        anchor=f"representation-{content.anchor}",
        tables=present,
        figures=tuple(drawn),
        figures_first=content.figures_first,
        **say(content.texts),
    )


def _limits(models: Sequence[ShownModel]) -> Section:
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


def missing_section(models: Sequence[ShownModel]) -> Section | None:
    """What is missing of each model; None where everything is there."""
    points = tuple(
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in missing(shown)
    )
    return Section(anchor=MISSING, points=points, **say("missing")) if points else None


def in_short(shown: ShownModel) -> dict[str, Any]:
    """The numbers of one model as JSON values, without pictures and with verdicts.

    "unbelieved" is why nothing is said of a believed world, and empty where something is.
    """
    plain = shown.result.to_json()
    del plain["states"]
    verdicts = {"read": claims.read_above(shown), "used": claims.use_of(shown.result)}
    return plain | verdicts | {"unbelieved": shown.unbelieved}


def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """Return the part of a page about the results of probes.

    Args:
        results: results of some models, in the order in which they are shown.
        tell: progress callback.
    """
    models = shown_models(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    lines = sorted(
        (line for shown in models for line in findings(shown, models)),
        # What a model reads, uses and believes comes first, of every model.
        key=lambda line: not line.lead,
    )
    summaries = (read_table(models), used_table(models))
    return Part(
        **say("part"),
        sections=sections(models),
        findings=lines,
        glossary=GLOSSARY,
        tables=tuple(each for each in summaries if each is not None),
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
