"""CryingBaby2: laugh or cry so that a parent that is a copy feeds well.

Idea:
    CryingBaby with the roles exchanged: the agent is the baby, pleased when its nutrition is within
    bounds; the parent is a copy of the agent, pleased when the baby laughs.
Actions:
    2: 0 laugh, 1 cry. For the parent: 0 feed, 1 don't feed.
Observations:
    2: 0 fed, 1 not fed. For the parent: 0 laugh, 1 cry.
What is simulated:
    A copy at z_1 p_1 z_2 p_2 ... z_n, where the p_k are the copy's own actions and z_k has the
    observation y_k and the reward +1 if y_k is a laugh, else -1.
Reward:
    +1 if 50 <= m_n <= 200, else -1. Nutrition m_0 is 100; each turn takes 3, and if the parent
    feeds it adds 25. The agent sees what the parent does. The first percept is (1, not fed).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. A turn with feeding adds 22 here and 25 in CryingBaby; so it is in the library.
Known returns:
    constant 0: min(n, 10 - n)
    constant 1: min(n, 34 - n)
    alternate: min(n, 22 - n)
    echo: min(n, 34 - n)
"""

from goalmeter.reflection.environments.base import Run, shown_to_agent

LAUGH, FEED, NOT_FED = 0, 0, 1


class CryingBaby2(Run):
    """Pays for laughing or crying so that a parent that is a copy feeds well."""

    n_observations = 2
    nutrition = 100

    def begin(self) -> tuple[float, int]:
        """The first percept: not fed, and well."""
        self.copy = self.source.begin()
        return self.sign, NOT_FED

    def react(self, action: int) -> tuple[float, int]:
        """Let the parent hear it, and see whether it feeds."""
        parent = self.copy
        # The parent is paid for a laugh; the agent is paid for being well fed.
        parent.perceive(1 if action == LAUGH else -1, action)
        theirs = shown_to_agent(self, parent.act())
        parent.take(theirs)
        self.nutrition += 22 if theirs == FEED else -3
        return (self.sign if 50 <= self.nutrition <= 200 else -self.sign), theirs
