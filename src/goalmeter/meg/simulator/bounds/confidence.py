"""All worlds that a table of outcomes leaves possible, and the best and the worst of them.

For a pair of state and action let p be its distribution over K listed outcomes and "unlisted", n
draws with frequencies f, and q(draws) the probability of the draws under any predictor that is
named in advance. q(draws) / p(draws) is a martingale of mean 1, so by Ville's inequality, but for a
probability of `error`, at every n at once (n adaptive, looked at at will)

    n KL(f || p) <= radius := log 1/error + sum_k n_k log f_k - log q(draws).

Here q is the Dirichlet mixture with 1/2 for each listed outcome and little for "unlisted". What an
expectation can be over all such p is bounded by the weighted inequality of the means: for every
ceiling c that no value exceeds

    c - sum_k p_k v_k >= exp(sum_k f_k log(c - v_k) - KL(f || p)),
    so  E_p v <= c - exp(-radius / n) exp(sum_k f_k log(c - v_k)).

Any c gives a valid bound, so its numerical minimum over c is one too. The set does not depend on
the values: what is worked out with it holds for every utility, rationality and policy at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.meg.simulator.bounds.outcomes import Arrays

_LISTED, _UNLISTED = 0.5, 0.02
# sum over i >= 2 of 1 / (i log(i)^2), rounded up: what the errors of all lists add up to.
_SERIES = 2.11
# Ceilings that are tried: multiples of a first guess, and closer ones of the best of these.
_WIDE, _CLOSE = 3.0 ** np.arange(-3, 4), 1.35 ** np.arange(-3.0, 4.0)


@dataclass(frozen=True)
class ConfidenceSet:
    """Which distributions over outcomes each pair may have, all at once but for `error`.

    Attributes:
        arrays: the table.
        error: probability that the true world is not in the set.
    """

    arrays: Arrays
    error: float

    @cached_property
    def total(self) -> FloatArray:
        """Draws that count, [P]."""
        return np.asarray(self.arrays.counts.sum(axis=1) + self.arrays.unlisted)

    @cached_property
    def frequencies(self) -> FloatArray:
        """Of the listed outcomes, [P, K]; they leave out what was unlisted. 0 without a draw."""
        return np.asarray(self.arrays.counts / np.maximum(self.total, 1.0)[:, None])

    @cached_property
    def unlisted(self) -> FloatArray:
        """The frequency of what was not listed, [P]; 1 without a draw."""
        return np.where(self.total > 0, self.arrays.unlisted / np.maximum(self.total, 1.0), 1.0)

    @cached_property
    def radius(self) -> FloatArray:
        """Bound on KL(f || p) for each pair, [P] nats; 0 for certain ones, inf without a draw."""
        # Not at the top: `import goalmeter` would take a tenth of a second longer.
        from scipy.special import gammaln

        counts, n = self.arrays.counts, self.total
        size = self.arrays.listed * _LISTED + _UNLISTED
        predicted = gammaln(size) - gammaln(size + n)
        # Places that no outcome uses have no counts, and add 0.
        predicted += (gammaln(_LISTED + counts) - gammaln(_LISTED)).sum(axis=1)
        predicted += gammaln(_UNLISTED + self.arrays.unlisted) - gammaln(_UNLISTED)
        fitted = _x_log_share(counts, n[:, None]).sum(axis=1)
        fitted += _x_log_share(self.arrays.unlisted, n)
        rank = self.arrays.order + 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            # Lists are numbered as they begin, so each knows its share before its draws.
            price = np.log(_SERIES * rank * np.log(rank) ** 2 / self.error)
            out = (price + fitted - predicted) / n
        out = np.where(n > 0, out, np.inf)
        return np.where(self.arrays.certain, 0.0, out)

    @cached_property
    def _chance(self) -> IntArray:
        return np.asarray(np.flatnonzero(~self.arrays.certain & (self.total > 0)))

    def mean(self, values: FloatArray, unlisted: float) -> FloatArray:
        """What the frequencies expect of values [P, K], and of a value for the unlisted: [P]."""
        return np.asarray((self.frequencies * values).sum(axis=1) + self.unlisted * unlisted)

    def highest(self, values: FloatArray, unlisted: float) -> FloatArray:
        """Upper bound of the expectation over the set: [P].

        Args:
            values: of the listed outcomes, [P, K], at most `unlisted`.
            unlisted: what no other outcome can exceed.
        """
        out = self.mean(values, unlisted)
        pairs = self._chance
        if pairs.size:
            short = unlisted - values[pairs]
            out[pairs] = unlisted + _least_ceiling(
                np.maximum(short, 0.0),
                self.frequencies[pairs],
                self.unlisted[pairs],
                self.radius[pairs],
            )
        return np.minimum(out, unlisted)

    def lowest(self, values: FloatArray, unlisted: float) -> FloatArray:
        """Lower bound of the expectation over the set: [P]; `unlisted` is below every outcome."""
        return -self.highest(-values, -unlisted)


def _x_log_share(x: FloatArray, total: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, x * np.log(x / np.maximum(total, 1.0)), 0.0)


def _least_ceiling(
    short: FloatArray, frequencies: FloatArray, unlisted: FloatArray, radius: FloatArray
) -> FloatArray:
    """Minimum over z >= 0 of z - exp(-radius) prod_k (z + short_k)^f_k z^f_unlisted: [n].

    `short` [n, K] is how far each value lies below the largest conceivable one.
    """

    def bound(z: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            listed = frequencies[:, None, :] * np.log(z[:, :, None] + short[:, None, :])
            listed = np.where(frequencies[:, None, :] > 0, listed, 0.0).sum(axis=2)
            rest = np.where(unlisted[:, None] > 0, unlisted[:, None] * np.log(z), 0.0)
            return np.asarray(z - np.exp(listed + rest - radius[:, None]))

    # To second order the best ceiling lies so many standard deviations above the mean.
    mean = (frequencies * short).sum(axis=1)
    variance = (frequencies * short**2).sum(axis=1) - mean**2
    far = np.sqrt(np.maximum(variance, 0.0) / (2.0 * radius))
    guess = np.maximum(far - mean, 0.02 * far) + 1e-9 * mean
    z = guess[:, None] * _WIDE
    best = np.take_along_axis(z, bound(z).argmin(axis=1)[:, None], axis=1)
    at_zero = bound(np.zeros_like(best))[:, 0]
    return np.asarray(np.minimum(bound(best * _CLOSE).min(axis=1), at_zero))
