"""Second estimates of soft values: by fresh episodes, or by particles where no step is random.

Source: docs/notes/mathematics.md, "Where states do not recur".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.agents.user_code import caller_guard
from goalmeter.meg.simulator.environments import GymnasiumSimulator, RunningEpisode
from goalmeter.meg.simulator.soft_values import SoftValues, log_mean_exp

# --- Estimates ------------------------------------------------------------------------------------
_FEW = 32  # number of values whose spread is known well
_NEAR = 0.25  # relative difference of rationalities from which on particles are not pooled
_TWO = 0.97725  # share of a normal distribution below two standard deviations
ROUGH = 0.3  # standard error of a mean weight from which on its logarithm is not normal


class Check(NamedTuple):
    """Estimates of the soft value of the start by N fresh episodes or groups of particles."""

    rationality: float
    # Logarithms of the weights of the K particles of a group, [N, K]. An episode (K = 1) has its
    # total payoff times the rationality less its relative entropy to free choice.
    weights: FloatArray
    returns: FloatArray  # of the soft policy, [N, K]
    variance: float  # mean relative variance of the mean weight of particles, 0 for episodes
    fitted: FloatArray  # mean fitted value of starts by each half, [2]
    pooled: bool  # whether groups of particles have the same soft value

    def values(self, b: FloatArray) -> FloatArray:
        """Return what is in expectation at most the soft value at rationalities [B], [N, B]."""
        change = b - self.rationality
        return log_mean_exp(self.weights[..., None] + self.returns[..., None] * change)[0]

    def along(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower bounds of soft values at rationalities [B], and their standard errors."""
        values, count = self.values(b), len(self.weights)
        if count == 1:
            return values[0], np.full(len(b), math.inf)
        variance = np.maximum(values.var(axis=0, ddof=1), self.variance)
        return values.mean(axis=0), np.sqrt(variance / count)

    @property
    def mean_returns(self) -> FloatArray:
        """Weighted mean return of each group, or return of each episode, [N]."""
        share = np.exp(log_mean_exp(self.weights)[1])
        return np.asarray((share * self.returns).mean(axis=1))

    @property
    def estimate(self) -> tuple[float, float]:
        """Estimate of the soft value, before its correction, and its standard error."""
        b = np.array([self.rationality])
        value, error = pooled_value([self], b)[:2] if self.pooled else self.along(b)
        return float(value[0]), float(error[0])

    @property
    def shortfall(self) -> float:
        """Amount by which the logarithm of a mean weight is too low: half its variance."""
        return 0.5 * (self.estimate[1] ** 2 if self.pooled else self.variance)

    @property
    def corrected(self) -> float:
        """Estimate of the soft value."""
        return self.estimate[0] + self.shortfall

    @property
    def unknown(self) -> float:
        """Amount by which the estimate may be wrong besides its statistical error."""
        off = float(self.fitted.mean()) - self.corrected
        if self.pooled and off < 0:
            # The mean weight is unbiased, so that it is rarely much too large.
            return -0.5 * off
        # The logarithms of mean weights differ by start, or they are too low by chance.
        values = self.values(np.array([self.rationality]))[:, 0]
        largest = float(log_mean_exp(values[None])[0][0])
        spread = largest - float(values.mean()) if self.variance else 0.0
        # Both estimators lack what was not learnt, so their difference is too small.
        return 2.0 * abs(off) + max(2.0 * self.shortfall, spread)


def _shares(checks: Sequence[Check], b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return shares of checks of near rationalities, [checks, B], and numbers of particles, [B]."""
    rationality, sizes = np.array([(each.rationality, each.weights.size) for each in checks]).T
    near = np.maximum(1.0 - np.abs(np.divide.outer(b, rationality).T - 1.0) / _NEAR, 0.0)
    share = sizes[:, None] * near
    total = share.sum(axis=0)
    return share / np.where(total > 0, total, 1.0), total


def spread_of_fits(checks: Sequence[Check], rationality: float) -> float:
    """Return the standard deviation of soft values between checks of near rationalities.

    Each check follows another fit. It is 0 if there is only one.
    """
    b = np.array([rationality])
    share = _shares(checks, b)[0][:, 0]
    values = np.array([each.values(b)[:, 0].mean() + each.shortfall for each in checks])
    values, share = values[share > 0], share[share > 0]
    count = 1.0 / (share**2).sum()
    variance = (share * (values - share @ values) ** 2).sum() * count / max(count - 1.0, 1e-9)
    return math.sqrt(variance)


def pooled_value(
    checks: Sequence[Check], b: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return soft values at rationalities [B] by all pooled particles of near rationalities.

    The mean weight is unbiased. Return its logarithm (-inf if no rationality is near), its standard
    error, and the effective number of groups. The error is at least that of the spread between
    checks, since groups of one fit may all lack the same trajectories.
    """
    from scipy.special import logsumexp

    pooled = [each for each in checks if each.pooled]
    if not pooled:
        return np.full(len(b), -math.inf), np.full(len(b), math.inf), np.ones(len(b))
    share, total = _shares(pooled, b)
    values = [each.values(b) for each in pooled]
    means = np.array([log_mean_exp(each.T)[0] for each in values])
    mean = np.where(total > 0, logsumexp(means, axis=0, b=share), -math.inf)
    relative = np.exp(np.where(share > 0, means - mean, 0.0))
    checked = 1.0 / np.maximum((share**2).sum(axis=0), 1e-9)  # effective number of checks
    between = (share * (relative - 1.0) ** 2).sum(axis=0) / np.maximum(checked - 1.0, 1.0)
    within, groups = np.zeros((2, len(b)))
    for check, logarithms, check_share, check_mean in zip(
        pooled, values, share, relative, strict=True
    ):
        count = len(logarithms)
        weights = np.exp(np.where(check_share > 0, logarithms - mean, 0.0))
        variance = weights.var(axis=0, ddof=min(count - 1, 1))
        variance = np.maximum(variance, check.variance * check_mean**2)
        within += check_share**2 * variance / count
        groups += check_share**2 / count
    error = np.where(total > 0, np.sqrt(np.maximum(within, between)), math.inf)
    return mean, error, 1.0 / np.maximum(groups, 1e-9)


def upper_bounds(
    checks: Sequence[Check], collected: float, b: FloatArray, quantile: float, error: float = 0.0
) -> FloatArray:
    """Return upper bounds of MEG at rationalities [B] of an agent with a mean return.

    They include some standard errors of the checks, and `error` of the mean return.
    """
    from scipy.stats import t as student

    def widened(errors: FloatArray, count: FloatArray | int) -> FloatArray:
        """Return errors that are known from a few values, times a ratio of quantiles."""
        return np.asarray(errors * student.ppf(_TWO, np.maximum(count - 1.0, 1.0)) / 2.0)

    means, errors, count = pooled_value(checks, b)
    # The pool is one estimate, so that it needs a smaller quantile than the best of many.
    errors = np.where(errors < ROUGH, quantile - 1.0, quantile) * widened(errors, count)
    least = means - np.hypot(errors, error * np.abs(b))
    # A few returns may be alike by chance, so the spread of other checks is used as well.
    few = [each for each in checks if len(each.weights) < _FEW]
    spreads = [each.mean_returns.std(ddof=1) for each in few if len(each.weights) > 1]
    for each in checks:
        means, errors = each.along(b)
        errors = widened(errors, len(each.weights))
        if spreads and len(each.weights) < _FEW:
            least_error = np.median(spreads) / math.sqrt(len(each.weights))
            errors = np.maximum(errors, least_error * np.abs(b - each.rationality))
        least = np.maximum(least, means - np.hypot(quantile * errors, error * np.abs(b)))
    return np.asarray(b * collected - least)


# --- Particles ------------------------------------------------------------------------------------
def played_particles(
    simulator: GymnasiumSimulator,
    episodes: list[RunningEpisode],
    size: int,
    values: SoftValues,
    column: int,
    which: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Play groups of particles, in copies of a deterministic environment, by a soft policy.

    Return the logarithms of the weights and the returns of each group, [groups, size], and the
    relative variance of the mean weight of each group.
    """
    assert simulator.recorder is not None
    b, flattened = values.rationalities[column], simulator.recorder.flattened
    nothing = np.zeros(flattened(episodes[0].observation).shape)
    weight, before = np.zeros(len(episodes)), np.zeros(len(episodes))
    total, variance = np.zeros((2, len(episodes) // size))
    groups = np.arange(len(episodes)).reshape(-1, size)
    for t in range(values.horizon):
        ended = np.array([each.ended for each in episodes])
        if ended.all():
            break
        seen = [nothing if each.ended else flattened(each.observation) for each in episodes]
        value, log_ratio, actions = values.policy(np.stack(seen), t, column, generator)
        value = np.where(ended, 0.0, value)
        weight += value - before
        # Resample the groups with uneven weights.
        source = np.arange(len(episodes))
        mean, log_share = log_mean_exp(weight[groups])
        share = np.exp(log_share) / size
        for group in np.flatnonzero((share**2).sum(axis=1) > 2.0 / size):
            rows = groups[group]
            total[group] += mean[group]
            variance[group] += size * share[group].var(ddof=1)
            weight[rows] = 0.0
            # Systematic resampling; particles that are chosen stay where they are.
            points = (np.arange(size) + generator.random()) / size
            chosen = np.minimum(np.searchsorted(np.cumsum(share[group]), points), size - 1)
            counts = np.bincount(chosen, minlength=size)
            lost = rows[counts == 0]
            source[lost] = np.repeat(rows, np.maximum(counts - 1, 0))
            for target in lost:
                episodes[target] = episodes[source[target]].copied()
        before, log_ratio, actions = value[source], log_ratio[source], actions[source]
        noise = generator.gumbel(size=log_ratio.shape)
        for i, k in enumerate((log_ratio + noise).argmax(axis=1).tolist()):
            episode = episodes[i]
            if not episode.ended:
                paid = episode.total[which]
                with caller_guard():
                    decision = simulator.reference.decision(actions[i, k])
                    simulator.step(episode, decision, values.horizon)
                weight[i] += b * (episode.total[which] - paid) - log_ratio[i, k]
    weight -= before
    weights = total[:, None] + weight[groups]
    variance += np.exp(log_mean_exp(weights)[1]).var(axis=1, ddof=1) / size
    returns = np.array([each.total[which] for each in episodes])[groups]
    return weights, returns, variance
