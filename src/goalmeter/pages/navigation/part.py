"""Behaviour in grid worlds as a part of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from goalmeter.navigation.playing import load
from goalmeter.pages.navigation import page
from goalmeter.pages.part import Part


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter navigate --out` have to say; see `pages.part`."""
    walked = []
    for run in runs:
        tell(f"reading {run}")
        walked.append(load(run))
    groups = page.groups(walked, tell)
    return Part(
        title="How agents behave in grid worlds",
        lede="Every action in a grid world is compared with the best one, beside agents that "
        "plan, follow a compass, or move at random in the same worlds.",
        sections=page.sections(groups),
        findings=page.findings(groups),
        glossary=page.GLOSSARY,
        tables=page.short_tables(groups),
        runs=page.in_order(groups, walked),
    )
