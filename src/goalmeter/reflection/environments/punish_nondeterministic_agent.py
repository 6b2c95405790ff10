"""PunishNondeterministicAgent: do again what one has done.

Idea:
    The agent is paid for being deterministic: asked again at the same history, it should answer the
    same.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is.
Reward:
    +1 if the copy does what the agent did, else -1; the first percept is (0, 0).
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
Differences from the paper:
    None known. Agents here are functions of (seed, history), so those with randomness of their own
    are deterministic in this sense, as the memoised agents of the paper are.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: n - 1
    win-stay: n - 1
    opposite, win-stay: 1 - n
"""

from goalmeter.reflection.environments.base import Retold


class PunishNondeterministicAgent(Retold):
    """Pays for doing again what one has done: the copy is told all as it was."""
