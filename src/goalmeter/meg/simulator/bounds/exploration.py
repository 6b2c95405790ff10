"""Which steps are taken from which states: first from all that can be reached, then where it pays.

Once every action of every reachable state was tried, further draws go where they lower the upper
bound of the soft value most: to pairs that the bound's own plan visits often and whose
expectation is still wide. The width of a pair falls like c / sqrt(n), and a sum of those under a
given number of draws is smallest for n proportional to c^(2/3).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.bounds.agreement import disagree
from goalmeter.meg.simulator.bounds.outcomes import LISTING, OutcomeTable
from goalmeter.meg.simulator.seeds import AGAIN, SUCCESSORS, seeded
from goalmeter.meg.simulator.worlds.protocol import END, Outcome, Simulator

_LEFT_OUT = (
    "what is taken for the state leaves out something that the simulator's dynamics or utility "
    "depend on, or chance comes from elsewhere than declared; give state= a function of "
    "(observation, info) that tells such states apart, or chance='unknown', which assumes nothing"
)
# What settles whether a pair leaves anything to chance.
TRIED = 2
# Draws that count at first of a pair that leaves something to chance.
_FIRST = 24
# No pair is drawn more often at once than this, so that memory stays bounded.
_AT_ONCE = 200_000


class Exploration:
    """A table of outcomes that grows.

    Args:
        simulator: the world, which can return to its states.
        horizon: H; states that are met only after H decisions are not decided in.
        seed: of all draws.
    """

    def __init__(self, simulator: Simulator, horizon: int, seed: int) -> None:
        self._simulator, self._horizon, self._seed = simulator, horizon, seed
        self.table = OutcomeTable(simulator.n_actions, len(simulator.utilities.names))
        self.steps = 0
        self._calls: Counter[tuple[int, int]] = Counter()
        # The fewest decisions after which each state was met, and what each tried one leads to.
        self._depth: dict[int, int] = {}
        self._next: dict[int, set[int]] = {}
        self._waiting: deque[int] = deque()
        # Pairs that were tried as the state was met another time, and what that led to.
        self._verified: set[tuple[int, int]] = set()
        self._again: Counter[tuple[int, int, Outcome]] = Counter()

    def complete(self, starts: Iterable[int]) -> bool:
        """Whether every action was tried in all states that can be decided in, from some starts."""
        return not self._waiting and all(start in self._next for start in starts)

    def expand(self, states: Iterable[int], budget: int) -> None:
        """Try every action of some states and of all that they lead to, nearest first.

        Args:
            states: their numbers; episodes begin in them.
            budget: steps that may be taken; states that are left wait for the next call.
        """
        for state in states:
            self._met(state, 0)
        limit = self.steps + budget
        while self._waiting and self.steps < limit:
            # It waits until all of its actions were tried: an interruption may come in between.
            state = self._waiting[0]
            if state not in self._next:
                self._next[state] = set()
                for action in range(self.table.n_actions):
                    self._first(state, action)
            for after in sorted(self._next[state]):
                self._met(after, self._depth[state] + 1)
            self._waiting.popleft()
        self.table.grow(self._simulator.n_states)

    def verify(self, budget: int) -> None:
        """Take steps from states as they were met another time; `compare` looks at them.

        Args:
            budget: steps that may be taken.
        """
        if not self._simulator.met_again:
            return
        limit = self.steps + budget
        for state, action in product(self._next, range(self.table.n_actions)):
            if self.steps >= limit:
                return
            # A state that was met once may be met another time yet.
            if state not in self._simulator.met_again or (state, action) in self._verified:
                continue
            count = 1 if self.table.pair(state, action).certain else _FIRST
            generator = np.random.default_rng(seeded(self._seed, AGAIN, state, action))
            seen = self._simulator.draw_again(state, action, count, generator)
            self._verified.add((state, action))
            self.steps += seen.total()
            for outcome, times in seen.items():
                self._again[state, action, outcome] += times

    def compare(self, walked: Mapping[tuple[int, int, Outcome], int]) -> None:
        """See that episodes, and other visits, went where steps from saved states lead.

        Args:
            walked: how often episodes took which outcome of which action in which state.
        """
        # An interruption may have come between meeting a state and making room for it.
        self.table.grow(self._simulator.n_states)
        by_pair: dict[tuple[int, int], Counter[Outcome]] = {}
        for (state, action, outcome), times in [*walked.items(), *self._again.items()]:
            if state in self._next:
                by_pair.setdefault((state, action), Counter())[outcome] += times
        for rank, ((state, action), outcomes) in enumerate(by_pair.items()):
            pair = self.table.pair(state, action)
            listed = dict.fromkeys(pair.listed, 0)
            other = next((each for each in outcomes if each not in listed), None)
            if pair.certain and other is not None:
                raise InvalidParameterError(
                    f"action {action} in state {state} led to {_in_words(other)} on one visit "
                    f"and to {_in_words(pair.listed[0])} from the saved state, though nothing was "
                    f"drawn: {_LEFT_OUT}"
                )
            counts = [outcomes[each] for each in listed]
            counts.append(outcomes.total() - sum(counts))
            if disagree(counts, [*pair.counts, pair.unlisted], rank):
                raise InvalidParameterError(
                    f"action {action} in state {state} led elsewhere in {outcomes.total()} steps "
                    f"of other visits than in {pair.n} steps from the saved state, more than "
                    f"chance allows: {_LEFT_OUT}"
                )

    def _met(self, state: int, depth: int) -> None:
        """Note that a state is decided in after so many decisions, if earlier than before."""
        if depth < min(self._depth.get(state, self._horizon), self._horizon):
            self._depth[state] = depth
            self._waiting.append(state)

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
        self.table.grow(self._simulator.n_states)

    def _first(self, state: int, action: int) -> None:
        """The first draws of a pair: what it can lead to, and some that count."""
        seen, certain = self._sampled(state, action, TRIED)
        if not certain:
            seen = seen + self._sampled(state, action, LISTING - TRIED)[0]
        self._take(state, action, seen, certain)
        if not self.table.pair(state, action).certain:
            self._draw(state, action, _FIRST)

    def _draw(self, state: int, action: int, count: int) -> None:
        self._take(state, action, *self._sampled(state, action, count))
        # A list that has just begun has no draws, and a pair without draws would never get any:
        # nothing is gained by a width that is not known.
        pair = self.table.pair(state, action)
        if pair.n == 0 and not pair.certain:
            self._draw(state, action, max(count, _FIRST))

    def _take(self, state: int, action: int, seen: Counter[Outcome], certain: bool) -> None:
        self.table.grow(self._simulator.n_states)
        self.table.add(self.table.pair(state, action), seen, certain)
        for outcome in seen:
            if outcome.after != END and outcome.after not in self._next[state]:
                self._next[state].add(outcome.after)
                self._met(outcome.after, self._depth[state] + 1)

    def _sampled(self, state: int, action: int, count: int) -> tuple[Counter[Outcome], bool]:
        call = self._calls[state, action]
        self._calls[state, action] += 1
        seed = seeded(self._seed, SUCCESSORS, state, action, call)
        seen, certain = self._simulator.draw(state, action, count, np.random.default_rng(seed))
        self.steps += sum(seen.values())
        return seen, certain


def _in_words(outcome: Outcome) -> str:
    place = "the end" if outcome.after == END else f"state {outcome.after}"
    return f"{place}, paying {', '.join(f'{each:g}' for each in outcome.paid)},"
