"""How high a concave function can rise between points where it is bounded.

MEG at rationality b is concave in b (the soft value is the largest of functions that are linear in
b) and 0 at b = 0. A chord of a concave function, drawn on beyond its ends, lies above it: a lower
bound at one point and an upper bound at another bound the function on the far side of the latter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray


class Point(NamedTuple):
    """A place b > 0, and bounds of the function there; infinite where nothing is known."""

    place: float
    low: float = -math.inf
    high: float = math.inf


def summit(points: Sequence[Point]) -> float:
    """An upper bound over all b >= 0 of a concave function f with f(0) >= 0.

    Returns:
        The bound; inf where f may still rise beyond the last point.

    >>> summit([Point(1.0, high=1.2), Point(2.0, low=1.5, high=1.6), Point(4.0, high=1.0)])
    3.2
    """
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
    """Slopes and heights at `left` of the lines that bound the function between two places."""
    out = []
    for place, high in above:
        for other, low in below:
            # From the lower bound through the upper one, and on to where the function is bounded.
            if other < place <= left or right <= place < other:
                slope = (high - low) / (place - other)
                out.append((slope, high + slope * (left - place)))
    return np.array(out).reshape(-1, 2)


def _highest(lines: FloatArray, left: float, right: float) -> float:
    """The most that the least of some lines gets between two places."""
    slopes, heights = lines.T
    if not len(lines) or (math.isinf(right) and (slopes > 0).all()):
        return math.inf
    # The least of lines is highest at an end or where two of them cross.
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = np.subtract.outer(heights, heights) / -np.subtract.outer(slopes, slopes)
    ends = [0.0] if math.isinf(right) else [0.0, right - left]
    inside = crossings[(crossings > 0) & (crossings < right - left)]
    places = np.concatenate([ends, inside])
    return float((slopes[:, None] * places + heights[:, None]).min(axis=0).max())
