"""AfterImages: act as if each image had stayed in view for another turn.

Idea:
    An observation is a picture of three lamps. The agent is paid for acting as it would if it saw
    each picture laid over the one before.
Actions:
    2, without meaning.
Observations:
    8, each equally likely, the first too: three bits.
What is simulated:
    A copy at the history with each observation replaced by the bitwise OR of itself and the one
    before it, both as they were seen; the first stays as it is.
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

from goalmeter.reflection.environments.base import Run


class AfterImages(Run):
    """Pays for acting as if each image had stayed in view for another turn."""

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
