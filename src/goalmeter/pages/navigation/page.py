"""Behaviour in grid worlds as a part of a page, for any list of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter.navigation.directed.directedness import Directedness, directedness
from goalmeter.navigation.measure import references
from goalmeter.navigation.playing import Walked, load
from goalmeter.navigation.result import Navigation, navigation_of
from goalmeter.navigation.suites.options import KEY
from goalmeter.pages.navigation import (
    frames,
    key_tables,
    meg_page,
    pictures,
    replays,
    tables,
    wants,
    wants_page,
)
from goalmeter.pages.navigation.conditions import say
from goalmeter.pages.part import Part
from goalmeter.report import Finding, Link, Section
from goalmeter.report.numbers import percent
from goalmeter.statistics.verdicts import Verdict

GLOSSARY: dict[str, str] = say("glossary")


@dataclass(frozen=True)
class Group:
    """Agents in the same worlds.

    Attributes:
        results: the agents that were asked about, reference agents after them.
        directed: what each goes for.
    """

    results: tuple[Navigation, ...]
    directed: tuple[Directedness, ...]

    @property
    def measured(self) -> list[Navigation]:
        """The agents that were asked about."""
        return [result for result in self.results if not result.reference]


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter navigate --out` have to say; see `pages.part`."""
    walked = []
    for run in runs:
        tell(f"reading {run}")
        walked.append(load(run))
    shown = groups(walked, tell)
    return Part(
        **say("part"),
        sections=sections(shown),
        findings=findings(shown),
        glossary=GLOSSARY,
        tables=tuple(tables.agents_table(group.results) for group in shown),
        runs=in_order(shown, walked),
    )


def groups(runs: Sequence[Walked], progress: Callable[[str], None] | None = None) -> list[Group]:
    """Navigation agents by the worlds that they were put into."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        by_world.setdefault(json.dumps(run.plan.worlds, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        measured = [navigation_of(run) for run in together]
        # Reference agents walk once in these worlds, for all agents that were asked about.
        beside = references(together[0].plan, [r.agent for r in measured], progress=progress)
        results = (*measured, *beside)
        out.append(Group(results, tuple(directedness(results, progress=progress))))
    return out


def sections(shown: Sequence[Group]) -> list[Section]:
    """What to show of each group of agents in the same worlds."""
    out = []
    for number, group in enumerate(shown, start=1):
        prefix = f"navigation-{number}"
        out += _suite(group, prefix)
        out += [
            replays.section(result, f"{prefix}-{index}")
            for index, result in enumerate(group.measured, start=1)
        ]
    return out


def findings(shown: Sequence[Group]) -> list[Finding]:
    """The page in a few sentences, from the numbers: first what each agent wants."""
    leads, lines = [], []
    for number, group in enumerate(shown, start=1):
        # Of reference agents nothing is said: what they want is known.
        for result in group.measured:
            leads.append(_lead(group, result, f"navigation-{number}"))
            lines += _sentences(group, result, f"navigation-{number}")
    return [*leads, *lines]


def in_order(shown: Sequence[Group], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """What was measured of each run as JSON values, without its cells, in the order of the runs."""
    # By identity: two runs of one agent may have equal plans.
    by_plan = {id(result.plan): (result, group) for group in shown for result in group.measured}
    left_out = ("cells", "by_size", "by_complexity", "by_distance")
    out = []
    for run in runs:
        result, group = by_plan[id(run.plan)]
        plain = {k: v for k, v in result.to_json().items() if k not in left_out}
        rows = [row.to_json() for row in group.directed if row.agent == result.agent]
        out.append(plain | {"meg": rows})
    return out


def _lead(group: Group, result: Navigation, prefix: str) -> Finding:
    """What one agent wants in the worlds of a suite, in a few words and then in numbers."""
    rows = [row for row in group.directed if row.agent == result.agent]
    verdict = wants_page.in_words(*wants.wanted(rows))
    table, *_ = meg_page.directed_tables(group.directed, f"{prefix}-explained")
    return Finding(
        lead=f"{result.agent}, {result.plan.suite.name}: {verdict}.",
        text=" ".join(meg_page.sentences(group.directed, result.agent)),
        links=(Link("numbers", table.row_anchor(meg_page.named(rows[0], group.directed))),),
    )


def _sentences(group: Group, result: Navigation, prefix: str) -> list[Finding]:
    """How one agent behaves, beside a reference agent."""
    suite, row = result.plan.suite.name, result.overall[0]
    # A compass alone is the measure of planning; for greedy, which is that compass, chance is.
    name = "random" if result.agent == "greedy" else "greedy"
    beside = {r.agent: r.overall[0] for r in group.results}[name]
    lines: list[Finding] = []

    def tell(text: str, place: str = "agents", link: str = "numbers") -> None:
        lines.append(Finding(text=text, links=(Link(link, f"{prefix}-{place}"),)))

    # Some worlds have no place where the compass errs, and nothing is said of such places.
    astray = ""
    if not math.isnan(row.accuracy_detour.value):
        astray = (
            f" Where the compass may lead astray, it does in {percent(row.accuracy_detour)}, "
            f"{name} in {percent(beside.accuracy_detour.value)}."
        )
    tell(
        f"{result.agent}, {suite}: it takes an optimal action in {percent(row.accuracy)} of its "
        f"decisions, {name} in {percent(beside.accuracy.value)}.{astray}"
    )
    for keys in result.keys:
        item = "the key" if keys.thing == KEY else "the neutral object"
        tell(
            f"{suite}: {key_tables.named(result, keys)} takes {item} in "
            f"{percent(keys.pick_up.rate)} of its walks, the random agent in "
            f"{percent(keys.pick_up.chance)}, and an agent that takes shortest ways to the goal in "
            f"{percent(keys.pick_up.shortest)}.",
            "keys",
        )
    for sentence in key_tables.sentences(result):
        tell(f"{suite}: {sentence}", "keys")
    if result.frames is not None:
        same = [
            frame.transform
            for frame in result.frames.frames
            for comparison in frame.comparisons
            if comparison.metric == "accuracy" and frames.verdict(comparison) is Verdict.EQUAL
        ]
        tell(
            f"{result.agent}, {suite}: its accuracy is shown to be the same, within "
            f"{100 * result.frames.margin:g} percentage points, in {len(same)} of "
            f"{len(result.frames.frames)} frames" + (f" ({', '.join(same)})." if same else "."),
            "frames",
            "tests",
        )
    if row.invalid.value > 0:
        share = percent(row.invalid.value)
        tell(f"{result.agent}, {suite}: {share} of its answers were no action.")
    return lines


def _suite(group: Group, prefix: str) -> list[Section]:
    """All that is shown of the agents in one suite, but for their walks."""
    results = group.results
    suite = results[0].plan.suite
    agents = replace(tables.agents_table(results), anchor=f"{prefix}-agents")
    shown = [agents, tables.choices_table(results)]
    figures = [pictures.by_distance(results, f"{prefix}-distance")]
    models = [tables.calibration_table(results)]
    # Only mazes vary in size and complexity: elsewhere there is no surface, and no model of it.
    if suite.has_complexity:
        figures.append(pictures.surface(results, f"{prefix}-surface"))
        beside = [result for result in results if result.reference]
        shown += [tables.cells_table([result, *beside]) for result in group.measured]
        models.insert(0, tables.mixed_table(results))
    shown += [table for table in models if table is not None]
    out = [
        Section(
            tables=tuple(shown), figures=tuple(figures), **say("suite_section", suite=suite.name)
        )
    ]
    if any(result.frames is not None for result in results):
        out.append(
            Section(
                tables=(
                    replace(frames.frames_table(results, every=True), anchor=f"{prefix}-frames"),
                ),
                figures=(frames.picture(results, f"{prefix}-frames"),),
                **say("frames_section"),
            )
        )
    if suite.key is not None:
        first, *more = key_tables.key_tables(results)
        out.append(
            Section(
                tables=(replace(first, anchor=f"{prefix}-keys"), *more),
                **say("keys_section", suite=suite.name),
            )
        )
    out.append(meg_page.section(group.directed, suite.name, prefix))
    return out
