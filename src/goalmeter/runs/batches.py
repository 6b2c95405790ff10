"""How many trials go into a batch: as many as are worth its way, by what they have cost so far."""

from __future__ import annotations

from collections import deque
from statistics import median

_MOST = 1000  # trials of a batch, whatever they cost
_REMEMBERED = 15  # batches whose costs are looked at
# So many batches are left for each worker, so that none works long after the others are through.
_ROUNDS_LEFT = 4


class BatchSize:
    """Learns what a trial costs, and says how many make a batch.

    What a trial's result is does not depend on the batch that it is in, so neither this clock nor
    the number of workers can change a number.

    Args:
        slots: batches that are made at once.
        worthwhile: seconds of work that make a batch worth its way; 0 for one trial at a time.
    """

    def __init__(self, slots: int, worthwhile: float) -> None:
        self._slots = slots
        self._worthwhile = worthwhile
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)

    def took(self, trials: int, seconds: float) -> None:
        """A batch has ended."""
        # Each trial would count alike, but the first batches of a worker pay for its imports: of
        # whole batches the median leaves those out.
        self._costs.append(seconds / trials)

    def next(self, left: int) -> int:
        """Trials of the next batch, at least 1.

        Args:
            left: trials that no batch has yet.
        """
        if not self._costs or not self._worthwhile:
            return 1
        by_cost = self._worthwhile / max(median(self._costs), self._worthwhile / _MOST)
        fair = left / (self._slots * _ROUNDS_LEFT)
        return max(1, int(min(by_cost, fair)))
