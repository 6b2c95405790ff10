"""`Part`: what one instrument has to say on a page, and the instruments that have runs to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from goalmeter.meg.simulator.measure import KIND as SIMULATOR
from goalmeter.meg.sweeps.plan import KIND as SWEEP
from goalmeter.navigation.plan import KIND as NAVIGATION
from goalmeter.reflection.measure import KIND as REFLECTION
from goalmeter.report import Finding, Section, Table
from goalmeter.runs.progress import Tell

# Kind of run -> the module that shows such runs: `load(run)` and `part_of(loaded runs, tell)`.
INSTRUMENTS = {
    REFLECTION: "goalmeter.pages.reflection",
    NAVIGATION: "goalmeter.pages.navigation",
    SWEEP: "goalmeter.pages.sweep",
    SIMULATOR: "goalmeter.pages.simulator",
}
# Kind of run -> the module whose `part_of_runs(runs, tell)` shows what such runs may hold besides,
# or gives None. Its `runs` are entries to be added to those of the runs.
BEHIND = {NAVIGATION: "goalmeter.pages.representation"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """The content of a page from one instrument or one experiment of the demo."""

    sections: Sequence[Section]
    findings: Sequence[Finding] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    title: str = ""  # of the page, if there is nothing else on it
    lede: str = ""  # in a sentence or two, what was measured
    tables: tuple[Table, ...] = ()  # for a terminal
    runs: Sequence[dict[str, Any]] = ()  # JSON values about each run, in the order given


def parts_of_runs(kind: str, runs: Sequence[str | Path], tell: Tell) -> list[Part]:
    """Load runs of a kind of `INSTRUMENTS`; their part, and that of what they hold besides."""
    # Imported by name, so that a page of one instrument does not load the others.
    module = import_module(INSTRUMENTS[kind])
    loaded = []
    for run in runs:
        tell(f"reading {run}")
        loaded.append(module.load(run))
    parts = [module.part_of(loaded, tell)]
    if kind in BEHIND:
        parts.append(import_module(BEHIND[kind]).part_of_runs(runs, tell))
    return [part for part in parts if part is not None]


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return JSON values without some fields."""
    return {key: value for key, value in values.items() if key not in names}


def joined(parts: Sequence[Part]) -> Part:
    """Return the content of several parts in one; the last definition of a term counts."""
    return Part(
        sections=[section for part in parts for section in part.sections],
        findings=[line for part in parts for line in part.findings],
        glossary={term: text for part in parts for term, text in part.glossary.items()},
        lede=" ".join(part.lede for part in parts),
        tables=tuple(table for part in parts for table in part.tables),
    )
