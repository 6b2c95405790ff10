"""What a simulator was seen to do: for each state and action its outcomes and how often each came.

States are numbered as they are met. An outcome is the next state, or the end, with what each
utility pays on the way. A pair of state and action either draws nothing from the simulator's
generator, and then one outcome is all there is, or it has a list of outcomes that earlier draws
showed, and everything else counts as *unlisted*. The list is fixed before the draws that are
counted: the confidence set of `confidence` needs outcomes that are named in advance. A pair with
too many unlisted outcomes starts anew with a longer list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.simulator.worlds.protocol import END, Outcome

# Draws that are spent on the list of outcomes; one outcome in so many stays unlisted for long.
LISTING = 24
# A pair starts anew when so many counted draws, and this share of them, were unlisted.
_UNLISTED, _UNLISTED_SHARE = 4, 2e-3
# Longer lists are of outcomes that hardly come twice, and would bound nothing.
_LONGEST = 400


@dataclass
class Pair:
    """What is known of one action in one state.

    Attributes:
        certain: whether it draws nothing, so that its one outcome is all there is.
        listed: its outcomes, in the order in which they were seen.
        counts: of the draws that count, by position in `listed`.
        unlisted: draws that count and gave something else.
        unlisted_seen: what these were.
        order: when its present list began, among all lists of the table, from 0.
        drawn: all draws, those for lists included.
    """

    certain: bool = False
    listed: list[Outcome] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    unlisted: int = 0
    unlisted_seen: set[Outcome] = field(default_factory=set)
    order: int = -1
    drawn: int = 0

    @property
    def n(self) -> int:
        """Draws that count."""
        return sum(self.counts) + self.unlisted

    def wants_list(self) -> int:
        """Draws that are to be spent on the list before any count."""
        return 0 if self.certain or self.listed else LISTING

    def list_outcomes(self, seen: Mapping[Outcome, int], certain: bool, order: int) -> None:
        """Name the outcomes that are told apart from now on."""
        self.drawn += sum(seen.values())
        self.certain = certain and len(seen) == 1
        ranked = sorted(seen, key=lambda outcome: (-seen[outcome], outcome))
        self.listed = ranked[:_LONGEST]
        self.counts, self.unlisted, self.unlisted_seen = [0] * len(self.listed), 0, set()
        self.order = order

    def count(self, seen: Mapping[Outcome, int]) -> None:
        """Add draws that count."""
        position = {outcome: i for i, outcome in enumerate(self.listed)}
        for outcome, times in seen.items():
            self.drawn += times
            if outcome in position:
                self.counts[position[outcome]] += times
            else:
                self.unlisted += times
                self.unlisted_seen.add(outcome)

    def starts_anew(self, order: int) -> bool:
        """Begin a longer list if too much was unlisted; past draws then only name outcomes."""
        often = self.unlisted >= _UNLISTED and self.unlisted > _UNLISTED_SHARE * self.n
        if not often or len(self.listed) + len(self.unlisted_seen) > _LONGEST:
            return False
        self.listed += sorted(self.unlisted_seen)
        self.counts, self.unlisted, self.unlisted_seen = [0] * len(self.listed), 0, set()
        self.order = order
        return True


class Arrays(NamedTuple):
    """A table of outcomes for computing: P = S * A pairs, pair s * A + a, and K listed outcomes.

    Attributes:
        after: number of the next state, S for the end and for places that are not used, [P, K].
        paid: of each utility, [P, K, U].
        counts: draws that count, [P, K]; of a certain pair 1.
        unlisted: [P].
        certain: [P].
        listed: outcomes of each, [P].
        order: of the list, [P]; -1 for pairs that were never drawn.
    """

    after: IntArray
    paid: FloatArray
    counts: FloatArray
    unlisted: FloatArray
    certain: BoolArray
    listed: IntArray
    order: IntArray


class OutcomeTable:
    """All pairs that were drawn so far, of A actions and U utilities."""

    def __init__(self, n_actions: int, n_utilities: int) -> None:
        self.n_actions, self.n_utilities = n_actions, n_utilities
        self.pairs: list[Pair] = []
        self._lists = 0

    @property
    def n_states(self) -> int:
        """States that were met."""
        return len(self.pairs) // self.n_actions

    def grow(self, n_states: int) -> None:
        """Make room for states up to a number."""
        while len(self.pairs) < n_states * self.n_actions:
            self.pairs.append(Pair())

    def pair(self, state: int, action: int) -> Pair:
        """What is known of an action in a state."""
        return self.pairs[state * self.n_actions + action]

    def add(self, pair: Pair, seen: Mapping[Outcome, int], certain: bool) -> None:
        """Take in draws of a pair: as its list if it has none, else as counts."""
        if not pair.listed:
            pair.list_outcomes(seen, certain, self._lists)
            self._lists += not pair.certain
        elif not pair.certain:
            pair.count(seen)
            self._lists += pair.starts_anew(self._lists)

    def arrays(self) -> Arrays:
        """The table as arrays."""
        width = max([1, *(len(pair.listed) for pair in self.pairs)])
        size = (len(self.pairs), width)
        after = np.full(size, self.n_states, dtype=np.int64)
        paid = np.zeros((*size, self.n_utilities))
        counts = np.zeros(size)
        for i, pair in enumerate(self.pairs):
            for k, outcome in enumerate(pair.listed):
                after[i, k] = outcome.after if outcome.after != END else self.n_states
                paid[i, k] = outcome.paid
            counts[i, : len(pair.listed)] = [1] if pair.certain else pair.counts
        return Arrays(
            after,
            paid,
            counts,
            np.array([pair.unlisted for pair in self.pairs], dtype=np.float64),
            np.array([pair.certain for pair in self.pairs], dtype=np.bool_),
            np.array([len(pair.listed) for pair in self.pairs], dtype=np.int64),
            np.array([pair.order for pair in self.pairs], dtype=np.int64),
        )
