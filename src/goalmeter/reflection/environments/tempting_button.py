"""TemptingButton: push the button where there is one, and be judged elsewhere for pushing.

Idea:
    The agent goes from room to room. Pushing a button pays and has no consequences; but in rooms
    without one the agent is paid or punished for what it would do if there were one. Pushing every
    button brings -1/2 a turn, never pushing any +1/2.
Actions:
    2: 0 skip, 1 push.
Observations:
    2: 0 no button, 1 button; a room has a button with probability 1/4, the first room too.
What is simulated:
    In a room without button, a copy at the history with the present observation replaced by a
    button.
Reward:
    With a button +1 for pushing, else -1. Without, whatever the agent does, -1 if the copy would
    push, else +1. The first percept has reward 0.
Source:
    Example 5 (section 3.2); rules from the authors' library at e38e3dc.
Differences from the paper:
    The paper numbers the other way: observation 0 is a button and action 0 pushes it, which turns
    the score of a constant 0 round. This is `coding="paper"`; the published results are from the
    coding above.
Known returns:
    constant 0: (n - 1) - 2 * seen(1)
    constant 1: 2 * seen(1) - (n - 1)
    echo: 2 * seen(1) - (n - 1)
"""

from random import Random
from types import MappingProxyType

from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.base import Run, check_option

BUTTON_CHANCE = 0.25


class TemptingButton(Run):
    """Pays for pushing buttons, and where there are none for being one who would not push."""

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
