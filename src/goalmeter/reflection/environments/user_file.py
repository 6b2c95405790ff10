"""Environments from a user's own file."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from operator import index
from pathlib import Path
from random import Random

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.protocol import Source
from goalmeter.agents.user_code import load
from goalmeter.reflection.environments.base import Run


def from_file(path: str | Path, name: str) -> type[Run]:
    """The class of runs that a Python file calls by a name. The file is run anew each time.

    Raises:
        InvalidFileError: there is no such file, it fails, or has nothing of that name.
    """
    run: type[Run] = load(path, name, kind="environment")
    return run


class Checked(Run):
    """A run of a user's class, whose percepts are checked: a finite reward, a legal observation.

    NumPy's numbers are turned into Python's, so a user need not do so.

    Args:
        source: of the agent.
        draws: the run's own randomness.
        inner: the user's run.
        legal: how many observations there are.

    Raises:
        InvalidParameterError: from `begin` and `react`, for anything but a percept.
    """

    def __init__(self, source: Source, draws: Random, inner: Run, legal: int) -> None:
        super().__init__(source, draws, inner.sign)
        self.inner = inner
        self.legal = legal

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        return self._percept(self.inner.begin, "begin")

    def react(self, action: int) -> tuple[float, int]:
        """The percept that follows an action."""
        return self._percept(lambda: self.inner.react(action), "react")

    def _percept(self, give: Callable[[], tuple[float, int]], method: str) -> tuple[float, int]:
        percept = give()
        try:
            reward, observation = percept
            observation = index(observation)
            if type(reward) is not int:
                reward = float(reward) if isinstance(reward, Real) else math.nan
        except (TypeError, ValueError):
            reward, observation = math.nan, 0
        if not (math.isfinite(reward) and 0 <= observation < self.legal):
            raise InvalidParameterError(
                f"{type(self.inner).__name__}.{method} gives {shown(percept)}, expected a finite "
                f"reward and an observation from 0 to {self.legal - 1}"
            )
        return reward, observation
