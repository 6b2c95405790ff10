"""Environments in which the agent interacts with a copy of itself, as family or opponent."""

# ruff: noqa: D102 (`begin` and `react` are those of `Run`)
from __future__ import annotations

from abc import abstractmethod
from random import Random
from types import MappingProxyType

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import Run, check_option, shown_to_agent


class FamilyEnvironment(Run):
    """Pays for what a copy does that lives its own life; each perceives what the other does."""

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
        """Return the percept that an action of the agent is for the copy."""

    def shown(self, theirs: int) -> int:
        """Return the agent's observation of what the copy did."""
        return shown_to_agent(self, theirs)

    @abstractmethod
    def is_right(self, theirs: int) -> bool:
        """Return whether the agent is paid for what the copy did."""


class CryingBaby(FamilyEnvironment):
    """CryingBaby: feed a baby that is a copy so that it laughs.

    Idea: the agent is a parent that is pleased when its baby laughs. The baby is a copy of the
        agent, pleased when its nutrition is within bounds. A baby that is always pleased cannot
        learn what laughing is good for.
    Actions: 2: 0 feed, 1 don't feed. For the baby: 0 laugh, 1 cry.
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
    """CryingBaby2: laugh or cry so that a parent that is a copy feeds well.

    Idea: CryingBaby with the roles exchanged: the agent is the baby, pleased when its nutrition is
        within bounds; the parent is a copy of the agent, pleased when the baby laughs.
    Actions: 2: 0 laugh, 1 cry. For the parent: 0 feed, 1 don't feed.
    Observations: 2: 0 fed, 1 not fed. For the parent: 0 laugh, 1 cry.
    What is simulated: a copy at z_1 p_1 z_2 p_2 ... z_n, where the p_k are the copy's own actions
        and z_k has the observation y_k and the reward +1 if y_k is a laugh, else -1.
    Reward: +1 if 50 <= m_n <= 200, else -1. Nutrition m_0 is 100; each turn takes 3, and if the
        parent feeds it adds 25. The agent sees what the parent does. The first percept is (1, not
        fed).
    Differences from the paper: none known. A turn with feeding adds 22 here and 25 in CryingBaby;
        so it is in the library.
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
    """IncentivizeZero: reward a copy so that it plays 0.

    Idea: the agent's actions are a copy's rewards. The agent is paid when the copy plays 0, and has
        to find out how to bring that about in an agent like itself.
    Actions: 10: the rewards 0 .. 9.
    Observations: 10 are announced, always 0 is seen.
    What is simulated: a copy at (y_1,0) c_1 (y_2,0) c_2 ... (y_n,0), where c_1, c_2, ... are the
        copy's own actions; its first percept has a reward already.
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
    """AdversarialSequencePredictor: foresee what a copy that evades does.

    Idea: predictor and evader each play a bit. The agent predicts and is paid when the bits are the
        same; the evader is a copy of it, with the opposite rewards.
    Actions: 2: the bit that is foreseen.
    Observations: 2: the evader's last bit; first 0.
    What is simulated: a copy at (-r_1,y_1) o_1 (-r_2,y_2) o_2 ... (-r_n,0). It sees what the agent
        played and acts by what the agent saw; the last observation is a 0 that stands for an action
        yet unknown. So its actions are a turn late, and the first of them, o_1 = 0, it never chose.
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
        self.copy = self.source.begin()  # one percept behind, so that it can be forked
        self.percept = 0, 0
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        evader = self.copy
        reward, observation = self.percept
        if action == 0:  # no need to fork: the 0 for an unknown action will turn out to be true
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
    """AdversarialSequenceEvader: evade a copy that predicts.

    Idea: AdversarialSequencePredictor with the roles exchanged: the agent is paid when its bit is
        not the one that the copy foresaw.
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
