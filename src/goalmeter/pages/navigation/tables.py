"""Tables of how agents behave in grid worlds; measured and reference agents in the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.navigation.directed.results import MAZES, Measured
from goalmeter.navigation.measures.behaviour import Row
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.pages.navigation.frames import frames_table
from goalmeter.pages.navigation.key_tables import key_tables
from goalmeter.report import Column, Table
from goalmeter.report.numbers import number, percent

NAME = Column("agent", numeric=False)
DETOURS = (
    "Detour states are places where a compass may lead astray: there an agent that plans does "
    "better than one that follows a rule of thumb. An answer that is no action counts as wrong."
)


def agents_table(results: Sequence[Measured]) -> Table:
    """Every agent over all sizes and complexities."""
    return Table(
        caption=f"{results[0].plan.suite.name}: agents",
        columns=(
            NAME,
            Column("in detour states", group="optimal actions", answer=True),
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
                percent(row.invalid) if row.invalid.value else percent(row.invalid.value),
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
        columns=(
            NAME,
            "steps lost",
            "entropy, bits",
            "JSD, bits",
            Column("everywhere", group="optimal answers"),
            Column("in detour states", group="optimal answers"),
        ),
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
        meaning="Steps lost is how many steps longer a walk was than the shortest way, by all its "
        "decisions. The other columns look at all answers that were given in one place, and are "
        f"averaged over places, then over grids. {INTERVALS}",
        notes=(
            "Entropy is how much the answers in one place vary, with Miller and Madow's "
            "correction. JSD is the Jensen-Shannon divergence of the answers from taking every "
            "optimal action equally often; it is 0.31 where an agent always takes the same one "
            "of two.",
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
                *(percent(other.accuracy.value) for other in own),
                percent(row.invalid.value),
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


def suite_tables(results: Sequence[Measured]) -> list[Table]:
    """Every table of one suite."""
    name = results[0].plan.suite.name
    tables = [agents_table(results), choices_table(results)]
    if name in MAZES:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    if name not in MAZES:
        tables += key_tables(results)
    return tables


def named(result: Measured, row: Row) -> str:
    """The agent, and the condition where there are several."""
    several = len({found.condition for found in result.overall}) > 1
    return result.agent + (condition_in_words(row.condition) if several else "")


def _cell(row: Row) -> tuple[object, ...]:
    return row.size, row.complexity, row.condition


def _notes(results: Sequence[Measured]) -> tuple[str, ...]:
    first = results[0]
    row = first.overall[0]
    notes = [
        f"Each row rests on {row.trajectories} walks in {row.grids} grids; {first.agent} made "
        f"{len(first.seen.state)} decisions in all. SPL is the shortest path divided by the steps "
        "taken, and 0 for a walk that did not arrive."
    ]
    beside = [result.agent for result in results if result.reference]
    if beside:
        notes.append(f"Reference agents in the same worlds: {', '.join(beside)}.")
    for result in results:
        ended: dict[str, int] = {}
        for row in result.behaviour.overall:
            for outcome, count in row.outcomes.items():
                if outcome not in ("arrived", "cap"):
                    ended[outcome] = ended.get(outcome, 0) + count
        if ended:
            said = ", ".join(f"{count} × {name}" for name, count in sorted(ended.items()))
            notes.append(
                f"Of {result.agent}, some walks ended neither by arriving nor by the limit "
                f"of steps: {said}. They count."
            )
    return tuple(notes)
