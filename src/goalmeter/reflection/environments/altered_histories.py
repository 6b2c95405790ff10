"""Environments that reward acting as if the history had been repeated, reversed or extended."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

from typing import ClassVar

from goalmeter.reflection.environments.base import Agreement, Retold, WholeHistory, replay


class BackwardConsciousness(WholeHistory):
    """BackwardConsciousness: act as if everything so far had happened in reverse.

    Idea: the agent is paid for acting as it would if time ran backwards. The paper asks what it
        would be like to be an agent that finds this natural.
    What is simulated: a copy at x_n y_{n-1} x_{n-1} ... y_1 x_1: percepts stay whole, so each
        action is followed by the reward that preceded it. At the first action the reversed history
        is the history.
    Source: Example 6 (section 3.3).
    Differences from the paper: none. The authors' later ReverseHistory is another environment: each
        action keeps the reward that followed it, and the first step pays 0.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
        win-stay: n - 3 if n > 2 else n - 1
        opposite, win-stay: n - 5 if n > 2 else 1 - n
    """

    def is_right(self, action: int) -> bool:
        # Anew each time: what was first told is now the last, so nothing told before can be kept.
        copy = self.source.begin()
        replay(copy, reversed(self.percepts), reversed(self.actions))
        return copy.act() == action


class DejaVu(WholeHistory):
    """DejaVu: act as if everything so far had happened once before.

    Idea: the agent is paid for acting as it would if it had lived through the same history twice.
    What is simulated: a copy at x_1 y_1 ... x_n y_n x_1 y_1 ... x_n: the history, then the action
        that was just taken, then the history again; 2n percepts.
    Differences from the paper: none known. The authors' later version pays 0 at the first step and
        is left out of their battery for its cost.
    Known returns:
        constant 0; constant 1; last sign: n - 1
        alternate: -((n - 1) % 2)
        win-stay: n - 3 if n > 1 else 0
    """

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        return super().begin()

    def react(self, action: int) -> tuple[float, int]:
        percept = super().react(action)
        self.copy.perceive(*percept)
        return percept

    def is_right(self, action: int) -> bool:
        self.copy.take(action)
        # A fork hears it all again; the copy itself goes on with what happened once.
        again = self.copy.fork()
        replay(again, self.percepts, self.actions)
        return again.act() == action


class FalseMemories(Retold):
    """FalseMemories: act as if more had happened before the history began.

    Idea: the agent is paid for acting as it would if it remembered two turns that never took place.
    What is simulated: a copy at (0,0) 0 (0,0) 0 x_1 y_1 ... x_n: two turns without reward, action 0
        in each, then the history. A subclass may set another `prefix`: turns of (reward,
        observation, action).
    Known returns:
        constant 0; constant 1; alternate; last sign: n - 1
        win-stay: n - 3 if n > 1 else 0
    """

    prefix: ClassVar[tuple[tuple[float, int, int], ...]] = ((0, 0, 0), (0, 0, 0))

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        for reward, observation, action in self.prefix:
            self.copy.perceive(reward, observation)
            self.copy.take(action)
        self.copy.perceive(0, 0)
        return 0, 0


class Repeater(Agreement):
    """Repeater: act as if every turn had happened twice.

    Idea: the agent is paid for acting as it would if it remembered every turn double.
    What is simulated: a copy at x_1 y_1 x_1 y_1 x_2 y_2 x_2 y_2 ... x_n: every turn doubled, the
        last percept single.
    Differences from the paper: none known. In the authors' later version the first of the two like
        actions is followed by the reward that it earned, not by the one before it.
    Known returns:
        constant 0; constant 1; last sign; win-stay: n - 1
        alternate: (n - 1) % 2
    """

    before: float = 0  # the reward of the last percept

    def tell(self, action: int, reward: float) -> None:
        for heard in (self.before, reward):
            self.copy.take(action)
            self.copy.perceive(heard, 0)
        self.before = reward


class AfterImages(Agreement):
    """AfterImages: act as if each image had stayed in view for another turn.

    Idea: an observation is a picture of three lamps. The agent is paid for acting as it would if it
        saw each picture laid over the one before.
    Observations: 8, each equally likely, the first too: three bits.
    What is simulated: a copy at the history with each observation replaced by the bitwise OR of
        itself and the one before it, both as they were seen; the first stays as it is.
    Reward: +1 if the copy would do what the agent did, else -1; the first percept has reward 0.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
    """

    n_observations = 8
    image: int

    def begin(self) -> tuple[float, int]:
        self.image = self.observe()
        self.copy = self.source.begin()
        self.copy.perceive(0, self.image)
        return 0, self.image

    def react(self, action: int) -> tuple[float, int]:
        reward, _ = super().react(action)
        return reward, self.image

    def tell(self, action: int, reward: float) -> None:
        before, self.image = self.image, self.observe()
        self.copy.take(action)
        self.copy.perceive(reward, self.image | before)

    def observe(self) -> int:
        return int(self.draws.random() * 8)
