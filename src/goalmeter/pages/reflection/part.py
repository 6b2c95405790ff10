"""Self-reflection as a part of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from goalmeter.pages.part import Part
from goalmeter.pages.reflection import page
from goalmeter.reflection import Reflection, load
from goalmeter.statistics.welch import FEWEST


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter reflect --out` have to say; see `pages.part`."""
    results = []
    for run in runs:
        tell(f"reading {run}")
        results.append(load(run))
    return part_of(results)


def part_of(results: Sequence[Reflection]) -> Part:
    """What measured agents have to say."""
    return Part(
        title="How agents do in environments that simulate them",
        lede="The self-reflection of agents: what they earn where the reward depends on what they "
        f"would have done. Averages over {FEWEST} seeds and more come with an interval.",
        sections=page.sections(results),
        findings=page.findings(results),
        glossary=page.GLOSSARY,
        tables=page.short_tables(results),
        runs=[
            {key: value for key, value in result.to_json().items() if key != "environments"}
            for result in results
        ],
    )
