"""Confidence bounds for one utility, from plausible models and episodes; paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.confidence import AS_SEEN, LEAST, MOST, PossibleWorlds, WorldPlan
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.meg.simulator.start_bounds import Ends, entropies, largest_concave
from goalmeter.statistics.intervals import lower_limit, upper_limit

# --- Upper bounds by lines -----------------------------------------------------------------------
# For every policy m and every b the soft value is at least b E_m[sum u] - KL(m), with KL(m) the
# relative entropy of its decisions to free choice. So MEG at b is at most the line b (E_agent[sum
# u] - E_m[sum u]) + KL(m), and the maximum over b is at most that of the minimum of the lines. A
# line is (slope, height) in nats.

_LEVEL = 1e-12  # slopes below this share of the utility's scale are rounding errors


def highest(lines: list[tuple[float, float]], scale: float = 1.0) -> float:
    """Return the maximum over b >= 0 of the minimum of lines; inf if all rise."""
    level = [(0.0 if abs(a) <= _LEVEL * scale else a, k) for a, k in lines]
    if all(slope > 0 for slope, _ in level):
        return math.inf

    def lowest(b: float) -> float:
        return min(slope * b + height for slope, height in level)

    # The minimum of lines is concave, so its maximum is at 0 or where two of them cross.
    crossings = [
        (other_height - height) / (slope - other_slope)
        for slope, height in level
        for other_slope, other_height in level
        if slope > other_slope and other_height >= height
    ]
    return max(0.0, *map(lowest, [0.0, *crossings]))


# --- Maximum of a concave function --------------------------------------------------------------
# MEG at rationality b is concave in b (the soft value is a maximum of functions linear in b) and 0
# at b = 0. A chord of a concave function, extended beyond its ends, lies above it: a lower bound at
# one point and an upper bound at another bound the function on the far side of the latter.


class CurveBounds(NamedTuple):
    """Place b > 0 and bounds of the function there; infinite if unknown."""

    place: float
    low: float = -math.inf
    high: float = math.inf


def summit(points: Sequence[CurveBounds]) -> float:
    """Return an upper bound over all b >= 0 of a concave function f with f(0) >= 0."""
    below = [(0.0, 0.0), *((each.place, each.low) for each in points if each.low > -math.inf)]
    above = [(each.place, each.high) for each in points if each.high < math.inf]
    if not above:
        return math.inf
    edges = [0.0, *sorted({place for place, _ in above}), math.inf]
    return max(_highest(_chords(below, above, *edge), *edge) for edge in pairwise(edges))


def _chords(
    below: Sequence[tuple[float, float]],
    above: Sequence[tuple[float, float]],
    left: float,
    right: float,
) -> FloatArray:
    """Return slopes, and heights at `left`, of lines that bound the function between places."""
    out = []
    for place, high in above:
        for other, low in below:
            # Extend the chord from the lower bound through the upper one to the interval.
            if other < place <= left or right <= place < other:
                slope = (high - low) / (place - other)
                out.append((slope, high + slope * (left - place)))
    return np.array(out).reshape(-1, 2)


def _highest(lines: FloatArray, left: float, right: float) -> float:
    """Return the maximum of the minimum of lines between two places."""
    slopes, heights = lines.T
    if not len(lines) or (math.isinf(right) and (slopes > 0).all()):
        return math.inf
    # The maximum is at an end or where two lines cross.
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = np.subtract.outer(heights, heights) / -np.subtract.outer(slopes, slopes)
    ends = [0.0] if math.isinf(right) else [0.0, right - left]
    inside = crossings[(crossings > 0) & (crossings < right - left)]
    places = np.concatenate([ends, inside])
    return float((slopes[:, None] * places + heights[:, None]).min(axis=0).max())


# --- Bounds of one utility ----------------------------------------------------------------------
# Betting limits are monotone in each observation, so the true value of an episode may be replaced
# by a bound of it, chosen with the same data. Only the rationality must not be chosen with the
# episodes for bounds. If all begin in one state, all rationalities are bounded at once, since the
# limit of b R is b times that of R; if starts differ, rationalities are from a grid, each with a
# share of the error.

# Multiples of the best-fitting rationality at which lower bounds are computed.
_TRIED = (0.35, 0.5, 0.65, 0.8, 1.0, 1.2)
# Multiples at which policies are evaluated for the upper bound.
_POLICIES = (0.0, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 8.0, 1024.0)
# Grid steps per octave, and the sum over integers k of 1 / (1 + |k|)^2 for both signs, rounded up.
_OCTAVE, _GRID_SERIES = 4, 4.6
# Grid steps from the rationality of the lower bound at which MEG is bounded from above.
_AROUND = (*range(-8, 9), 12, 16, 24, 32)
_NEAR = 3  # up to this number of steps MEG is also bounded from below
# Relative accuracy of sums; exponents up to the second number are then accurate to 1e-6 nats.
_DIGITS, _LARGEST = 1e-14, 1e8


class RationalityChoice(NamedTuple):
    """Chosen rationality, and its lower limit on the data that chose it, in nats."""

    best: float
    beta: float
    low: float


class EpisodeEvidence(NamedTuple):
    """Bound per episode of beta * return minus the soft value of the start, in nats."""

    values: FloatArray
    low: float
    high: float


@dataclass(frozen=True)
class StateEnds:
    """Bounds of one utility."""

    worlds: PossibleWorlds
    weights: FloatArray  # weights of the utilities, [U]: a unit vector or a combination
    # Expected return of the agent from each state, [S], if known exactly (an agent without memory
    # in a deterministic world); None if it is estimated from episodes.
    returns: FloatArray | None
    fixed_start: bool
    unit: float
    # Cache of soft values by rationality and kind of world.
    _known: dict[tuple[float, str], FloatArray] = field(
        default_factory=dict, init=False, repr=False
    )

    def choose(self, fitted: Episodes, size: float | None, error: float) -> RationalityChoice:
        """Choose a rationality with a high lower limit."""
        collected = self._collected(fitted)
        # From b = 0, evidence rises in the direction in which the agent exceeds free choice.
        more = float((collected - self._free()[fitted.starts]).mean())
        # Smaller differences are rounding errors: decisions have no effect on the utility.
        sign = 0.0 if abs(more) <= _DIGITS * self._scale else math.copysign(1.0, more)
        best = 0.0
        if sign:
            start = min(size or self.unit, _LARGEST / self._scale)
            # A sample of an optimal agent may exceed the optimum of the observed world; evidence
            # then rises without limit, so it is penalised.
            doubt = self._doubt(collected, abs(more))
            best, _ = largest_concave(
                lambda size: self.estimate(fitted, sign * size) - size * doubt,
                start,
                _LARGEST / self._scale,
            )
        if best == 0.0:
            return RationalityChoice(self.unit, 0.0, 0.0)
        tried = [self._snapped(factor * sign * best)[0] for factor in _TRIED]
        low, beta = max((self.lower(fitted, beta, error), beta) for beta in tried)
        return RationalityChoice(sign * best, beta, low)

    def estimate(self, episodes: Episodes, beta: float) -> float:
        """Estimate MEG at a rationality in the observed world, in nats."""
        value = self.worlds.soft_plan(beta * self.weights, AS_SEEN).value[0]
        return float((beta * self._collected(episodes) - value[episodes.starts]).mean())

    def plan(self, beta: float) -> WorldPlan:
        """Return the soft plan in the most favourable plausible world."""
        return self.worlds.soft_plan(beta * self.weights, MOST)

    def evidence(self, episodes: Episodes, beta: float) -> float:
        """Return the mean of beta * return minus the highest soft value of the start, in nats."""
        most = self._values(beta, MOST)
        return float((beta * self._collected(episodes) - most[episodes.starts]).mean())

    def lower(self, episodes: Episodes, beta: float, error: float) -> float:
        """Return a lower limit of the expected evidence in nats; beta is 0 or on the grid."""
        if beta == 0.0:
            return 0.0
        values, low, high = self.least_evidence(episodes, beta)
        if self.is_certain:
            return float(values[0]) - _DIGITS * abs(beta) * self._scale
        return lower_limit(values, low=low, high=high, error=error * self._snapped(beta)[1])

    def least_evidence(self, episodes: Episodes, beta: float) -> EpisodeEvidence:
        """Return the minimum evidence of each episode over all plausible worlds."""
        most = self._values(beta, MOST)[episodes.starts]
        # A start that was not observed may have the highest conceivable value.
        top = most[0] if self.fixed_start else self.worlds.most(beta * self.weights)[0][0]
        low, high = self._limits(beta)
        values = beta * self._collected(episodes) - most
        return EpisodeEvidence(values, low - float(top), high - min(float(most.min()), 0.0))

    def most_evidence(self, episodes: Episodes, beta: float) -> EpisodeEvidence:
        """Return the maximum evidence of each episode over all plausible worlds."""
        least = self._values(beta, LEAST)[episodes.starts]
        floor = least[0] if self.fixed_start else -self.worlds.most(-beta * self.weights)[0][0]
        low, high = self._limits(beta)
        values = beta * self._collected(episodes) - least
        return EpisodeEvidence(values, low - max(float(least.max()), 0.0), high - float(floor))

    def around(self, choice: RationalityChoice) -> list[tuple[float, float, bool]]:
        """Return rationalities around a choice, their shares of the error, and if they are near."""
        return [
            (*self._snapped(choice.beta * 2.0 ** (step / _OCTAVE)), abs(step) <= _NEAR)
            for step in _AROUND
        ]

    def upper(
        self, episodes: Episodes, choice: RationalityChoice, low: float, error: float
    ) -> float:
        """Return an upper bound of MEG over rationalities of both signs; inf if there is none."""
        if not self.fixed_start:
            return self._upper_by_grid(episodes, choice, low, error)
        # Each policy needs a limit of the agent's return beyond its own, for each sign.
        each = error / 2
        return max(
            highest(
                [
                    self._line(episodes, sign, factor * abs(choice.best), each)
                    for factor in _POLICIES
                ],
                max(float(np.ptp(self._limits(1.0))), 1e-300),
            )
            for sign in (1.0, -1.0)
        )

    def _upper_by_grid(
        self, episodes: Episodes, choice: RationalityChoice, low: float, error: float
    ) -> float:
        """Return the upper bound from the least soft value of each start, on the grid."""
        if low <= 0.0:
            return math.inf
        points = [CurveBounds(abs(choice.beta), low)]
        for beta, share, is_near in self.around(choice):
            values, least, most = self.most_evidence(episodes, beta)
            each = error * share / 2
            high = upper_limit(values, low=least, high=most, error=each)
            low = self.lower(episodes, beta, error / 2) if is_near else -math.inf
            points.append(CurveBounds(abs(beta), low, high))
        return summit(points)

    def _line(
        self, episodes: Episodes, sign: float, size: float, error: float
    ) -> tuple[float, float]:
        """Return the line of one policy from the common start of all episodes."""
        start = int(episodes.starts[0])
        policy = self.worlds.soft_plan(sign * size * self.weights, AS_SEEN).policy
        collects = float(self.worlds.evaluate(policy, sign * self.weights, LEAST)[start])
        nothing = np.zeros_like(self.weights)
        height = float(self.worlds.evaluate(policy, nothing, MOST, entropies(policy))[start])
        agent = sign * self._collected(episodes)
        if self.is_certain:
            return float(agent[0]) - collects, height
        low, high = self._limits(sign)
        # All lines share this limit, so its error counts once.
        return upper_limit(agent, low=low, high=high, error=error) - collects, height

    def _values(self, beta: float, which: str) -> FloatArray:
        """Return the soft values of all states as starts in one kind of world, [S]."""
        if (beta, which) not in self._known:
            plan = self.worlds.soft_plan(beta * self.weights, which)
            self._known[beta, which] = plan.value[0]
        return self._known[beta, which]

    def _doubt(self, collected: FloatArray, more: float) -> float:
        """Return two standard errors of the mean, as if one episode were of free choice."""
        if self.returns is not None:
            return 0.0
        n = len(collected)
        errors = more / (n + 1) + 2.0 * float(collected.std()) / math.sqrt(n)
        # The penalty is limited to half of the difference, which leaves some evidence.
        return min(errors, more / 2.0)

    @property
    def _scale(self) -> float:
        """Maximum of sums of the utility, the scale of rounding errors."""
        sizes = [max(abs(r.low), abs(r.high)) for r in self.worlds.ranges]
        return max(self.worlds.horizon * float(np.abs(self.weights) @ sizes), 1e-300)

    @property
    def is_certain(self) -> bool:
        """Whether the world and the agent's return are deterministic."""
        return self.fixed_start and self.returns is not None

    def _snapped(self, beta: float) -> tuple[float, float]:
        """Return the nearest rationality allowed for bounds, and its share of the error."""
        if self.fixed_start:
            return beta, 1.0
        place = round(_OCTAVE * math.log2(abs(beta) / self.unit))
        share = 1.0 / (_GRID_SERIES * (1 + abs(place)) ** 2)
        return math.copysign(self.unit * 2.0 ** (place / _OCTAVE), beta), share

    def _free(self) -> FloatArray:
        """Return the expected return of free choice from each state in the observed world, [S]."""
        shape = (1, self.worlds.n_states, self.worlds.n_actions)
        free = np.full(shape, 1.0 / self.worlds.n_actions)
        return self.worlds.evaluate(free, self.weights, AS_SEEN)

    def _collected(self, episodes: Episodes) -> FloatArray:
        if self.returns is not None:
            return np.asarray(self.returns[episodes.starts])
        return np.asarray(episodes.returns @ self.weights)

    def _limits(self, factor: float) -> tuple[float, float]:
        """Return the minimum and maximum return of an episode for a multiple of the utility."""
        horizon, low, high = self.worlds.horizon, 0.0, 0.0
        for known, weight in zip(self.worlds.ranges, self.weights, strict=True):
            if weight:
                ends = known.scaled(factor * weight).of_episode(horizon)
                low, high = low + ends[0], high + ends[1]
        return low, high


def interval(low: float, by_values: float, plain: Ends) -> Ends:
    """Return the interval of a lower bound and the smaller of two upper bounds."""
    high, by = plain.high, plain.high_by
    if by_values < high:
        high, by = by_values, "the table of states"
    low = max(low, 0.0)
    return Ends(low, max(high, low), "the table of states" if low > 0 else "zero", by)


# --- Paired differences -------------------------------------------------------------------------
# MEG towards the second utility minus the evidence of the first at one rationality is concave in
# the rationality of the second, like MEG itself, and is bounded from grid points in the same way.
# Each point uses the difference of both evidences in the same episode, which is 0 if both utilities
# have equal payoffs, whatever the variance between episodes.


class Bounded(NamedTuple):
    """Bounds of MEG towards one utility."""

    ends: StateEnds
    choice: RationalityChoice
    low: float
    high: float


# Size of a rationality, maximum evidence there and, if near, minimum evidence.
EvidenceAt = tuple[float, EpisodeEvidence, EpisodeEvidence | None]


def excesses(
    bounded: Sequence[Bounded], pairs: Sequence[tuple[int, int]], episodes: Episodes, error: float
) -> Mapping[tuple[int, int], float]:
    """Return lower bounds of the MEG towards one utility minus that towards another, in nats."""
    # Pairs need lower bounds, which determine the signs of the rationalities, and an upper bound of
    # the first; in deterministic worlds the intervals suffice.
    usable = [each.low > 0.0 and not math.isinf(each.high) for each in bounded]
    compared = [
        (one, other)
        for one, other in pairs
        if usable[one]
        and bounded[other].low > 0.0
        and not (bounded[one].ends.is_certain and bounded[other].ends.is_certain)
    ]
    curves = {which: _curve(bounded[which], episodes) for pair in compared for which in pair}
    return {
        (one, other): _excess(bounded[one], curves[one], curves[other], error / len(pairs))
        for one, other in compared
    }


def _curve(bounded: Bounded, episodes: Episodes) -> list[EvidenceAt]:
    """Return evidence at rationalities around that of the lower bound, that one first."""
    ends, at = bounded.ends, bounded.choice.beta
    others = [(beta, near) for beta, _, near in ends.around(bounded.choice) if beta != at]
    return [
        (
            abs(beta),
            ends.most_evidence(episodes, beta),
            ends.least_evidence(episodes, beta) if is_near else None,
        )
        for beta, is_near in [(at, True), *others]
    ]


def _excess(
    one: Bounded, explains: list[EvidenceAt], other: list[EvidenceAt], error: float
) -> float:
    _, most, least = explains[0]
    assert least is not None, "the first place is that of the lower bound"
    # The places were chosen on other episodes, so each gets an equal share of the error.
    each, points = error / 2 / len(other), []
    for size, other_most, other_least in other:
        values, bottom, top = _difference(other_most, least)
        high = upper_limit(values, low=bottom, high=top, error=each)
        low = -math.inf
        if other_least is not None:
            values, bottom, top = _difference(other_least, most)
            low = lower_limit(values, low=bottom, high=top, error=each)
        # Adding the upper bound of the first makes the function at least 0 at 0.
        points.append(CurveBounds(size, low + one.high, high + one.high))
    return one.high - summit(points)


def _difference(minuend: EpisodeEvidence, subtrahend: EpisodeEvidence) -> EpisodeEvidence:
    """Return the difference per episode with its bounds."""
    return EpisodeEvidence(
        minuend.values - subtrahend.values,
        minuend.low - subtrahend.high,
        minuend.high - subtrahend.low,
    )
