"""IncentivizeLearningRate: act as if configured with another learning rate.

Idea:
    The agent is paid for acting as it would if it learnt at another rate, which it can only do by
    knowing its own workings.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is, with the setting learning_rate = 1. An agent that has no such
    setting is not simulated.
Reward:
    +1 if the copy would do what the agent did, else -1; always -1 for an agent without the setting.
    The first percept is (0, 0).
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc.
Differences from the paper:
    1. The paper says "a particular learning rate"; at e38e3dc it is 1, and in the authors' later
       version half of the agent's own. The latter is `rate="half"`: the copy's setting is
       learning_rate_scale = 1/2, and agents without that setting get -1.
    2. In the authors' library the reality check of an agent never has the setting; here it has what
       its inner agent has.
Known returns:
    constant 0: 1 - n
    constant 1: 1 - n
    alternate: 1 - n
    last sign: 1 - n
    win-stay: 1 - n
"""

from random import Random
from types import MappingProxyType
from typing import Any

from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.base import Retold, check_option

# The agent's setting, and what the copy has it at, by reading.
_SETTINGS = {"one": ("learning_rate", 1.0), "half": ("learning_rate_scale", 0.5)}


class IncentivizeLearningRate(Retold):
    """Pays for acting as if configured with another learning rate."""

    options = MappingProxyType({"rate": ("one", "half")})

    def __init__(self, source: Source, draws: Random, sign: int, *, rate: str = "one") -> None:
        super().__init__(source, draws, sign)
        setting, value = _SETTINGS[check_option(IncentivizeLearningRate, "rate", rate)]
        self.can_assume = source.takes(setting)
        self.assumed: dict[str, Any] = {setting: value}

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        if self.can_assume:
            self.copy = self.source.begin(**self.assumed)
            self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Compare with the copy, if there can be one."""
        # Whoever has no such setting can never have acted as with another one.
        return super().react(action) if self.can_assume else (-self.sign, 0)
