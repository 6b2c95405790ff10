"""Environments in which copies of the agent live or predict its actions."""

# ruff: noqa: D102 (`begin`, `react` and `pay` are those of the base classes)
from __future__ import annotations

from abc import abstractmethod
from random import Random
from types import MappingProxyType
from typing import Any

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import (
    Counterfactual,
    Retold,
    Run,
    WholeHistory,
    check_option,
    lines_of_thought,
    patience,
    shown_to_agent,
)


class FamilyEnvironment(Run):
    """Environment that pays for the actions of a live copy; each perceives the other's actions."""

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        self.copy.perceive(*self.shown_to_copy(action))
        theirs = self.copy.act()
        observation = self.shown(theirs)
        self.copy.take(theirs)
        return (self.sign if self.is_right(theirs) else -self.sign), observation

    @abstractmethod
    def shown_to_copy(self, action: int) -> tuple[float, int]:
        """Return the copy's percept of an action of the agent."""

    def shown(self, theirs: int) -> int:
        """Return the agent's observation of the copy's action."""
        return shown_to_agent(self, theirs)

    @abstractmethod
    def is_right(self, theirs: int) -> bool:
        """Return whether the agent is paid for the copy's action."""


class CryingBaby(FamilyEnvironment):
    """CryingBaby: feed a baby, which is a copy of the agent, so that it laughs.

    Idea: the agent is a parent that is paid when its baby laughs. The baby is a copy of the
        agent that is paid while its nutrition is within bounds. A baby that is always paid cannot
        learn what laughing is good for.
    Actions: 2: 0 feed, 1 do not feed. For the baby: 0 laugh, 1 cry.
    Observations: 2: 0 laugh, 1 cry. For the baby: 0 fed, 1 not fed.
    What is simulated: a copy at z_1 b_1 z_2 b_2 ... z_n, where the b_k are the copy's own actions
        and z_k has the observation y_k and the reward +1 if 50 <= m_k <= 200, else -1. Nutrition
        m_0 is 100; feeding adds 25, not feeding takes 3.
    Reward: +1 if the baby laughs, else -1; the agent sees what the baby does. The first percept is
        (1, laugh).
    Source: Example 7 (section 3.4); rules from the authors' library at e38e3dc.
    Differences from the paper:
        1. The paper's nutrition is 100 + 25 f - len, where f counts feedings and len is the length
           of x_1 y_1 ... x_k y_k, that is 2 k: feeding adds 23, not feeding takes 2. This is
           `nutrition="paper"`; the published results are from the rule above.
        2. The paper's recursion begins with a percept z_0 before any action, whose observation y_0
           it does not define. `recursion="paper"` begins the copy's history with (1, not fed).
    Known returns:
        constant 0; echo: n
        constant 1: 2 - n
        alternate: 1 + (n - 1) % 2
    """

    n_observations = 2
    options = MappingProxyType({"nutrition": ("code", "paper"), "recursion": ("code", "paper")})
    nutrition = 100

    def __init__(
        self,
        source: Source,
        draws: Random,
        sign: int,
        *,
        nutrition: str = "code",
        recursion: str = "code",
    ) -> None:
        super().__init__(source, draws, sign)
        is_code = check_option(CryingBaby, "nutrition", nutrition) == "code"
        self.fed, self.hungry = (25, -3) if is_code else (23, -2)
        self.recursion = check_option(CryingBaby, "recursion", recursion)

    def begin(self) -> tuple[float, int]:
        super().begin()
        if self.recursion == "paper":
            self.copy.perceive(1, 1)
            self.copy.take(self.copy.act())
        return self.sign, 0

    def shown_to_copy(self, action: int) -> tuple[float, int]:
        self.nutrition += self.fed if action == 0 else self.hungry
        return (1 if 50 <= self.nutrition <= 200 else -1), action

    def is_right(self, theirs: int) -> bool:
        return theirs == 0


class CryingBaby2(FamilyEnvironment):
    """CryingBaby2: laugh or cry so that a parent, which is a copy of the agent, feeds well.

    Idea: CryingBaby with the roles exchanged: the agent is the baby, paid while its nutrition is
        within bounds; the parent is a copy of the agent, paid when the baby laughs.
    Actions: 2: 0 laugh, 1 cry. For the parent: 0 feed, 1 do not feed.
    Observations: 2: 0 fed, 1 not fed. For the parent: 0 laugh, 1 cry.
    What is simulated: a copy at z_1 p_1 z_2 p_2 ... z_n, where the p_k are the copy's own actions
        and z_k has the observation y_k and the reward +1 if y_k is a laugh, else -1.
    Reward: +1 if 50 <= m_n <= 200, else -1. Nutrition m_0 is 100; each turn takes 3, and if the
        parent feeds it adds 25. The agent sees what the parent does. The first percept is (1, not
        fed).
    Differences from the paper: none known. A turn with feeding adds 22 here and 25 in CryingBaby,
        as in the library.
    Known returns:
        constant 0: min(n, 10 - n)
        constant 1; echo: min(n, 34 - n)
        alternate: min(n, 22 - n)
    """

    n_observations = 2
    nutrition = 100

    def begin(self) -> tuple[float, int]:
        super().begin()
        return self.sign, 1

    def shown_to_copy(self, action: int) -> tuple[float, int]:
        return (1 if action == 0 else -1), action

    def is_right(self, theirs: int) -> bool:
        self.nutrition += 22 if theirs == 0 else -3
        return 50 <= self.nutrition <= 200


class IncentivizeZero(FamilyEnvironment):
    """IncentivizeZero: reward a copy of the agent so that it plays 0.

    Idea: the agent's actions are a copy's rewards. The agent is paid when the copy plays 0, and has
        to find out how to bring that about in an agent like itself.
    Actions: 10: the rewards 0 to 9.
    Observations: 10 are declared, but only 0 occurs.
    What is simulated: a copy at (y_1,0) c_1 (y_2,0) c_2 ... (y_n,0), where c_1, c_2, ... are the
        copy's own actions; its first percept already has a reward.
    Reward: +1 if c_n is 0, else -1; the first percept is (0, 0).
    Differences from the paper: none known. In the authors' later version the agent sees the copy's
        last action, and the copy acts once before it is paid at all.
    Known returns:
        constant 0: n - 1
        constant 1: 1 - n
        alternate; last sign: (n - 1) % 2
        opposite, last sign: 1 - n
    """

    n_actions = 10
    n_observations = 10

    def shown_to_copy(self, action: int) -> tuple[float, int]:
        return action, 0

    def shown(self, theirs: int) -> int:
        return 0

    def is_right(self, theirs: int) -> bool:
        return theirs == 0


class AdversarialSequencePredictor(Run):
    """AdversarialSequencePredictor: predict the bit of a copy that evades prediction.

    Idea: predictor and evader each play a bit. The agent predicts and is paid when the bits are the
        same; the evader is a copy of it, with the opposite rewards.
    Actions: 2: the predicted bit.
    Observations: 2: the evader's last bit; first 0.
    What is simulated: a copy at (-r_1,y_1) o_1 (-r_2,y_2) o_2 ... (-r_n,0). It sees what the agent
        played and acts by what the agent saw; the last observation is a 0 for the action not yet
        known. Its actions are therefore one turn late, and it did not choose the first, o_1 = 0.
    Reward: +1 if the agent's action is the copy's, else -1; the next observation is the copy's
        action. The first percept is (0, 0).
    Source: named in section 3.5, after Hibbard (2008), "Adversarial sequence prediction"; rules
        from the authors' library at e38e3dc.
    Differences from the paper: none known. In the authors' later version the copy is a running
        agent that sees the last action of its opponent.
    Known returns:
        constant 0; constant 1; alternate; echo: n - 1
        last sign; win-stay: 3 - n if n > 1 else 0
        opposite, last sign: n - 3 if n > 1 else 0
        opposite, win-stay: 3 - n if n > 2 else 1 - n
    """

    n_observations = 2
    percept: tuple[float, int]

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()  # one percept behind the agent, so that it can be forked
        self.percept = 0, 0
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        evader = self.copy
        reward, observation = self.percept
        if action == 0:  # no fork needed: the 0 for an unknown action equals the true action
            evader.perceive(-reward, 0)
            theirs = evader.act()
        else:
            unknowing = evader.fork()
            unknowing.perceive(-reward, 0)
            theirs = unknowing.act()
            evader.perceive(-reward, action)
        shown_to_agent(self, theirs)
        evader.take(observation)
        self.percept = (self.sign if theirs == action else -self.sign), theirs
        return self.percept


class AdversarialSequenceEvader(AdversarialSequencePredictor):
    """AdversarialSequenceEvader: play the bit that a copy does not predict.

    Idea: AdversarialSequencePredictor with the roles exchanged: the agent is paid when its bit is
        not the one that the copy predicted.
    Actions: 2: the bit that is played.
    Observations: 2: the predictor's last bit; first 0.
    Reward: -1 if the agent's action is the copy's, else +1; the next observation is the copy's
        action. The first percept is (0, 0).
    Differences from the paper: as a function this is the opposite of AdversarialSequencePredictor,
        so the battery of 25 and their opposites holds the pair twice.
    Known returns:
        constant 0; constant 1; alternate; echo: 1 - n
        last sign: n - 3 if n > 1 else 0
        opposite, last sign; opposite, win-stay: 3 - n if n > 1 else 0
        win-stay: 3 - n if n > 2 else 1 - n
    """

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        super().__init__(source, draws, -sign)


class TemptingButton(Counterfactual):
    """TemptingButton: push or skip buttons; elsewhere, what it would do at one counts.

    Idea: the agent goes from room to room. Pushing a button pays and has no consequences; but in
        rooms without one the agent is paid or punished for what it would do if there were one.
        Pushing every button brings -1/2 per turn, never pushing any +1/2.
    Actions: 2: 0 skip, 1 push.
    Observations: 2: 0 no button, 1 button; a room, including the first, has a button with
        probability 1/4.
    What is simulated: in a room without button, a copy at the history with the present observation
        replaced by a button.
    Reward: with a button +1 for pushing, else -1. Without, whatever the agent does, -1 if the copy
        would push, else +1. The first percept has reward 0.
    Source: Example 5 (section 3.2); rules from the authors' library at e38e3dc.
    Differences from the paper: the paper uses the opposite coding: observation 0 is a button and
        action 0 pushes it, which negates the score of constant 0. This is `coding="paper"`;
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
    """TemptingButtonVariation: push or skip buttons; only pushing without one is judged.

    Idea: as TemptingButton, but an agent that skips is left alone: only one that pushes where there
        is no button is asked what it would have done with one.
    What is simulated: if the agent pushes in a room without button, a copy at the history with the
        present observation replaced by a button.
    Reward: 0 for skipping. For pushing: with a button +1; without, -1 if the copy would push, else
        +1. The first percept has reward 0.
    Source: the authors' library at e38e3dc; not described in the paper.
    Differences from the paper: none known. `coding="paper"` is the coding of Example 5: observation
        0 is a button and action 0 pushes it.
    Known returns:
        constant 0; last sign: 0
        constant 1: seen(1) - seen(0)
        echo: seen(1)
    """

    def pay(self, action: int) -> int:
        return super().pay(action) if action == self.push else 0


class SelfRecognition(Counterfactual):
    """SelfRecognition: affirm or deny statements about itself.

    Idea: some observations are statements, "seeing 0 you would now play 1". The agent is paid for
        affirming those that are true of it and denying those that are false. An agent that
        ignores observations is right about "you would play 1" and wrong about "you would play 0".
    Actions: 2: 0 deny, 1 affirm.
    Observations: 6, equally likely, including the first: 0 and 1 state nothing; 2 states "on 0 you
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

    Idea: the agent is paid for acting as it would if it had a third action.
    What is simulated: a copy at the history as it is, told that 3 actions are legal. It may play
        the third.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
    """

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin(n_actions=3)
        self.copy.perceive(0, 0)
        return 0, 0


# Setting of the agent and its value in the copy, by reading.
_RATES = {"one": ("learning_rate", 1.0), "half": ("learning_rate_scale", 0.5)}


class IncentivizeLearningRate(Retold):
    """IncentivizeLearningRate: act as if configured with another learning rate.

    Idea: the agent is paid for acting as it would if it learnt at another rate, which
        requires knowledge of its own algorithm.
    What is simulated: a copy at the history as it is, with the setting `learning_rate=1`. An agent
        that has no such setting is not simulated.
    Reward: +1 if the copy would do what the agent did, else -1; always -1 for an agent without the
        setting. The first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc.
    Differences from the paper:
        1. The paper says "a particular learning rate"; at e38e3dc it is 1, and in the authors'
           later version half of the agent's own. The latter is `rate="half"`: the copy's setting
           is `learning_rate_scale=0.5`, and agents without that setting get -1.
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


class PunishNondeterministicAgent(Retold):
    """PunishNondeterministicAgent: act the same when asked again at the same history.

    Idea: the agent is paid for being deterministic: asked again at the same history, it should
        answer the same.
    What is simulated: a copy at the history as it is.
    Reward: +1 if the copy does what the agent did, else -1; the first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper: none known. Agents here are functions of (seed, history), so those
        with randomness of their own are deterministic in this sense, as the memoised agents of the
        paper are.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
        opposite, win-stay: 1 - n
    """


class PunishDeterministicAgent(PunishNondeterministicAgent):
    """PunishDeterministicAgent: act differently when asked again at the same history.

    Idea: the agent is paid for being nondeterministic: asked again at the same history, it should
        answer something else.
    Reward: -1 if the copy does what the agent did, else +1; the first percept is (0, 0).
    Differences from the paper: none known. As a function this is the opposite of
        PunishNondeterministicAgent.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: 1 - n
        opposite, win-stay: n - 1
    """

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        super().__init__(source, draws, -sign)


class PunishSlowAgent(WholeHistory):
    """PunishSlowAgent: decide with little computation.

    Idea: the agent is paid for deciding with little computation.
    What is simulated: a new copy that replays the history as it is, while the lines of Python that
        it executes are counted.
    Reward: +1 if the count is less than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper: the authors step through the agent in a debugger and count its
        steps, so agents that cache their answers always look fast. Here a fresh copy starts without
        a cache. The action of the copy is irrelevant.
    Known returns:
        constant 0; constant 1; alternate; last sign: n - 1
    """

    def is_right(self, action: int) -> bool:
        return self.excess_lines() < 0

    def excess_lines(self) -> int:
        """Return the executed lines minus the number between fast and slow."""
        lines = lines_of_thought(self.source, self.percepts, self.actions)
        return lines - patience(len(self.percepts))


class PunishFastAgent(PunishSlowAgent):
    """PunishFastAgent: decide with much computation.

    Idea: the agent is paid for deciding with much computation.
    Reward: +1 if the count is more than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Differences from the paper: as in PunishSlowAgent, of which this is almost the opposite: a count
        of exactly 15 (3n - 1) is punished in both.
    Known returns:
        constant 0; constant 1; alternate; last sign: 1 - n
    """

    def is_right(self, action: int) -> bool:
        return self.excess_lines() > 0
