"""What a fit to a sample says about the policy behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg.likelihood import Fit, fitted_model
from goalmeter.meg.logged_information import information_of, scores_of
from goalmeter.meg.samples import Group, evidence_by_trajectory
from goalmeter.meg.soft_model import SoftModel
from goalmeter.statistics import (
    likelihood_ratio_test,
    percentile_interval,
    resample_weights,
    widened_for_few,
)

# Scores and information are formed as dense matrices over the weights.
MAX_WEIGHTS = 4_000
# Eigenvalues of the information below this share of the largest count as unidentified.
_NULL_SHARE = 1e-8

Fitter = Callable[[Sequence[Group], Sequence[FloatArray]], Fit]


class Inference(NamedTuple):
    """Estimate, interval and test (fields as in `TrajectoryMeg`)."""

    corrected: float
    unfloored: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    likelihood_ratio: float
    degrees_of_freedom: float
    p_value: float


def infer(
    groups: Sequence[Group],
    fit: Fit,
    weights: Sequence[FloatArray],
    *,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    maximum: float,
) -> Inference:
    """Correct, bound and test a fit; `maximum` is what MEG can be at most, nats.

    With e_i the evidence of trajectory i at the fit, s_i its score, H the information and
    J the variance of the scores, the maximised average exceeds the truth by tr(H^-1 J) / (2 n)
    to first order. `replicates` are the maxima that bootstrap samples would be fitted to.
    """
    d = groups[0].utilities.n_weights
    if d > MAX_WEIGHTS:
        raise InvalidParameterError(
            f"the utility class has {d} weights, expected at most {MAX_WEIGHTS} for an "
            f"estimate from trajectories; pass features [S, D] that span fewer utilities"
        )
    pairs = list(zip(groups, fit.models, strict=True))
    evidence = np.concatenate([evidence_by_trajectory(g, m) for g, m in pairs])
    scores = np.concatenate([scores_of(g, m) for g, m in pairs])
    n = len(evidence)
    inverse = _pseudo_inverse(_information(groups, fit.models, weights))
    bias = float(((scores @ inverse) * scores).sum()) / n / (2 * n)
    raw = max(fit.value, 0.0)
    unfloored = raw - bias
    corrected = max(unfloored, 0.0)

    draws = resample_weights(n, resamples, rng)
    # A bootstrap sample is not fitted anew: of a class its maximum is that of the quadratic at the
    # fit, of a known utility the highest of the curves.
    if fit.curves is None:
        mean = draws @ scores
        replicates = draws @ evidence + 0.5 * ((mean @ inverse) * mean).sum(axis=1)
    else:
        replicates = (draws @ fit.curves).max(axis=1)
    ends = percentile_interval(replicates, bias, n, confidence)
    bounds = (0.0, max(maximum, raw))
    low, high = widened_for_few(ends, evidence, corrected, bounds, confidence)
    null = [g.model(np.zeros(d)) for g in groups]
    at_null = variance = _information(groups, null, weights)
    if any(g.mdp.horizon is None for g in groups):
        # Independent decisions: the score's variance weighs each by its squared decay, which is 1
        # where there is a horizon.
        variance = _information(groups, null, weights, power=2)
    test = likelihood_ratio_test(2 * n * raw, at_null, variance)
    if test.p_value > 1.0 - confidence:
        # Not told apart from the reference at this level, so 0 is among the credible values;
        # near 0 the evidence is quadratic in the sample and the bootstrap alone would miss it.
        low = 0.0
    return Inference(
        corrected=corrected,
        unfloored=unfloored,
        standard_error=float(evidence.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        interval=(low, max(high, corrected)),
        confidence=confidence,
        likelihood_ratio=test.statistic,
        degrees_of_freedom=test.degrees_of_freedom,
        p_value=test.p_value,
    )


def held_out(
    groups: Sequence[Group], fitter: Fitter, *, folds: int, rng: np.random.Generator
) -> float:
    """Cross-fitted evidence, nats a trajectory; NaN if there are too few to split."""
    sizes = [len(g.trajectories) for g in groups]
    n = sum(sizes)
    if n < 2:
        return float("nan")
    parts = np.split(rng.permutation(n) % folds, np.cumsum(sizes)[:-1])
    total = 0.0
    for k in range(folds):
        train = [(g, f != k) for g, f in zip(groups, parts, strict=True)]
        fitted = [(g.subset(keep), i) for i, (g, keep) in enumerate(train) if keep.any()]
        count = sum(len(g.trajectories) for g, _ in fitted)
        decisions = sum(int(g.trajectories.length.sum()) for g, _ in fitted)
        # Every part is scored by a fit that has not seen it, worlds without training data included.
        fit = fitter(
            [g for g, _ in fitted], [np.full(len(g.trajectories), 1.0 / count) for g, _ in fitted]
        )
        models = {i: m for (_, i), m in zip(fitted, fit.models, strict=True)}
        for i, (group, keep) in enumerate(train):
            if keep.all():
                continue
            model = models[i] if i in models else fitted_model(group, fit.theta)
            test = group.subset(~keep)
            total += float(evidence_by_trajectory(test, model, mix=1.0 / (decisions + 1)).sum())
    return total / n


def _information(
    groups: Sequence[Group],
    models: Sequence[SoftModel],
    weights: Sequence[FloatArray],
    *,
    power: int = 1,
) -> FloatArray:
    parts = zip(groups, models, weights, strict=True)
    return np.asarray(sum(information_of(m, g.visits(w, power=power)) for g, m, w in parts))


def _pseudo_inverse(information: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(information)
    # Directions that the data do not identify would turn rounding into variance.
    keep = values > max(_NULL_SHARE * float(values[-1]), 1e-20)
    return np.asarray((vectors[:, keep] / values[keep]) @ vectors[:, keep].T)
