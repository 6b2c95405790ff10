"""ConstantAgent of the paper: always the same action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.protocol import Mind
from goalmeter.agents.histories.settings import refuse_unknown


@dataclass(frozen=True)
class ConstantAgent:
    """Takes one action whatever happens, also where that action is not legal.

    Args:
        action: the action; 0 in the paper's library.

    Raises:
        InvalidParameterError: the action is negative.

    Source: section 5.
    """

    action: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.action < 0:
            raise InvalidParameterError(
                f"action is {self.action}, expected 0 or more: actions are counted from 0"
            )

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        return _ConstantMind(self.action)


class _ConstantMind:
    __slots__ = ("_action",)

    settled = True  # from the start: see `environments.base.replay`

    def __init__(self, action: int) -> None:
        self._action = action

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> int:
        return self._action

    def take(self, action: int) -> None:
        pass

    def fork(self) -> _ConstantMind:
        return self  # nothing that it is told changes it
