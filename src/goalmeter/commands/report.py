"""`goalmeter report`: run folders in, one page out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._text import shown
from goalmeter.commands.outcome import Outcome, provenance
from goalmeter.navigation.playing import load as load_navigation
from goalmeter.navigation.stored import KIND as NAVIGATION
from goalmeter.pages.navigation import page as navigation_page
from goalmeter.pages.reflection import page as reflection_page
from goalmeter.reflection import load as load_reflection
from goalmeter.reflection.plan import KIND as REFLECTION
from goalmeter.report import Finding, Section, Table, require_report_extra, write_report
from goalmeter.runs.reading import RUN, read_about
from goalmeter.statistics.welch import FEWEST


class Part(NamedTuple):
    """What runs of one kind have to say.

    Attributes:
        title: of the page, if there is nothing else on it.
        lede: in a sentence or two, what was measured.
        sections: the body.
        findings: the page in a few sentences.
        glossary: term -> what it means.
        tables: for a terminal.
        runs: what is said of each run as JSON values, in the order given.
    """

    title: str
    lede: str
    sections: Sequence[Section]
    findings: Sequence[Finding | str]
    glossary: Mapping[str, str]
    tables: tuple[Table, ...]
    runs: list[dict[str, Any]]


def report_runs(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Read finished runs, and write a page that shows them together.

    Args:
        runs: folders, as `goalmeter reflect --out` and `goalmeter navigate --out` make them.
        out: the .html file.
        progress: told what is being done.

    Raises:
        InvalidParameterError: no runs, or one of them twice.
        InvalidFileError: a folder is no finished run, or the page cannot be written.
        MissingExtraError: jinja2 or matplotlib is not installed.
    """
    if not runs:
        raise InvalidParameterError("no run is given, expected the folder of at least one")
    folders = [Path(run).resolve() for run in runs]
    if twice := [run for run, path in zip(runs, folders, strict=True) if folders.count(path) > 1]:
        raise InvalidParameterError(f"{twice[0]} is given twice; give each run once")
    require_report_extra()
    kinds = [kind_of(run) for run in runs]
    tell = progress or (lambda line: None)
    parts: list[Part] = []
    about: dict[Path, dict[str, Any]] = {}
    for kind in dict.fromkeys(kinds):
        own = [index for index, other in enumerate(kinds) if other == kind]
        part = PARTS[kind]([runs[index] for index in own], tell)
        parts.append(part)
        about |= {folders[i]: found for i, found in zip(own, part.runs, strict=True)}
    tell("report")
    path = write_report(
        out,
        parts[0].title if len(parts) == 1 else "How agents do: measured runs",
        [section for part in parts for section in part.sections],
        lede=" ".join(part.lede for part in parts),
        findings=[line for part in parts for line in part.findings],
        glossary={term: text for part in parts for term, text in part.glossary.items()},
        provenance=provenance(f"goalmeter report {join(map(str, runs))}"),
    ).resolve()
    return Outcome(
        tables=tuple(table for part in parts for table in part.tables),
        json={
            "report": str(path),
            "runs": [about[folder] | {"run": str(folder)} for folder in folders],
        },
        report=path,
    )


def kind_of(run: str | Path) -> str:
    """What sort of run a folder holds.

    Raises:
        InvalidFileError: it holds none, or one of a sort that has no report.
    """
    kind = read_about(Path(run) / RUN)["what"].get("kind")
    if not isinstance(kind, str) or kind not in PARTS:
        raise InvalidFileError(
            f"{run} is a run of {shown(kind)}, expected one of {', '.join(map(repr, PARTS))}"
        )
    return kind


def _reflection(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    results = []
    for run in runs:
        tell(f"reading {run}")
        results.append(load_reflection(run))
    return Part(
        title="How agents do in environments that simulate them",
        lede="The self-reflection of agents: what they earn where the reward depends on what they "
        f"would have done. Averages over {FEWEST} seeds and more come with an interval.",
        sections=reflection_page.sections(results),
        findings=reflection_page.findings(results),
        glossary=reflection_page.GLOSSARY,
        tables=reflection_page.short_tables(results),
        runs=[
            {key: value for key, value in result.to_json().items() if key != "environments"}
            for result in results
        ],
    )


def _navigation(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    walked = []
    for run in runs:
        tell(f"reading {run}")
        walked.append(load_navigation(run))
    found = navigation_page.groups(walked, tell)
    return Part(
        title="How agents behave in grid worlds",
        lede="Every action in a grid world is compared with the best one, beside agents that "
        "plan, follow a compass, or move at random in the same worlds.",
        sections=navigation_page.sections(found),
        findings=navigation_page.findings(found),
        glossary=navigation_page.GLOSSARY,
        tables=navigation_page.short_tables(found),
        runs=navigation_page.in_order(found, walked),
    )


PARTS = {REFLECTION: _reflection, NAVIGATION: _navigation}
