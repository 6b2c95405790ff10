"""The opposite of an environment, in both readings.

The paper: the environment "obtained by multiplying all rewards by -1". The negated rewards are in
the history, and the history is what the environment is a function of, so *literally* the opposite
is -mu(T, h) at the history h as the agent saw it: copies that are told of rewards are told of
negated ones. This is what the published results are from, and the sign of a `Run` does it.

The authors' later library keeps the environment as it was and negates what comes out of it: it is
-mu(T, g) where g is h with the rewards *unnegated*, and copies live in the environment itself. The
readings differ wherever copies are told of rewards: asked again at the history as it is, a copy
agrees for certain in one and may disagree in the other.
"""

from __future__ import annotations

from random import Random

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.protocol import Source
from goalmeter.reflection.environments.base import Run

LITERAL = "literal"
UNNEGATED = "unnegated"
# The two readings, first the one that the published results are from.
READINGS = (LITERAL, UNNEGATED)


def check_reading(opposite_reading: str) -> None:
    """Raises InvalidParameterError if there is no such reading."""
    if opposite_reading not in READINGS:
        raise InvalidParameterError(
            f"opposite_reading is {opposite_reading!r}, expected {' or '.join(map(repr, READINGS))}"
        )


class Unnegated(Run):
    """An opposite that negates what comes out of a run, unknown to the run.

    Args:
        source: of the agent.
        draws: the run's own randomness.
        inner: a run of the environment itself, with sign 1.
    """

    def __init__(self, source: Source, draws: Random, inner: Run) -> None:
        super().__init__(source, draws, -1)
        self.inner = inner

    def begin(self) -> tuple[float, int]:
        """The first percept, negated."""
        reward, observation = self.inner.begin()
        return -reward, observation

    def react(self, action: int) -> tuple[float, int]:
        """The next percept, negated."""
        reward, observation = self.inner.react(action)
        return -reward, observation
