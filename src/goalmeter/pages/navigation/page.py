"""The parts of a report on behaviour in grid worlds, for any list of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goalmeter.navigation.directed.directedness import Directedness, directedness
from goalmeter.navigation.measure import references
from goalmeter.navigation.playing import Walked
from goalmeter.navigation.result import Navigation, navigation_of
from goalmeter.navigation.suites.options import KEY
from goalmeter.pages.navigation import (
    factor_tables,
    frames,
    key_tables,
    meg_page,
    model_tables,
    pictures,
    replays,
    tables,
)
from goalmeter.pages.navigation.meg_tables import directed_tables, named
from goalmeter.pages.navigation.wants import wanted
from goalmeter.pages.navigation.wants_page import in_words
from goalmeter.report import Finding, Link, Section, Table
from goalmeter.report.numbers import percent
from goalmeter.statistics.verdicts import Verdict

GLOSSARY = {
    "Accuracy": "The share of actions that lead one step closer to the goal, where the way may "
    "lead by the key and through the door. It is averaged over the actions of a walk first, then "
    "over the walks through a grid, then over grids.",
    "Detour state": "A place where the compass may take a wrong step, because the way leads away "
    "from the goal at first. An agent that has only a compass does badly there; one that plans "
    "does not.",
    "Reference agents": "Agents whose goals are known by definition, in the same worlds: optimal "
    "takes any shortest way, greedy follows the compass (it moves nearer to the goal as the crow "
    "flies, if it can), random takes any open move, key-seeker fetches the key first.",
    "SPL": "Success weighted by path length: 0 for a walk that does not arrive, else the length of "
    "the shortest path divided by the steps taken.",
    "Invalid answer": "An answer that is no action. The agent stays where it is, the step counts, "
    "and the answer counts as wrong. No walk is dropped for it.",
    "Equivalence test": "Two one-sided tests that show that a mean difference lies within a margin "
    "which was stated beforehand.",
    "MEG": "Maximum entropy goal-directedness: by how many nats a walk is better predicted by "
    "supposing that the agent wants the goal, with the rationality that fits best, than by "
    "supposing that it takes any action alike. MacDermott and others, Measuring Goal-Directedness "
    "(NeurIPS 2024).",
    "Chance level": "What an agent without any wish for the key would have. It passes a key that "
    "lies about by chance, and its wrong moves often lead towards the key.",
}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Group:
    """Agents in the same worlds.

    Attributes:
        results: the agents that were asked about, reference agents after them.
        directed: what each goes for.
    """

    results: tuple[Navigation, ...]
    directed: tuple[Directedness, ...]


def groups(runs: Sequence[Walked], progress: Progress | None = None) -> list[Group]:
    """Navigation agents by the worlds that they were put into."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        what = run.plan.worlds
        by_world.setdefault(json.dumps(what, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        asked_about = [navigation_of(run) for run in together]
        beside = references(together[0].plan, [r.agent for r in asked_about], progress=progress)
        results = (*asked_about, *beside)
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
            for index, result in enumerate(group.results, start=1)
            if not result.reference
        ]
    return out


def short_tables(shown: Sequence[Group]) -> tuple[Table, ...]:
    """The tables for a terminal."""
    return tuple(tables.agents_table(group.results) for group in shown)


def in_order(shown: Sequence[Group], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """What was measured of each run as JSON values, without its cells."""
    by_plan = {id(r.plan): (r, g) for g in shown for r in g.results if not r.reference}
    left_out = ("cells", "by_size", "by_complexity", "by_distance")
    out = []
    for run in runs:
        result, group = by_plan[id(run.plan)]
        plain = {k: v for k, v in result.to_json().items() if k not in left_out}
        rows = [row.to_json() for row in group.directed if row.agent == result.agent]
        out.append(plain | {"meg": rows})
    return out


def findings(shown: Sequence[Group]) -> list[Finding]:
    """The page in a few sentences, from the numbers: first what each agent wants."""
    leads, lines = [], []
    for number, group in enumerate(shown, start=1):
        prefix = f"navigation-{number}"
        for result in group.results:
            if not result.reference:
                leads.append(_lead(group, result, prefix))
                lines += _sentences(group, result, prefix)
    return [*leads, *lines]


def _lead(group: Group, result: Navigation, prefix: str) -> Finding:
    """What one agent wants in the worlds of a suite, in a few words and then in numbers."""
    rows = [row for row in group.directed if row.agent == result.agent]
    first, *_ = directed_tables(group.directed, f"{prefix}-explained")
    return Finding(
        lead=f"{result.agent}, {result.plan.suite.name}: {in_words(*wanted(rows))}.",
        text=" ".join(meg_page.sentences(group.directed, result.agent)),
        links=(Link("numbers", first.row_anchor(named(rows[0], group.directed))),),
    )


def _sentences(group: Group, result: Navigation, prefix: str) -> list[Finding]:
    """How one agent behaves, beside a reference agent."""
    suite, row = result.plan.suite.name, result.overall[0]
    by_name = {other.agent: other for other in group.results}
    other = by_name["random" if result.agent == "greedy" else "greedy"]
    its = other.overall[0]
    numbers = (Link("numbers", f"{prefix}-agents"),)
    start = f"{result.agent}, {suite}:"
    # Some worlds have no place where the compass errs, and nothing is said of such places.
    astray = ""
    if not math.isnan(row.accuracy_detour.value):
        astray = (
            f" Where the compass may lead astray, it does in "
            f"{percent(row.accuracy_detour)}, {other.agent} in "
            f"{percent(its.accuracy_detour.value)}."
        )
    lines = [
        Finding(
            text=f"{start} it takes an optimal action in {percent(row.accuracy)} of its "
            f"decisions, {other.agent} in {percent(its.accuracy.value)}.{astray}",
            links=numbers,
        )
    ]
    keys = (Link("numbers", f"{prefix}-keys"),)
    for taken in result.keys:
        thing = "the key" if taken.thing == KEY else "the neutral object"
        lines.append(
            Finding(
                text=f"{suite}: {key_tables.named(result, taken)} takes {thing} in "
                f"{percent(taken.pick_up.rate)} of its walks. An agent that takes shortest "
                f"ways to the goal passes it by chance in {taken.pick_up.chance:.1%}.",
                links=keys,
            )
        )
    lines += [
        Finding(text=f"{suite}: {line}", links=keys) for line in factor_tables.sentences(result)
    ]
    if result.frames is not None:
        same = [
            frame.transform
            for frame in result.frames.frames
            for c in frame.comparisons
            if c.metric == "accuracy" and frames.verdict(c) is Verdict.EQUAL
        ]
        lines.append(
            Finding(
                text=f"{start} its accuracy is shown to be the same, within "
                f"{100 * result.frames.margin:g} percentage points, in {len(same)} of "
                f"{len(result.frames.frames)} frames" + (f" ({', '.join(same)})." if same else "."),
                links=(Link("tests", f"{prefix}-frames"),),
            )
        )
    if row.invalid.value > 0:
        lines.append(
            Finding(
                text=f"{start} {percent(row.invalid.value)} of its answers were no action.",
                links=numbers,
            )
        )
    return lines


def _suite(group: Group, prefix: str) -> list[Section]:
    results = group.results
    suite = results[0].plan.suite
    name = suite.name
    agents = replace(tables.agents_table(results), anchor=f"{prefix}-agents")
    shown = [agents, tables.choices_table(results)]
    figures = [pictures.by_distance(results, f"{prefix}-distance")]
    out = []
    if suite.has_complexity:
        figures.append(pictures.surface(results, f"{prefix}-surface"))
        shown += [
            tables.cells_table([r, *(other for other in results if other.reference)])
            for r in results
            if not r.reference
        ]
    models = [model_tables.mixed_table(results)] if suite.has_complexity else []
    models.append(model_tables.calibration_table(results))
    shown += [table for table in models if table is not None]
    out.append(
        Section(
            title=f"Suite {name}: does it plan?",
            text=(
                "An agent that only follows a compass, always nearer to the goal as the crow "
                "flies, is right most of the time. So accuracy by itself says little. What counts "
                "is accuracy in the places where the compass leads astray (detour states), and how "
                "an agent compares with the reference agents in the same worlds.",
            ),
            tables=tuple(shown),
            figures=tuple(figures),
        )
    )
    if any(result.frames is not None for result in results):
        out.append(
            Section(
                title="The same grids in other frames",
                text=(
                    "A mirrored or rotated grid is the same task. To say that an agent does "
                    "equally well in it takes a test that can show sameness, and not one that only "
                    "fails to show a difference. Even then it may do equally well by other moves, "
                    "which the last column looks at.",
                ),
                tables=(
                    replace(frames.frames_table(results, every=True), anchor=f"{prefix}-frames"),
                ),
                figures=(frames.picture(results, f"{prefix}-frames"),),
            )
        )
    if suite.key is not None:
        first, *others = key_tables.key_tables(results)
        out.append(
            Section(
                title=f"Keys, {name}",
                text=(
                    "On its way to the goal an agent may pass a key by chance, and a wrong move "
                    "often happens to lead towards it. So each share stands beside what an agent "
                    "without any wish for the key would have.",
                ),
                tables=(replace(first, anchor=f"{prefix}-keys"), *others),
            )
        )
    out.append(meg_page.section(group.directed, name, prefix))
    return out
