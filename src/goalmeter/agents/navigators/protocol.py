"""What an agent of a grid world is: it begins a walk, and is asked for one move after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld

Probabilities = tuple[float, float, float, float]


@dataclass(frozen=True)
class Decision:
    """What an agent answered, and how it came about where that is known.

    Attributes:
        action: 0 to 3 as in `gridworld.ACTIONS`; None if the answer was no action.
        probabilities: of the four actions; less than 1 together if other answers were possible.
        raw: the output as it came.
        reasoning: what was thought before it.
        prompt: what was asked.
        prompt_tokens: ids of the prompt's tokens, or how many there were.
        answer_tokens: ids of the answer's tokens, the one that ended it included.
        attempts: how often was asked.
        invalid: why there is no action.
    """

    action: int | None
    probabilities: Probabilities | None = None
    raw: str | None = None
    reasoning: str | None = None
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None
    answer_tokens: tuple[int, ...] | None = None
    attempts: int | None = None
    invalid: str | None = None


class Walk(Protocol):
    """One agent on its way through one world. It may remember where it has been."""

    def act(self, state: State) -> Decision:
        """What it does in a state; called once a step, in the order of the steps."""
        ...


class Navigator(Protocol):
    """An agent of grid worlds."""

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out from the start of a world.

        Args:
            world: where.
            draws: the source of everything random in the walk.
        """
        ...
