"""Finite-sample bounds of MEG from counts of outcomes in two independent halves, or from episodes.

Derivation and assumptions: `docs/notes/mathematics.md`. The first half of the draws determines the
sizes of the second and all other choices; nothing is assumed about unobserved outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import betaincinv, entr, softmax

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.counts import AgentRecord, CountTable, Models
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.meg.simulator.utilities import Range
from goalmeter.statistics.intervals import lower_limit, upper_limit

# --- Data -----------------------------------------------------------------------------------------
# Shares of the error: ranges of the probabilities, unlisted outcomes and linear functionals in the
# remainders; the lower end; and of the upper end the height and the slopes of the central line, the
# heights and slopes of the outer lines, and the agent's own entropy (half each: table, episodes).
_BOXES, _UNLISTED, _FUNCTIONALS, _LOWER = 0.05, 0.05, 0.1, 0.3
_HEIGHT, _SLOPE, _OUTER, _ENTROPY = 0.25, 0.05, 0.03, 0.03
_CHAINS = 12  # number of values whose functionals hold together


class Ends(NamedTuple):
    """Interval in nats, and the name of the bound at each end."""

    low: float
    high: float
    low_by: str
    high_by: str


def _poisson(count: float, log_error: float) -> float:
    """Return an upper limit of the mean of a sum of independent variables in [0, 1]."""
    # Chernoff: a sum of mean m is at most x < m with probability exp(x - m + x log(m / x)).
    out = count + log_error + math.sqrt(log_error * (log_error + 2 * count))
    for _ in range(30):
        # From above, these steps decrease towards the solution.
        out = log_error + count + count * math.log(out / (count or 1.0))
    return out


class _World:
    """Estimate from the first half, and limits from the second, in flat arrays.

    The start of an episode is the outcome of one more pair, behind the P others. Entries [E] are
    the outcomes of random pairs [R] that the first half contains; functionals have a weight for
    each entry and for an unlisted outcome of each random pair, [E + R].
    """

    def __init__(
        self,
        halves: tuple[CountTable, CountTable],
        which: int,
        one_start: bool,
        error: float,
        *,
        fresh: bool,
    ) -> None:
        first, second = halves
        self.horizon, self.n_actions, self.n_states = first.horizon, first.n_actions, first.n_states
        n_pairs, certain = len(first.certain), np.append(first.certain, one_start)
        pair, place = np.nonzero(first.counts)
        starts = np.flatnonzero(first.starts)
        after = np.append(first.after[pair, place], starts)
        paid = np.append(first.paid[pair, place, which], np.zeros(len(starts)))
        seen, hits = (
            np.append(part.counts[pair, place], part.starts[starts]) for part in (first, second)
        )
        drawn, total = (np.append(part.total, part.starts.sum()) for part in (first, second))
        pair = np.append(pair, np.full(len(starts), n_pairs))
        # A pair that a half lacks is replaced by one with a single, unlisted outcome.
        self.unsampled = (drawn == 0) | (~certain & (total == 0))
        share = np.where(self.unsampled[pair], 0.0, seen / np.maximum(drawn, 1.0)[pair])
        self.move = csr_matrix((share, (pair, after)), shape=(n_pairs + 1, self.n_states + 1))
        self.paid_mean = np.asarray(np.bincount(pair, share * paid, n_pairs + 1), np.float64)

        random = ~(certain | self.unsampled)[pair]
        self.pair, self.after, self.paid = pair[random], after[random], paid[random]
        self.share, hits = share[random], hits[random]
        self.pairs, self.heads, self.owner = np.unique(
            self.pair, return_index=True, return_inverse=True
        )
        self.n = total[self.pairs]
        hits = hits if fresh else self.share * self.n[self.owner]  # or predicted
        unlisted = np.maximum(self.n - self.sums(hits), 0.0).sum()
        self.frequency = hits / self.n[self.owner]

        # Clopper and Pearson's limits of each probability.
        n_entries, each = max(len(self.pair), 1), self.n[self.owner]
        tail = _BOXES * error / (2 * n_entries)
        with np.errstate(invalid="ignore"):
            low = np.where(hits > 0, betaincinv(hits, each - hits + 1, tail), 0.0)
            high = np.where(hits < each, betaincinv(hits + 1, each - hits, 1 - tail), 1.0)
        self.less, self.more = low - self.share, high - self.share
        self.variance = high / each
        # Except with this error, sum n_j nu_j <= unlisted_mass for the probabilities nu of unlisted
        # outcomes of all pairs j.
        self.unlisted_mass = _poisson(float(unlisted), -math.log(_UNLISTED * error))
        functionals = self.horizon * (n_pairs + self.n_states + 2 * n_entries) + n_entries
        self.union = _FUNCTIONALS * error / (2 * _CHAINS * functionals)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums over the entries of each random pair, [E] to [R]."""
        return np.asarray(np.add.reduceat(values, self.heads))

    def limits(self, weights: FloatArray, error: float) -> FloatArray:
        """Return both bounds of functionals [N, E + R], [2, N]; each holds except with an error."""
        # Bernstein's inequality; the ranges of the probabilities bound the variances.
        level, w = -math.log(error), weights[:, : len(self.pair)]
        span = np.maximum(np.maximum.reduceat(w, self.heads, axis=1), 0.0)
        span -= np.minimum(np.minimum.reduceat(w, self.heads, axis=1), 0.0)
        radius = np.sqrt(2 * level * (w * w) @ self.variance)
        radius += level / 3 * (span / self.n).max(axis=1, initial=0.0)
        centre, rare = w @ self.frequency, self.unlisted_mass / self.n * weights[:, w.shape[1] :]
        low = centre - radius + rare.min(axis=1, initial=0.0)
        return np.stack([low, centre + radius + rare.max(axis=1, initial=0.0)])


# --- Values of the true world ---------------------------------------------------------------------
class _Chain(NamedTuple):
    """Value in the estimate, weights [E + R] of its linear error, and the most that is left."""

    value: float
    weights: FloatArray
    rest: float


def _chain(
    world: _World,
    b: float,
    unlisted: FloatArray,
    policy: FloatArray | None = None,
    price: float = -1.0,
) -> _Chain:
    """Bound from above the value of the start: payoffs times b, plus relative entropy at a price.

    The policy is [T, S, A], by default the soft one. An unlisted outcome of the start or a decision
    ends the episode with the largest conceivable value, [H + 1].
    """
    n_entries, n_random, shape = len(world.pair), len(world.n), (world.n_states, world.n_actions)
    value, rest = np.zeros((2, world.n_states + 1))
    weights = np.zeros((world.n_states + 1, n_entries + n_random))
    for t in reversed(range(-1, world.horizon)):
        mean = np.where(world.unsampled, unlisted[t + 1], b * world.paid_mean + world.move @ value)
        moved, beyond = world.move @ weights, world.move @ rest
        beyond[world.pairs] += _second_order(world, moved[world.pairs], weights, rest)
        # From here on `moved` has the weights of y.
        moved[world.pair, np.arange(n_entries)] += (
            b * world.paid + value[world.after] - mean[world.pair]
        )
        moved[world.pairs, n_entries + np.arange(n_random)] += unlisted[t + 1] - mean[world.pairs]
        if t < 0:
            break
        choice, most = mean[:-1].reshape(shape), beyond[:-1].reshape(shape)
        actions = moved[:-1].reshape(*shape, moved.shape[1])
        chosen = softmax(choice, axis=1) if policy is None else policy[min(t, len(policy) - 1)]
        information = math.log(world.n_actions) - entr(chosen).sum(axis=1)
        value[:-1] = (chosen * choice).sum(axis=1) + price * information
        weights[:-1] = np.einsum("sa,sac->sc", chosen, actions)
        rest[:-1] = (chosen * most).sum(axis=1)
        if policy is None:
            spread = (actions - weights[:-1, None]).reshape(moved[:-1].shape)
            lowest, highest = world.limits(spread, world.union).reshape(2, *shape)
            rest[:-1] = _curved(chosen, lowest, highest, most)
    return _Chain(mean[-1], moved[-1], beyond[-1])


@np.errstate(invalid="ignore")  # bounds may be infinite, and their differences undefined
def _second_order(
    world: _World, means: FloatArray, weights: FloatArray, rest: FloatArray
) -> FloatArray:
    """Bound the error of the expectation of l + r after one decision from above, [R].

    `means` [R, E + R] are the weights of the estimated mean of l; `weights` [S + 1, E + R] those of
    l, and `rest` [S + 1] a bound of r, in each state.
    """
    ends = world.limits(weights[world.after] - means[world.owner], world.union)
    after = rest[world.after]
    middle = world.sums(after * world.share)
    # Errors of probabilities add up to 0, so that a constant may be subtracted. The expectation
    # of r is at most that of its upper bound.
    apart = after - middle[world.owner]
    above = np.maximum(world.less * ends, world.more * ends).max(axis=0)
    above += np.maximum(world.less * apart, world.more * apart)
    rare = np.maximum(-world.limits(means, world.union)[0], 0.0) + np.maximum(-middle, 0.0)
    rare *= np.minimum(world.unlisted_mass / world.n, 1.0)
    return np.asarray(world.sums(above) + rare)


def _curved(policy: FloatArray, low: FloatArray, high: FloatArray, most: FloatArray) -> FloatArray:
    """Bound log E_policy exp(y + z) for y in [low, high] of mean 0 and z <= most, [S, A] each."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        peak = most.max(axis=1, keepdims=True)
        tilted = policy * np.exp(most - peak)
        mass = tilted.sum(axis=1, keepdims=True)
        tilted /= mass
        # exp(y) <= 1 + y + y^2 g(high), g(x) = (exp(x) - 1 - x) / x^2, which increases with x.
        x = np.maximum(high, 1e-3)
        second = (tilted * np.maximum(low**2, high**2) * (np.expm1(x) - x) / x**2).sum(axis=1)
        slope = np.maximum((tilted - policy) * low, (tilted - policy) * high).sum(axis=1)
        return np.asarray(peak[:, 0] + np.log(mass[:, 0]) + np.log1p(slope + second))


# --- Bounds of MEG --------------------------------------------------------------------------------
# For every policy m and every b, MEG at b is at most b (J(agent) - J(m)) + KL(m), a line in b. The
# soft policies of three rationalities of the estimate bound the maximum over b.
_REACH = 1e3  # rationality times the largest return, beyond which a sample bounds nothing
_DIGITS = 1e-10  # relative size of rounding errors
_FACTORS = 0.75 ** np.arange(14)  # of the best rationality, for the lower end
_MARGIN = 2.0  # slopes of the outer lines, in errors of the slope
_LARGE = 4e8  # numbers of a plan beyond which the table of states is not used


class _Problem:
    """Bounds of a utility in one world, for a policy or returns [N]."""

    def __init__(
        self, world: _World, known: Range, policy: FloatArray | None, returns: FloatArray
    ) -> None:
        self.world, self.returns, left = world, returns, np.arange(world.horizon, -1.0, -1.0)
        self.ends = known.of_episode(world.horizon)
        self.scale = max(abs(self.ends[0]), abs(self.ends[1]), 1e-300)
        # Largest conceivable values of an unlisted outcome, of the utility and its negative.
        self._most = {}
        for sign in (1, -1):
            part = known.scaled(sign)
            most = np.clip(part.high * left, 0.0, part.most)
            self._most[sign] = np.append(most[0], np.minimum(part.high + most[1:], part.most))
        self._policy = policy
        signs = () if policy is None else (1, -1)
        self._agents = {sign: self._chain(sign, policy, 0.0) for sign in signs}

    def _chain(self, b: float, policy: FloatArray | None = None, price: float = -1.0) -> _Chain:
        most = abs(b) * self._most[1 if b > 0 else -1]
        return _chain(self.world, b, most, policy, price)

    def _upper(self, factor: float, chain: _Chain, error: float) -> float:
        """Return an upper bound of the agent's return times a factor plus the value of a chain."""
        known, weights = chain.value + chain.rest, chain.weights
        if self._agents:
            agent, size = self._agents[1 if factor > 0 else -1], abs(factor)
            known += size * (agent.value + agent.rest)
            weights = weights + size * agent.weights
        else:
            low, high = sorted(factor * end for end in self.ends)
            error /= 2
            known += upper_limit(factor * self.returns, low=low, high=high, error=error)
        bound = float(known + self.world.limits(weights[None], error)[1, 0])
        return bound if math.isfinite(bound) else math.inf

    def evidence(self, b: float, error: float) -> float:
        """Return a lower bound of MEG at rationality b."""
        return -self._upper(-b, self._chain(b), error)

    def height(self, b: float, policy: FloatArray, error: float) -> float:
        """Return an upper bound of MEG at rationality b, by a policy."""
        return self._upper(b, self._chain(-b, policy, 1.0), error)

    def slope(self, sign: int, policy: FloatArray, error: float) -> float:
        """Return an upper bound of a sign times the agent's return minus that of a policy."""
        slope = self._upper(sign, self._chain(-sign, policy, 0.0), error)
        return slope if abs(slope) > _DIGITS * self.scale else 0.0

    def own_entropy(self, error: float) -> float:
        """Return an upper bound of MEG towards every utility."""
        if self._policy is None:
            return math.inf
        # Nothing predicts an agent better than its own policy.
        most = math.log(self.world.n_actions) * np.arange(self.world.horizon, -1.0, -1.0)
        return self._upper(0.0, _chain(self.world, 0.0, most, self._policy, 1.0), error)


def _highest(height: float, rise: float, drop: float, fall: float, distance: float) -> float:
    """Return the maximum of two bounds of MEG: a line that rises, and one that falls.

    From 0 on the first rises from `height`; only from `distance` on the other one holds, which
    falls from `height + drop`.
    """
    if fall <= 0:
        return math.inf
    return height + rise * max((drop + fall * distance) / (rise + fall), distance, 0.0)


def guaranteed_interval(
    halves: tuple[CountTable, CountTable],
    episodes: Episodes,
    policy: FloatArray | None,
    which: int,
    known: Range,
    *,
    one_start: bool,
    error: float,
) -> Ends:
    """Return an interval that contains MEG towards a utility except with probability `error`.

    The halves are tables of the same outcomes with independent counts; the numbers of draws of the
    second are fixed given the first. The policy is [T, S, A] (T = 1 or H), or None if unknown.
    """
    first, parts = halves[0], parts_of(episodes)
    high, high_by = _entropy_bound(episodes, first.n_actions, first.horizon, _ENTROPY / 2 * error)
    size = np.count_nonzero(first.counts[first.random])
    if first.horizon * (first.n_states + size) * size > _LARGE:
        return Ends(0.0, high, "zero", high_by)
    chosen, fresh = (part.returns[:, which] for part in parts)
    predicted, real = (
        _Problem(_World(halves, which, one_start, error, fresh=new), known, policy, part)
        for new, part in ((False, np.resize(chosen, max(len(fresh), 1))), (True, fresh))
    )
    is_sampled = real.world.heads.size > 0
    largest = _REACH / real.scale if is_sampled else math.inf
    direction = np.eye(first.paid.shape[2])[:, [which]]
    # The estimate of the first half: soft policies [H, S, A], and where MEG has a slope.
    models = Models(first, AgentRecord(policy))
    mean = chosen.mean() if policy is None else models.collected(direction)[0, 0]

    def soft_policy(b: float) -> FloatArray:
        return models.soft_policies(b * models.payoff[:, which])[1][..., 0]

    def rationality(slope: float) -> float:
        best = models.maximise(direction, tolerance=0.0, collected=np.full((1, 1), mean - slope))
        return float(np.clip(best.weights[0, 0], -largest, largest))

    best = rationality(0.0)
    rationalities = best * _FACTORS[: None if best and is_sampled else 1]
    b = max(rationalities, key=lambda b: predicted.evidence(b, _LOWER * error))
    low = max(real.evidence(b, _LOWER * error), 0.0) if b else 0.0
    # The largest of three lines over all rationalities.
    plan, slope, outer = soft_policy(best), _SLOPE * error, _OUTER * error
    height = end = real.height(best, plan, _HEIGHT * error)
    width = (predicted.slope(1, plan, slope) + predicted.slope(-1, plan, slope)) / 2
    for sign in (1, -1):
        rise = real.slope(sign, plan, slope)
        if rise <= 0:
            continue
        place = rationality(-sign * _MARGIN * width)
        other = soft_policy(place)
        drop = real.height(place, other, outer) - height
        fall = -real.slope(sign, other, outer)
        end = max(end, _highest(height, rise, drop, fall, sign * (place - best)))
    for above, name in (
        (end, "the table of states"),
        (real.own_entropy(_ENTROPY / 2 * error), "the agent's own entropy"),
    ):
        if above < high:
            high, high_by = above, name
    return Ends(low, max(high, low), "the table of states" if low > 0 else "zero", high_by)


# --- Bounds from episodes alone -------------------------------------------------------------------
# By Jensen's inequality exp W_0 is at most E[exp(b R)] under free choice, with R the return of an
# episode. Episodes of free choice and the maximum return bound that expectation, which limits the
# bound on MEG to about the logarithm of their number.
# Shares of the error: mean of exp(b R) under free choice, return of the agent, upper bound.
_SOFT, _AGENT, _ABOVE = 0.4, 0.3, 0.3
_FITTED_EVERY = 4  # every fourth episode chooses the rationality; the others are used for bounds
# Rationalities to try, in units of 1 / (range of the return).
_SCALES = 2.0 ** np.arange(-4.0, 12.0)


def bounds_from_start(
    agent: Episodes,
    free: Episodes,
    ranges: Sequence[Range],
    n_actions: int,
    horizon: int,
    error: float,
) -> list[Ends]:
    """Return bounds of MEG towards each utility, which hold together except with `error`.

    `free` are episodes of the reference; `n_actions` is 0 if actions are continuous.
    """
    parts, each = [*zip(parts_of(agent), parts_of(free), strict=True)], error / len(ranges)
    high, high_by = _entropy_bound(agent, n_actions, horizon, _ABOVE * error)
    out = []
    for which, known in enumerate(ranges):
        limits = known.of_episode(horizon)
        scales = _SCALES / max(limits[1] - limits[0], 1e-300)
        choosing, bounding = ([x.returns[:, which] for x in part] for part in parts)
        _, b = max((_lower_from_start(choosing, b, limits, each), b) for b in (*scales, *-scales))
        low = max(_lower_from_start(bounding, b, limits, each), 0.0)
        by = "episodes of the reference" if low > 0 else "zero"
        out.append(Ends(low, max(high, low), by, high_by))
    return out


def parts_of(episodes: Episodes) -> tuple[Episodes, Episodes]:
    """Divide episodes, by number alone, into those for choices and those for bounds."""
    fitted = np.arange(len(episodes.decisions)) % _FITTED_EVERY == 0
    return episodes.subset(fitted), episodes.subset(~fitted)


def _entropy_bound(
    episodes: Episodes, n_actions: int, horizon: int, error: float
) -> tuple[float, str]:
    """Return an upper bound that holds for every utility, and its name."""
    # No model predicts an agent better than the agent itself: MEG is at most the expected sum of
    # log A minus its entropy. Nothing bounds a decision among continuous actions.
    if not n_actions:
        return math.inf, "nothing"
    most, unknown = math.log(n_actions), np.isnan(episodes.information)
    spent = np.where(unknown, most * episodes.decisions, episodes.information)
    limit = upper_limit(spent, low=0, high=horizon * most, error=error)
    return limit, "the ceiling" if unknown.all() else "the agent's own entropy"


def _lower_from_start(
    returns: Sequence[FloatArray], b: float, limits: tuple[float, float], error: float
) -> float:
    """Return a lower limit of E[b R] - log E_free[exp(b R)] in nats, from returns of both."""
    agent, free = returns
    low, high = sorted((b * limits[0], b * limits[1]))
    collected = lower_limit(b * agent, low=low, high=high, error=_AGENT * error)
    expected = upper_limit(
        np.exp(b * free - high), low=math.exp(low - high), high=1.0, error=_SOFT * error
    )
    return collected - high - math.log(expected)
