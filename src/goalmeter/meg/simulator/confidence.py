"""Confidence sets of transition models: observed outcomes, plausible models, soft planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.simulator.protocol import END, StepOutcome
from goalmeter.meg.simulator.utilities import Range

# --- Observed outcomes ---------------------------------------------------------------------------
# A pair of state and action either does not draw from the simulator's generator and has a single
# outcome, or has a list of outcomes (next state or end, payoffs) from earlier draws; all others
# are *unlisted*. The list is fixed before the counted draws, because the confidence set needs
# outcomes that are specified in advance. If too many draws are unlisted, the pair is restarted.

# Number of draws for the list of outcomes.
LISTING = 24
# A pair is restarted if at least this number, and more than this share, of draws were unlisted.
_UNLISTED, _UNLISTED_SHARE = 4, 2e-3
_LONGEST = 400  # longer lists contain outcomes that rarely recur, and give no useful bound


@dataclass
class ActionOutcomes:
    """Observed outcomes of one action in one state."""

    certain: bool = False
    listed: list[StepOutcome] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    unlisted: int = 0
    unlisted_seen: set[StepOutcome] = field(default_factory=set)
    order: int = -1
    drawn: int = 0

    @property
    def n(self) -> int:
        """Number of counted draws."""
        return sum(self.counts) + self.unlisted

    def list_outcomes(self, draws: Mapping[StepOutcome, int], certain: bool, order: int) -> None:
        """Fix the list of outcomes."""
        self.drawn += sum(draws.values())
        self.certain = certain and len(draws) == 1
        ranked = sorted(draws, key=lambda outcome: (-draws[outcome], outcome))
        self.listed = ranked[:_LONGEST]
        self.counts, self.unlisted, self.unlisted_seen = [0] * len(self.listed), 0, set()
        self.order = order

    def count(self, draws: Mapping[StepOutcome, int]) -> None:
        """Add counted draws."""
        position = {outcome: i for i, outcome in enumerate(self.listed)}
        for outcome, times in draws.items():
            self.drawn += times
            if outcome in position:
                self.counts[position[outcome]] += times
            else:
                self.unlisted += times
                self.unlisted_seen.add(outcome)

    def restart(self, order: int) -> bool:
        """Extend the list and reset the counts if too many draws were unlisted."""
        often = self.unlisted >= _UNLISTED and self.unlisted > _UNLISTED_SHARE * self.n
        if not often or len(self.listed) + len(self.unlisted_seen) > _LONGEST:
            return False
        self.listed += sorted(self.unlisted_seen)
        self.counts, self.unlisted, self.unlisted_seen = [0] * len(self.listed), 0, set()
        self.order = order
        return True


class OutcomeArrays(NamedTuple):
    """Outcomes of P = S * A pairs (pair s * A + a) with up to K listed outcomes each."""

    after: IntArray  # next state; S for the end and for unused entries, [P, K]
    paid: FloatArray  # payoff of each utility, [P, K, U]
    counts: FloatArray  # counted draws, [P, K]; 1 for a deterministic pair
    unlisted: FloatArray  # counted draws of unlisted outcomes, [P]
    certain: BoolArray  # whether the pair is deterministic, [P]
    listed: IntArray  # number of listed outcomes, [P]
    order: IntArray  # number of the list, [P]; -1 for pairs without draws


class StepOutcomeTable:
    """Outcomes of all pairs drawn so far, for A actions and U utilities."""

    def __init__(self, n_actions: int, n_utilities: int) -> None:
        self.n_actions, self.n_utilities = n_actions, n_utilities
        self.pairs: list[ActionOutcomes] = []
        self._lists = 0

    @property
    def n_states(self) -> int:
        """Number of reached states."""
        return len(self.pairs) // self.n_actions

    def grow(self, n_states: int) -> None:
        """Extend the table to a number of states."""
        while len(self.pairs) < n_states * self.n_actions:
            self.pairs.append(ActionOutcomes())

    def pair(self, state: int, action: int) -> ActionOutcomes:
        """Return the outcomes of an action in a state."""
        return self.pairs[state * self.n_actions + action]

    def add(self, pair: ActionOutcomes, draws: Mapping[StepOutcome, int], certain: bool) -> None:
        """Add draws of a pair: as its list if it has none, otherwise as counts."""
        if not pair.listed:
            pair.list_outcomes(draws, certain, self._lists)
            self._lists += not pair.certain
        elif not pair.certain:
            pair.count(draws)
            self._lists += pair.restart(self._lists)

    def arrays(self) -> OutcomeArrays:
        """Return the table as arrays."""
        width = max([1, *(len(pair.listed) for pair in self.pairs)])
        size = (len(self.pairs), width)
        after = np.full(size, self.n_states, dtype=np.int64)
        paid = np.zeros((*size, self.n_utilities))
        counts = np.zeros(size)
        for i, pair in enumerate(self.pairs):
            for k, outcome in enumerate(pair.listed):
                after[i, k] = outcome.after if outcome.after != END else self.n_states
                paid[i, k] = outcome.paid
            counts[i, : len(pair.listed)] = [1] if pair.certain else pair.counts
        return OutcomeArrays(
            after,
            paid,
            counts,
            np.array([pair.unlisted for pair in self.pairs], dtype=np.float64),
            np.array([pair.certain for pair in self.pairs], dtype=np.bool_),
            np.array([len(pair.listed) for pair in self.pairs], dtype=np.int64),
            np.array([pair.order for pair in self.pairs], dtype=np.int64),
        )


# --- Confidence set -----------------------------------------------------------------------------
# Let p be the distribution of a pair over its outcomes, f the frequencies of n draws, and q(draws)
# their probability under a predictor fixed in advance (the Dirichlet mixture with 1/2 for each
# listed outcome). Except with probability `error`, for every n at once (derived in
# `docs/mathematics.md`),
#
#     n KL(f || p) <= radius := log 1/error + sum_k n_k log f_k - log q(draws),
#     E_p v <= c - exp(-radius / n) exp(sum_k f_k log(c - v_k))    for every c >= all v_k,
#
# so any c found numerically gives a bound for every utility, rationality and policy at once.

_LISTED, _CONFIDENCE_UNLISTED = 0.5, 0.02
# Sum over i >= 2 of 1 / (i log(i)^2), rounded up: the total of the errors of all lists.
SERIES = 2.11
# Ceilings to try: multiples of an initial guess, then finer multiples of the best one.
_WIDE, _CLOSE = 3.0 ** np.arange(-3, 4), 1.35 ** np.arange(-3.0, 4.0)


@dataclass(frozen=True)
class ConfidenceSet:
    """Plausible distributions over outcomes of all pairs, valid together with error `error`."""

    arrays: OutcomeArrays
    error: float

    @cached_property
    def total(self) -> FloatArray:
        """Number of counted draws, [P]."""
        return np.asarray(self.arrays.counts.sum(axis=1) + self.arrays.unlisted)

    @cached_property
    def frequencies(self) -> FloatArray:
        """Frequencies of the listed outcomes, [P, K]; 0 without draws."""
        return np.asarray(self.arrays.counts / np.maximum(self.total, 1.0)[:, None])

    @cached_property
    def unlisted(self) -> FloatArray:
        """Frequency of unlisted outcomes, [P]; 1 without draws."""
        return np.where(self.total > 0, self.arrays.unlisted / np.maximum(self.total, 1.0), 1.0)

    @cached_property
    def radius(self) -> FloatArray:
        """Bound on KL(f || p), [P] nats; 0 for deterministic pairs, inf without draws."""
        # A module-level import would make `import goalmeter` slower by 0.1 s.
        from scipy.special import gammaln

        counts, n = self.arrays.counts, self.total
        size = self.arrays.listed * _LISTED + _CONFIDENCE_UNLISTED
        predicted = gammaln(size) - gammaln(size + n)
        # Unused entries have no counts and add 0.
        predicted += (gammaln(_LISTED + counts) - gammaln(_LISTED)).sum(axis=1)
        predicted += gammaln(_CONFIDENCE_UNLISTED + self.arrays.unlisted) - gammaln(
            _CONFIDENCE_UNLISTED
        )
        fitted = _x_log_share(counts, n[:, None]).sum(axis=1)
        fitted += _x_log_share(self.arrays.unlisted, n)
        rank = self.arrays.order + 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            # Lists are numbered when they begin, so the share of each is fixed before its draws.
            price = np.log(SERIES * rank * np.log(rank) ** 2 / self.error)
            out = (price + fitted - predicted) / n
        out = np.where(n > 0, out, np.inf)
        return np.where(self.arrays.certain, 0.0, out)

    @cached_property
    def _random_pairs(self) -> IntArray:
        return np.asarray(np.flatnonzero(~self.arrays.certain & (self.total > 0)))

    def mean(self, values: FloatArray, unlisted: float) -> FloatArray:
        """Return the mean of values [P, K], and one of unlisted outcomes, by frequencies, [P]."""
        return np.asarray((self.frequencies * values).sum(axis=1) + self.unlisted * unlisted)

    def highest(self, values: FloatArray, unlisted: float) -> FloatArray:
        """Return an upper bound of the expectation over the set, [P]; `unlisted` bounds values."""
        out = self.mean(values, unlisted)
        pairs = self._random_pairs
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
        """Return a lower bound of the expectation over the set, [P]; `unlisted` bounds values."""
        return -self.highest(-values, -unlisted)


def _x_log_share(x: FloatArray, total: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, x * np.log(x / np.maximum(total, 1.0)), 0.0)


def _least_ceiling(
    short: FloatArray, frequencies: FloatArray, unlisted: FloatArray, radius: FloatArray
) -> FloatArray:
    """Return min over z >= 0 of z - exp(-radius) prod_k (z + short_k)^f_k z^f_unlisted, [n]."""
    # `short` [n, K] is the difference of each value to the largest conceivable one.

    def bound(z: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            listed = frequencies[:, None, :] * np.log(z[:, :, None] + short[:, None, :])
            listed = np.where(frequencies[:, None, :] > 0, listed, 0.0).sum(axis=2)
            rest = np.where(unlisted[:, None] > 0, unlisted[:, None] * np.log(z), 0.0)
            return np.asarray(z - np.exp(listed + rest - radius[:, None]))

    # To second order, this is the distance of the best ceiling above the mean.
    mean = (frequencies * short).sum(axis=1)
    variance = (frequencies * short**2).sum(axis=1) - mean**2
    far = np.sqrt(np.maximum(variance, 0.0) / (2.0 * radius))
    guess = np.maximum(far - mean, 0.02 * far) + 1e-9 * mean
    z = guess[:, None] * _WIDE
    best = np.take_along_axis(z, bound(z).argmin(axis=1)[:, None], axis=1)
    at_zero = bound(np.zeros_like(best))[:, 0]
    return np.asarray(np.minimum(bound(best * _CLOSE).min(axis=1), at_zero))


# --- Possible worlds ----------------------------------------------------------------------------
# With a uniform reference, the soft value of a state is relative to free choice,
#
#     W_t(s) = log 1/A sum_a exp(E[b u + W_{t+1}(s')]),    0 after the last decision or an end,
#
# and MEG at rationality b is b E[sum u] - E W_0(start). W increases with each expectation, so the
# recursion with their upper (lower) bounds over the confidence set bounds W_0 of the true world.

# Kinds of world: as observed, or the most or least favourable plausible one.
AS_SEEN, MOST, LEAST = "as seen", "most", "least"


@dataclass(frozen=True)
class WorldPlan:
    """Soft plan for a set of worlds."""

    value: FloatArray  # W or its bound, [H + 1, S]
    policy: FloatArray  # policy of the plan, [H, S, A]
    # Bound of each pair's expectation minus its mean by frequencies, [H, S * A].
    slack: FloatArray


@dataclass(frozen=True)
class PossibleWorlds:
    """Worlds of a confidence set, with a horizon and the range of each utility, [U]."""

    worlds: ConfidenceSet
    n_actions: int
    horizon: int
    ranges: tuple[Range, ...]

    @property
    def n_states(self) -> int:
        """Number of reached states."""
        return len(self.worlds.arrays.certain) // self.n_actions

    def paid(self, weights: FloatArray) -> FloatArray:
        """Return the payoff of a weighted sum of utilities for each outcome, [P, K]."""
        return np.asarray(self.worlds.arrays.paid @ weights)

    def most(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """Return the maximum of a weighted sum from each decision on, [H + 1], and in one."""
        parts = [r.scaled(w) for r, w in zip(self.ranges, weights, strict=True) if w != 0]
        one = sum(part.high for part in parts)
        remaining = np.arange(self.horizon, -1, -1)
        total = np.zeros(remaining.shape)
        for part in parts:
            # An episode may end at any time, without further payoffs.
            total += np.maximum(np.minimum(part.high * remaining, part.most), 0.0)
        return total, float(one)

    def soft_plan(self, weights: FloatArray, which: str = AS_SEEN) -> WorldPlan:
        """Return the soft-optimal plan for weights [U], which include the rationality."""
        paid = self.paid(weights)
        most, one = self.most(weights)
        least, least_one = self.most(-weights)
        after = self.worlds.arrays.after
        value = np.zeros((self.horizon + 1, self.n_states))
        policy = np.zeros((self.horizon, self.n_states, self.n_actions))
        slack = np.zeros((self.horizon, after.shape[0]))
        for t in reversed(range(self.horizon)):
            worth = paid + np.append(value[t + 1], 0.0)[after]
            high = one + most[t + 1]
            low = -(least_one + least[t + 1])
            if which == LEAST:
                q = self.worlds.lowest(worth, low)
            elif which == MOST:
                # Listed outcomes cannot exceed the conceivable maximum.
                q = self.worlds.highest(np.minimum(worth, high), high)
                slack[t] = q - self.worlds.mean(worth, high)
            else:
                # A pair without draws is treated like free choice.
                q = self.worlds.mean(worth, 0.0)
            choice = q.reshape(self.n_states, self.n_actions)
            best = choice.max(axis=1)
            soft = best + np.log(np.exp(choice - best[:, None]).sum(axis=1))
            policy[t] = np.exp(choice - soft[:, None])
            value[t] = soft - np.log(self.n_actions)
            if which != AS_SEEN:
                value[t] = np.clip(value[t], -least[t], most[t])
        return WorldPlan(value, policy, slack)

    def evaluate(
        self, policy: FloatArray, weights: FloatArray, which: str, cost: FloatArray | None = None
    ) -> FloatArray:
        """Return a bound of a policy's [H or 1, S, A] return plus `cost`, for weights [U], [S]."""
        paid = self.paid(weights)
        most, one = self.most(weights)
        least, least_one = self.most(-weights)
        ceiling = 0.0 if cost is None else float(cost.max(initial=0.0))
        after = self.worlds.arrays.after
        value = np.zeros(self.n_states)
        for t in reversed(range(self.horizon)):
            worth = paid + np.append(value, 0.0)[after]
            rest = ceiling * (self.horizon - t - 1)
            high, low = one + most[t + 1] + rest, -(least_one + least[t + 1])
            if which == MOST:
                q = self.worlds.highest(np.minimum(worth, high), high)
            elif which == LEAST:
                q = self.worlds.lowest(np.maximum(worth, low), low)
            else:
                q = self.worlds.mean(worth, 0.0)
            chosen = policy[min(t, len(policy) - 1)]
            value = (q.reshape(self.n_states, self.n_actions) * chosen).sum(axis=1)
            if cost is not None:
                value = value + cost[min(t, len(cost) - 1)]
        return value

    def visits(self, plan: WorldPlan, starts: FloatArray) -> FloatArray:
        """Return expected visits of a plan in the observed world, [H, S * A]; starts [S]."""
        after, frequencies = self.worlds.arrays.after, self.worlds.frequencies
        out = np.zeros((self.horizon, after.shape[0]))
        here = starts
        for t in range(self.horizon):
            out[t] = (here[:, None] * plan.policy[t]).ravel()
            flow = out[t][:, None] * frequencies
            come = np.bincount(after.ravel(), flow.ravel(), minlength=self.n_states + 1)
            here = np.asarray(come[: self.n_states], dtype=np.float64)
        return out


# --- Best combination of utilities --------------------------------------------------------------
# MEG of the weights w is w . E_agent[sum u] minus the soft value of w . u, concave in w, with slope
# E_agent[sum u] - E_soft[sum u] (the dual of maximum causal entropy). The weights are fitted to
# episodes that are not used for bounds; MEG towards the best combination is at least that towards
# the fitted one.

# At weights of this size, returns of episodes differ by a thousand nats; larger weights do not
# change any bound.
_FARTHEST = 1e3
_ITERATIONS = 80


def best_weights(worlds: PossibleWorlds, collected: FloatArray, starts: FloatArray) -> FloatArray:
    """Return weights of the utilities, [U], fitted to the agent's mean return `collected` [U]."""
    from scipy.optimize import minimize

    # Units of the maximum return of an episode give all weights a similar size.
    scale = np.array([max(abs(r.low), abs(r.high), 1e-12) for r in worlds.ranges])
    unit = 1.0 / (scale * worlds.horizon)
    paid = (worlds.worlds.frequencies[:, :, None] * worlds.worlds.arrays.paid).sum(axis=1)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        weights = x * unit
        plan = worlds.soft_plan(weights, AS_SEEN)
        soft = worlds.visits(plan, starts).sum(axis=0) @ paid
        value = float(weights @ collected - starts @ plan.value[0])
        return -value, np.asarray(-(collected - soft) * unit)

    bounds = [(-_FARTHEST, _FARTHEST)] * len(unit)
    fit = minimize(
        loss,
        np.zeros(len(unit)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _ITERATIONS},
    )
    return np.asarray(fit.x * unit)
