"""Tables of models of behaviour: is it right when it is sure, and what is accuracy lost by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.navigation.directed.results import Measured
from goalmeter.navigation.measures import mixed_model
from goalmeter.navigation.measures.mixed import TERMS, MixedModel, Term
from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.report import Column, Table
from goalmeter.report.numbers import number, p_value
from goalmeter.statistics.clustered import Estimate

_NAME = Column("agent", numeric=False)
_PER = {
    "size": "a row of the grid",
    "complexity": "0.1 of complexity",
    "distance": "a step of the way",
}
_UNITS = {"size": 1.0, "complexity": 0.1, "distance": 1.0}


def calibration_table(results: Sequence[Measured]) -> Table | None:
    """Whether agents are right when they are sure; None where no probability is known."""
    known = [
        (result.agent, result.behaviour.calibration)
        for result in results
        if result.behaviour.calibration is not None
    ]
    if not any(r.behaviour.calibration is not None for r in results if not r.reference):
        return None
    return Table(
        caption="Is it right when it is sure?",
        columns=(
            _NAME,
            Column("calibration error", answer=True),
            "Brier score",
            "decisions",
            "without probabilities",
        ),
        rows=tuple(
            (
                agent,
                number(found.error, 3),
                number(found.brier, 3),
                str(found.steps),
                str(found.unknown),
            )
            for agent, found in known
        ),
        meaning="An agent is as sure as its most probable action is probable, and right if that "
        "action is optimal. The calibration error is how far the two are apart, on average over "
        f"its decisions in 10 bins. {INTERVALS}",
        notes=(
            "An agent that splits its choice between two optimal actions is right more often than "
            "it is sure. After reasoning a model's probabilities are near 1 whatever it knows.",
        ),
    )


def mixed_table(results: Sequence[Measured]) -> Table | None:
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
    return Table(
        caption="What makes accuracy fall",
        columns=(
            _NAME,
            "walks in grids",
            *(
                column
                for name in shown
                for column in (
                    Column("points", group=_PER[name]),
                    Column("p", group=_PER[name]),
                )
            ),
            Column("grids", group="spread, points"),
            Column("walks", group="spread, points"),
        ),
        rows=tuple(
            (
                agent,
                f"{fit.walks} in {fit.grids}",
                *(text for name in shown for text in _effect(_term(fit, name), _UNITS[name])),
                f"{100 * fit.between_grids:.1f}",
                f"{100 * fit.within_grids:.1f}",
            )
            for agent, fit in fits
        ),
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


def _effect(term: Term | None, unit: float) -> tuple[str, str]:
    if term is None:
        return "–", "–"
    scale = 100 * unit
    found = Estimate(
        scale * term.coefficient, (scale * term.interval[0], scale * term.interval[1]), 0, 0
    )
    return number(found, 1), p_value(term.p_value)
