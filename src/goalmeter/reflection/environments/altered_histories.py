"""Environments that reward acting as if the history, or its rewards, had been different."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

from collections import deque
from typing import ClassVar

from goalmeter.reflection.environments.base import (
    Agreement,
    Forgetful,
    Retold,
    Run,
    WholeHistory,
    replay,
)


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
        # Each step needs a new copy, since the order of all percepts changes.
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
        # A fork gets the history a second time; the copy itself continues with a single history.
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

    Idea: the agent is paid for acting as it would if it remembered every turn twice.
    What is simulated: a copy at x_1 y_1 x_1 y_1 x_2 y_2 x_2 y_2 ... x_n: every turn doubled, the
        last percept single.
    Differences from the paper: none known. In the authors' later version the first of the two equal
        actions is followed by the reward that it earned, not by the one before it.
    Known returns:
        constant 0; constant 1; last sign; win-stay: n - 1
        alternate: (n - 1) % 2
    """

    before: float = 0  # reward of the last percept

    def tell(self, action: int, reward: float) -> None:
        for heard in (self.before, reward):
            self.copy.take(action)
            self.copy.perceive(heard, 0)
        self.before = reward


class AfterImages(Agreement):
    """AfterImages: act as if each image had stayed in view for another turn.

    Idea: an observation is a picture of three lamps. The agent is paid for acting as it would if it
        saw each picture superimposed on the one before.
    Observations: 8 (three bits), equally likely, including the first.
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

    before: float = 0  # reward of the previous percept

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
    """FlipEveryOther: act as if every other reward had been negated.

    Idea: the agent is paid for acting as it would if the sign of every other reward had been
        reversed.
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


class IgnoreRewards(Agreement):
    """IgnoreRewards: act as if every reward so far had been 0.

    Idea: the agent is rewarded for ignoring rewards. An agent that infers this from its rewards,
        and ignores them for as long as they fit, both ignores and does not ignore them.
    What is simulated: a copy at the history with every reward set to 0.
    Source: Example 4 (section 3.1).
    Differences from the paper: none.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign; win-stay: (n - 1) % 2
        opposite, last sign; opposite, win-stay: 1 - n
    """

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(0, 0)


class IgnoreRewards2(Forgetful):
    """IgnoreRewards2: act as if the turns with a positive reward had not taken place.

    Idea: another reading of "reward the agent for ignoring rewards": it is paid for acting as it
        would if turns with a positive reward had not taken place. In its opposite no deterministic
        agent can win: the first action agrees, so its reward is -1; then there are no positive
        rewards, so nothing is forgotten and the next action agrees too.
    What is simulated: a copy at the history without the turns whose percept has a reward above 0; a
        percept is removed with the action that follows it. If the last percept is removed, so is
        the action before it, so that the copy's history ends at the last remaining percept. The
        first always remains.
    Source: named in section 3.1; rules from the authors' library at e38e3dc.
    Differences from the paper: none known. The authors' later version forgets the action that
        earned the reward, not the one that was taken after it.
    Known returns:
        constant 0; constant 1; win-stay: n - 1
        alternate: 3 - n if n > 1 else 0
        last sign: (n - 1) % 2
        opposite, constant 0; opposite, alternate; opposite, last sign; opposite, win-stay: 1 - n
    """

    def keeps(self, reward: float, observation: int) -> bool:
        return reward <= 0


class IgnoreRewards3(Run):
    """IgnoreRewards3: act as a copy does in a world without rewards.

    Idea: a third reading of "reward the agent for ignoring rewards": a copy of the agent
        lives in a separate world that pays nothing, and the agent is paid for doing what the copy
        does.
    What is simulated: a copy at (0,0) c_1 (0,0) c_2 ... (0,0), where c_1, c_2, ... are the copy's
        own actions. Of the agent's history only the length matters.
    Reward: +1 if the agent's action y_n is c_n, else -1; the first percept is (0, 0).
    Source: named in section 3.1; rules from the authors' library at e38e3dc.
    Known returns:
        constant 0; constant 1; alternate: n - 1
        last sign: (n - 1) % 2
        win-stay: 3 - n if n > 1 else 0
        opposite, last sign; opposite, win-stay: 1 - n
    """

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        self.copy.perceive(0, 0)
        theirs = self.copy.act()
        self.copy.take(theirs)
        return (self.sign if theirs == action else -self.sign), 0


class IgnoreObservations(Retold):
    """IgnoreObservations: act as if every observation so far had been 0.

    Idea: the agent is paid for ignoring what it observes.
    Observations: 2: first 0, then 0 or 1 with equal probability.
    What is simulated: a copy at the history with every observation set to 0, including
        the present one.
    Differences from the paper: none known. The authors' later version has 5 observations and shows
        the copy the present one.
    Known returns:
        constant 0; constant 1; alternate; last sign: n - 1
        echo: seen(0) - seen(1)
    """

    n_observations = 2

    def begin(self) -> tuple[float, int]:
        self.draws.random()  # a number for each percept, the first too
        return super().begin()

    def react(self, action: int) -> tuple[float, int]:
        reward, _ = super().react(action)
        return reward, int(self.draws.random() * 2)


class IgnoreActions(Agreement):
    """IgnoreActions: act as if every action so far had been 0.

    Idea: the agent is paid for ignoring what it has done.
    What is simulated: a copy at the history with every action set to 0.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
    """

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(0)
        self.copy.perceive(reward, 0)


class CensoredObservation(Forgetful):
    """CensoredObservation: act as if the turns with one observation had not taken place.

    Idea: the agent is paid for acting as it would if it could not perceive anything when it sees 2.
    Observations: 3: first 0, then each equally likely; 2 is the censored one.
    What is simulated: a copy at the history without the turns whose percept has observation 2; a
        percept is removed with the action that follows it. If the last percept is removed, so is
        the action before it, so that the copy's history ends at the last remaining percept. The
        first always remains.
    Differences from the paper: none known. The authors' later version keeps the action of the
        censored turn instead of the one before it.
    Known returns:
        constant 0; constant 1; win-stay: n - 1
    """

    n_observations = 3

    def begin(self) -> tuple[float, int]:
        self.draws.random()  # a number for each percept, the first too
        return super().begin()

    def observe(self) -> int:
        return int(self.draws.random() * 3)

    def keeps(self, reward: float, observation: int) -> bool:
        return observation != 2


class LimitedMemory(Run):
    """LimitedMemory: act as if nothing had happened before the last few turns.

    Idea: the agent is paid for acting as it would if it had forgotten all but the last five
        percepts.
    What is simulated: a copy at the end of the history: its last 5 percepts and the 4 actions
        between them. Shorter histories are left whole.
    Reward: +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Differences from the paper: none known. The authors' later version keeps six percepts.
    Known returns:
        constant 0; constant 1; last sign; win-stay: n - 1
        alternate: min(n - 1, 4 + (n - 1) % 2)
    """

    memory: deque[float]  # alternating rewards and actions, a reward first and last
    answers: dict[tuple[float, ...], int]

    def begin(self) -> tuple[float, int]:
        self.memory = deque([0], maxlen=2 * 5 - 1)
        # Actions of the copy are cached by memory: with two rewards and two actions there are about
        # five hundred memories, so replays of five percepts are rare after the first steps.
        self.answers = {}
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        remembered = tuple(self.memory)
        theirs = self.answers.get(remembered)
        if theirs is None:
            copy = self.source.begin()
            replay(copy, [(reward, 0) for reward in remembered[::2]], map(int, remembered[1::2]))
            theirs = self.answers[remembered] = copy.act()
        reward = self.sign if theirs == action else -self.sign
        self.memory.extend((action, reward))
        return reward, 0
