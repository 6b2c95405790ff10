"""The ends of one utility's interval, from possible worlds and the episodes of an agent.

Soft values and returns enter as bounds that hold in every possible world at once, whatever they
were chosen by; and limits by betting are monotone in each observation. So an episode's true value
may be replaced by a bound of it, chosen with the same data, and the limit stays a limit. Only the
rationality must not be chosen by the episodes that bound it: where all begin in one state, all
rationalities are bounded at once, since the limit of b R is b times that of R; where starts differ,
rationalities come from a grid, each with a share of the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.bounds.ends import Ends, entropies, largest_concave
from goalmeter.meg.simulator.bounds.lines import Line, highest
from goalmeter.meg.simulator.bounds.possible_worlds import (
    AS_SEEN,
    LEAST,
    MOST,
    Plan,
    PossibleWorlds,
)
from goalmeter.meg.simulator.bounds.summit import Point, summit
from goalmeter.meg.simulator.worlds.protocol import Episodes
from goalmeter.statistics.betting import lower_limit, upper_limit

# Multiples of the rationality that fits best, at which a lower end is tried.
_TRIED = (0.35, 0.5, 0.65, 0.8, 1.0, 1.2)
# Multiples at which policies are evaluated for the upper end.
_POLICIES = (0.0, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 8.0, 1024.0)
# Steps of the grid of rationalities to an octave, and the sum over whole numbers k of
# 1 / (1 + |k|)^2, for both signs, rounded up.
_OCTAVE, _GRID_SERIES = 4, 4.6
# Places of the grid around the rationality of the lower end at which MEG is bounded from above.
_AROUND = (*range(-8, 9), 12, 16, 24, 32)
# Up to so many places away it is bounded from below as well.
_NEAR = 3
# Sums are right to this share of their scale; exponents up to this size then to a millionth nat.
_DIGITS, _LARGEST = 1e-14, 1e8


class Choice(NamedTuple):
    """A rationality that was chosen, and what it gives on the data it was chosen with, nats.

    Attributes:
        best: the rationality that fits best.
        beta: the one to be bounded at.
        low: about its lower end.
    """

    best: float
    beta: float
    low: float


class Place(NamedTuple):
    """A rationality of the grid.

    Attributes:
        beta: the rationality.
        share: of an error, where the grid was not chosen by other episodes.
        is_near: whether it is near that of the lower end.
    """

    beta: float
    share: float
    is_near: bool


class Evidence(NamedTuple):
    """A bound, episode by episode, of beta * return less the soft value of the start, nats.

    Attributes:
        values: the bounds, [episodes].
        low: the least that the bounded number can be.
        high: the most.
    """

    values: FloatArray
    low: float
    high: float


@dataclass(frozen=True)
class StateEnds:
    """Bounds of one utility.

    Attributes:
        worlds: that are possible.
        weights: of the utilities, [U]: 1 for the one that is bounded, or a combination of several.
        returns: what the agent collects of it from each state, [S], where that is known exactly
            (an agent without memory in a world without chance); else None, and episodes say it.
        fixed_start: whether all episodes begin in one state, with certainty.
        unit: of the grid of rationalities; nothing that bounds has decided it.
    """

    worlds: PossibleWorlds
    weights: FloatArray
    returns: FloatArray | None
    fixed_start: bool
    unit: float
    # Soft values of starts that were worked out, by rationality and kind of world.
    _known: dict[tuple[float, str], FloatArray] = field(
        default_factory=dict, init=False, repr=False
    )

    def choose(self, fitted: Episodes, size: float | None, error: float) -> Choice:
        """A rationality that explains much and can be bounded well.

        Args:
            fitted: episodes that nothing is bounded with afterwards.
            size: of a rationality that did well before.
            error: of a lower end.
        """
        collected = self._collected(fitted)
        # Evidence rises from b = 0 to the side on which the agent collects more than free choice.
        more = float((collected - self._free()[fitted.starts]).mean())
        # Less than this is rounding: nothing that is decided makes a difference.
        sign = 0.0 if abs(more) <= _DIGITS * self._scale else math.copysign(1.0, more)
        best = 0.0
        if sign:
            start = min(size or self.unit, _LARGEST / self._scale)
            # A sample of a faultless agent may do better than anything can in the world as seen;
            # then evidence rises for ever, so less of it is believed.
            doubt = self._doubt(collected, abs(more))
            evidence = partial(self._signed_estimate, fitted, sign, doubt)
            best, _ = largest_concave(evidence, start, _LARGEST / self._scale)
        if best == 0.0:
            return Choice(self.unit, 0.0, 0.0)
        tried = [self._snapped(factor * sign * best)[0] for factor in _TRIED]
        low, beta = max((self.lower(fitted, beta, error), beta) for beta in tried)
        return Choice(sign * best, beta, low)

    def estimate(self, episodes: Episodes, beta: float) -> float:
        """MEG at a rationality in the world as seen, nats."""
        value = self.worlds.soft_plan(beta * self.weights, AS_SEEN).value[0]
        return float((beta * self._collected(episodes) - value[episodes.starts]).mean())

    def plan(self, beta: float) -> Plan:
        """The soft plan in the most favourable of the possible worlds."""
        return self.worlds.soft_plan(beta * self.weights, MOST)

    def evidence(self, episodes: Episodes, beta: float) -> float:
        """Average of beta * return less the highest soft value of the start, nats."""
        most = self._values(beta, MOST)
        return float((beta * self._collected(episodes) - most[episodes.starts]).mean())

    def lower(self, episodes: Episodes, beta: float, error: float) -> float:
        """Lower limit of the expectation of that evidence, nats; beta is 0 or of the grid."""
        if beta == 0.0:
            return 0.0
        values, low, high = self.least_evidence(episodes, beta)
        if self.is_certain:
            return float(values[0]) - _DIGITS * abs(beta) * self._scale
        return lower_limit(values, low=low, high=high, error=error * self._snapped(beta)[1])

    def least_evidence(self, episodes: Episodes, beta: float) -> Evidence:
        """What the evidence of each episode is at least, whichever world it is."""
        most = self._values(beta, MOST)[episodes.starts]
        # A start that was not met may be worth all that is conceivable.
        top = most[0] if self.fixed_start else self.worlds.most(beta * self.weights)[0][0]
        low, high = self._limits(beta)
        values = beta * self._collected(episodes) - most
        return Evidence(values, low - float(top), high - min(float(most.min()), 0.0))

    def most_evidence(self, episodes: Episodes, beta: float) -> Evidence:
        """What the evidence of each episode is at most, whichever world it is."""
        least = self._values(beta, LEAST)[episodes.starts]
        floor = least[0] if self.fixed_start else -self.worlds.most(-beta * self.weights)[0][0]
        low, high = self._limits(beta)
        values = beta * self._collected(episodes) - least
        return Evidence(values, low - max(float(least.max()), 0.0), high - float(floor))

    def around(self, choice: Choice) -> list[Place]:
        """Rationalities around that of a lower end."""
        out = []
        for step in _AROUND:
            beta, share = self._snapped(choice.beta * 2.0 ** (step / _OCTAVE))
            out.append(Place(beta, share, abs(step) <= _NEAR))
        return out

    def upper(self, episodes: Episodes, choice: Choice, low: float, error: float) -> float:
        """The most that MEG can be at rationalities of either sign; inf if nothing is known.

        Args:
            episodes: that nothing was chosen with.
            choice: the rationality of the lower end.
            low: the lower end, nats.
            error: of the bound.
        """
        if not self.fixed_start:
            return self._upper_by_grid(episodes, choice, low, error)
        # Each policy needs a limit of what the agent collects beyond it, for each sign.
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

    def _upper_by_grid(self, episodes: Episodes, choice: Choice, low: float, error: float) -> float:
        """The same from the least soft value of each start, at rationalities of the grid."""
        if low <= 0.0:
            return math.inf
        points = [Point(abs(choice.beta), low)]
        for beta, share, is_near in self.around(choice):
            values, least, most = self.most_evidence(episodes, beta)
            each = error * share / 2
            high = upper_limit(values, low=least, high=most, error=each)
            low = self.lower(episodes, beta, error / 2) if is_near else -math.inf
            points.append(Point(abs(beta), low, high))
        return summit(points)

    def _line(self, episodes: Episodes, sign: float, size: float, error: float) -> Line:
        """The line of one policy, from a start that all episodes share."""
        start = int(episodes.starts[0])
        policy = self.worlds.soft_plan(sign * size * self.weights, AS_SEEN).policy
        collects = float(self.worlds.evaluate(policy, sign * self.weights, LEAST)[start])
        nothing = np.zeros_like(self.weights)
        height = float(self.worlds.evaluate(policy, nothing, MOST, entropies(policy))[start])
        agent = sign * self._collected(episodes)
        if self.is_certain:
            return Line(float(agent[0]) - collects, height)
        low, high = self._limits(sign)
        # The same limit in every line, so it is paid for once.
        return Line(upper_limit(agent, low=low, high=high, error=error) - collects, height)

    def _values(self, beta: float, which: str) -> FloatArray:
        """Soft values of all states as starts in one kind of world, [S]."""
        if (beta, which) not in self._known:
            plan = self.worlds.soft_plan(beta * self.weights, which)
            self._known[beta, which] = plan.value[0]
        return self._known[beta, which]

    def _signed_estimate(self, episodes: Episodes, sign: float, doubt: float, size: float) -> float:
        return self.estimate(episodes, sign * size) - size * doubt

    def _doubt(self, collected: FloatArray, more: float) -> float:
        """Two standard errors of the average, as of a sample with one episode of free choice."""
        if self.returns is not None:
            return 0.0
        n = len(collected)
        errors = more / (n + 1) + 2.0 * float(collected.std()) / math.sqrt(n)
        # Never so much that nothing is left to be explained: more episodes will tell.
        return min(errors, more / 2.0)

    @property
    def _scale(self) -> float:
        """The largest that sums of the utility get, for telling rounding from differences."""
        sizes = [max(abs(r.low), abs(r.high)) for r in self.worlds.ranges]
        return max(self.worlds.horizon * float(np.abs(self.weights) @ sizes), 1e-300)

    @property
    def is_certain(self) -> bool:
        """Whether nothing is left to chance, so that one episode says all."""
        return self.fixed_start and self.returns is not None

    def _snapped(self, beta: float) -> tuple[float, float]:
        """The nearest rationality that may be bounded at, and its share of the error."""
        if self.fixed_start:
            return beta, 1.0
        place = round(_OCTAVE * math.log2(abs(beta) / self.unit))
        share = 1.0 / (_GRID_SERIES * (1 + abs(place)) ** 2)
        return math.copysign(self.unit * 2.0 ** (place / _OCTAVE), beta), share

    def _free(self) -> FloatArray:
        """What free choice collects from each state in the world as seen, [S]."""
        shape = (1, self.worlds.n_states, self.worlds.n_actions)
        free = np.full(shape, 1.0 / self.worlds.n_actions)
        return self.worlds.evaluate(free, self.weights, AS_SEEN)

    def _collected(self, episodes: Episodes) -> FloatArray:
        if self.returns is not None:
            return np.asarray(self.returns[episodes.starts])
        return np.asarray(episodes.returns @ self.weights)

    def _limits(self, factor: float) -> tuple[float, float]:
        """Least and most that an episode collects of a multiple of the utility."""
        horizon, low, high = self.worlds.horizon, 0.0, 0.0
        for known, weight in zip(self.worlds.ranges, self.weights, strict=True):
            if weight:
                ends = known.scaled(factor * weight).of_episode(horizon)
                low, high = low + ends[0], high + ends[1]
        return low, high


def interval(low: float, by_values: float, plain: Ends) -> Ends:
    """The interval of a lower end and the lesser of two upper ends."""
    high, by = plain.high, plain.high_by
    if by_values < high:
        high, by = by_values, "the table of states"
    low = max(low, 0.0)
    return Ends(low, max(high, low), "the table of states" if low > 0 else "zero", by)
