"""Environments that reward acting as if parts of the history had not occurred."""

from __future__ import annotations

from collections import deque

from goalmeter.reflection.environments.base import Agreement, Forgetful, Retold, Run, replay


# --- Ignore rewards -------------------------------------------------------------------------------
class IgnoreRewards(Agreement):
    """IgnoreRewards: act as if every reward so far had been 0.

    Idea:
        The agent is rewarded for ignoring rewards. An agent that guesses so, and goes on ignoring
        them for as long as the rewards fit its guess, both ignores and does not ignore them.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with every reward set to 0.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        Example 4 (section 3.1).
    Differences from the paper:
        None.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
        win-stay: (n - 1) % 2
        opposite, win-stay: 1 - n
    """

    def tell(self, action: int, reward: float) -> None:
        """The action, but no reward."""
        self.copy.take(action)
        self.copy.perceive(0, 0)


# --- Ignore rewards 2 -----------------------------------------------------------------------------
class IgnoreRewards2(Forgetful):
    """IgnoreRewards2: act as if the turns with a positive reward had not taken place.

    Idea:
        Another reading of "reward the agent for ignoring rewards": it is paid for acting as it
        would if pleasant turns had been forgotten altogether. In its opposite no deterministic
        agent can win: the first action agrees, so its reward is -1; then there are no positive
        rewards, so nothing is forgotten and the next action agrees too.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history without the turns whose percept has a reward above 0; with a percept
        goes the action that follows it. If the last percept goes, so does the action before it, so
        that the copy's history ends at the last percept that is left. The first always is.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        Named in section 3.1; rules from the authors' library at e38e3dc.
    Differences from the paper:
        None known. The authors' later version forgets the action that earned the reward, not the
        one that was taken after it.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: 3 - n if n > 1 else 0
        last sign: (n - 1) % 2
        win-stay: n - 1
        opposite, constant 0: 1 - n
        opposite, alternate: 1 - n
        opposite, last sign: 1 - n
        opposite, win-stay: 1 - n
    """

    def keeps(self, reward: float, observation: int) -> bool:
        """Whether the turn was not a pleasant one."""
        return reward <= 0


# --- Ignore rewards 3 -----------------------------------------------------------------------------
class IgnoreRewards3(Run):
    """IgnoreRewards3: act as a copy does in a world without rewards.

    Idea:
        A third reading of "reward the agent for ignoring rewards": beside the agent a copy lives
        in a world that pays nothing, and the agent is paid for doing what the copy does.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at (0,0) c_1 (0,0) c_2 ... (0,0), where c_1, c_2, ... are the copy's own actions. Of
        the agent's history only the length matters.
    Reward:
        +1 if the agent's action y_n is c_n, else -1; the first percept is (0, 0).
    Source:
        Named in section 3.1; rules from the authors' library at e38e3dc.
    Differences from the paper:
        None known.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
        win-stay: 3 - n if n > 1 else 0
        opposite, win-stay: 1 - n
    """

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.copy = self.source.begin()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """One more turn of the copy's life."""
        copy = self.copy
        copy.perceive(0, 0)
        theirs = copy.act()
        copy.take(theirs)
        return (self.sign if theirs == action else -self.sign), 0


# --- Ignore observations --------------------------------------------------------------------------
class IgnoreObservations(Retold):
    """IgnoreObservations: act as if every observation so far had been 0.

    Idea:
        The agent is paid for taking no notice of what it sees.
    Actions:
        2, without meaning.
    Observations:
        2: first 0, then 0 or 1 with equal chances.
    What is simulated:
        A copy at the history with every observation set to 0, the present one too.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. The authors' later version has 5 observations and shows the copy the present
        one.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: n - 1
        echo: seen(0) - seen(1)
    """

    n_observations = 2

    def begin(self) -> tuple[float, int]:
        """The first percept; its room is drawn and not used."""
        self.draws.random()
        return super().begin()

    def react(self, action: int) -> tuple[float, int]:
        """Compare; then show the agent an observation and the copy none."""
        reward, _ = super().react(action)
        return reward, int(self.draws.random() * 2)


# --- Ignore actions -------------------------------------------------------------------------------
class IgnoreActions(Agreement):
    """IgnoreActions: act as if every action so far had been 0.

    Idea:
        The agent is paid for taking no notice of what it has done.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with every action set to 0.
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

    def tell(self, action: int, reward: float) -> None:
        """The reward, but action 0."""
        self.copy.take(0)
        self.copy.perceive(reward, 0)


# --- Censored observation -------------------------------------------------------------------------
CENSORED = 2


class CensoredObservation(Forgetful):
    """CensoredObservation: act as if the turns with one observation had not taken place.

    Idea:
        The agent is paid for acting as it would if it could not perceive anything when it sees 2.
    Actions:
        2, without meaning.
    Observations:
        3: first 0, then each equally likely; 2 is the censored one.
    What is simulated:
        A copy at the history without the turns whose percept has observation 2; with a percept
        goes the action that follows it. If the last percept goes, so does the action before it, so
        that the copy's history ends at the last percept that is left. The first always is.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. The authors' later version keeps the action of the censored turn instead of the
        one before it.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        win-stay: n - 1
    """

    n_observations = 3

    def begin(self) -> tuple[float, int]:
        """The first percept; its room is drawn and not used."""
        self.draws.random()
        return super().begin()

    def observe(self) -> int:
        """Any of the three."""
        return int(self.draws.random() * 3)

    def keeps(self, reward: float, observation: int) -> bool:
        """Whether it could be perceived."""
        return observation != CENSORED


# --- Limited memory -------------------------------------------------------------------------------
PERCEPTS = 5


class LimitedMemory(Run):
    """LimitedMemory: act as if nothing had happened before the last few turns.

    Idea:
        The agent is paid for acting as it would if it had forgotten all but the last five
        percepts.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the end of the history: its last 5 percepts and the 4 actions between them.
        Shorter histories are left whole.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. The authors' later version keeps six percepts.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: min(n - 1, 4 + (n - 1) % 2)
        last sign: n - 1
        win-stay: n - 1
    """

    memory: deque[float]
    answers: dict[tuple[float, ...], int]

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        # Rewards and actions in turn, a reward first and last.
        self.memory = deque([0], maxlen=2 * PERCEPTS - 1)
        # What the copy did is kept by what it remembered: with two rewards and two actions that is
        # some five hundred short histories, so telling it five percepts is paid for only at first.
        self.answers = {}
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Compare with a copy that has forgotten."""
        remembered = tuple(self.memory)
        theirs = self.answers.get(remembered)
        if theirs is None:
            copy = self.source.begin()
            replay(copy, [(reward, 0) for reward in remembered[::2]], map(int, remembered[1::2]))
            theirs = self.answers[remembered] = copy.act()
        reward = self.sign if theirs == action else -self.sign
        self.memory.append(action)
        self.memory.append(reward)
        return reward, 0
