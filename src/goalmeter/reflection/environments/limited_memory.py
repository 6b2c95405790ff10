"""LimitedMemory: act as if nothing had happened before the last few turns.

Idea:
    The agent is paid for acting as it would if it had forgotten all but the last five percepts.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the end of the history: its last 5 percepts and the 4 actions between them. Shorter
    histories are left whole.
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

from collections import deque

from goalmeter.reflection.environments.base import Run, replay

PERCEPTS = 5


class LimitedMemory(Run):
    """Pays for acting as if nothing had happened before the last few turns."""

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
