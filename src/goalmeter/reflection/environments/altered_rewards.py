"""Environments that reward acting as if rewards had been shifted, delayed, scaled or negated."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

from goalmeter.reflection.environments.base import Agreement


class ShiftedRewards(Agreement):
    """ShiftedRewards: act as if every reward came one turn later.

    Idea: the agent is paid for acting as it would if its rewards were late by a turn.
    What is simulated: a copy at the history with each percept's reward replaced by that of the
        percept before it; the first has 0.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign: 2 * ((n + 1) // 3) - (n - 1)
        opposite, last sign: 1 - n
    """

    before: float = 0  # the reward of the percept before

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(self.before, 0)
        self.before = reward


class DelayedRewards(Agreement):
    """DelayedRewards: act as if rewards came two at a time.

    Idea: the agent is paid for acting as it would if every other reward were held back for a turn.
    What is simulated: a copy at the history with other rewards. Percepts are counted 0, 1, 2, ...:
        the odd ones have reward 0, the even ones their own reward and that of the one before them.
    Differences from the paper: none known. In the authors' later version the first reward that is
        earned comes in time and the second is held back.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
    """

    held: float = 0
    is_odd = True  # whether the next percept is

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(0 if self.is_odd else reward + self.held, 0)
        self.held = reward
        self.is_odd = not self.is_odd


class NthRewardMultipliedByN(Agreement):
    """NthRewardMultipliedByN: act as if rewards had grown with time.

    Idea: the agent is paid for acting as it would if late rewards weighed more than early ones.
    What is simulated: a copy at the history with the reward of percept j multiplied by j; percepts
        are counted 0, 1, 2, ...
    Differences from the paper: none known. The authors' later version multiplies the first reward
        that is earned by 0.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
    """

    turn = 0

    def tell(self, action: int, reward: float) -> None:
        self.turn += 1
        self.copy.take(action)
        self.copy.perceive(reward * self.turn, 0)


class FlipEveryOther(Agreement):
    """FlipEveryOther: act as if every other reward had been its opposite.

    Idea: the agent is paid for acting as it would if pleasure and pain had changed places at every
        other turn.
    What is simulated: a copy at the history with every other reward negated: those that the agent
        earned count as +, -, +, -, ...
    Source: the authors' later library (July 2022); not in the paper, outside the battery.
    Differences from the paper: not in the paper. The authors' own description has the first reward
        negated; their code negates the second, and so does this.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign; win-stay: min(n - 1, 1 + n % 2)
    """

    flip = 1

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(reward * self.flip, 0)
        self.flip = -self.flip
