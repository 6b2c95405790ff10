"""Accuracy explained by size, complexity and distance, with grids that differ among themselves.

A linear mixed model: accuracy of a walk = intercept + size + complexity + distance + grid + noise,
where grids have a random intercept.

Source: the authors of the paper fit such a model by hand; theirs is of error rates, with frames.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidTrajectoryError, require
from goalmeter._json import JsonFields
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.record import Trajectory

INTERCEPT = "intercept"
TERMS = ("size", "complexity", "distance")


@dataclass(frozen=True)
class Term(JsonFields):
    """One coefficient: accuracy gained by one more row, unit of complexity, or step.

    Attributes:
        name: "intercept", "size", "complexity" or "distance".
        coefficient: the estimate.
        stderr: its standard error.
        interval: Student's t, with a degree of freedom for each grid less one for each term, at
            the nominal coverage that was asked for.
        p_value: two-sided, that it is 0, by the same.
    """

    name: str
    coefficient: float
    stderr: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class MixedModel(JsonFields):
    """The fit.

    Attributes:
        terms: those that vary among the walks, the intercept first.
        between_grids: standard deviation of the random intercepts.
        within_grids: standard deviation of the noise.
        walks: observations.
        grids: groups.
        notes: what the fit had to say, such as that it did not converge.
    """

    terms: tuple[Term, ...]
    between_grids: float
    within_grids: float
    walks: int
    grids: int
    notes: tuple[str, ...]


def mixed_model(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> MixedModel:
    """Fit the model by restricted maximum likelihood.

    The normal quantiles that the fit itself offers are right for many grids only: with five and
    three terms they reach less than half as far as Student's t.

    Walks without a decision have no accuracy and are left out. A term that is the same for all
    walks, or not known for some, is left out as well.
    """
    from scipy.stats import t

    models = require(
        "statsmodels.regression.mixed_linear_model",
        extra="stats",
        feature="the mixed-effects model of accuracy",
    )
    seen = observed(trajectories)
    seen = seen.where(seen.length > 0)
    counts = np.unique(seen.grid, return_counts=True)[1]
    if len(counts) < 2 or counts.max() < 2:
        raise InvalidTrajectoryError(
            f"there are {len(seen.trajectories)} walks in {len(counts)} grids; a mixed model needs "
            f"at least 2 grids and 2 walks in one of them"
        )
    columns = {INTERCEPT: np.ones(len(seen.length))}
    for name in TERMS:
        values = [getattr(walk, name) for walk in seen.trajectories]
        if None not in values and len(set(values)) > 1:
            columns[name] = np.array(values, dtype=float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = models.MixedLM(
            seen.accuracy, np.stack(list(columns.values()), axis=1), groups=seen.grid
        ).fit(reml=True)
    # Size, complexity and distance are those of a grid: its walks add nothing to tell them by.
    freedom = max(1, len(counts) - len(columns))
    estimates, errors = np.asarray(fit.fe_params), np.asarray(fit.bse_fe)
    reach = float(t.ppf(0.5 + confidence / 2, freedom)) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(estimates / errors), freedom)
    return MixedModel(
        terms=tuple(
            Term(
                name,
                float(estimates[i]),
                float(errors[i]),
                (float(estimates[i] - reach[i]), float(estimates[i] + reach[i])),
                float(p_values[i]),
            )
            for i, name in enumerate(columns)
        ),
        between_grids=float(np.sqrt(np.asarray(fit.cov_re)[0, 0])),
        within_grids=float(np.sqrt(fit.scale)),
        walks=len(seen.length),
        grids=len(counts),
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )
