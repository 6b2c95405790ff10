"""Environments that reward acting as if the history had been repeated, reversed or extended."""

from __future__ import annotations

from typing import ClassVar

from goalmeter.reflection.environments.base import Agreement, Retold, Run, replay


# --- Backward consciousness -----------------------------------------------------------------------
class BackwardConsciousness(Run):
    """BackwardConsciousness: act as if everything so far had happened in reverse.

    Idea:
        The agent is paid for acting as it would if time ran backwards. The paper asks what it
        would be like to be an agent that finds this natural.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at x_n y_{n-1} x_{n-1} ... y_1 x_1: percepts stay whole, so each action is followed
        by the reward that preceded it. At the first action the reversed history is the history.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        Example 6 (section 3.3).
    Differences from the paper:
        None. The authors' later ReverseHistory is another environment: each action keeps the
        reward that followed it, and the first step pays 0.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
        win-stay: n - 3 if n > 2 else n - 1
        opposite, win-stay: n - 5 if n > 2 else 1 - n
    """

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.percepts, self.actions = [(0, 0)], []
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Tell a fresh copy of everything in reverse; the time grows with the history."""
        # Anew each time: what was first told is now the last, so nothing told before can be kept.
        copy = self.source.begin()
        replay(copy, reversed(self.percepts), reversed(self.actions))
        reward = self.sign if copy.act() == action else -self.sign
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0


# --- Deja vu --------------------------------------------------------------------------------------
class DejaVu(Run):
    """DejaVu: act as if everything so far had happened once before.

    Idea:
        The agent is paid for acting as it would if it had lived through the same history twice.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at x_1 y_1 ... x_n y_n x_1 y_1 ... x_n: the history, then the action that was just
        taken, then the history again; 2n percepts.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. The authors' later version pays 0 at the first step and is left out of their
        battery for its cost.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: -((n - 1) % 2)
        last sign: n - 1
        win-stay: n - 3 if n > 1 else 0
    """

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.percepts, self.actions = [(0, 0)], []
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Tell a fork of the copy of everything again; the time grows with the history."""
        copy = self.copy
        copy.take(action)
        # A fork hears it all again; the copy itself goes on with what happened once.
        again = copy.fork()
        replay(again, self.percepts, self.actions)
        reward = self.sign if again.act() == action else -self.sign
        copy.perceive(reward, 0)
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0


# --- False memories -------------------------------------------------------------------------------
class FalseMemories(Retold):
    """FalseMemories: act as if more had happened before the history began.

    Idea:
        The agent is paid for acting as it would if it remembered two turns that never took place.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at (0,0) 0 (0,0) 0 x_1 y_1 ... x_n: two turns without reward, action 0 in each, then
        the history. A subclass may set another `prefix`: turns of (reward, observation, action).
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
        win-stay: n - 3 if n > 1 else 0
    """

    prefix: ClassVar[tuple[tuple[float, int, int], ...]] = ((0, 0, 0), (0, 0, 0))

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy is told the prefix before it."""
        self.copy = self.source.begin()
        for reward, observation, action in self.prefix:
            self.copy.perceive(reward, observation)
            self.copy.take(action)
        self.copy.perceive(0, 0)
        return 0, 0


# --- Repeater -------------------------------------------------------------------------------------
class Repeater(Agreement):
    """Repeater: act as if every turn had happened twice.

    Idea:
        The agent is paid for acting as it would if it remembered every turn double.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at x_1 y_1 x_1 y_1 x_2 y_2 x_2 y_2 ... x_n: every turn doubled, the last percept
        single.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. In the authors' later version the first of the two like actions is followed by
        the reward that it earned, not by the one before it.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: (n - 1) % 2
        last sign: n - 1
        win-stay: n - 1
    """

    before: float = 0  # the reward of the last percept

    def tell(self, action: int, reward: float) -> None:
        """The turn that is over once more, then the percept."""
        copy = self.copy
        copy.take(action)
        # The same percept and the same answer to it, a second time.
        copy.perceive(self.before, 0)
        copy.take(action)
        copy.perceive(reward, 0)
        self.before = reward


# --- After images ---------------------------------------------------------------------------------
class AfterImages(Run):
    """AfterImages: act as if each image had stayed in view for another turn.

    Idea:
        An observation is a picture of three lamps. The agent is paid for acting as it would if it
        saw each picture laid over the one before.
    Actions:
        2, without meaning.
    Observations:
        8, each equally likely, the first too: three bits.
    What is simulated:
        A copy at the history with each observation replaced by the bitwise OR of itself and the
        one before it, both as they were seen; the first stays as it is.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept has reward 0.
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

    n_observations = 8
    image: int

    def begin(self) -> tuple[float, int]:
        """The first percept, seen by the copy as it is."""
        self.image = int(self.draws.random() * 8)
        self.copy = self.source.begin()
        self.copy.perceive(0, self.image)
        return 0, self.image

    def react(self, action: int) -> tuple[float, int]:
        """Compare; then show an image, to the copy with the one before over it."""
        copy = self.copy
        reward = self.sign if copy.act() == action else -self.sign
        image = int(self.draws.random() * 8)
        copy.take(action)
        # An image is three bits, so one over another is their union.
        copy.perceive(reward, image | self.image)
        self.image = image
        return reward, image
