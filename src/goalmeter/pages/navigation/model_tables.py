"""Tables of models of behaviour: is it right when it is sure, and what is accuracy lost by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.navigation.measures import mixed_model
from goalmeter.navigation.measures.mixed import TERMS, MixedModel, Term
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Table
from goalmeter.report.numbers import number, p_value
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate

_PER = {
    "size": "a row of the grid",
    "complexity": "0.1 of complexity",
    "distance": "a step of the way",
}
_UNITS = {"size": 1.0, "complexity": 0.1, "distance": 1.0}


def calibration_table(results: Sequence[Navigation]) -> Table | None:
    """Whether agents are right when they are sure; None where no probability is known."""
    if not any(r.behaviour.calibration is not None for r in results if not r.reference):
        return None
    return table_of(
        [
            (r.agent, r.behaviour.calibration)
            for r in results
            if r.behaviour.calibration is not None
        ],
        (
            words("agent", lambda row: row[0]),
            column("calibration error", lambda row: number(row[1].error, 3), answer=True),
            column("Brier score", lambda row: number(row[1].brier, 3)),
            column("decisions", lambda row: row[1].steps),
            column("without probabilities", lambda row: row[1].unknown),
        ),
        caption="Is it right when it is sure?",
        meaning="An agent is as sure as its most probable action is probable, and right if that "
        "action is optimal. The calibration error is how far the two are apart, on average over "
        f"its decisions in 10 bins. {INTERVALS}",
        notes=(
            "An agent that splits its choice between two optimal actions is right more often than "
            "it is sure. After reasoning a model's probabilities are near 1 whatever it knows.",
        ),
    )


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """What accuracy is lost by, in mazes; None where no model can be fitted."""
    fits: list[tuple[str, MixedModel]] = []
    for result in results:
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
    shown = [name for name in TERMS if any(_term(fit, name) is not None for _, fit in fits)]
    if not shown:
        return None
    return table_of(
        fits,
        (
            words("agent", lambda row: row[0]),
            column("walks in grids", lambda row: f"{row[1].walks} in {row[1].grids}"),
            *(head for name in shown for head in _term_columns(name)),
            *grouped(
                "spread, points",
                column("grids", lambda row: number(100 * row[1].between_grids, 1)),
                column("walks", lambda row: number(100 * row[1].within_grids, 1)),
            ),
        ),
        caption="What makes accuracy fall",
        meaning="How many percentage points of accuracy an agent gains (or, below 0, loses) with "
        "one more row of the grid, with 0.1 more of complexity, with one more step of the way, "
        "while the others stay the same. From a linear mixed model of the accuracy of a walk, with "
        "a random intercept for each grid; in brackets the model's 95% intervals.",
        notes=(
            "The spread is the standard deviation between grids, and between walks through one "
            "grid. An agent that never errs has no row.",
        ),
    )


def _term(fit: MixedModel, name: str) -> Term | None:
    return next((term for term in fit.terms if term.name == name), None)


def _term_columns(name: str) -> tuple[ColumnOf[tuple[str, MixedModel]], ...]:
    """What a unit of a term changes, and how likely that is by chance."""
    return grouped(
        _PER[name],
        column("points", lambda row: _points(_term(row[1], name))),
        column("p", lambda row: _p_value(_term(row[1], name))),
    )


def _points(term: Term | None) -> str | None:
    """What a unit of a term changes, in percentage points."""
    if term is None:
        return None
    scale = 100 * _UNITS[term.name]
    low, high = term.interval
    return number(Estimate(scale * term.coefficient, (scale * low, scale * high), 0, 0), 1)


def _p_value(term: Term | None) -> str | None:
    return None if term is None else p_value(term.p_value)
