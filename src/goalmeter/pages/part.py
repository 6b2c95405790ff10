"""`Part`: what one instrument has to say on a page, and the instruments that have runs to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from goalmeter.meg.simulator.measure import KIND as SIMULATOR
from goalmeter.meg.sweeps.plan import KIND as SWEEP
from goalmeter.navigation.plan import KIND as NAVIGATION
from goalmeter.reflection.measure import KIND as REFLECTION
from goalmeter.report import Finding, Section, Table

# What sort of run a folder holds -> the module whose `part_of_runs(runs, tell)` shows such runs.
INSTRUMENTS = {
    REFLECTION: "goalmeter.pages.reflection",
    NAVIGATION: "goalmeter.pages.navigation",
    SWEEP: "goalmeter.pages.sweep",
    SIMULATOR: "goalmeter.pages.simulator",
}
# Kind of run -> the module whose `part_of_runs(runs, tell)` shows what such runs may hold besides,
# or gives None. Its `runs` are entries to be added to those of the runs.
BEHIND = {NAVIGATION: "goalmeter.pages.representation.page"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one instrument, or one experiment of the demo, has to say on a page.

    Attributes:
        sections: the body.
        findings: the part in a few sentences.
        glossary: term -> what it means.
        title: of the page, if there is nothing else on it.
        lede: in a sentence or two, what was measured.
        tables: for a terminal.
        runs: of a part that shows runs, what is said of each as JSON values, in the order given.
    """

    sections: Sequence[Section]
    findings: Sequence[Finding | str] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    lede: str = ""
    tables: tuple[Table, ...] = ()
    runs: Sequence[dict[str, Any]] = ()


def part_of_runs(kind: str, runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """The part of the instrument that runs of some kind belong to.

    Args:
        kind: one of `INSTRUMENTS`.
        runs: their folders.
        tell: told what is being done.
    """
    # Imported by name, so that a page of one instrument does not load the others.
    part: Part = import_module(INSTRUMENTS[kind]).part_of_runs(runs, tell)
    return part


def part_behind(kind: str, runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part | None:
    """What runs of some kind hold besides what they measured; None if they hold nothing more.

    Args:
        kind: one of `INSTRUMENTS`.
        runs: their folders.
        tell: told what is being done.
    """
    if kind not in BEHIND:
        return None
    part: Part | None = import_module(BEHIND[kind]).part_of_runs(runs, tell)
    return part


def all_sections(parts: Sequence[Part]) -> list[Section]:
    """The bodies of some parts, one after the other."""
    return [section for part in parts for section in part.sections]


def all_findings(parts: Sequence[Part]) -> list[Finding]:
    """The sentences of some parts, one part after the other."""
    lines = [line for part in parts for line in part.findings]
    return [Finding(text=line) if isinstance(line, str) else line for line in lines]


def all_terms(parts: Sequence[Part]) -> dict[str, str]:
    """The glossaries of some parts in one; a term that several explain is explained by the last."""
    return {term: text for part in parts for term, text in part.glossary.items()}
