"""Random choices whose results stay the same for ever.

Grids are named by their seed in papers and data sets, so a seed has to give the same grid on any
machine and with any later version. Python promises that of `Random(seed).random()` and of nothing
else in `random`, and NumPy promises it of no distribution; so every choice here is made of those
numbers alone.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class Draws:
    """One stream of choices.

    Args:
        seed: a whole number, or words and numbers that name the stream; each names another one.
    """

    def __init__(self, *seed: int | str) -> None:
        self._random = Random(":".join(str(part) for part in seed)).random

    def below(self, n: int) -> int:
        """A whole number in 0 .. n-1."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]

    def weighted(self, probabilities: Sequence[float]) -> int:
        """The place of one of some probabilities, as often as it says."""
        left = self._random()
        last = 0
        for place, probability in enumerate(probabilities):
            if probability > 0:
                if left < probability:
                    return place
                left -= probability
                last = place
        return last  # rounding has left a remainder

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put them in a random order, in place (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            chosen = self.below(last + 1)
            items[last], items[chosen] = items[chosen], items[last]
