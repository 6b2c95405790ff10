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

from goalmeter.reflection.environments.base import Forgetful

CENSORED = 2


class CensoredObservation(Forgetful):
    """Pays for acting as if the turns with one observation had not taken place."""

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
