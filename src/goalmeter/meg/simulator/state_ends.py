"""The ends of one utility's interval, from possible worlds and the episodes of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.ends import Ends, entropies, largest_concave
from goalmeter.meg.simulator.lines import Line, highest
from goalmeter.meg.simulator.possible_worlds import AS_SEEN, LEAST, MOST, Plan, PossibleWorlds
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.statistics.betting import lower_limit, upper_limit

# Multiples of the rationality that fits best, at which a lower end is tried.
_TRIED = (0.35, 0.5, 0.65, 0.8, 1.0, 1.2)
# Multiples at which policies are evaluated for the upper end.
_POLICIES = (0.0, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 8.0, 1024.0)


class Choice(NamedTuple):
    """A rationality that was chosen, and what it would give on the data it was chosen with, nats."""

    best: float
    beta: float
    value: float
    low: float


@dataclass(frozen=True)
class StateEnds:
    """Bounds of one utility.

    Attributes:
        worlds: that are possible.
        which: the utility's number.
        returns: what the agent collects of it from each state, [S], where that is known exactly
            (an agent without memory in a world without chance); else None, and episodes say it.
        fixed_start: whether all episodes begin in one state, with certainty.
    """

    worlds: PossibleWorlds
    which: int
    returns: FloatArray | None
    fixed_start: bool

    def choose(self, fitted: Episodes, size: float | None, error: float) -> Choice:
        """A rationality that explains much and can be bounded well.

        Args:
            fitted: episodes that nothing is bounded with afterwards.
            size: of a rationality that did well before.
            error: of a lower end.
        """
        collected = self._collected(fitted)

        def evidence(b: float) -> float:
            value = self.worlds.soft_plan(b * self._one, AS_SEEN).value[0]
            return float((b * collected - value[fitted.starts]).mean())

        scale = self.worlds.ranges[self.which]
        start = size or 1.0 / max(float(np.ptp(collected)), scale.high - scale.low, 1e-12)
        # Evidence rises from b = 0 to the side on which the agent collects more than free choice.
        sign = float(np.sign((collected - self._free()[fitted.starts]).mean()))
        best, value = largest_concave(lambda b: evidence(sign * b), start)
        best *= sign
        if best == 0.0:
            return Choice(start, 0.0, 0.0, 0.0)
        tried = [(self.lower(fitted, factor * best, error), factor * best) for factor in _TRIED]
        low, beta = max(tried)
        return Choice(best, beta, max(value, 0.0), low)

    def _free(self) -> FloatArray:
        """What free choice collects from each state in the world as seen, [S]."""
        shape = (1, self.worlds.n_states, self.worlds.n_actions)
        free = np.full(shape, 1.0 / self.worlds.n_actions)
        return self.worlds.evaluate(free, self._one, AS_SEEN)

    def plan(self, beta: float) -> Plan:
        """The soft plan in the most favourable of the possible worlds."""
        return self.worlds.soft_plan(beta * self._one, MOST)

    def evidence(self, episodes: Episodes, beta: float) -> float:
        """Average of beta * return less the highest soft value of the start, nats."""
        most = self.plan(beta).value[0]
        return float((beta * self._collected(episodes) - most[episodes.starts]).mean())

    def lower(self, episodes: Episodes, beta: float, error: float) -> float:
        """Lower limit of the expectation of that evidence, nats."""
        if beta == 0.0:
            return 0.0
        most = self.plan(beta).value[0][episodes.starts]
        low, high = self._limits(beta)
        values = beta * self._collected(episodes) - most
        if self._is_certain:
            return float(values[0])
        low, high = low - float(most.max()), high - float(most.min())
        return lower_limit(values, low=low, high=high, error=error)

    def upper(self, episodes: Episodes, best: float, error: float) -> float:
        """The height of the lowest line of policies, at rationalities of either sign, nats."""
        # Each policy needs two limits for each sign.
        each = error / (4 * len(_POLICIES))
        return max(
            highest(
                [self._line(episodes, sign, factor * abs(best), each) for factor in _POLICIES],
                max(np.ptp(self._limits(1.0)), 1e-300),
            )
            for sign in (1.0, -1.0)
        )

    def _line(self, episodes: Episodes, sign: float, size: float, error: float) -> Line:
        policy = self.worlds.soft_plan(sign * size * self._one, AS_SEEN).policy
        collects = self.worlds.evaluate(policy, sign * self._one, LEAST)[episodes.starts]
        cost = entropies(policy)
        nothing = np.zeros_like(self._one)
        heights = self.worlds.evaluate(policy, nothing, MOST, cost)[episodes.starts]
        beyond = sign * self._collected(episodes) - collects
        if self._is_certain:
            return Line(float(beyond[0]), float(heights[0]))
        low, high = self._limits(sign)
        slope = upper_limit(
            beyond,
            low=low - float(collects.max()),
            high=high - float(collects.min()),
            error=error,
        )
        if self.fixed_start:
            return Line(slope, float(heights[0]))
        most = float(heights.max())
        return Line(slope, upper_limit(heights, low=0.0, high=self._tallest(cost, most), error=error))

    @property
    def _one(self) -> FloatArray:
        out = np.zeros(len(self.worlds.ranges))
        out[self.which] = 1.0
        return out

    @property
    def _is_certain(self) -> bool:
        return self.fixed_start and self.returns is not None

    def _tallest(self, cost: FloatArray, seen: float) -> float:
        return max(float(cost.max(axis=1).sum()), seen)

    def _collected(self, episodes: Episodes) -> FloatArray:
        if self.returns is not None:
            return np.asarray(self.returns[episodes.starts])
        return episodes.returns[:, self.which]

    def _limits(self, factor: float) -> tuple[float, float]:
        """Least and most that an episode collects of a multiple of the utility."""
        return self.worlds.ranges[self.which].scaled(factor).of_episode(self.worlds.horizon)


def interval(low: float, by_policies: float, plain: Ends) -> Ends:
    """The interval of a lower end and the lesser of two upper ends."""
    high, by = (by_policies, "policies") if by_policies < plain.high else (plain.high, plain.high_by)
    low = max(low, 0.0)
    return Ends(low, max(high, low), "the table of states" if low > 0 else "zero", by)
