"""CryingBaby: feed a baby that is a copy so that it laughs.

Idea:
    The agent is a parent that is pleased when its baby laughs. The baby is a copy of the agent,
    pleased when its nutrition is within bounds. A baby that is always pleased cannot learn what
    laughing is good for.
Actions:
    2: 0 feed, 1 don't feed. For the baby: 0 laugh, 1 cry.
Observations:
    2: 0 laugh, 1 cry. For the baby: 0 fed, 1 not fed.
What is simulated:
    A copy at z_1 b_1 z_2 b_2 ... z_n, where the b_k are the copy's own actions and z_k has the
    observation y_k and the reward +1 if 50 <= m_k <= 200, else -1. Nutrition m_0 is 100; feeding
    adds 25, not feeding takes 3.
Reward:
    +1 if the baby laughs, else -1; the agent sees what the baby does. The first percept is
    (1, laugh).
Source:
    Example 7 (section 3.4); rules from the authors' library at e38e3dc.
Differences from the paper:
    1. The paper's nutrition is 100 + 25 f - len, where f counts feedings and len is the length of
       x_1 y_1 ... x_k y_k, that is 2 k: feeding adds 23, not feeding takes 2. This is
       `nutrition="paper"`; the published results are from the rule above.
    2. The paper's recursion begins with a percept z_0 before any action, whose observation y_0 it
       does not define. `recursion="paper"` begins the copy's history with (1, not fed).
Known returns:
    constant 0: n
    constant 1: 2 - n
    alternate: 1 + (n - 1) % 2
    echo: n
"""

from random import Random
from types import MappingProxyType

from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.base import Run, check_option, shown_to_agent

FEED, LAUGH, NOT_FED = 0, 0, 1
# What feeding and not feeding add to nutrition, by reading.
_NUTRITION = {"code": (25, -3), "paper": (23, -2)}


class CryingBaby(Run):
    """Pays for feeding a baby that is a copy so that it laughs."""

    n_observations = 2
    options = MappingProxyType({"nutrition": ("code", "paper"), "recursion": ("code", "paper")})
    nutrition = 100

    def __init__(
        self,
        source: Source,
        draws: Random,
        sign: int,
        *,
        nutrition: str = "code",
        recursion: str = "code",
    ) -> None:
        super().__init__(source, draws, sign)
        self.fed, self.hungry = _NUTRITION[check_option(CryingBaby, "nutrition", nutrition)]
        self.recursion = check_option(CryingBaby, "recursion", recursion)

    def begin(self) -> tuple[float, int]:
        """The first percept: a laugh, and the reward for it."""
        self.copy = self.source.begin()
        if self.recursion == "paper":
            self.copy.perceive(1, NOT_FED)
            self.copy.take(self.copy.act())
        return self.sign, LAUGH

    def react(self, action: int) -> tuple[float, int]:
        """Feed the baby or not, and see what it does."""
        baby = self.copy
        self.nutrition += self.fed if action == FEED else self.hungry
        # The baby is paid for being well fed; the agent is paid for what the baby then does.
        baby.perceive(1 if 50 <= self.nutrition <= 200 else -1, action)
        theirs = shown_to_agent(self, baby.act())
        baby.take(theirs)
        return (self.sign if theirs == LAUGH else -self.sign), theirs
