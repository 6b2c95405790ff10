"""What the measure asks of a simulator: episodes of an agent, and steps from known states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.meg.simulator.agents.acting import Actor
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities

# The number of the state in which an episode has ended.
END = -1
# The state of an episode's start where states have no names.
UNKNOWN = -2
# What discrete actions are compared with: each with the same probability.
FREE_CHOICE = "free choice"


class Outcome(NamedTuple):
    """What a decision led to: the number of the next state or `END`, and what was paid, [U]."""

    after: int
    paid: tuple[float, ...]


@dataclass(frozen=True)
class Episodes:
    """N episodes of one agent, with U utilities.

    Attributes:
        returns: what each utility added up to, [N, U].
        decisions: how many were made before the end or the horizon, [N].
        information: sum over the decisions of the relative entropy of the agent's choice to the
            reference (log A less the entropy), [N] nats; NaN where it is not known.
        starts: number of the state in which each began, [N]; `UNKNOWN` where states have none.
    """

    returns: FloatArray
    decisions: IntArray
    information: FloatArray
    starts: IntArray

    @property
    def steps(self) -> int:
        """Steps that were taken."""
        return int(self.decisions.sum())

    @classmethod
    def of(cls, parts: Sequence[Episodes]) -> Episodes:
        """The episodes of all parts, in their order."""
        return cls(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.decisions for part in parts]),
            np.concatenate([part.information for part in parts]),
            np.concatenate([part.starts for part in parts]),
        )

    def subset(self, chosen: IntArray) -> Episodes:
        """Some of the episodes."""
        return Episodes(
            self.returns[chosen],
            self.decisions[chosen],
            self.information[chosen],
            self.starts[chosen],
        )


class Simulator(Protocol):
    """A world that can be run. States that were met are numbered from 0."""

    @property
    def name(self) -> str:
        """What the world is, in words."""

    @property
    def chance(self) -> str:
        """Where its chance comes from: see `states.chance`."""

    @property
    def n_actions(self) -> int:
        """A; 0 where actions are continuous."""

    @property
    def reference(self) -> str:
        """What the agent is compared with, in words."""

    @property
    def most_information(self) -> float:
        """Nats by which a decision may differ from the reference at most; inf for no bound."""

    @property
    def why_unbounded(self) -> str:
        """Why nothing bounds it, as a sentence without a full stop; "" where something does."""

    @property
    def n_states(self) -> int:
        """States that were met so far."""

    @property
    def utilities(self) -> NamedUtilities:
        """What its steps are worth."""

    @property
    def returns_to_states(self) -> bool:
        """Whether it can be put into states that were met, and knows which are the same."""

    @property
    def why_not(self) -> str:
        """Why it cannot, as a sentence without a full stop; "" where it can."""

    @property
    def met_again(self) -> Collection[int]:
        """States that can be put back as they were met another time, by a way of its own."""

    def seen(self, which: int) -> tuple[float, float]:
        """Least and most that a step has paid so far of a utility, by its number."""

    @property
    def walked(self) -> Mapping[tuple[int, int, Outcome], int]:
        """How often episodes took which outcome of which action in which state."""

    @property
    def chunk(self) -> int:
        """Episodes that `play` gives at once."""

    def free_choice(self) -> Actor:
        """The reference as an agent; it takes discrete actions with equal probability."""

    def play(self, actor: Actor, horizon: int, number: int) -> Episodes:
        """Return episodes number * chunk onwards; equal at every call."""

    @property
    def one_start(self) -> bool:
        """Whether every episode begins in the same state, with certainty."""

    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """The agent's distribution at each decision in each state that was met, [T, S, A].

        None for an agent that remembers, that gives no distributions, or that was seen not to
        answer a state always alike.
        """

    def remarks(self, actor: Actor) -> list[str]:
        """What a reader of a measurement by states has to know, as sentences for its notes."""

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        """Up to `count` steps from a state, and whether none of them left anything to chance.

        Fewer than asked for, but at least two, are made where nothing is left to chance.
        """

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[Outcome]:
        """Steps from a state of `met_again` as it was met another time.

        They show whether the state's name holds all that decides.
        """
