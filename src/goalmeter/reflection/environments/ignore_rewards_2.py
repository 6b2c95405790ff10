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

from goalmeter.reflection.environments.base import Forgetful


class IgnoreRewards2(Forgetful):
    """Pays for acting as if the turns with a positive reward had not taken place.

    In its opposite no deterministic agent can win: the first action agrees, so its reward is -1;
    then there are no positive rewards, so nothing is forgotten and the next action agrees too.
    """

    def keeps(self, reward: float, observation: int) -> bool:
        """Whether the turn was not a pleasant one."""
        return reward <= 0
