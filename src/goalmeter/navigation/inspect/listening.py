"""Who is told of walks while Inspect makes them; its own logs are written later."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from goalmeter.navigation.record import Trajectory


class Listener(Protocol):
    """Hears of each walk, and may refuse that there is another one."""

    def begins(self) -> None:
        """A walk is about to begin; an error raised here is its end."""

    def step(self) -> None:
        """A step is about to be asked for; an error raised here is the end of its walk."""

    def failed(self, error: Exception) -> None:
        """Asking failed; the walk ends."""

    def ended(self, trajectory: Trajectory) -> None:
        """A walk has ended, in whatever way."""


class Nobody:
    """Where a task runs by itself, as under `inspect eval`."""

    def begins(self) -> None:
        """Nothing."""

    def step(self) -> None:
        """Nothing."""

    def failed(self, error: Exception) -> None:
        """Nothing."""

    def ended(self, trajectory: Trajectory) -> None:
        """Nothing."""


listener: ContextVar[Listener] = ContextVar("listener", default=Nobody())  # noqa: B039 (no state)
