"""The parts of a report on behaviour in grid worlds, for any list of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter.experiments import navigation_factor_tables as factor_tables
from goalmeter.experiments import navigation_formats as formats
from goalmeter.experiments import navigation_frames as frames
from goalmeter.experiments import navigation_key_tables as key_tables
from goalmeter.experiments import navigation_meg_page as meg_page
from goalmeter.experiments import navigation_model_tables as model_tables
from goalmeter.experiments import navigation_pictures as pictures
from goalmeter.experiments import navigation_replays as replays
from goalmeter.experiments import navigation_tables as tables
from goalmeter.experiments.navigation_meg import Directed, measure_all
from goalmeter.experiments.navigation_results import MAZES, Measured, measured, references
from goalmeter.navigation.playing import Walked
from goalmeter.navigation.suite_worlds import KEY
from goalmeter.report import Section, Table
from goalmeter.statistics.verdicts import Verdict

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
    "MEG": "Maximum entropy goal-directedness: by how many nats a walk is better predicted by an "
    "agent that wants the goal, with the rationality that fits best, than by one that takes any "
    "action alike. MacDermott and others, Measuring Goal-Directedness (NeurIPS 2024).",
    "Chance level": "What an agent without any wish for the key would have: a key that lies about "
    "is passed by chance, and wrong moves often lead towards it.",
}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Group:
    """Agents in the same worlds.

    Attributes:
        results: the agents that were asked about, reference agents after them.
        directed: what each goes for.
    """

    results: tuple[Measured, ...]
    directed: tuple[Directed, ...]


def groups(runs: Sequence[Walked], progress: Progress | None = None) -> list[Group]:
    """Measured agents by the worlds that they were put into."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        what = run.plan.worlds
        by_world.setdefault(json.dumps(what, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        own = [measured(run) for run in together]
        beside = references(together[0].plan, [r.agent for r in own], progress=progress)
        results = (*own, *beside)
        out.append(Group(results, tuple(measure_all(results, progress=progress))))
    return out


def sections(found: Sequence[Group]) -> list[Section]:
    """What to show of each group of agents in the same worlds."""
    out = []
    for number, group in enumerate(found, start=1):
        prefix = f"navigation-{number}"
        out += _suite(group, prefix)
        out += [
            replays.section(result, f"{prefix}-{index}")
            for index, result in enumerate(group.results, start=1)
            if not result.reference
        ]
    return out


def short_tables(found: Sequence[Group]) -> tuple[Table, ...]:
    """The tables for a terminal."""
    return tuple(tables.agents_table(group.results) for group in found)


def in_order(found: Sequence[Group], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """What was measured of each run as JSON values, without its cells."""
    by_plan = {id(r.plan): (r, g) for g in found for r in g.results if not r.reference}
    left_out = ("cells", "by_size", "by_complexity", "by_distance")
    out = []
    for run in runs:
        result, group = by_plan[id(run.plan)]
        plain = {k: v for k, v in result.to_json().items() if k not in left_out}
        own = [one.to_json() for one in group.directed if one.agent == result.agent]
        out.append(plain | {"meg": own})
    return out


def findings(found: Sequence[Group]) -> list[str]:
    """The page in a few sentences, from the numbers."""
    lines = []
    for group in found:
        by_name = {result.agent: result for result in group.results}
        for result in group.results:
            if not result.reference:
                lines += _sentences(result, by_name)
                name = result.plan.suite.name
                lines += meg_page.sentences(group.directed, result.agent, name)
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
        thing = "the key" if found.thing == KEY else "the neutral object"
        lines.append(
            f"{suite}: {key_tables.named(result, found)} takes {thing} in "
            f"{formats.percent(found.pick_up.rate)} of walks; {found.pick_up.chance:.1%} is what "
            f"passing it by chance gives."
        )
    lines += [f"{suite}: {line}" for line in factor_tables.sentences(result)]
    if result.frames is not None:
        same = [
            frame.transform
            for frame in result.frames.frames
            for c in frame.comparisons
            if c.metric == "accuracy" and frames.verdict(c) is Verdict.EQUAL
        ]
        lines.append(
            f"{suite}: the accuracy of {result.agent} is shown to be the same within "
            f"{100 * result.frames.margin:g} points in {len(same)} of "
            f"{len(result.frames.frames)} frames" + (f" ({', '.join(same)})." if same else ".")
        )
    if row.invalid.value > 0:
        lines.append(f"{suite}: {formats.plain(row.invalid)} of its answers were no action.")
    return lines


def _suite(group: Group, prefix: str) -> list[Section]:
    results = group.results
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
    models = [model_tables.mixed_table(results)] if name in MAZES else []
    models.append(model_tables.calibration_table(results))
    shown += [table for table in models if table is not None]
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
                tables=(frames.frames_table(results, every=True),),
                figures=(frames.picture(results, f"{prefix}-frames"),),
            )
        )
    if name not in MAZES:
        out.append(
            Section(
                title=f"Keys, {name}",
                text=(
                    "An agent on its way to the goal passes a key by chance, and a wrong move is "
                    "often one towards it. Each share stands beside its chance level.",
                ),
                tables=tuple(key_tables.key_tables(results)),
            )
        )
    out.append(meg_page.section(group.directed, name, prefix))
    return out
