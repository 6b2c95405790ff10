"""Tables of how agents behave in grid worlds; measured and reference agents in the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.navigation.measures import mixed_model
from goalmeter.navigation.measures.behaviour import Row
from goalmeter.navigation.measures.mixed import TERMS, MixedModel, Term
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import INTERVALS, condition_in_words, say
from goalmeter.pages.navigation.frames import frames_table
from goalmeter.pages.navigation.key_tables import key_tables
from goalmeter.report import Table
from goalmeter.report.numbers import number, p_value, percent
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate

# A term of the mixed model -> its unit in words, and in the unit of the model.
_UNITS = {
    "size": ("a row of the grid", 1.0),
    "complexity": ("0.1 of complexity", 0.1),
    "distance": ("a step of the way", 1.0),
}


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
            column(
                "invalid answers",
                lambda both: both[1].invalid if both[1].invalid.value else 0.0,
                percent,
            ),
        ),
        notes=_notes(results),
        **say("agents", suite=results[0].plan.suite.name),
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
        **say("choices", suite=results[0].plan.suite.name),
    )


def cells_table(results: Sequence[Navigation]) -> Table:
    """The first agent by size and complexity, the others' accuracy beside it."""
    agent, *beside = results

    def accuracy(result: Navigation) -> ColumnOf[Row]:
        by_cell = {_cell(row): row.accuracy.value for row in result.cells}
        return column(result.agent, lambda row: by_cell.get(_cell(row)), percent)

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
                *map(accuracy, beside),
            ),
            column("invalid answers", lambda row: row.invalid.value, percent),
        ),
        caption=f"{agent.agent} by size and complexity",
        meaning=f"Share of optimal actions of each agent in the same grids. {INTERVALS}",
    )


def calibration_table(results: Sequence[Navigation]) -> Table | None:
    """Whether agents are right when they are sure; None where no probability is known."""
    known = [(r, fit) for r in results if (fit := r.behaviour.calibration) is not None]
    # A table of reference agents alone would answer a question that nobody asked.
    if all(result.reference for result, _ in known):
        return None
    return table_of(
        known,
        (
            words("agent", lambda row: row[0].agent),
            column("calibration error", lambda row: number(row[1].error, 3), answer=True),
            column("Brier score", lambda row: number(row[1].brier, 3)),
            column("decisions", lambda row: row[1].steps),
            column("without probabilities", lambda row: row[1].unknown),
        ),
        **say("calibration"),
    )


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """What accuracy is lost by, in mazes; None where no model can be fitted."""
    fits: list[tuple[str, MixedModel]] = []
    for result in results:
        # A changed frame is another condition of the same grid, which the model does not know.
        unchanged = [walk.transform is None for walk in result.seen.trajectories]
        seen = result.seen.where(np.array(unchanged) & (result.seen.length > 0))
        if not len(seen.length) or np.ptp(seen.accuracy) < 1e-12:
            continue  # there is nothing to explain
        try:
            fits.append((result.agent, mixed_model(seen)))
        except MissingExtraError:
            return None
        except (GoalmeterError, np.linalg.LinAlgError):
            continue  # too few grids or walks for a model
    known = {term.name for _, fit in fits for term in fit.terms}
    shown = [name for name in TERMS if name in known]
    if not shown:
        return None

    def columns(name: str) -> tuple[ColumnOf[tuple[str, MixedModel]], ...]:
        """What a unit of a term changes, and how likely that is by chance."""

        def term(row: tuple[str, MixedModel]) -> Term | None:
            return next((term for term in row[1].terms if term.name == name), None)

        return grouped(
            _UNITS[name][0],
            column("points", term, _points),
            column("p", term, lambda term: p_value(term.p_value)),
        )

    return table_of(
        fits,
        (
            words("agent", lambda row: row[0]),
            column("walks in grids", lambda row: f"{row[1].walks} in {row[1].grids}"),
            *(head for name in shown for head in columns(name)),
            *grouped(
                "spread, points",
                column("grids", lambda row: number(100 * row[1].between_grids, 1)),
                column("walks", lambda row: number(100 * row[1].within_grids, 1)),
            ),
        ),
        **say("mixed"),
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
    several = len({r.condition for r in result.overall}) > 1
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
        ended = sum((Counter(row.outcomes) for row in result.behaviour.overall), Counter[str]())
        # How the other walks ended is in the columns already.
        odd = [name for name in sorted(ended) if name not in ("arrived", "cap")]
        if odd:
            counts = ", ".join(f"{ended[name]} × {name}" for name in odd)
            notes.append(
                f"Of {result.agent}, some walks ended neither by arriving nor by the limit "
                f"of steps: {counts}. They count."
            )
    return tuple(notes)


def _points(term: Term) -> str:
    """What a unit of a term changes, in percentage points."""
    scale = 100 * _UNITS[term.name][1]
    low, high = term.interval
    return number(Estimate(scale * term.coefficient, (scale * low, scale * high), 0, 0), 1)
