"""The parts of a report on behaviour in grid worlds, for any list of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from goalmeter.experiments import navigation_formats as formats
from goalmeter.experiments import navigation_key_tables as key_tables
from goalmeter.experiments import navigation_pictures as pictures
from goalmeter.experiments import navigation_replays as replays
from goalmeter.experiments import navigation_tables as tables
from goalmeter.experiments.navigation_results import MAZES, Measured, measured, references
from goalmeter.navigation.playing import Walked
from goalmeter.report import Section, Table

GLOSSARY = {
    "Accuracy": "The share of actions that lead one step closer to the goal, by a plan over cell, "
    "key and door; of each walk, then of each grid, then over grids.",
    "Detour state": "A place where a compass, which moves nearer as the crow flies if it can, may "
    "take a wrong step. Accuracy there tells a plan from a compass.",
    "Reference agents": "optimal takes any shortest way, greedy follows the compass, random takes "
    "any open move, key-seeker fetches the key first; all in the same worlds.",
    "SPL": "Success times the shortest path over the steps taken.",
    "Invalid answer": "One that is no action. The agent stays, the step counts, and it is wrong; "
    "no walk is dropped for it.",
    "Equivalence test": "Two one-sided tests that the mean difference lies within a margin that "
    "was stated beforehand.",
    "Chance level": "What an agent without any wish for the key would have: a key that lies about "
    "is passed by chance, and wrong moves often lead towards it.",
}

Progress = Callable[[str], None]


def groups(runs: Sequence[Walked], progress: Progress | None = None) -> list[list[Measured]]:
    """Measured agents by the worlds that they were put into, reference agents after them."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        what = {name: value for name, value in run.plan.what.items() if name != "agent"}
        by_world.setdefault(json.dumps(what, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        own = [measured(run) for run in together]
        beside = references(together[0].plan, [r.agent for r in own], progress=progress)
        out.append([*own, *beside])
    return out


def sections(found: Sequence[Sequence[Measured]]) -> list[Section]:
    """What to show of each group of agents in the same worlds."""
    out = []
    for number, results in enumerate(found, start=1):
        prefix = f"navigation-{number}"
        out += _suite(results, prefix)
        out += [
            replays.section(result, f"{prefix}-{index}")
            for index, result in enumerate(results, start=1)
            if not result.reference
        ]
    return out


def short_tables(found: Sequence[Sequence[Measured]]) -> tuple[Table, ...]:
    """The tables for a terminal."""
    return tuple(tables.agents_table(results) for results in found)


def in_order(found: Sequence[Sequence[Measured]], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """What was measured of each run as JSON values, without its cells."""
    by_plan = {id(r.plan): r for results in found for r in results if not r.reference}
    left_out = ("cells", "by_size", "by_complexity", "by_distance")
    return [
        {k: v for k, v in by_plan[id(run.plan)].to_json().items() if k not in left_out}
        for run in runs
    ]


def findings(found: Sequence[Sequence[Measured]]) -> list[str]:
    """The page in a few sentences, from the numbers."""
    lines = []
    for results in found:
        by_name = {result.agent: result for result in results}
        for result in results:
            if not result.reference:
                lines += _sentences(result, by_name)
    return lines


def _sentences(result: Measured, beside: dict[str, Measured]) -> list[str]:
    suite, row = result.plan.suite.name, result.overall[0]
    other = beside["random" if result.agent == "greedy" else "greedy"]
    its = other.overall[0]
    lines = [
        f"{suite}: {tables.named(result, row)} takes an optimal action in "
        f"{formats.percent(row.accuracy)} of decisions, {other.agent} in "
        f"{formats.plain(its.accuracy)}; in detour states in "
        f"{formats.percent(row.accuracy_detour)}, {other.agent} in "
        f"{formats.plain(its.accuracy_detour)}."
    ]
    for found in result.keys:
        lines.append(
            f"{suite}: {result.agent} takes the key in {formats.percent(found.pick_up.rate)} of "
            f"walks; {found.pick_up.chance:.1%} is what passing it by chance gives."
        )
    if result.frames is not None:
        same = [
            frame.transform
            for frame in result.frames.frames
            for c in frame.comparisons
            if c.metric == "accuracy" and tables.verdict(c) == tables.SAME
        ]
        lines.append(
            f"{suite}: the accuracy of {result.agent} is shown to be the same within "
            f"{100 * result.frames.margin:g} points in {len(same)} of "
            f"{len(result.frames.frames)} frames" + (f" ({', '.join(same)})." if same else ".")
        )
    if row.invalid.value > 0:
        lines.append(f"{suite}: {formats.plain(row.invalid)} of its answers were no action.")
    return lines


def _suite(results: Sequence[Measured], prefix: str) -> list[Section]:
    name = results[0].plan.suite.name
    shown = [tables.agents_table(results), tables.choices_table(results)]
    figures = [pictures.by_distance(results, f"{prefix}-distance")]
    out = []
    if name in MAZES:
        figures.append(pictures.surface(results, f"{prefix}-surface"))
        shown += [
            tables.cells_table([r, *(other for other in results if other.reference)])
            for r in results
            if not r.reference
        ]
    out.append(
        Section(
            title=f"Suite {name}: does it plan?",
            text=(
                "An agent that only follows a compass is right most of the time, so accuracy by "
                "itself says little. What counts is accuracy where the compass errs, and how an "
                "agent compares with the reference agents in the same worlds.",
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
                    "A mirrored grid is the same task. That an agent does equally well in it takes "
                    "a test that can show sameness; and it may do equally well by other moves.",
                ),
                tables=(tables.frames_table(results, ("success", "accuracy", "spl")),),
            )
        )
    if name not in MAZES:
        keys = [key_tables.keys_table(results), key_tables.stages_table(results)]
        if name == "two-path":
            keys.append(key_tables.two_paths_table(results))
        out.append(
            Section(
                title=f"Keys, {name}",
                text=(
                    "An agent on its way to the goal passes a key by chance, and a wrong move is "
                    "often one towards it. Each share stands beside its chance level.",
                ),
                tables=tuple(keys),
            )
        )
    return out
