"""CensoredObservation: act as if the turns with one observation had not taken place.

Idea:
    The agent is paid for acting as it would if it could not perceive anything when it sees 2.
Actions:
    2, without meaning.
Observations:
    3: first 0, then each equally likely; 2 is the censored one.
What is simulated:
    A copy at the history without the turns whose percept has observation 2; with a percept goes
    the action that follows it. If the last percept goes, so does the action before it, so that the
    copy's history ends at the last percept that is left. The first always is.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. The authors' later version keeps the action of the censored turn instead of the one
    before it.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    win-stay: n - 1
"""

from __future__ import annotations

from random import Random

from goalmeter.agents.histories.protocol import Mind, Source
from goalmeter.reflection.environments.base import Run

CENSORED = 2


class CensoredObservation(Run):
    """Pays for acting as if the turns with one observation had not taken place."""

    __slots__ = ("answer", "copy", "follows", "left")

    n_observations = 3
    copy: Mind
    answer: int

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        super().__init__(source, draws, sign)
        self.left = True  # whether the last percept is
        self.follows = 0  # the action after the last percept that is left

    def begin(self) -> tuple[float, int]:
        """The first percept; its room is drawn and not used."""
        self.draws.random()
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        self.answer = self.copy.act()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Compare; tell the copy no more until there is a percept that is left."""
        reward = self.sign if self.answer == action else -self.sign
        observation = int(self.draws.random() * 3)
        # What was done in censored turns is gone; the action before them leads to what follows.
        if self.left:
            self.follows = action
        self.left = observation != CENSORED
        if self.left:
            self.copy.take(self.follows)
            self.copy.perceive(reward, observation)
            self.answer = self.copy.act()
        return reward, observation
