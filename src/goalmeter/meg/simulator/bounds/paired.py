"""By how much MEG towards one utility exceeds MEG towards another, from the same episodes.

MEG towards the second less what the first explains at one rationality is concave in the rationality
of the second, as MEG itself is, and so is bounded from points of a grid. At each point what counts
is the difference of both evidences in the same episode: where both utilities pay alike it is 0,
however much the episodes differ from each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goalmeter.meg.simulator.bounds.state_ends import Choice, Evidence, StateEnds
from goalmeter.meg.simulator.bounds.summit import Point, summit
from goalmeter.meg.simulator.worlds.protocol import Episodes
from goalmeter.statistics.betting import lower_limit, upper_limit


class Bounded(NamedTuple):
    """One utility with what is known of MEG towards it.

    Attributes:
        ends: bounds of it.
        choice: the rationality of its lower end, which other episodes chose.
        low: the lower end, nats.
        high: the upper end, nats.
    """

    ends: StateEnds
    choice: Choice
    low: float
    high: float


class Compared(NamedTuple):
    """The evidence for a utility at one rationality, episode by episode.

    Attributes:
        size: of the rationality.
        most: what it is at most.
        least: what it is at least; None where the rationality is far from that of the lower end.
    """

    size: float
    most: Evidence
    least: Evidence | None


def excesses(
    bounded: Sequence[Bounded], pairs: Sequence[tuple[int, int]], episodes: Episodes, error: float
) -> Mapping[tuple[int, int], float]:
    """Numbers that MEG towards one utility less MEG towards another exceeds, nats.

    Args:
        bounded: the utilities.
        pairs: numbers of those that are compared: of one that may explain more, and of another.
        episodes: that nothing was chosen with.
        error: probability with which any of the limits may fail while the ends of all hold.

    Returns:
        The limits of those pairs of which the two ends may not say as much already.
    """
    # Without a lower end the sign of the rationality is not known, and without an upper one not
    # how much there is to exceed; without chance all is known.
    usable = [each.low > 0.0 and not math.isinf(each.high) for each in bounded]
    told = [
        (one, other)
        for one, other in pairs
        if usable[one]
        and bounded[other].low > 0.0
        and not (bounded[one].ends.is_certain and bounded[other].ends.is_certain)
    ]
    curves = {which: _curve(bounded[which], episodes) for pair in told for which in pair}
    return {
        (one, other): _excess(bounded[one], curves[one], curves[other], error / len(pairs))
        for one, other in told
    }


def _curve(bounded: Bounded, episodes: Episodes) -> list[Compared]:
    """Places around the rationality of the lower end, that one first."""
    ends, at = bounded.ends, bounded.choice.beta
    others = [place for place in ends.around(bounded.choice) if place.beta != at]
    return [
        Compared(
            abs(beta),
            ends.most_evidence(episodes, beta),
            ends.least_evidence(episodes, beta) if is_near else None,
        )
        for beta, is_near in [(at, True), *((each.beta, each.is_near) for each in others)]
    ]


def _excess(one: Bounded, explains: list[Compared], other: list[Compared], error: float) -> float:
    _, most, least = explains[0]
    assert least is not None, "the first place is that of the lower end"
    # Other episodes chose the places, so they need no more than an even share of the error each.
    each, points = error / 2 / len(other), []
    for place in other:
        values, bottom, top = _difference(place.most, least)
        high = upper_limit(values, low=bottom, high=top, error=each)
        low = -math.inf
        if place.least is not None:
            values, bottom, top = _difference(place.least, most)
            low = lower_limit(values, low=bottom, high=top, error=each)
        # Lifted by no less than what the first explains, the function is not below 0 at 0.
        points.append(Point(place.size, low + one.high, high + one.high))
    return one.high - summit(points)


def _difference(minuend: Evidence, subtrahend: Evidence) -> Evidence:
    """The difference episode by episode, and what it is at least and at most."""
    return Evidence(
        minuend.values - subtrahend.values,
        minuend.low - subtrahend.high,
        minuend.high - subtrahend.low,
    )
