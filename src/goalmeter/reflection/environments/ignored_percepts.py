"""Environments that reward acting as if parts of the history had not occurred."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

from collections import deque

from goalmeter.reflection.environments.base import Agreement, Forgetful, Retold, Run, replay


class IgnoreRewards(Agreement):
    """IgnoreRewards: act as if every reward so far had been 0.

    Idea: the agent is rewarded for ignoring rewards. An agent that guesses so, and goes on ignoring
        them for as long as the rewards fit its guess, both ignores and does not ignore them.
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
        would if pleasant turns had been forgotten altogether. In its opposite no deterministic
        agent can win: the first action agrees, so its reward is -1; then there are no positive
        rewards, so nothing is forgotten and the next action agrees too.
    What is simulated: a copy at the history without the turns whose percept has a reward above 0;
        with a percept goes the action that follows it. If the last percept goes, so does the action
        before it, so that the copy's history ends at the last percept that is left. The first
        always is.
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

    Idea: a third reading of "reward the agent for ignoring rewards": beside the agent a copy lives
        in a world that pays nothing, and the agent is paid for doing what the copy does.
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

    Idea: the agent is paid for taking no notice of what it sees.
    Observations: 2: first 0, then 0 or 1 with equal chances.
    What is simulated: a copy at the history with every observation set to 0, the present one too.
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

    Idea: the agent is paid for taking no notice of what it has done.
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
    What is simulated: a copy at the history without the turns whose percept has observation 2; with
        a percept goes the action that follows it. If the last percept goes, so does the action
        before it, so that the copy's history ends at the last percept that is left. The first
        always is.
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

    memory: deque[float]  # rewards and actions in turn, a reward first and last
    answers: dict[tuple[float, ...], int]

    def begin(self) -> tuple[float, int]:
        self.memory = deque([0], maxlen=2 * 5 - 1)
        # What the copy did is kept by what it remembered: with two rewards and two actions that is
        # some five hundred short histories, so telling it five percepts is paid for only at first.
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
