"""Tables of how agents behave in grid worlds; measured and reference agents in the same rows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from goalmeter.experiments.navigation_formats import (
    INTERVALS,
    number,
    p_value,
    percent,
    plain,
    points,
)
from goalmeter.experiments.navigation_key_tables import keys_table, stages_table, two_paths_table
from goalmeter.experiments.navigation_results import MAZES, Measured
from goalmeter.navigation.measures.behaviour import Row
from goalmeter.navigation.measures.frames import Comparison, Frame
from goalmeter.report import Column, Table

NAME = Column("agent", numeric=False)
LEVEL = 0.05
DETOURS = (
    "Detour states are those where a compass may err: they tell a plan from a heuristic. An answer "
    "that is no action counts as wrong everywhere."
)
SAME, DIFFERS, UNTOLD = "the same", "differs", "not told"


def agents_table(results: Sequence[Measured]) -> Table:
    """Every agent over all sizes and complexities."""
    return Table(
        caption=f"{results[0].plan.suite.name}: agents",
        columns=(
            NAME,
            Column("in detour states", group="optimal actions"),
            Column("everywhere", group="optimal actions"),
            "goal reached",
            "SPL",
            "invalid answers",
        ),
        rows=tuple(
            (
                named(result, row),
                percent(row.accuracy_detour),
                percent(row.accuracy),
                percent(row.success),
                percent(row.spl),
                plain(row.invalid),
            )
            for result in results
            for row in result.overall
        ),
        meaning=f"{DETOURS} {INTERVALS}",
        notes=_notes(results),
    )


def choices_table(results: Sequence[Measured]) -> Table:
    """How every agent chooses: what it costs, and how much it varies."""
    return Table(
        caption=f"{results[0].plan.suite.name}: choices",
        columns=(NAME, "steps lost", "entropy, bits", "JSD, bits", "optimal mass", "in detours"),
        rows=tuple(
            (
                named(result, row),
                number(row.regret, 1),
                number(row.entropy, 2),
                number(row.jsd, 2),
                percent(row.mass),
                percent(row.mass_detour),
            )
            for result in results
            for row in result.overall
        ),
        meaning="Steps lost: by all decisions of a walk, beside the shortest way. The others are "
        f"of all answers in one place, averaged over places and grids. {INTERVALS}",
        notes=(
            "Entropy: Miller and Madow's. JSD: from uniform over the optimal actions, 0.31 where "
            "one of two is always taken. Mass: share of optimal answers; in detours, where a "
            "compass may err.",
        ),
    )


def cells_table(results: Sequence[Measured]) -> Table:
    """The first agent by size and complexity, the others' accuracy beside it."""
    agent, *others = results
    beside = [{_cell(row): row for row in other.cells} for other in others]
    rows = []
    for row in agent.cells:
        own = [found[_cell(row)] for found in beside if _cell(row) in found]
        rows.append(
            (
                f"{row.size}, {row.complexity:g}" + condition_in_words(row.condition),
                f"{row.grids} × {row.trajectories / row.grids:g}",
                percent(row.success),
                percent(row.accuracy_detour),
                percent(row.accuracy),
                *(plain(other.accuracy) for other in own),
                plain(row.invalid),
            )
        )
    return Table(
        caption=f"{agent.agent} by size and complexity",
        columns=(
            Column("size, complexity", numeric=False),
            "grids × walks",
            "goal reached",
            Column("in detour states", group="optimal actions"),
            Column(agent.agent, group="optimal actions"),
            *(Column(other.agent, group="optimal actions") for other in others),
            "invalid answers",
        ),
        rows=tuple(rows),
        meaning=f"Share of optimal actions of each agent in the same grids. {INTERVALS}",
    )


def frames_table(results: Sequence[Measured], metrics: Sequence[str] = ("accuracy",)) -> Table:
    """The same grids in other frames: the published test, and the one that can show sameness."""
    rows = []
    for result in results:
        for frame in result.frames.frames if result.frames is not None else ():
            for found in frame.comparisons:
                if found.metric in metrics:
                    rows.append(_frame_row(result, frame, found))
    margin = next((r.frames.margin for r in results if r.frames is not None), 0.05)
    return Table(
        caption="The same grids in other frames",
        columns=(
            NAME,
            Column("frame", numeric=False),
            Column("measure", numeric=False),
            "pairs",
            "difference, points",
            Column("Wilcoxon p", group="published test"),
            Column("corrected", group="published test"),
            Column(f"p for ±{100 * margin:g} points", group="equivalence"),
            Column("corrected", group="equivalence"),
            Column("verdict", numeric=False),
            "does the same",
        ),
        rows=tuple(rows),
        meaning="The difference of the frame from the original over pairs of grids. "
        f"“{SAME.capitalize()}” takes an equivalence test at {LEVEL:.0%}; that a difference is not "
        "significant shows nothing.",
        notes=(
            "Corrected for the number of frames (Holm). A Wilcoxon test needs 10 pairs, 5 of which "
            "differ; – where it cannot be made.",
            "Does the same: how often two answers in the same place agree once the moves are "
            "relabelled, and in brackets how often two answers within one frame do, which is all "
            "that can be reached. swap (of start and goal) is no isometry: it keeps the distance "
            "and changes the task.",
        ),
    )


def suite_tables(results: Sequence[Measured]) -> list[Table]:
    """Every table of one suite."""
    name = results[0].plan.suite.name
    tables = [agents_table(results), choices_table(results)]
    if name in MAZES:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    if name not in MAZES:
        tables += [keys_table(results), stages_table(results)]
    if name == "two-path":
        tables.append(two_paths_table(results))
    return tables


def condition_in_words(condition: str) -> str:
    """What to add to a name: "", ", with key", ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        else:
            words.append(f"{name} {value}")
    return "".join(f", {word}" for word in words)


def named(result: Measured, row: Row) -> str:
    """The agent, and the condition where there are several."""
    several = len({found.condition for found in result.overall}) > 1
    return result.agent + (condition_in_words(row.condition) if several else "")


def verdict(found: Comparison) -> str:
    """What both tests say of a frame."""
    if found.equivalence_corrected < LEVEL:
        return SAME
    return DIFFERS if found.test_corrected < LEVEL else UNTOLD


def _frame_row(result: Measured, frame: Frame, found: Comparison) -> tuple[str, ...]:
    alike = "–"
    if frame.agreement is not None and frame.self_agreement is not None:
        alike = f"{plain(frame.agreement)} ({plain(frame.self_agreement)})"
    return (
        result.agent,
        frame.transform,
        found.metric,
        str(frame.pairs),
        points(found.difference),
        p_value(found.test.p_value),
        p_value(found.test_corrected),
        p_value(found.equivalence.p_value),
        p_value(found.equivalence_corrected),
        verdict(found),
        alike,
    )


def _cell(row: Row) -> tuple[object, ...]:
    return row.size, row.complexity, row.condition


def _notes(results: Sequence[Measured]) -> tuple[str, ...]:
    first = results[0]
    row = first.overall[0]
    notes = [
        f"{row.grids} grids and {row.trajectories} walks a row, {len(first.seen.state)} decisions "
        f"of {first.agent} in all. SPL: success times the shortest path over steps taken."
    ]
    beside = [result.agent for result in results if result.reference]
    if beside:
        notes.append(f"Reference agents, in the same worlds: {', '.join(beside)}.")
    for result in results:
        ended: dict[str, int] = {}
        for row in result.behaviour.overall:
            for outcome, count in row.outcomes.items():
                if outcome not in ("arrived", "cap"):
                    ended[outcome] = ended.get(outcome, 0) + count
        if ended:
            said = ", ".join(f"{count} × {name}" for name, count in sorted(ended.items()))
            notes.append(f"{result.agent}: walks that something else ended: {said}. They count.")
    return tuple(notes)
