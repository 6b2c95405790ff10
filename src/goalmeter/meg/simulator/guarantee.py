"""Finite-sample bounds of MEG from counts of outcomes in two independent halves.

Assumptions: the outcomes (next state or end, payoffs) of a pair of state and action are independent
and identically distributed; the first half of the draws determines the sizes of the second and
everything else that is chosen; the payoff of a decision and the total from any state on lie in the
given ranges; pairs that are called certain are deterministic; episodes begin independently from one
distribution; the agent's policy is given, or its episodes are independent. Nothing is assumed about
outcomes that were not observed. The derivation is in `docs/mathematics.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.meg.simulator.utilities import Range
from goalmeter.statistics.intervals import lower_limit, upper_limit

# --- Data ----------------------------------------------------------------------------------------
# Shares of the error: ranges of the probabilities, unlisted outcomes and linear functionals in the
# remainders; the lower end; and of the upper end the height and the slopes of the central line, the
# heights and slopes of the outer lines, and the agent's own entropy.
_BOXES, _UNLISTED, _FUNCTIONALS, _LOWER = 0.05, 0.05, 0.1, 0.3
_HEIGHT, _SLOPE, _OUTER, _ENTROPY = 0.25, 0.05, 0.03, 0.03
_CHAINS = 12  # number of values whose functionals hold together
_VARIANCE, _RARE = 0.15, 0.1  # shares of variance and unlisted outcomes in one linear bound
_LARGE = 4e8  # numbers of a plan beyond which every pair is bounded by itself


@dataclass(frozen=True)
class SplitCounts:
    """Counts of outcomes of P = S * A pairs (pair s * A + a) in two independent halves.

    after [P, K]: next state, S for the end of an episode and for unused entries; paid [P, K, U]:
    payoff of each utility; first, second [P, K]: counts of the halves; certain [P]: whether the
    pair is deterministic; first_starts, second_starts [S]: episodes of each half that began in each
    state; fixed_start: whether all episodes begin in the same state.
    """

    after: IntArray
    paid: FloatArray
    first: FloatArray
    second: FloatArray
    certain: BoolArray
    first_starts: FloatArray
    second_starts: FloatArray
    fixed_start: bool


class Ends(NamedTuple):
    """Interval in nats, and the name of the bound at each end."""

    low: float
    high: float
    low_by: str
    high_by: str
    rationality: float = 0.0  # at which the lower end was proven, if it is above 0


class AgentReturns(NamedTuple):
    """Returns of independent episodes for choices and for bounds, [N, U] each."""

    first: FloatArray
    second: FloatArray


def _poisson(count: float, log_error: float) -> float:
    """Return an upper limit of the mean of a sum of independent variables in [0, 1]."""
    # Chernoff: a sum of mean m is at most x < m with probability exp(x - m + x log(m / x)).
    out = count + log_error + math.sqrt(log_error * (log_error + 2 * count))
    for _ in range(30 if count > 0 else 0):
        # From above, these steps decrease towards the solution.
        out = log_error + count + count * math.log(out / count)
    return out if count > 0 else log_error


class _World:
    """Estimate from the first half, and limits from the second, in flat arrays.

    Entries [E] are the outcomes of random pairs [R] that the first half contains; functionals have
    a weight for each entry and for an unlisted outcome of each random pair, [E + R].
    """

    def __init__(self, counts: SplitCounts, shape: tuple[int, int], error: float, fresh: bool):
        from scipy.sparse import csr_matrix
        from scipy.special import betaincinv

        self.horizon, self.n_actions = shape
        n_pairs = len(counts.certain)
        self.n_states = n_pairs // self.n_actions
        first, second = counts.first, counts.second
        # A pair that a half lacks is replaced by one with a single, unlisted outcome.
        sampled = (first.sum(axis=1) > 0) & (counts.certain | (second.sum(axis=1) >= 2))
        self.unsampled = ~sampled
        share = first / np.maximum(first.sum(axis=1), 1.0)[:, None] * sampled[:, None]
        pair, place = np.nonzero(share)
        entries = (share[pair, place], (pair, counts.after[pair, place]))
        move = csr_matrix(entries, shape=(n_pairs, self.n_states + 1))
        self.move = move[:, : self.n_states]
        self.paid_mean = np.einsum("pk,pku->pu", share, counts.paid)
        self.start_share = counts.first_starts / max(counts.first_starts.sum(), 1.0)

        # The distribution of the start is that of one more pair, behind all others.
        random = ~counts.certain[pair]
        starts = np.flatnonzero(self.start_share) if not counts.fixed_start else np.zeros(0, int)
        self.pair = np.append(pair[random], np.full(len(starts), n_pairs))
        self.after = np.append(counts.after[pair, place][random], starts)
        nothing = np.zeros((len(starts), counts.paid.shape[2]))
        self.paid = np.append(counts.paid[pair, place][random], nothing, axis=0)
        self.share = np.append(share[pair, place][random], self.start_share[starts])
        hits = np.append(second[pair, place][random], counts.second_starts[starts])
        self.pairs, self.heads, self.owner = np.unique(
            self.pair, return_index=True, return_inverse=True
        )
        self.root = bool(len(starts))
        total = np.append(second.sum(axis=1), counts.second_starts.sum())[self.pairs]
        self.few = bool((total < 2).any()) or not counts.first_starts.any()
        self.n = np.maximum(total, 2.0)
        if not fresh:
            # Predict as many unlisted outcomes as were seen once (Good and Turing).
            drawn = np.append(first.sum(axis=1), counts.first_starts.sum())[self.pairs]
            once = np.rint(self.share * drawn[self.owner]) == 1
            hits = self.share * (self.n * (1.0 - self.sums(once * self.share)))[self.owner]
        self.unlisted = np.maximum(self.n - self.sums(hits), 0.0)
        self.frequency = hits / self.n[self.owner]
        self.joint = self.horizon * (self.n_states + len(self.pair)) * len(self.pair) <= _LARGE

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
        self.unlisted_mass = _poisson(float(self.unlisted.sum()), -math.log(_UNLISTED * error))
        functionals = self.horizon * (n_pairs + self.n_states + 2 * n_entries) + n_entries
        self.union = math.log(2 * _CHAINS * functionals / (_FUNCTIONALS * error))

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums over the entries of each random pair, [..., E] to [..., R]."""
        if not self.heads.size:
            return np.zeros((*values.shape[:-1], 0))
        return np.asarray(np.add.reduceat(values, self.heads, axis=-1))

    def span(self, weights: FloatArray) -> FloatArray:
        """Return the ranges of weights [N, E] of each random pair, [N, R]; they include 0."""
        top = np.maximum(np.maximum.reduceat(weights, self.heads, axis=1), 0.0)
        return np.asarray(top - np.minimum(np.minimum.reduceat(weights, self.heads, axis=1), 0.0))

    def limits(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of functionals [N, E + R] that hold for all of all values at once, [N]."""
        # Bernstein's inequality; the ranges of the probabilities bound the variances.
        w, rare = weights[:, : len(self.pair)], weights[:, len(self.pair) :] / self.n
        radius = np.sqrt(2 * self.union * (w * w) @ self.variance)
        radius += self.union / 3 * (self.span(w) / self.n).max(axis=1)
        centre, rare = w @ self.frequency, rare * self.unlisted_mass
        low = centre - radius + rare.min(axis=1, initial=0.0)
        return low, centre + radius + rare.max(axis=1, initial=0.0)

    def upper(self, weights: FloatArray, error: float) -> float:
        """Return an upper limit of one functional [E + R]."""
        # An empirical Bernstein inequality for sums of differently distributed variables.
        rest = 1 - _VARIANCE - _RARE
        level, second, rare = (-math.log(s * error) for s in (rest, _VARIANCE, _RARE))
        w, price = weights[: len(self.pair)], weights[len(self.pair) :] / self.n
        means = self.sums(w * self.frequency)
        variances = np.maximum(self.sums(w * w * self.frequency) - means**2, 0.0) / (self.n - 1)
        largest = float((self.span(w[None])[0] / np.sqrt(self.n * (self.n - 1))).max())
        half = largest**2 * second / 2
        deviation = math.sqrt(float(variances.sum()) + half) + math.sqrt(half)
        most, price = float(price.max()), np.maximum(price, 0.0)
        total = means.sum() + deviation * math.sqrt(2 * level) + largest * level / 3
        if most > 0:
            total += most * _poisson(float(price @ self.unlisted) / most, rare)
        return float(total)


# --- Plans ---------------------------------------------------------------------------------------


class _Task(NamedTuple):
    """Payoffs in nats, by pair [P] and by entry [E], and their conceivable values."""

    mean: FloatArray
    entry: FloatArray
    most: FloatArray  # the largest and least sums from each decision on, [H + 1]
    least: FloatArray
    ends: tuple[float, float]  # of one decision
    totals: tuple[float, float]  # from any state on


def _task(world: _World, ranges: Sequence[Range], weights: FloatArray) -> _Task:
    """Return the payoffs of a weighted sum of utilities, [U]."""
    parts = [r.scaled(float(w)) for r, w in zip(ranges, weights, strict=True) if w != 0]
    remaining = np.arange(world.horizon, -1, -1)
    most, least = np.zeros(world.horizon + 1), np.zeros(world.horizon + 1)
    for part in parts:
        most += np.maximum(np.minimum(part.high * remaining, part.most), 0.0)
        least += np.minimum(np.maximum(part.low * remaining, part.least), 0.0)
    ends = sum(part.low for part in parts), sum(part.high for part in parts)
    totals = sum(part.least for part in parts), sum(part.most for part in parts)
    return _Task(world.paid_mean @ weights, world.paid @ weights, most, least, ends, totals)


class _Plan(NamedTuple):
    """Values [H + 1, S + 1], policy [H, S, A], values of unlisted outcomes [H], value of start."""

    value: FloatArray
    policy: FloatArray
    unlisted: FloatArray
    start: float


def _plan(
    world: _World,
    task: _Task,
    side: int,
    given: FloatArray | None = None,
    cost: FloatArray | None = None,
) -> _Plan:
    """Plan in the estimate, softly or by a given policy [T, S, A] minus a cost [H, S].

    An unlisted outcome ends the episode with the largest (side 1) or least (side -1) conceivable
    value, so that the values of the true world are at most (at least) those of this one.
    """
    value = np.zeros((world.horizon + 1, world.n_states + 1))
    policy = np.zeros((world.horizon, world.n_states, world.n_actions))
    unlisted = np.zeros(world.horizon)
    for t in reversed(range(world.horizon)):
        if side > 0:
            unlisted[t] = min(task.ends[1] + task.most[t + 1], task.totals[1])
        elif side < 0:
            unlisted[t] = max(task.ends[0] + task.least[t + 1], task.totals[0])
        q = task.mean + world.move @ value[t + 1, :-1]
        q[world.unsampled] = unlisted[t]
        choice = q.reshape(world.n_states, world.n_actions)
        if given is None:
            best = choice.max(axis=1)
            soft = best + np.log(np.exp(choice - best[:, None]).sum(axis=1))
            policy[t] = np.exp(choice - soft[:, None])
            value[t, :-1] = soft - math.log(world.n_actions)
        else:
            policy[t] = given[min(t, len(given) - 1)]
            value[t, :-1] = (policy[t] * choice).sum(axis=1)
        if cost is not None:
            value[t, :-1] -= cost[t]
    return _Plan(value, policy, unlisted, float(world.start_share @ value[0, :-1]))


# --- Values of the true world --------------------------------------------------------------------


class _Chain(NamedTuple):
    """Value in the estimate, weights [E + R] of its linear error, and bounds of the remainder."""

    value: float
    weights: FloatArray
    low: float
    high: float

    def scaled(self, factor: float) -> _Chain:
        """Return the chain of a multiple of the value."""
        low, high = sorted((factor * self.low, factor * self.high))
        return _Chain(factor * self.value, factor * self.weights, low, high)


def _chain(
    world: _World,
    task: _Task,
    side: int,
    given: FloatArray | None = None,
    cost: FloatArray | None = None,
) -> _Chain:
    """Bound the value of the start: that of a policy, or the soft value (see `_plan`)."""
    plan, n_entries, n_random = _plan(world, task, side, given, cost), len(world.pair), len(world.n)
    width = n_entries + n_random
    if not n_random or world.few:
        doubt = math.inf if world.few else 0.0
        return _Chain(plan.start, np.zeros(width), -doubt, doubt)
    value, inner = plan.value, np.flatnonzero(world.pair < len(task.mean))
    pairs = world.pairs[: n_random - world.root]
    weights = np.zeros((world.n_states + 1, width if world.joint else 0))
    low, high = np.zeros(world.n_states + 1), np.zeros(world.n_states + 1)
    shape = (world.n_states, world.n_actions)
    top = bottom = 0.0
    for t in reversed(range(world.horizon)):
        chosen = plan.policy[t]
        q, rest = (task.entry + value[t + 1][world.after])[inner], float(plan.unlisted[t])
        if inner.size:
            rest = side * max(side * rest, float((side * q).max()))
        mean = (task.mean + world.move @ value[t + 1, :-1])[pairs]
        gain, rare = q - mean[world.owner[inner]], rest - mean
        moved = world.move @ weights[:-1]
        least, most = world.move @ low[:-1], world.move @ high[:-1]
        if pairs.size:
            known = None if world.joint else np.append(gain, rare)
            products = _products(
                world, moved[pairs], (weights, low, high), slice(len(pairs)), known
            )
            least[pairs] += products[0]
            most[pairs] += products[1]
        span, linear = (np.zeros((2, len(moved))), np.zeros((2, world.n_states)))
        if world.joint:
            # From here on `moved` has the weights of y.
            moved[world.pair[inner], inner] += gain
            moved[pairs, n_entries + np.arange(len(pairs))] += rare
            weights[:-1] = np.einsum("sa,sac->sc", chosen, moved.reshape(*shape, width))
            linear = np.array(world.limits(weights[:-1]))
            if given is None:
                spread = moved.reshape(*shape, width) - weights[:-1, None]
                span = np.array(world.limits(spread.reshape(-1, width)))
        low[:-1] = (chosen * least.reshape(shape)).sum(axis=1)
        high[:-1] = (chosen * most.reshape(shape)).sum(axis=1)
        if given is None:
            high[:-1] = _curved(chosen, *(x.reshape(shape) for x in (*span, most)))
        # The remainder cannot exceed what the values of all worlds allow.
        price = 0.0 if cost is None else float(cost[t].max())
        top = max(rest, task.ends[1] + max(top, 0.0), 0.0)
        bottom = min(rest, task.ends[0] + min(bottom, 0.0), 0.0) - price
        high[:-1] = np.fmin(high[:-1], top - value[t, :-1] - linear[0])
        low[:-1] = np.fmax(low[:-1], bottom - value[t, :-1] - linear[1])
    first = world.start_share @ weights[:-1] if world.joint else np.zeros(width)
    remainder = world.start_share @ np.stack([low[:-1], high[:-1]], axis=1)
    if world.root:
        own = world.owner == n_random - 1
        gain = value[0][world.after[own]] - plan.start
        # An episode can begin in a state of the greatest conceivable value.
        extreme = float((task.most if side > 0 else task.least)[0]) - plan.start
        rare = np.array([side * max(side * extreme, float((side * gain).max()))])
        known = None if world.joint else np.append(gain, rare)
        last = slice(n_random - 1, n_random)
        means = first[None, : weights.shape[1]]
        products = _products(world, means, (weights, low, high), last, known)
        remainder = remainder + np.array(products)[:, 0]
        if world.joint:
            first[:n_entries][own] += gain
            first[-1] += rare[0]
    return _Chain(plan.start, first, float(remainder[0]), float(remainder[1]))


def _products(
    world: _World,
    means: FloatArray,
    after: tuple[FloatArray, FloatArray, FloatArray],
    which: slice,
    known: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Bound the error of the expectation of l + r after one decision, for some random pairs.

    `means` [R', E + R] are the weights of the estimated mean of l, `after` those of l and bounds of
    r in each state; `known` has the gains of the entries and of unlisted outcomes if l is left out.
    """
    weights, low, high = after
    indices = np.arange(len(world.pairs))[which]
    chosen = np.flatnonzero((world.owner >= indices[0]) & (world.owner <= indices[-1]))
    owner, state, share = world.owner[chosen] - indices[0], world.after[chosen], world.share[chosen]
    heads = world.heads[indices] - chosen[0]
    less, more = world.less[chosen], world.more[chosen]
    mass = np.minimum(world.unlisted_mass / world.n[indices], 1.0)
    if known is None:
        ends = np.array(world.limits(weights[state] - means[owner]))
        gone = -np.array(world.limits(means))[::-1]
    else:
        ends, gone = np.tile(known[: len(chosen)], (2, 1)), np.tile(known[len(chosen) :], (2, 1))
    out = []
    for sign, bound in ((-1, low), (1, high)):
        # Errors of probabilities add up to 0, so that a constant may be subtracted. The expectation
        # of r is at most that of its upper bound.
        middle = np.add.reduceat(bound[state] * share, heads)
        rest = sign * (bound[state] - middle[owner])
        corners = sign * np.stack([less * ends[0], less * ends[1], more * ends[0], more * ends[1]])
        above = corners.max(axis=0) + np.maximum(less * rest, more * rest)
        rare = np.maximum((sign * gone).max(axis=0), 0.0) + np.maximum(-sign * middle, 0.0)
        out.append(sign * (np.add.reduceat(above, heads) + mass * rare))
    return out[0], out[1]


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
        fine = np.log(mass[:, 0]) + np.log1p(slope + second)
        crude = np.log((policy * np.exp(high + most - peak)).sum(axis=1))
        return np.asarray(peak[:, 0] + np.fmin(fine, crude))


# --- Bounds of MEG -------------------------------------------------------------------------------
# For every policy m and every b, MEG at b is at most b (J(agent) - J(m)) + KL(m), a line in b. The
# soft policies of three rationalities of the estimate bound the maximum over b.

_LARGEST = 1e8  # rationality times the largest return, beyond which nothing changes to 1e-6 nats
_REACH = 1e3  # the same where a sample limits what can be bounded
_DIGITS, _ROUGH = 1e-12, 1e-4  # relative size of rounding errors; accuracy of rationalities
# Halvings of the rationality for the lower end, and factors that are tried afterwards.
_HALVINGS, _NEAR = 8, (0.75, 1.4)
# Slopes of the outer lines that are tried, and their least predicted bound, in errors of the slope.
_MARGINS, _SPARE = (1.6, 1.8, 2.1, 2.5, 3.2, 4.5), 0.6


class _Line(NamedTuple):
    """Bound of MEG at a rationality, and of its slope below and above it."""

    place: float
    height: float
    below: float
    above: float


def _summit(lines: Sequence[_Line]) -> float:
    """Return the maximum over all b of the minimum of lines; inf if there is none."""
    rights = [(x.above, x.height - x.above * x.place) for x in lines if math.isfinite(x.above)]
    lefts = [(x.below, x.height - x.below * x.place) for x in lines if math.isfinite(x.below)]
    if min((a for a, _ in rights), default=1.0) > 0 or max((a for a, _ in lefts), default=-1) < 0:
        return math.inf
    every = rights + lefts
    places = [x.place for x in lines]
    places += [(k - h) / (a - c) for a, h in every for c, k in every if a != c]

    def least(b: float) -> float:
        sides = [(x, x.above if b > x.place else x.below) for x in lines]
        return min(x.height + (a * (b - x.place) if b != x.place else 0.0) for x, a in sides)

    return max(map(least, places))


def _relative_entropy(policy: FloatArray) -> FloatArray:
    """Return log A minus the entropy of each row of a policy, [..., A]."""
    logs = np.log(np.where(policy > 0, policy, 1.0))
    return np.asarray(np.maximum(math.log(policy.shape[-1]) + (policy * logs).sum(axis=-1), 0.0))


class _Problem:
    """Bounds of one utility, weights [U], in one world."""

    def __init__(
        self,
        world: _World,
        ranges: Sequence[Range],
        agent: FloatArray | AgentReturns,
        weights: FloatArray,
    ) -> None:
        self.world, self.ranges, self.agent, self.weights = world, ranges, agent, weights
        used = zip(ranges, weights, strict=True)
        ends = [r.scaled(float(w)).of_episode(world.horizon) for r, w in used if w]
        self.ends = sum(low for low, _ in ends), sum(high for _, high in ends)
        self.scale = max(abs(self.ends[0]), abs(self.ends[1]), 1e-300)
        self.task = self.payoffs(1.0)
        self.agents: dict[int, _Chain] = {}
        if isinstance(agent, AgentReturns):
            self.collected = float((agent.first @ weights).mean())
        else:
            self.collected = _plan(world, self.task, 0, agent).start

    def payoffs(self, b: float) -> _Task:
        """Return the payoffs times a rationality."""
        return _task(self.world, self.ranges, b * self.weights)

    def upper(self, factor: float, others: Sequence[_Chain], error: float) -> float:
        """Return an upper bound of the agent's return times a factor plus the values of chains."""
        known, chains = 0.0, list(others)
        if isinstance(self.agent, AgentReturns):
            low, high = sorted(factor * end for end in self.ends)
            error /= 2
            values = factor * (self.agent.second @ self.weights)
            known = upper_limit(values, low=low, high=high, error=error)
        elif factor:
            side = 1 if factor > 0 else -1
            if side not in self.agents:
                self.agents[side] = _chain(self.world, self.task, side, self.agent)
            chains.append(self.agents[side].scaled(factor))
        known += sum(chain.value + chain.high for chain in chains)
        if not self.world.heads.size or not math.isfinite(known):
            return known
        return known + self.world.upper(np.sum([x.weights for x in chains], axis=0), error)

    def evidence(self, b: float, error: float) -> float:
        """Return a lower bound of MEG at rationality b."""
        return -self.upper(-b, [_chain(self.world, self.payoffs(b), 1)], error)

    def line(self, b: float, errors: tuple[float, float, float]) -> _Line:
        """Return the bound of MEG by the soft policy of rationality b."""
        height, below, above = errors
        policy = _plan(self.world, self.payoffs(b), 0).policy
        high, less, more = math.inf, -math.inf, math.inf
        if height:
            gain = _chain(self.world, self.payoffs(b), -1, policy, _relative_entropy(policy))
            high = self.upper(b, [gain.scaled(-1.0)], height)
        if above:
            own = _chain(self.world, self.task, -1, policy)
            more = self.exact(self.upper(1.0, [own.scaled(-1.0)], above))
        if below:
            less = -self.exact(self.upper(-1.0, [_chain(self.world, self.task, 1, policy)], below))
        return _Line(b, high, less, more)

    def own_entropy(self, error: float) -> float:
        """Return an upper bound of MEG towards every utility."""
        most = math.log(self.world.n_actions)
        if isinstance(self.agent, AgentReturns):
            return self.world.horizon * most
        policy = np.broadcast_to(self.agent, (self.world.horizon, *self.agent.shape[1:]))
        least = -most * np.arange(self.world.horizon, -1.0, -1.0)
        zeros = np.zeros(len(self.task.mean)), np.zeros(len(self.task.entry))
        task = _Task(*zeros, np.zeros(len(least)), least, (0.0, 0.0), (-math.inf, 0.0))
        spent = _chain(self.world, task, -1, policy, _relative_entropy(policy)).scaled(-1.0)
        return self.upper(0.0, [spent], error)

    def exact(self, slope: float) -> float:
        """Return a slope, or 0 if it is a rounding error."""
        return 0.0 if abs(slope) <= _DIGITS * self.scale else slope

    def solve(self, target: float) -> float:
        """Return the rationality at which the slope of MEG of the estimate is `target`."""
        from scipy.optimize import brentq

        def excess(b: float) -> float:
            policy = _plan(self.world, self.payoffs(b), 0).policy
            back = _plan(self.world, self.task, 0, policy).start
            return self.exact(self.collected - back - target)

        here = excess(0.0)
        sign, b = math.copysign(1.0, here), 0.1 / self.scale
        largest = (_REACH if self.world.heads.size else _LARGEST) / self.scale
        while here and sign * excess(sign * b) > 0:
            b *= 2
            if b > largest:
                return sign * largest
        digits = _ROUGH if self.world.heads.size else _DIGITS
        root = brentq(lambda x: excess(sign * x), 0.0, b, rtol=digits) if here else 0.0
        return sign * float(root)


def _lower_rationality(plans: _Problem, best: float, error: float) -> float:
    """Return the rationality of the largest predicted lower bound."""
    if not best or not plans.world.heads.size:
        return best
    b, predicted = best, plans.evidence(best, error)
    for _ in range(_HALVINGS):
        other = plans.evidence(b / 2, error)
        if other < predicted and predicted > 0:
            break
        b, predicted = b / 2, other
    values = {b: predicted}
    for factor in _NEAR if predicted > 0 else ():
        values[factor * b] = plans.evidence(factor * b, error)
    return max(values, key=lambda b: values[b])


def _upper_end(plans: _Problem, real: _Problem, best: float, error: float) -> float:
    """Return an upper bound of MEG over all rationalities."""
    slope, outer = _SLOPE * error, _OUTER * error
    lines = [real.line(best, (_HEIGHT * error, slope, slope))]
    central = plans.line(best, (0.0, slope, slope))
    width = (central.above - central.below) / 2
    for sign in (1, -1):
        errors = (outer, 0.0, outer) if sign > 0 else (outer, outer, 0.0)
        for margin in _MARGINS if 0 < width < math.inf else ():
            place = plans.solve(-sign * margin * width)
            guess = plans.line(place, (0.0, *errors[1:]))
            slope = guess.above if sign > 0 else -guess.below
            if sign * (place - best) > 0 and slope < -_SPARE * width:
                lines.append(real.line(place, errors))
                break
    return _summit(lines)


def guaranteed_interval(
    counts: SplitCounts,
    ranges: Sequence[Range],
    agent: FloatArray | AgentReturns,
    weights: FloatArray,
    shape: tuple[int, int],
    *,
    level: float,
) -> Ends:
    """Return an interval that contains MEG with at least the probability `level`.

    Args:
        counts: two independent halves of draws; sizes of the second are fixed given the first.
        ranges: range of each utility, [U].
        agent: policy [T, S, A] (T = 1 or H), or returns of episodes.
        weights: weight of each utility, [U].
        shape: horizon H and number of actions A.
        level: probability of the interval.
    """
    error = 1.0 - level
    plans, real = (
        _Problem(_World(counts, shape, error, fresh), ranges, agent, weights)
        for fresh in (False, True)
    )
    best = plans.solve(0.0)
    b = _lower_rationality(plans, best, _LOWER * error)
    low = max(real.evidence(b, _LOWER * error), 0.0) if b else 0.0
    ends = {
        "the table of states": _upper_end(plans, real, best, error),
        "the agent's own entropy": real.own_entropy(_ENTROPY * error),
        "the ceiling": shape[0] * math.log(shape[1]),
    }
    by = min(ends, key=lambda name: math.inf if math.isnan(ends[name]) else ends[name])
    return Ends(low, max(ends[by], low), "the table of states" if low > 0 else "zero", by)


# --- Bounds from episodes alone -------------------------------------------------------------------
# By Jensen's inequality exp W_0 is at most E[exp(b R)] under free choice, with R the return of an
# episode. Episodes of free choice and the maximum return bound that expectation; the sample mean is
# not a bound. An event that n episodes did not show may have a probability of about 9 / n, which
# limits the bound on MEG to log n: no method with only `reset` and `step` exceeds this by much
# (docs/mathematics.md).

# Shares of the error: mean of exp(b R) under free choice, return of the agent, upper bound.
_SOFT, _AGENT, _ABOVE = 0.4, 0.3, 0.3
_FITTED_EVERY = 4  # every fourth episode chooses the rationality; the others are used for bounds
# Rationalities to try, in units of 1 / (range of the return).
_SCALES = 2.0 ** np.arange(-4.0, 12.0)


def bounds_from_start(
    agent: Episodes,
    free: Episodes,
    ranges: Sequence[Range],
    most_information: float,
    horizon: int,
    error: float,
) -> list[Ends]:
    """Return bounds of MEG towards each utility, which hold together except with `error`.

    Args:
        agent: episodes of the agent.
        free: episodes of the reference (free choice).
        ranges: range of each utility, [U].
        most_information: maximum relative entropy of a decision to the reference, in nats.
        horizon: number of decisions of an episode.
        error: probability that any of the bounds is wrong.
    """
    fitted, fresh = parts_of(agent)
    seen, unseen = parts_of(free)
    each = error / len(ranges)
    high, high_by = _entropy_bound(fresh, most_information, horizon, _ABOVE * error)
    out = []
    for which, known in enumerate(ranges):
        limits = known.of_episode(horizon)
        scale = max(limits[1] - limits[0], 1e-300)
        choosing = fitted.returns[:, which], seen.returns[:, which]
        bounding = fresh.returns[:, which], unseen.returns[:, which]
        _, b = max(
            (_lower_from_start(choosing, sign * size / scale, limits, each), sign * size / scale)
            for size in _SCALES
            for sign in (1.0, -1.0)
        )
        low = max(_lower_from_start(bounding, b, limits, each), 0.0)
        by = "episodes of the reference" if low > 0 else "zero"
        out.append(Ends(low, max(high, low), by, high_by, b if low > 0 else 0.0))
    return out


def parts_of(episodes: Episodes) -> tuple[Episodes, Episodes]:
    """Divide episodes, by number alone, into those for choices and those for bounds."""
    fitted = np.arange(len(episodes.decisions)) % _FITTED_EVERY == 0
    return episodes.subset(fitted), episodes.subset(~fitted)


def _entropy_bound(fresh: Episodes, most: float, horizon: int, error: float) -> tuple[float, str]:
    """Return an upper bound that holds for every utility, and its name."""
    # No model predicts an agent better than the agent itself: MEG is at most the expected sum of
    # log A minus its entropy (for continuous actions, of the relative entropy to the reference).
    if math.isinf(most):
        return math.inf, "nothing"
    ceiling = most * upper_limit(fresh.decisions, low=0, high=horizon, error=error / 2)
    if np.isnan(fresh.information).any():
        return ceiling, "the ceiling"
    entropy = upper_limit(fresh.information, low=0, high=horizon * most, error=error / 2)
    return (entropy, "the agent's own entropy") if entropy < ceiling else (ceiling, "the ceiling")


def _lower_from_start(
    returns: tuple[FloatArray, FloatArray], b: float, limits: tuple[float, float], error: float
) -> float:
    """Return a lower limit of E[b R] - log E_free[exp(b R)] in nats, from returns of both."""
    agent, free = returns
    low, high = sorted((b * limits[0], b * limits[1]))
    collected = lower_limit(b * agent, low=low, high=high, error=_AGENT * error)
    expected = upper_limit(
        np.exp(b * free - high), low=math.exp(low - high), high=1.0, error=_SOFT * error
    )
    return collected - high - math.log(expected)
