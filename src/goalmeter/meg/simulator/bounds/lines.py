"""Upper ends of MEG from policies, whatever the rationality.

For every policy m and every b the soft value is at least b E_m[sum u] - KL(m), with KL(m) the nats
by which its decisions differ from free choice. So MEG at b is at most the line
b (E_agent[sum u] - E_m[sum u]) + KL(m), and the maximum over b is at most that of the lowest line.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# Slopes below this share of the utility's scale are rounding.
_LEVEL = 1e-12


class Line(NamedTuple):
    """An upper bound slope * |b| + height of MEG at rationalities of one sign, nats."""

    slope: float
    height: float


def highest(lines: list[Line], scale: float = 1.0) -> float:
    """The largest value over b >= 0 of the lowest line; inf where all rise.

    Args:
        lines: at least one.
        scale: of what slopes are made of, for telling a level line from a rising one.

    >>> highest([Line(1.0, 0.0), Line(-1.0, 2.0)])
    1.0
    """
    level = [Line(0.0 if abs(a) <= _LEVEL * scale else a, k) for a, k in lines]
    if all(slope > 0 for slope, _ in level):
        return math.inf

    def lowest(b: float) -> float:
        return min(slope * b + height for slope, height in level)

    # The lowest of some lines is concave, so its maximum is at 0 or where two of them cross.
    crossings = [
        (other.height - line.height) / (line.slope - other.slope)
        for line in level
        for other in level
        if line.slope > other.slope and other.height >= line.height
    ]
    return max(0.0, *map(lowest, [0.0, *crossings]))
