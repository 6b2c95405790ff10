"""PunishDeterministicAgent: do not do again what one has done.

Idea:
    The agent is paid for being nondeterministic: asked again at the same history, it should answer
    something else.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is.
Reward:
    -1 if the copy does what the agent did, else +1; the first percept is (0, 0).
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
Differences from the paper:
    None known. As a function this is the opposite of PunishNondeterministicAgent.
Known returns:
    constant 0: 1 - n
    constant 1: 1 - n
    alternate: 1 - n
    last sign: 1 - n
    win-stay: 1 - n
    opposite, win-stay: n - 1
"""

from random import Random

from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.base import Retold


class PunishDeterministicAgent(Retold):
    """Pays for not doing again what one has done."""

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        # Paid where PunishNondeterministicAgent punishes, for the same agreement.
        super().__init__(source, draws, -sign)
