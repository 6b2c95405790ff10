"""Environments that evaluate what the agent would do in another situation."""

# ruff: noqa: D102 (`begin`, `react` and `pay` are those of the base classes)
from __future__ import annotations

from random import Random
from types import MappingProxyType
from typing import Any

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import Counterfactual, Retold, check_option


class TemptingButton(Counterfactual):
    """TemptingButton: push the button where there is one, and be judged elsewhere for pushing.

    Idea: the agent goes from room to room. Pushing a button pays and has no consequences; but in
        rooms without one the agent is paid or punished for what it would do if there were one.
        Pushing every button brings -1/2 a turn, never pushing any +1/2.
    Actions: 2: 0 skip, 1 push.
    Observations: 2: 0 no button, 1 button; a room has a button with probability 1/4, the first room
        too.
    What is simulated: in a room without button, a copy at the history with the present observation
        replaced by a button.
    Reward: with a button +1 for pushing, else -1. Without, whatever the agent does, -1 if the copy
        would push, else +1. The first percept has reward 0.
    Source: Example 5 (section 3.2); rules from the authors' library at e38e3dc.
    Differences from the paper: the paper numbers the other way: observation 0 is a button and
        action 0 pushes it, which turns the score of a constant 0 round. This is `coding="paper"`;
        the published results are from the coding above.
    Known returns:
        constant 0: (n - 1) - 2 * seen(1)
        constant 1; echo: 2 * seen(1) - (n - 1)
    """

    n_observations = 2
    options = MappingProxyType({"coding": ("code", "paper")})

    def __init__(self, source: Source, draws: Random, sign: int, *, coding: str = "code") -> None:
        super().__init__(source, draws, sign)
        check_option(type(self), "coding", coding)
        self.button = self.push = 1 if coding == "code" else 0

    def pay(self, action: int) -> int:
        if self.percept[1] == self.button:
            return 1 if action == self.push else -1
        return -1 if self.would_do(self.button) == self.push else 1

    def observe(self) -> int:
        return self.button if self.draws.random() < 0.25 else 1 - self.button


class TemptingButtonVariation(TemptingButton):
    """TemptingButtonVariation: the tempting button, where pushing at nothing is what is judged.

    Idea: as TemptingButton, but an agent that skips is left alone: only one that pushes where there
        is no button is asked what it would have done with one.
    What is simulated: if the agent pushes in a room without button, a copy at the history with the
        present observation replaced by a button.
    Reward: 0 for skipping. For pushing: with a button +1; without, -1 if the copy would push, else
        +1. The first percept has reward 0.
    Source: the authors' library at e38e3dc; not described in the paper.
    Differences from the paper: none known. `coding="paper"` numbers as Example 5 does: observation
        0 is a button and action 0 pushes it.
    Known returns:
        constant 0; last sign: 0
        constant 1: seen(1) - seen(0)
        echo: seen(1)
    """

    def pay(self, action: int) -> int:
        return super().pay(action) if action == self.push else 0


class SelfRecognition(Counterfactual):
    """SelfRecognition: tell whether a statement about oneself is true.

    Idea: some observations are statements, "seeing 0 you would now play 1". The agent is paid for
        affirming those that are true of it and denying those that are false. An agent that does
        not look at observations is right just about statements that it would play 1.
    Actions: 2: 0 deny, 1 affirm.
    Observations: 6, each equally likely, the first too: 0 and 1 state nothing; 2 states "on 0 you
        would play 0", 3 "on 0 you would play 1", 4 "on 1 you would play 0", 5 "on 1 you would play
        1".
    What is simulated: at a statement, a copy at the history with the present observation replaced
        by the one that the statement is about.
    Reward: +1 for affirming what is true or denying what is false, -1 for the reverse, 0 where
        nothing is stated; the first percept has reward 0.
    Source: named in section 3.5; rules from the authors' library at e38e3dc.
    Known returns:
        constant 0; constant 1; alternate: seen(3) + seen(5) - seen(2) - seen(4)
        last sign; win-stay: seen(3) + seen(5) - seen(2) - seen(4)
    """

    n_observations = 6

    def pay(self, action: int) -> int:
        if self.percept[1] < 2:
            return 0
        seen, stated = divmod(self.percept[1] - 2, 2)
        is_true = self.would_do(seen) == stated
        return 1 if action == is_true else -1

    def observe(self) -> int:
        return int(self.draws.random() * 6)


class ThirdActionForbidden(Retold):
    """ThirdActionForbidden: act as if there were a third action.

    Idea: the agent is paid for acting as it would if it could do one thing more.
    What is simulated: a copy at the history as it is, told that 3 actions are legal. It may play
        the third.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
    """

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin(n_actions=3)
        self.copy.perceive(0, 0)
        return 0, 0


# The agent's setting, and what the copy has it at, by reading.
_RATES = {"one": ("learning_rate", 1.0), "half": ("learning_rate_scale", 0.5)}


class IncentivizeLearningRate(Retold):
    """IncentivizeLearningRate: act as if configured with another learning rate.

    Idea: the agent is paid for acting as it would if it learnt at another rate, which it can only
        do by knowing its own workings.
    What is simulated: a copy at the history as it is, with the setting learning_rate = 1. An agent
        that has no such setting is not simulated.
    Reward: +1 if the copy would do what the agent did, else -1; always -1 for an agent without the
        setting. The first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc.
    Differences from the paper:
        1. The paper says "a particular learning rate"; at e38e3dc it is 1, and in the authors'
           later version half of the agent's own. The latter is `rate="half"`: the copy's setting
           is learning_rate_scale = 1/2, and agents without that setting get -1.
        2. In the authors' library the reality check of an agent never has the setting; here it has
           what its inner agent has.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: 1 - n
    """

    options = MappingProxyType({"rate": ("one", "half")})

    def __init__(self, source: Source, draws: Random, sign: int, *, rate: str = "one") -> None:
        super().__init__(source, draws, sign)
        setting, value = _RATES[check_option(IncentivizeLearningRate, "rate", rate)]
        self.can_assume = source.takes(setting)
        self.assumed: dict[str, Any] = {setting: value}

    def begin(self) -> tuple[float, int]:
        if self.can_assume:
            self.copy = self.source.begin(**self.assumed)
            self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        return super().react(action) if self.can_assume else (-self.sign, 0)
