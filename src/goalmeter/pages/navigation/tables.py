"""Tables of how agents behave in grid worlds; measured and reference agents in the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.navigation.measures.behaviour import Row
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words
from goalmeter.pages.navigation.frames import frames_table
from goalmeter.pages.navigation.key_tables import key_tables
from goalmeter.report import Table
from goalmeter.report.numbers import number, percent
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate

DETOURS = (
    "Detour states are places where a compass may lead astray: there an agent that plans does "
    "better than one that follows a rule of thumb. An answer that is no action counts as wrong."
)


def agents_table(results: Sequence[Navigation]) -> Table:
    """Every agent over all sizes and complexities."""
    return table_of(
        _overall(results),
        (
            words("agent", lambda both: named(*both)),
            *grouped(
                "optimal actions",
                column(
                    "in detour states", lambda both: both[1].accuracy_detour, percent, answer=True
                ),
                column("everywhere", lambda both: both[1].accuracy, percent),
            ),
            column("goal reached", lambda both: both[1].success, percent),
            column("SPL", lambda both: both[1].spl, percent),
            # The interval of none would only say how few there are.
            column("invalid answers", lambda both: _unless_none(both[1].invalid), percent),
        ),
        caption=f"{results[0].plan.suite.name}: agents",
        meaning=f"{DETOURS} {INTERVALS}",
        notes=_notes(results),
    )


def choices_table(results: Sequence[Navigation]) -> Table:
    """How every agent chooses: what it costs, and how much it varies."""
    return table_of(
        _overall(results),
        (
            words("agent", lambda both: named(*both)),
            column("steps lost", lambda both: number(both[1].regret, 1)),
            column("entropy, bits", lambda both: number(both[1].entropy, 2)),
            column("JSD, bits", lambda both: number(both[1].jsd, 2)),
            *grouped(
                "optimal answers",
                column("everywhere", lambda both: both[1].mass, percent),
                column("in detour states", lambda both: both[1].mass_detour, percent),
            ),
        ),
        caption=f"{results[0].plan.suite.name}: choices",
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


def cells_table(results: Sequence[Navigation]) -> Table:
    """The first agent by size and complexity, the others' accuracy beside it."""
    agent, *others = results

    def accuracy(other: Navigation) -> ColumnOf[Row]:
        by_cell = {_cell(row): row.accuracy.value for row in other.cells}
        return column(other.agent, lambda row: by_cell.get(_cell(row)), percent)

    return table_of(
        agent.cells,
        (
            words(
                "size, complexity",
                lambda row: f"{row.size}, {row.complexity:g}" + condition_in_words(row.condition),
            ),
            column("grids × walks", lambda r: f"{r.grids} × {r.trajectories / r.grids:g}"),
            column("goal reached", lambda row: row.success, percent),
            *grouped(
                "optimal actions",
                column("in detour states", lambda row: row.accuracy_detour, percent),
                column(agent.agent, lambda row: row.accuracy, percent),
                *map(accuracy, others),
            ),
            column("invalid answers", lambda row: row.invalid.value, percent),
        ),
        caption=f"{agent.agent} by size and complexity",
        meaning=f"Share of optimal actions of each agent in the same grids. {INTERVALS}",
    )


def suite_tables(results: Sequence[Navigation]) -> list[Table]:
    """Every table of one suite."""
    suite = results[0].plan.suite
    tables = [agents_table(results), choices_table(results)]
    if suite.has_complexity:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    if suite.key is not None:
        tables += key_tables(results)
    return tables


def named(result: Navigation, row: Row) -> str:
    """The agent, and the condition where there are several."""
    several = len({other.condition for other in result.overall}) > 1
    return result.agent + (condition_in_words(row.condition) if several else "")


def _unless_none(invalid: Estimate) -> Estimate | float:
    return invalid if invalid.value else 0.0


def _overall(results: Sequence[Navigation]) -> list[tuple[Navigation, Row]]:
    """Every agent with each of its rows over all sizes and complexities."""
    return [(result, row) for result in results for row in result.overall]


def _cell(row: Row) -> tuple[object, ...]:
    return row.size, row.complexity, row.condition


def _notes(results: Sequence[Navigation]) -> tuple[str, ...]:
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
            counts = ", ".join(f"{count} × {name}" for name, count in sorted(ended.items()))
            notes.append(
                f"Of {result.agent}, some walks ended neither by arriving nor by the limit "
                f"of steps: {counts}. They count."
            )
    return tuple(notes)
