"""Whether the steps of episodes and the steps from saved states may be of one distribution.

Both are draws of one action in one state if the state's name holds all that decides. Let q be a
predictor that is named in advance. Under one distribution p of both,

    q(walked) q(drawn) / max over p of p(walked) p(drawn)

is at most q(walked) q(drawn) / p(walked) p(drawn), whose expectation is 1 whatever p is, and at
every time of looking. So it exceeds 1 / error with a probability of `error` at most (Ville's
inequality; Wasserman, Ramdas & Balakrishnan, "Universal inference", PNAS 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Weight of each outcome in the predictor, a Dirichlet mixture.
_WEIGHT = 0.5
# Probability with which a world that keeps its promise is refused nevertheless.
_ERROR = 1e-4
# sum over i >= 2 of 1 / (i log(i)^2), rounded up, as in `confidence`.
_SERIES = 2.11


def disagree(walked: Sequence[int], drawn: Sequence[int], rank: int) -> bool:
    """Whether counts of the same outcomes contradict that both are of one distribution.

    Args:
        walked: counts from episodes, [K].
        drawn: counts from the saved state, [K].
        rank: a number that no other pair of counts has, from 0: its share of the error.
    """
    place = rank + 2.0
    price = math.log(_SERIES * place * math.log(place) ** 2 / _ERROR)
    together = [a + b for a, b in zip(walked, drawn, strict=True)]
    total = sum(together)
    likely = sum(n * math.log(n / total) for n in together if n)
    return _predicted(walked) + _predicted(drawn) - likely > price


def _predicted(counts: Sequence[int]) -> float:
    """Log probability of a sequence with these counts under the mixture."""
    size = _WEIGHT * len(counts)
    out = math.lgamma(size) - math.lgamma(size + sum(counts))
    return out + sum(math.lgamma(_WEIGHT + n) - math.lgamma(_WEIGHT) for n in counts)
