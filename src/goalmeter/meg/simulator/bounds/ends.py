"""What both ways of bounding share: how the error is divided, and bounds that need no planning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.worlds.protocol import Episodes
from goalmeter.statistics.betting import upper_limit

# Shares of the error: of what bounds the soft value, on which both ends rest; of what the agent
# collects in the lower ends; of the upper ends.
SOFT, LOWER, UPPER = 0.4, 0.3, 0.3
# Of the upper ends' share, where several utilities are compared: of their differences.
PAIRED = 0.1
# Every so many episodes choose what is tried; the others bound it.
_FITTED_EVERY = 4
# What gives the upper end where there is none.
NOTHING = "nothing"
# Golden sections of two octaves: to within a hundredth of the rationality.
_SECTIONS = 12


@dataclass(frozen=True)
class Ends:
    """An interval with where it comes from, nats."""

    low: float
    high: float
    low_by: str
    high_by: str


@dataclass(frozen=True)
class Towards:
    """What is known so far of one utility.

    Attributes:
        value: the point estimate, nats; where there is none, the lower end.
        rationality: at which the lower end is bounded, with its sign.
        ends: the interval.
        exceeds: by the number of another utility, how much more MEG is towards this one at least,
            nats, as the same episodes say.
        estimated: whether there is a point estimate that the upper end does not contradict.
    """

    value: float
    rationality: float
    ends: Ends
    exceeds: Mapping[int, float] = field(default_factory=dict)
    estimated: bool = False


def estimate_in(ends: Ends, value: float, rationality: float) -> Towards:
    """An estimate with its interval: none if the upper end contradicts it by more than rounding."""
    if value > ends.high + 1e-6 * (1 + ends.high):
        return Towards(ends.low, rationality, ends)
    return Towards(min(max(value, ends.low), ends.high), rationality, ends, estimated=True)


def fitted_and_fresh(episodes: Episodes) -> tuple[Episodes, Episodes]:
    """Episodes to choose with, and episodes to bound with: told apart by their numbers alone."""
    number = np.arange(len(episodes.decisions))
    fitted = number % _FITTED_EVERY == 0
    return episodes.subset(np.flatnonzero(fitted)), episodes.subset(np.flatnonzero(~fitted))


def nothing_known(most: float, horizon: int) -> Towards:
    """0 to the most that any agent can have, of which a decision makes up `most` nats."""
    by = NOTHING if math.isinf(most) else "the ceiling"
    return Towards(0.0, 0.0, Ends(0.0, horizon * most, "zero", by))


def without_planning(fresh: Episodes, most: float, horizon: int, error: float) -> Ends:
    """0, and the least of two upper bounds that hold for every utility.

    No model predicts an agent better than the agent itself, so MEG is at most the expected sum of
    log A less its entropy; and that is at most log A for every decision that it makes. Of
    continuous actions it is the relative entropy to the reference that is added up.

    Args:
        fresh: episodes of the agent.
        most: by how much a decision may differ from the reference, nats; inf for no bound.
        horizon: H.
        error: probability with which the bound may fail.
    """
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
    """A maximum of a concave function of b >= 0 with f(0) = 0: (b, f(b)).

    Args:
        f: the function.
        start: a size to begin with.
        largest: sizes beyond this are not tried.
    """
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
    # The maximum lies between b / 2 and 2 b; golden sections narrow it down in the logarithm.
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
    """The difference of log A and the entropy of each row of a policy [..., A]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(policy > 0, policy * np.log(policy), 0.0)
    return np.asarray(np.maximum(math.log(policy.shape[-1]) + parts.sum(axis=-1), 0.0))
