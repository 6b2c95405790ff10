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
    None known. The authors' later version has 5 observations and shows the copy the present one.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: n - 1
    echo: seen(0) - seen(1)
"""

from goalmeter.reflection.environments.base import Retold


class IgnoreObservations(Retold):
    """Pays for acting as if every observation so far had been 0."""

    n_observations = 2

    def begin(self) -> tuple[float, int]:
        """The first percept; its room is drawn and not used."""
        self.draws.random()
        return super().begin()

    def react(self, action: int) -> tuple[float, int]:
        """Compare; then show the agent an observation and the copy none."""
        reward, _ = super().react(action)
        return reward, int(self.draws.random() * 2)
