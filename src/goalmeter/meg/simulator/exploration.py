"""Which steps are taken from which states: first from all that can be reached, then where it pays.

Once every action of every reachable state was tried, further draws go where they lower the upper
bound of the soft value most: to pairs that the bound's own plan visits often and whose expectation
is still wide. The width of a pair falls like c / sqrt(n), and a sum of those under a given number of
draws is smallest for n proportional to c^(2/3).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.outcomes import END, LISTING, Outcome, OutcomeTable
from goalmeter.meg.simulator.protocol import Simulator
from goalmeter.meg.simulator.seeds import SUCCESSORS, seeded

# What settles whether a pair leaves anything to chance.
_TRIED = 2
# Draws that count at first of a pair that leaves something to chance.
_FIRST = 24
# No pair is drawn more often at once than this, so that memory stays bounded.
_AT_ONCE = 200_000


class Exploration:
    """A table of outcomes that grows.

    Args:
        simulator: the world, which can return to its states.
        seed: of all draws.
    """

    def __init__(self, simulator: Simulator, seed: int) -> None:
        self._simulator, self._seed = simulator, seed
        self.table = OutcomeTable(simulator.n_actions, len(simulator.utilities.names))
        self.steps = 0
        self._calls: dict[tuple[int, int], int] = {}
        self._expanded: set[int] = set()
        self._left: list[int] = []

    @property
    def complete(self) -> bool:
        """Whether every action of every state that was reached was tried."""
        return not self._left

    def expand(self, states: Iterable[int], budget: int) -> None:
        """Try every action of some states and of all that they lead to, nearest first.

        Args:
            states: their numbers.
            budget: steps that may be taken; states that are left wait for the next call.
        """
        waiting = [*self._left, *dict.fromkeys(states)]
        known = set(waiting) | self._expanded
        waiting = [state for state in dict.fromkeys(waiting) if state not in self._expanded]
        limit, position = self.steps + budget, 0
        while position < len(waiting) and self.steps < limit:
            state = waiting[position]
            position += 1
            self._expanded.add(state)
            for action in range(self.table.n_actions):
                for outcome in self._first(state, action):
                    if outcome.after not in known and outcome.after != END:
                        known.add(outcome.after)
                        waiting.append(outcome.after)
        self._left = waiting[position:]
        self.table.grow(self._simulator.n_states)

    def refine(self, gain: FloatArray, total: FloatArray, budget: int) -> None:
        """Draw pairs again where that lowers the bound.

        Args:
            gain: what the width of each pair adds to the bound now, [P] nats.
            total: draws of each that count, [P].
            budget: steps.
        """
        worth = np.where(gain > 0, gain * np.sqrt(np.maximum(total, 1.0)), 0.0) ** (2 / 3)
        if worth.sum() <= 0 or budget < 1:
            return
        wanted = (total[worth > 0].sum() + budget) * worth / worth.sum()
        more = np.maximum(wanted - total, 0.0) * (worth > 0)
        # What some have too much of is not there for the others.
        more *= budget / max(more.sum(), 1.0)
        for place in np.flatnonzero(more >= 1.0):
            state, action = divmod(int(place), self.table.n_actions)
            self._draw(state, action, min(int(more[place]), _AT_ONCE))
            pair = self.table.pair(state, action)
            fresh = [o.after for o in (*pair.listed, *pair.unlisted_seen) if o.after != END]
            self._left += [s for s in fresh if s not in self._expanded]
        self.table.grow(self._simulator.n_states)

    def _first(self, state: int, action: int) -> list[Outcome]:
        """The first draws of a pair; what came of them."""
        seen, certain = self._sampled(state, action, _TRIED)
        if not certain:
            more, _ = self._sampled(state, action, LISTING - _TRIED)
            seen = seen + more
        self.table.grow(self._simulator.n_states)
        pair = self.table.pair(state, action)
        self.table.add(pair, seen, certain)
        if not pair.certain:
            self._draw(state, action, _FIRST)
        return [*pair.listed, *sorted(pair.unlisted_seen)]

    def _draw(self, state: int, action: int, count: int) -> None:
        seen, certain = self._sampled(state, action, count)
        self.table.grow(self._simulator.n_states)
        self.table.add(self.table.pair(state, action), seen, certain)

    def _sampled(self, state: int, action: int, count: int):  # type: ignore[no-untyped-def]
        call = self._calls.get((state, action), 0)
        self._calls[state, action] = call + 1
        seed = seeded(self._seed, SUCCESSORS, state, action, call)
        seen, certain = self._simulator.draw(state, action, count, np.random.default_rng(seed))
        self.steps += sum(seen.values())
        return seen, certain
