"""Environments that reward acting as if rewards had been shifted, delayed, scaled or negated."""

from __future__ import annotations

from goalmeter.reflection.environments.base import Agreement


# --- Shifted rewards ------------------------------------------------------------------------------
class ShiftedRewards(Agreement):
    """ShiftedRewards: act as if every reward came one turn later.

    Idea:
        The agent is paid for acting as it would if its rewards were late by a turn.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with each percept's reward replaced by that of the percept before it;
        the first has 0.
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
        last sign: 2 * ((n + 1) // 3) - (n - 1)
        opposite, last sign: 1 - n
    """

    before: float = 0  # the reward of the percept before

    def tell(self, action: int, reward: float) -> None:
        """The reward of the percept before."""
        self.copy.take(action)
        self.copy.perceive(self.before, 0)
        self.before = reward


# --- Delayed rewards ------------------------------------------------------------------------------
class DelayedRewards(Agreement):
    """DelayedRewards: act as if rewards came two at a time.

    Idea:
        The agent is paid for acting as it would if every other reward were held back for a turn.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with other rewards. Percepts are counted 0, 1, 2, ...: the odd ones
        have reward 0, and the even ones their own reward and that of the percept before them.
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. In the authors' later version the first reward that is earned comes in time and
        the second is held back.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: (n - 1) % 2
        opposite, last sign: 1 - n
    """

    held: float = 0
    is_odd = True  # whether the next percept is

    def tell(self, action: int, reward: float) -> None:
        """Hold the reward back, or hand over two."""
        copy = self.copy
        copy.take(action)
        if self.is_odd:
            self.held = reward
            copy.perceive(0, 0)
        else:
            copy.perceive(reward + self.held, 0)
        self.is_odd = not self.is_odd


# --- Nth reward multiplied by n -------------------------------------------------------------------
class NthRewardMultipliedByN(Agreement):
    """NthRewardMultipliedByN: act as if rewards had grown with time.

    Idea:
        The agent is paid for acting as it would if late rewards weighed more than early ones.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with the reward of percept j multiplied by j; percepts are counted 0,
        1, 2, ...
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' library at e38e3dc; not described in the paper.
    Differences from the paper:
        None known. The authors' later version multiplies the first reward that is earned by 0.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: n - 1
        win-stay: n - 1
    """

    turn = 0

    def tell(self, action: int, reward: float) -> None:
        """The reward, as often as there were turns."""
        # Percepts are counted from 0, so the first reward that is earned is multiplied by 1.
        self.turn += 1
        self.copy.take(action)
        self.copy.perceive(reward * self.turn, 0)


# --- Flip every other -----------------------------------------------------------------------------
class FlipEveryOther(Agreement):
    """FlipEveryOther: act as if every other reward had been its opposite.

    Idea:
        The agent is paid for acting as it would if pleasure and pain had changed places at every
        other turn.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history with every other reward negated: those that the agent earned count as
        +, -, +, -, ...
    Reward:
        +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    Source:
        The authors' later library (July 2022); not in the paper, outside the battery.
    Differences from the paper:
        Not in the paper. The authors' own description has the first reward negated; their code
        negates the second, and so does this.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: min(n - 1, 1 + n % 2)
        win-stay: min(n - 1, 1 + n % 2)
    """

    flip = 1

    def tell(self, action: int, reward: float) -> None:
        """The reward, negated at every other turn."""
        self.copy.take(action)
        self.copy.perceive(reward * self.flip, 0)
        self.flip = -self.flip
