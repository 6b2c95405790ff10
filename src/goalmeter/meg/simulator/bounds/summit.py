"""How high a concave function can rise between points where it is bounded.

MEG at rationality b is concave in b (the soft value is the largest of functions that are linear in
b) and 0 at b = 0. A chord of a concave function, drawn on beyond its ends, lies above it: a lower
bound at one point and an upper bound at another bound the function on the far side of the latter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def summit(points: Sequence[tuple[float, float]], at: float, low: float) -> float:
    """An upper bound of a concave function f over all b, with f(0) = 0.

    Args:
        points: (b, upper bound of f(b)), b > 0.
        at: a positive b.
        low: a lower bound of f(at), positive; f is then negative for b < 0.

    Returns:
        The bound; inf where f may still rise beyond the last point.

    >>> summit([(1.0, 1.2), (2.0, 1.6), (4.0, 1.0)], at=2.0, low=1.5)
    3.2
    """
    known = sorted(points)
    if not known or low <= 0.0:
        return math.inf
    edges = [0.0, *(b for b, _ in known), math.inf]
    most = 0.0
    for left, right in pairwise(edges):
        bounds = [_drawn_on(point, (0.0, 0.0), right) for point in known if point[0] <= left]
        for point in known:
            if point[0] <= left and point[0] > at:
                bounds.append(_drawn_on(point, (at, low), right))
            elif point[0] >= right and point[0] < at:
                bounds.append(_drawn_on(point, (at, low), left))
        # Between a point and the place of the lower bound both sides of that place are covered by
        # points beyond it, and the function is at most what the nearest of them allow.
        most = max(most, min(bounds, default=math.inf))
    return most


def _drawn_on(point: tuple[float, float], other: tuple[float, float], end: float) -> float:
    """The largest value of the line through both, from the point to an end beyond it."""
    slope = (point[1] - other[1]) / (point[0] - other[0])
    rise = slope * (end - point[0]) if slope != 0.0 else 0.0
    return max(point[1], point[1] + rise)
