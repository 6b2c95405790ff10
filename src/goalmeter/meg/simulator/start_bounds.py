"""Bounds of MEG from episodes alone; allocation of the error probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents import SimulatorAgent
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.meg.simulator.utilities import Range
from goalmeter.statistics.intervals import lower_limit, upper_limit

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import Simulator

# --- Intervals -----------------------------------------------------------------------------------
# Shares of the error: bounds of the soft value, which both ends use; return of the agent in the
# lower bounds; upper bounds.
SOFT, LOWER, UPPER = 0.4, 0.3, 0.3
PAIRED = 0.1  # part of the upper share for differences, if several utilities are compared
_FITTED_EVERY = 4  # every fourth episode chooses rationalities; the others are used for bounds
NOTHING = "nothing"  # binding of a missing upper bound
_SECTIONS = 12  # golden sections of two octaves, accurate to 1% of the rationality


@dataclass(frozen=True)
class Ends:
    """Interval in nats, and the name of the bound at each end."""

    low: float
    high: float
    low_by: str
    high_by: str


@dataclass(frozen=True)
class UtilityEstimate:
    """Current estimate and interval of one utility."""

    value: float
    rationality: float
    ends: Ends
    exceeds: Mapping[int, float] = field(default_factory=dict)
    estimated: bool = False


def estimate_in(ends: Ends, value: float, rationality: float) -> UtilityEstimate:
    """Clip an estimate to its interval; drop it if it exceeds the upper bound beyond rounding."""
    if value > ends.high + 1e-6 * (1 + ends.high):
        return UtilityEstimate(ends.low, rationality, ends)
    return UtilityEstimate(min(max(value, ends.low), ends.high), rationality, ends, estimated=True)


def fitted_and_fresh(episodes: Episodes) -> tuple[Episodes, Episodes]:
    """Divide episodes, by number alone, into those for choices and those for bounds."""
    number = np.arange(len(episodes.decisions))
    fitted = number % _FITTED_EVERY == 0
    return episodes.subset(np.flatnonzero(fitted)), episodes.subset(np.flatnonzero(~fitted))


def nothing_known(most: float, horizon: int) -> UtilityEstimate:
    """Return the interval from 0 to the maximum of any agent, `most` nats per decision."""
    by = NOTHING if math.isinf(most) else "the ceiling"
    return UtilityEstimate(0.0, 0.0, Ends(0.0, horizon * most, "zero", by))


def without_planning(fresh: Episodes, most: float, horizon: int, error: float) -> Ends:
    """Return 0 and the smaller of two upper bounds that hold for every utility."""
    # No model predicts an agent better than the agent itself: MEG is at most the expected sum of
    # log A minus its entropy (for continuous actions, of the relative entropy to the reference).
    if math.isinf(most):
        return Ends(0.0, math.inf, "zero", NOTHING)
    each = error / 2
    decisions = upper_limit(fresh.decisions, low=0, high=horizon, error=each)
    ceiling = most * decisions
    if np.isnan(fresh.information).any():
        return Ends(0.0, ceiling, "zero", "the ceiling")
    entropy = upper_limit(fresh.information, low=0, high=horizon * most, error=each)
    if entropy < ceiling:
        return Ends(0.0, entropy, "zero", "the agent's own entropy")
    return Ends(0.0, ceiling, "zero", "the ceiling")


def largest_concave(
    f: Callable[[float], float], start: float, largest: float = math.inf
) -> tuple[float, float]:
    """Return (b, f(b)) at a maximum of a concave function of b >= 0 with f(0) = 0."""
    values: dict[float, float] = {0.0: 0.0}

    def at(b: float) -> float:
        if b not in values:
            values[b] = f(b)
        return values[b]

    b = start
    while 2 * b <= largest:
        rise = at(2 * b) - at(b)
        if rise <= 1e-10 * max(abs(at(b)), 1e-12):
            break
        b *= 2
    while at(b / 2) > at(b) and b > start * 2.0**-60:
        b /= 2
    # The maximum lies between b / 2 and 2 b; golden-section search in the logarithm finds it.
    low, high = math.log(b / 2), math.log(2 * b)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(_SECTIONS):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if at(math.exp(left)) >= at(math.exp(right)):
            high = right
        else:
            low = left
    best = max(values, key=lambda key: (values[key], -key))
    return best, values[best]


def entropies(policy: FloatArray) -> FloatArray:
    """Return log A minus the entropy of each row of a policy, [..., A]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(policy > 0, policy * np.log(policy), 0.0)
    return np.asarray(np.maximum(math.log(policy.shape[-1]) + parts.sum(axis=-1), 0.0))


# --- Bounds from the start ----------------------------------------------------------------------
# By Jensen's inequality exp W_0 is at most E[exp(b R)] under free choice, with R the return of an
# episode. Episodes of free choice and the maximum return bound that expectation; the sample mean is
# not a bound. An event that n episodes did not show may have a probability of about 9 / n, which
# limits the bound on MEG to log n: no method with only `reset` and `step` exceeds this by much
# (docs/mathematics.md).

_AGENT = 0.35  # share of the steps for episodes of the agent
_ROUNDS = 5
# Rationalities to try, in units of 1 / (range of the return).
_TRIED = 2.0 ** np.arange(-4.0, 12.0)
_FREE = 2**40  # first episode number of free choice, so that no seed is shared with the agent


@dataclass
class StartMeasure:
    """Measurement by episodes of the agent and of free choice (see `StatesMeasure`)."""

    simulator: Simulator
    actor: SimulatorAgent
    horizon: int
    error: float
    budget: int
    before: int = 0
    known: tuple[Episodes, int] | None = None
    episodes: Episodes = field(init=False)
    free: Episodes = field(init=False)

    def __post_init__(self) -> None:
        self._chance = self.simulator.free_choice()
        self._played = [0, 0]

    @property
    def begun(self) -> bool:
        """Whether there are episodes of both for bounds."""
        return all(self._played)

    @property
    def steps(self) -> dict[str, int]:
        """Number of steps so far by purpose."""
        taken = {"agent": self.episodes.steps, self.simulator.reference: self.free.steps}
        return taken | ({"states": self.before} if self.before else {})

    def run(self, tell: Callable[[list[UtilityEstimate]], None]) -> str:
        """Measure until the budget is spent; return the reason."""
        self.episodes, played = self.known or (self.simulator.play(self.actor, self.horizon, 0), 1)
        self.free = self.simulator.play(self._chance, self.horizon, _FREE)
        self._played = [played, 1]
        for part in range(1, _ROUNDS + 1):
            limit = self.budget * part / _ROUNDS
            self._more(0, limit * _AGENT)
            self._more(1, limit * (1 - _AGENT))
            if part < _ROUNDS:
                tell(self.ends())
        return "budget"

    def ends(self) -> list[UtilityEstimate]:
        """Return the interval of each utility."""
        fitted, fresh = fitted_and_fresh(self.episodes)
        seen, unseen = fitted_and_fresh(self.free)
        most = self.simulator.most_information
        plain = without_planning(fresh, most, self.horizon, UPPER * self.error)
        out = []
        for which in range(len(self.simulator.utilities.names)):
            limits = self._range(which).of_episode(self.horizon)
            scale = max(limits[1] - limits[0], 1e-300)
            tried = [
                (self._lower(fitted, seen, which, sign * size / scale, limits), sign * size / scale)
                for size in _TRIED
                for sign in (1.0, -1.0)
            ]
            _, beta = max(tried)
            low = self._lower(fresh, unseen, which, beta, limits)
            ends = Ends(
                max(low, 0.0),
                max(plain.high, low),
                f"{self.simulator.reference} from the start" if low > 0 else "zero",
                plain.high_by,
            )
            out.append(UtilityEstimate(ends.low, beta if low > 0 else 0.0, ends))
        return out

    def remarks(self) -> list[str]:
        """Return no remarks: this bound assumes nothing about states or the agent."""
        return []

    def assumed(self) -> list[str]:
        """Return the unverified assumption of each interval as a sentence; "" if there is none."""
        ranges = map(self._range, range(len(self.simulator.utilities.names)))
        return [each.in_words() if each.assumed else "" for each in ranges]

    def _lower(
        self, agent: Episodes, free: Episodes, which: int, beta: float, limits: tuple[float, float]
    ) -> float:
        """Return a lower limit of E[beta R] - log E_free[exp(beta R)] in nats."""
        low, high = sorted((beta * limits[0], beta * limits[1]))
        count = len(self.simulator.utilities.names)
        collected = lower_limit(
            beta * agent.returns[:, which], low=low, high=high, error=LOWER * self.error / count
        )
        expected = upper_limit(
            np.exp(beta * free.returns[:, which] - high),
            low=math.exp(low - high),
            high=1.0,
            error=SOFT * self.error / count,
        )
        return collected - high - math.log(expected)

    def _range(self, which: int) -> Range:
        utilities = self.simulator.utilities
        name = utilities.names[which]
        if given := utilities.bounds.get(name):
            return given
        # The observed range of returns replaces missing bounds.
        returns = np.concatenate([self.episodes.returns[:, which], self.free.returns[:, which]])
        least, most = min(float(returns.min()), 0.0), max(float(returns.max()), 0.0)
        return Range(least, most, least, most, assumed=True)

    def _more(self, which: int, limit: float) -> None:
        """Play episodes of the agent (0) or of free choice (1) up to a number of steps."""
        so_far = self.free if which else self.episodes
        actor, first = (self._chance, _FREE) if which else (self.actor, 0)
        parts, steps = [so_far], so_far.steps
        try:
            while steps < limit:
                number = first + self._played[which]
                left = int(limit - steps)
                parts.append(self.simulator.play(actor, self.horizon, number, left))
                self._played[which] += 1
                # Count empty episodes as a chunk, so that the loop ends.
                steps += max(parts[-1].steps, self.simulator.chunk)
        finally:
            # An interruption leaves complete episodes, which are valid for bounds.
            if which:
                self.free = Episodes.of(parts)
            else:
                self.episodes = Episodes.of(parts)
