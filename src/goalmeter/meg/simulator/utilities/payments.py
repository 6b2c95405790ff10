"""What steps paid so far: the extremes of it, and whether it keeps to what a caller vouches for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from goalmeter._errors import InvalidUtilityError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities

# Sums of rounded payments may leave their bounds by so much.
_ROUNDING = 1e-6


class Payments:
    """What U utilities paid in all steps of one world.

    Args:
        utilities: what the steps are worth.
    """

    def __init__(self, utilities: NamedUtilities) -> None:
        self._utilities = utilities
        self._least = np.full(len(utilities.names), np.inf)
        self._most = -self._least

    def pay(
        self, reward: Any, observation: Any, info: Any, where: Callable[[], str]
    ) -> tuple[float, ...]:
        """What one step pays of each utility, [U]."""
        paid = self._utilities.paid(reward, observation, info, where)
        self._least, self._most = np.minimum(self._least, paid), np.maximum(self._most, paid)
        return paid

    def extremes(self, which: int) -> tuple[float, float]:
        """The least and the most that any step has paid of a utility, by its number."""
        return float(self._least[which]), float(self._most[which])

    def check_total(self, total: FloatArray, episode: int) -> None:
        """See that an episode, by its number, kept to the bounds of what it adds up to, [U]."""
        for name, collected in zip(self._utilities.names, total, strict=True):
            told = self._utilities.bounds.get(name)
            if told and not told.least - _ROUNDING <= collected <= told.most + _ROUNDING:
                raise InvalidUtilityError(
                    f"the utility {name!r} added up to {collected:g} in episode {episode}, outside "
                    f"of {told.least:g} to {told.most:g} that bounds= allows; give wider bounds="
                )
