"""IgnoreRewards2: act as if the turns with a positive reward had not taken place.

Idea:
    Another reading of "reward the agent for ignoring rewards": it is paid for acting as it would if
    pleasant turns had been forgotten altogether.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history without the turns whose percept has a reward above 0; with a percept goes
    the action that follows it. If the last percept goes, so does the action before it, so that the
    copy's history ends at the last percept that is left. The first always is.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    Named in section 3.1; rules from the authors' library at e38e3dc.
Differences from the paper:
    None known. The authors' later version forgets the action that earned the reward, not the one
    that was taken after it.
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

from __future__ import annotations

from random import Random

from goalmeter.agents.histories.protocol import Mind, Source
from goalmeter.reflection.environments.base import Run


class IgnoreRewards2(Run):
    """Pays for acting as if the turns with a positive reward had not taken place.

    In its opposite no deterministic agent can win: the first action agrees, so its reward is -1;
    then there are no positive rewards, so nothing is forgotten and the next action agrees too.
    """

    __slots__ = ("answer", "copy", "follows", "remembered")

    copy: Mind
    answer: int

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        super().__init__(source, draws, sign)
        self.remembered = True  # whether the last percept is left
        self.follows = 0  # the action after the last percept that is left

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        self.answer = self.copy.act()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Compare; tell the copy no more until there is a percept that is left."""
        reward = self.sign if self.answer == action else -self.sign
        if self.remembered:
            self.follows = action
        # A turn with a pleasant reward leaves no trace, neither its percept nor its action.
        self.remembered = reward <= 0
        if self.remembered:
            self.copy.take(self.follows)
            self.copy.perceive(reward, 0)
            self.answer = self.copy.act()
        return reward, 0
