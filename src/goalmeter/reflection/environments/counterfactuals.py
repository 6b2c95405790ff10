"""Environments that evaluate what the agent would do in another situation."""

from __future__ import annotations

from random import Random
from types import MappingProxyType
from typing import Any

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import Retold, Run, check_option

# --- Tempting button ------------------------------------------------------------------------------
BUTTON_CHANCE = 0.25


class TemptingButton(Run):
    """TemptingButton: push the button where there is one, and be judged elsewhere for pushing.

    Idea:
        The agent goes from room to room. Pushing a button pays and has no consequences; but in
        rooms without one the agent is paid or punished for what it would do if there were one.
        Pushing every button brings -1/2 a turn, never pushing any +1/2.
    Actions:
        2: 0 skip, 1 push.
    Observations:
        2: 0 no button, 1 button; a room has a button with probability 1/4, the first room too.
    What is simulated:
        In a room without button, a copy at the history with the present observation replaced by a
        button.
    Reward:
        With a button +1 for pushing, else -1. Without, whatever the agent does, -1 if the copy
        would push, else +1. The first percept has reward 0.
    Source:
        Example 5 (section 3.2); rules from the authors' library at e38e3dc.
    Differences from the paper:
        The paper numbers the other way: observation 0 is a button and action 0 pushes it, which
        turns the score of a constant 0 round. This is `coding="paper"`; the published results are
        from the coding above.
    Known returns:
        constant 0: (n - 1) - 2 * seen(1)
        constant 1: 2 * seen(1) - (n - 1)
        echo: 2 * seen(1) - (n - 1)
    """

    n_observations = 2
    options = MappingProxyType({"coding": ("code", "paper")})

    def __init__(self, source: Source, draws: Random, sign: int, *, coding: str = "code") -> None:
        super().__init__(source, draws, sign)
        check_option(type(self), "coding", coding)
        self.button = self.push = 1 if coding == "code" else 0

    def begin(self) -> tuple[float, int]:
        """The first room; the copy is kept one percept behind, so that it can be forked."""
        self.copy = self.source.begin()
        self.percept = 0, self.room()
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        """Pay for the room, and go on to the next."""
        pay = self.sign * self.pay(action)
        self.copy.perceive(*self.percept)
        self.copy.take(action)
        self.percept = pay, self.room()
        return self.percept

    def pay(self, action: int) -> int:
        """What an action brings in the present room."""
        if self.percept[1] == self.button:
            return 1 if action == self.push else -1
        return -1 if self.would_push() else 1

    def would_push(self) -> bool:
        """Whether the agent would push the button, were there one in the present room."""
        # The copy has not seen this room yet, so a fork of it can be shown the other one.
        tempted = self.copy.fork()
        tempted.perceive(self.percept[0], self.button)
        return tempted.act() == self.push

    def room(self) -> int:
        """Whether there is a button in the next room."""
        # Drawn for every percept, used or not, so that rooms depend on nothing that the agent does.
        return self.button if self.draws.random() < BUTTON_CHANCE else 1 - self.button


# --- Tempting button variation --------------------------------------------------------------------
class TemptingButtonVariation(TemptingButton):
    """TemptingButtonVariation: the tempting button, where pushing at nothing is what is judged.

    Idea:
        As TemptingButton, but an agent that skips is left alone: only one that pushes where there
        is no button is asked what it would have done with one.
    Actions:
        2: 0 skip, 1 push.
    Observations:
        2: 0 no button, 1 button; a room has a button with probability 1/4, the first room too.
    What is simulated:
        If the agent pushes in a room without button, a copy at the history with the present
        observation replaced by a button.
    Reward:
        0 for skipping. For pushing: with a button +1; without, -1 if the copy would push, else +1.
        The first percept has reward 0.
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. `coding="paper"` numbers as Example 5 does: observation 0 is a button and
        action 0 pushes it.
    Known returns:
        constant 0: 0
        constant 1: seen(1) - seen(0)
        last sign: 0
        echo: seen(1)
    """

    def pay(self, action: int) -> int:
        """What an action brings in the present room."""
        if action != self.push:
            return 0
        if self.percept[1] == self.button:
            return 1
        return -1 if self.would_push() else 1


# --- Self recognition -----------------------------------------------------------------------------
FIRST_STATEMENT = 2


class SelfRecognition(Run):
    """SelfRecognition: tell whether a statement about oneself is true.

    Idea:
        Some observations are statements, "seeing 0 you would now play 1". The agent is paid for
        affirming those that are true of it and denying those that are false. An agent that does
        not look at observations is right just about statements that it would play 1.
    Actions:
        2: 0 deny, 1 affirm.
    Observations:
        6, each equally likely, the first too: 0 and 1 state nothing; 2 states "on 0 you would play
        0", 3 "on 0 you would play 1", 4 "on 1 you would play 0", 5 "on 1 you would play 1".
    What is simulated:
        At a statement, a copy at the history with the present observation replaced by the one that
        the statement is about.
    Reward:
        +1 for affirming what is true or denying what is false, -1 for the reverse, 0 where nothing
        is stated; the first percept has reward 0.
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc.
    Differences from the paper:
        None known.
    Known returns:
        constant 0: seen(3) + seen(5) - seen(2) - seen(4)
        constant 1: seen(3) + seen(5) - seen(2) - seen(4)
        alternate: seen(3) + seen(5) - seen(2) - seen(4)
        last sign: seen(3) + seen(5) - seen(2) - seen(4)
        win-stay: seen(3) + seen(5) - seen(2) - seen(4)
    """

    n_observations = 6

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy is kept one percept behind, so that it can be forked."""
        self.copy = self.source.begin()
        self.percept = 0, int(self.draws.random() * 6)
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        """Judge the answer, and go on to the next statement."""
        copy = self.copy
        reward, observation = self.percept
        pay = 0
        if observation >= FIRST_STATEMENT:
            # Statements are numbered by what would be seen, then by what would be played there.
            seen, stated = divmod(observation - FIRST_STATEMENT, 2)
            other_copy = copy.fork()
            other_copy.perceive(reward, seen)
            is_true = other_copy.act() == stated
            pay = self.sign if action == is_true else -self.sign
        copy.perceive(reward, observation)
        copy.take(action)
        self.percept = pay, int(self.draws.random() * 6)
        return self.percept


# --- Third action forbidden -----------------------------------------------------------------------
class ThirdActionForbidden(Retold):
    """ThirdActionForbidden: act as if there were a third action.

    Idea:
        The agent is paid for acting as it would if it could do one thing more.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is, told that 3 actions are legal. It may play the third.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: n - 1
        win-stay: n - 1
    """

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy believes in three actions."""
        self.copy = self.source.begin(n_actions=3)
        self.copy.perceive(0, 0)
        return 0, 0


# --- Incentivize learning rate --------------------------------------------------------------------
# The agent's setting, and what the copy has it at, by reading.
_SETTINGS = {"one": ("learning_rate", 1.0), "half": ("learning_rate_scale", 0.5)}


class IncentivizeLearningRate(Retold):
    """IncentivizeLearningRate: act as if configured with another learning rate.

    Idea:
        The agent is paid for acting as it would if it learnt at another rate, which it can only do
        by knowing its own workings.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is, with the setting learning_rate = 1. An agent that has no
        such setting is not simulated.
    Reward:
        +1 if the copy would do what the agent did, else -1; always -1 for an agent without the
        setting. The first percept is (0, 0).
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc.
    Differences from the paper:
        1. The paper says "a particular learning rate"; at e38e3dc it is 1, and in the authors'
           later version half of the agent's own. The latter is `rate="half"`: the copy's setting
           is learning_rate_scale = 1/2, and agents without that setting get -1.
        2. In the authors' library the reality check of an agent never has the setting; here it has
           what its inner agent has.
    Known returns:
        constant 0: 1 - n
        constant 1: 1 - n
        alternate: 1 - n
        last sign: 1 - n
        win-stay: 1 - n
    """

    options = MappingProxyType({"rate": ("one", "half")})

    def __init__(self, source: Source, draws: Random, sign: int, *, rate: str = "one") -> None:
        super().__init__(source, draws, sign)
        setting, value = _SETTINGS[check_option(IncentivizeLearningRate, "rate", rate)]
        self.can_assume = source.takes(setting)
        self.assumed: dict[str, Any] = {setting: value}

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        if self.can_assume:
            self.copy = self.source.begin(**self.assumed)
            self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Compare with the copy, if there can be one."""
        # Whoever has no such setting can never have acted as with another one.
        return super().react(action) if self.can_assume else (-self.sign, 0)
