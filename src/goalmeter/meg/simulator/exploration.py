"""Explore the states of a simulator, and bound MEG from steps in them."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import log
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator import confidence, start_bounds
from goalmeter.meg.simulator.agents import SimulatorAgent
from goalmeter.meg.simulator.confidence import ConfidenceSet, PossibleWorlds, StepOutcomeTable
from goalmeter.meg.simulator.protocol import END, SUCCESSORS, Episodes, StepOutcome, seeded
from goalmeter.meg.simulator.start_bounds import Ends, UtilityEstimate
from goalmeter.meg.simulator.state_bounds import Bounded, StateEnds, excesses, interval
from goalmeter.meg.simulator.utilities import Range

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import Simulator

# --- Agreement of episodes with saved states -----------------------------------------------------
# If the key of a state is complete, steps in episodes ("walked") and from the saved state ("drawn")
# have one distribution p. With a predictor q fixed in advance, q(walked) q(drawn) / max over p of
# p(walked) p(drawn) then exceeds 1 / error with a probability of at most `error`, at any time
# (Wasserman, Ramdas & Balakrishnan, PNAS 2020).

_WEIGHT = 0.5  # weight of each outcome in the predictor, a Dirichlet mixture
_ERROR = 1e-4  # probability of refusing a world that meets the assumption


def disagree(walked: Sequence[int], drawn: Sequence[int], rank: int) -> bool:
    """Return whether counts [K] from episodes and a saved state contradict one distribution."""
    place = rank + 2.0
    price = math.log(confidence.SERIES * place * math.log(place) ** 2 / _ERROR)
    together = [a + b for a, b in zip(walked, drawn, strict=True)]
    total = sum(together)
    likely = sum(n * math.log(n / total) for n in together if n)
    return _predicted(walked) + _predicted(drawn) - likely > price


def _predicted(counts: Sequence[int]) -> float:
    """Return the log probability of a sequence with these counts under the mixture."""
    size = _WEIGHT * len(counts)
    out = math.lgamma(size) - math.lgamma(size + sum(counts))
    return out + sum(math.lgamma(_WEIGHT + n) - math.lgamma(_WEIGHT) for n in counts)


# --- Exploration --------------------------------------------------------------------------------
# Once every action of every reachable state was sampled, further draws go to the (state, action)
# pairs that lower the upper bound of the soft value most: those that the bound's own plan visits
# often and whose expectation is still wide. The width of a pair decreases like c / sqrt(n); for a
# given number of draws the sum of widths is minimal for n proportional to c^(2/3).

_LEFT_OUT = (
    "the state key omits something on which the simulator's dynamics or utility depend, or the "
    "source of randomness is not the declared one; pass as state= a function of (observation, "
    "info) that distinguishes such states, or chance='unknown', which assumes nothing"
)
TRIED = 2  # number of draws that determine whether a pair is deterministic
_FIRST = 24  # initial number of counted draws of a random pair
_CHECKS = 2**43  # number of the first episode of free choice that checks the names of states
_AT_ONCE = 200_000  # maximum number of draws of a pair at once, which bounds memory


class Exploration:
    """Growing table of outcomes by state and action."""

    def __init__(self, simulator: Simulator, horizon: int, seed: int) -> None:
        self._simulator, self._horizon, self._seed = simulator, horizon, seed
        self.table = StepOutcomeTable(simulator.n_actions, len(simulator.utilities.names))
        self.steps = 0
        self._calls: Counter[tuple[int, int]] = Counter()
        # Minimum number of decisions to each state, and successors of each expanded state.
        self._depth: dict[int, int] = {}
        self._next: dict[int, set[int]] = {}
        self._waiting: deque[int] = deque()

    def complete(self, starts: Iterable[int]) -> bool:
        """Return whether every action was sampled in all states reachable from some starts."""
        return not self._waiting and all(start in self._next for start in starts)

    def expand(self, states: Iterable[int], budget: int) -> None:
        """Sample every action in some states and all states reachable from them, nearest first."""
        for state in states:
            self._met(state, 0)
        limit = self.steps + budget
        while self._waiting and self.steps < limit:
            # An interrupted state remains in the queue until all its actions were sampled.
            state = self._waiting[0]
            if state not in self._next:
                self._next[state] = set()
                for action in range(self.table.n_actions):
                    self._first(state, action)
            for after in sorted(self._next[state]):
                self._met(after, self._depth[state] + 1)
            self._waiting.popleft()
        self.table.grow(self._simulator.n_states)

    def check(self, budget: int) -> None:
        """Play episodes of free choice, which reach states in other ways, for `compare`."""
        limit, played = self.steps + budget, 0
        while self.steps < limit and self._simulator.names_given:
            free, number = self._simulator.free_choice(), _CHECKS + played
            self.steps += max(self._simulator.play(free, self._horizon, number).steps, 1)
            played += 1

    def compare(self, walked: Mapping[tuple[int, int, StepOutcome], int]) -> None:
        """Require that episodes agree with steps from saved states."""
        # An interruption may have left a new state without a row.
        self.table.grow(self._simulator.n_states)
        by_pair: dict[tuple[int, int], Counter[StepOutcome]] = {}
        for (state, action, outcome), times in walked.items():
            if state in self._next:
                by_pair.setdefault((state, action), Counter())[outcome] += times
        for rank, ((state, action), outcomes) in enumerate(by_pair.items()):
            pair = self.table.pair(state, action)
            listed = dict.fromkeys(pair.listed, 0)
            other = next((each for each in outcomes if each not in listed), None)
            if pair.certain and other is not None:
                raise InvalidParameterError(
                    f"action {action} in state {state} led to {_in_words(other)} on one visit and "
                    f"to {_in_words(pair.listed[0])} from the saved state without any random draw: "
                    f"{_LEFT_OUT}"
                )
            counts = [outcomes[each] for each in listed]
            counts.append(outcomes.total() - sum(counts))
            if disagree(counts, [*pair.counts, pair.unlisted], rank):
                raise InvalidParameterError(
                    f"the outcomes of action {action} in state {state} differ significantly "
                    f"between {outcomes.total()} steps of other visits and {pair.n} steps from the "
                    f"saved state: {_LEFT_OUT}"
                )

    def _met(self, state: int, depth: int) -> None:
        """Record that a state is reached after `depth` decisions, if earlier than before."""
        if depth < min(self._depth.get(state, self._horizon), self._horizon):
            self._depth[state] = depth
            self._waiting.append(state)

    def refine(self, gain: FloatArray, total: FloatArray, budget: int) -> None:
        """Draw pairs again by the nats each adds to the bound, [P]; `total` [P] draws so far."""
        worth = np.where(gain > 0, gain * np.sqrt(np.maximum(total, 1.0)), 0.0) ** (2 / 3)
        if worth.sum() <= 0 or budget < 1:
            return
        targets = (total[worth > 0].sum() + budget) * worth / worth.sum()
        more = np.maximum(targets - total, 0.0) * (worth > 0)
        # Draws in excess of a target are not available for other pairs.
        more *= budget / max(more.sum(), 1.0)
        for place in np.flatnonzero(more >= 1.0):
            state, action = divmod(int(place), self.table.n_actions)
            self._draw(state, action, min(int(more[place]), _AT_ONCE))
        self.table.grow(self._simulator.n_states)

    def _first(self, state: int, action: int) -> None:
        """Draw a pair for the first time: list its outcomes, then count some draws."""
        outcomes, certain = self._sampled(state, action, TRIED)
        if not certain:
            outcomes = outcomes + self._sampled(state, action, confidence.LISTING - TRIED)[0]
        self._take(state, action, outcomes, certain)
        if not self.table.pair(state, action).certain:
            self._draw(state, action, _FIRST)

    def _draw(self, state: int, action: int, count: int) -> None:
        self._take(state, action, *self._sampled(state, action, count))
        # A new list has no counted draws, and a pair without draws has no known width, so
        # `refine` would never draw it.
        pair = self.table.pair(state, action)
        if pair.n == 0 and not pair.certain:
            self._draw(state, action, max(count, _FIRST))

    def _take(self, state: int, action: int, outcomes: Counter[StepOutcome], certain: bool) -> None:
        self.table.grow(self._simulator.n_states)
        self.table.add(self.table.pair(state, action), outcomes, certain)
        for outcome in outcomes:
            if outcome.after != END and outcome.after not in self._next[state]:
                self._next[state].add(outcome.after)
                self._met(outcome.after, self._depth[state] + 1)

    def _sampled(self, state: int, action: int, count: int) -> tuple[Counter[StepOutcome], bool]:
        call = self._calls[state, action]
        self._calls[state, action] += 1
        seed = seeded(self._seed, SUCCESSORS, state, action, call)
        outcomes, certain = self._simulator.draw(state, action, count, np.random.default_rng(seed))
        self.steps += sum(outcomes.values())
        return outcomes, certain


def _in_words(outcome: StepOutcome) -> str:
    place = "the end" if outcome.after == END else f"state {outcome.after}"
    return f"{place}, paying {', '.join(f'{each:g}' for each in outcome.paid)},"


# --- Measurement by states ----------------------------------------------------------------------
# All actions in reachable states are sampled. The samples define a set of plausible worlds
# (`confidence`), whose highest soft value bounds the true one for every utility and rationality at
# once. The return of the agent comes from its own fresh episodes, or is computed if the world is
# deterministic.

METHOD = "table of states with a confidence set of worlds"
# Shares of the budget for the first episodes, and for exploration before the first bound.
_FIRST_EPISODES, FIRST_STATES = 0.04, 0.3
_CHECK_SHARE = 0.05  # share of the budget for the check of the names of states
_GROWTH = 0.6  # steps of a round as a share of all steps before it
_START_SHARE = 0.1  # share of the budget for the bound from the start, if it may be tighter


@dataclass
class StatesMeasure:
    """Measurement by states, in rounds until the budget is spent."""

    simulator: Simulator
    actor: SimulatorAgent
    horizon: int
    error: float
    seed: int
    budget: int
    precision: float
    episodes: Episodes = field(init=False)
    exploration: Exploration = field(init=False)

    def __post_init__(self) -> None:
        self.exploration = Exploration(self.simulator, self.horizon, self.seed)
        self._chunks = 0
        self._explored = False
        count = len(self.simulator.utilities.names)
        self._best: list[float | None] = [None] * count

    @property
    def begun(self) -> bool:
        """Whether there are episodes for bounds."""
        return self._chunks > 0

    @property
    def steps(self) -> dict[str, int]:
        """Number of steps so far by purpose."""
        return {"agent": self.episodes.steps, "states": self.exploration.steps}

    @property
    def _is_complete(self) -> bool:
        return self.exploration.complete(np.unique(self.episodes.starts).tolist())

    def explore(self) -> bool:
        """Explore states; return whether all actions in reachable states were sampled."""
        self.episodes = self.simulator.play(self.actor, self.horizon, 0)
        self._chunks = 1
        self._play(int(_FIRST_EPISODES * self.budget))
        self._expand(int(FIRST_STATES * self.budget))
        self.exploration.check(int(_CHECK_SHARE * self.budget))
        self.exploration.compare(self.simulator.walked)
        self._explored = self._is_complete
        return self._explored

    def run(self, tell: Callable[[list[UtilityEstimate]], None]) -> str:
        """Measure until the budget is spent or the bounds are close; return the reason."""
        while True:
            worlds = self._worlds()
            current, widths, noises = self._current(worlds)
            tell(current)
            close = all(each.ends.low >= (1 - self.precision) * each.value for each in current)
            # In a random world, payoffs may be too rare to have been observed so far.
            close &= self._is_deterministic(worlds) or all(each.value > 0 for each in current)
            remaining = self.budget - sum(self.steps.values())
            if self.wants_start([(each.ends.low, each.value) for each in current]):
                remaining -= int(_START_SHARE * self.budget)
            if close or remaining < self.simulator.chunk:
                return "precision" if close else "budget"
            # The utility with the largest uncertainty determines the allocation of steps.
            worst = int(np.argmax([w.sum() + n for w, n in zip(widths, noises, strict=True)]))
            spent = sum(self.steps.values())
            steps = min(remaining, int(_GROWTH * spent) + 1)
            self._spend(steps, widths[worst], noises[worst], worlds.worlds.total)
            # A share may be too small for any draw; then the agent plays episodes instead.
            if sum(self.steps.values()) == spent:
                self._play(steps)
            # Only episodes that end before their first step take no steps.
            if sum(self.steps.values()) == spent:
                return "budget"

    def wants_start(self, known: list[tuple[float, float]]) -> bool:
        """Return whether the bound from the start may raise a lower bound."""
        # It never exceeds the logarithm of its number of episodes, and is used if the lower bound
        # is less than half of the estimate.
        episodes = _START_SHARE * self.budget / max(float(self.episodes.decisions.mean()), 1.0)
        return any(low < min(value / 2, log(max(episodes, 1.0))) for low, value in known)

    @property
    def played(self) -> tuple[Episodes, int]:
        """Episodes of the agent and the number of their chunks."""
        return self.episodes, self._chunks

    def ends(self) -> list[UtilityEstimate]:
        """Return the interval of each utility from the episodes that chose nothing."""
        self.exploration.compare(self.simulator.walked)
        worlds = self._worlds()
        fitted, fresh = start_bounds.fitted_and_fresh(self.episodes)
        count = len(self.simulator.utilities.names)
        if not len(fresh.decisions):
            # An interruption came before the first episode for bounds.
            return [
                start_bounds.nothing_known(self.simulator.most_information, self.horizon)
            ] * count
        plain = self._plain(worlds, fresh)
        out, bounded = [], []
        for which, ends in enumerate(self._each(worlds)):
            choice = ends.choose(fitted, self._best[which], self._lower_error)
            low = ends.lower(fresh, choice.beta, self._lower_error)
            high = ends.upper(fresh, choice, low, self._upper_error / 2 / count)
            # The upper bound of a learnt utility does not hold for the other ones of its class.
            if self.simulator.utilities.names[which] in self.simulator.utilities.learnt:
                high = np.inf
            bounds = interval(low, high, plain)
            # The point estimate has no guarantee, so it may use every episode.
            value = ends.estimate(self.episodes, choice.best) if choice.beta else 0.0
            # A lower bound of 0 proves nothing at any rationality.
            beta = choice.beta if bounds.low > 0 or choice.beta == 0 else choice.best
            # After an interruption some states may be unexplored, which precludes an estimate.
            if self._explored:
                out.append(start_bounds.estimate_in(bounds, value, beta))
            else:
                beta = choice.beta if bounds.low > 0 else 0.0
                out.append(UtilityEstimate(bounds.low, beta, bounds))
            bounded.append(Bounded(ends, choice, bounds.low, bounds.high))
        exceeds = self._exceed(bounded, fresh)
        return [replace(known, exceeds=more) for known, more in zip(out, exceeds, strict=True)]

    def _exceed(self, bounded: list[Bounded], fresh: Episodes) -> list[dict[int, float]]:
        """Return lower bounds of the MEG towards each utility minus others, by number."""
        names, out = self.simulator.utilities.names, [dict[int, float]() for _ in bounded]
        # A learnt utility represents the best of its class, which its own curve does not bound.
        pairs = [
            (one, other)
            for one, other in permutations(range(len(bounded)), 2)
            if names[other] not in self.simulator.utilities.learnt
        ]
        limits = excesses(bounded, pairs, fresh, start_bounds.PAIRED * self.error)
        for (one, other), more in limits.items():
            out[one][other] = more
        return out

    def assumed(self) -> list[str]:
        """Return the unverified assumption of each interval as a sentence; "" if there is none."""
        worlds = self._worlds()
        random = not self._is_deterministic(worlds)
        return [
            each.in_words() if each.assumed and (random or not self.simulator.one_start) else ""
            for each in worlds.ranges
        ]

    def _current(
        self, worlds: PossibleWorlds
    ) -> tuple[list[UtilityEstimate], list[FloatArray], list[float]]:
        """Return estimates from fitted episodes, and widths due to the world and the agent."""
        fitted, _ = start_bounds.fitted_and_fresh(self.episodes)
        estimates, widths, noises = [], [], []
        counts = np.bincount(fitted.starts, minlength=worlds.n_states)
        starts = counts / counts.sum()
        for which, ends in enumerate(self._each(worlds)):
            choice = ends.choose(fitted, self._best[which], self._lower_error)
            self._best[which] = abs(choice.best)
            plan = ends.plan(choice.beta)
            widths.append((worlds.visits(plan, starts) * plan.slack).sum(axis=0))
            noises.append(max(ends.evidence(fitted, choice.beta) - choice.low, 0.0))
            bounds = Ends(max(choice.low, 0.0), np.inf, "the table of states", "")
            value = max(ends.estimate(fitted, choice.best), 0.0) if choice.beta else 0.0
            # The estimate is unbounded if the agent did something impossible in the observed world.
            value = min(value, float(fitted.decisions.mean()) * self.simulator.most_information)
            estimates.append(UtilityEstimate(value, choice.beta, bounds, estimated=True))
        return estimates, widths, noises

    @property
    def _lower_error(self) -> float:
        # The best combination of the utilities counts as one more.
        return start_bounds.LOWER * self.error / (len(self.simulator.utilities.names) + 1)

    @property
    def _upper_error(self) -> float:
        several = len(self.simulator.utilities.names) > 1
        return (start_bounds.UPPER - start_bounds.PAIRED * several) * self.error

    def remarks(self) -> list[str]:
        """Return remarks on the agent and the world for a reader."""
        return self.simulator.remarks(self.actor)

    def _worlds(self) -> PossibleWorlds:
        self.exploration.table.grow(self.simulator.n_states)
        utilities, arrays = self.simulator.utilities, self.exploration.table.arrays()
        ranges = tuple(
            utilities.bounds.get(name) or Range(*self.simulator.observed_range(i), assumed=True)
            for i, name in enumerate(utilities.names)
        )
        confident = ConfidenceSet(arrays, start_bounds.SOFT * self.error)
        return PossibleWorlds(confident, self.simulator.n_actions, self.horizon, ranges)

    def _each(self, worlds: PossibleWorlds) -> list[StateEnds]:
        return [self._of(worlds, weights) for weights in np.eye(len(worlds.ranges))]

    def _of(self, worlds: PossibleWorlds, weights: FloatArray) -> StateEnds:
        policy = self._computable(worlds)
        known = None if policy is None else worlds.evaluate(policy, weights, confidence.AS_SEEN)
        fitted, _ = start_bounds.fitted_and_fresh(self.episodes)
        spread = float(np.ptp(fitted.returns @ weights))
        spread = (
            spread
            or sum(abs(w) * r.spread for w, r in zip(weights, worlds.ranges, strict=True))
            or 1.0
        )
        return StateEnds(worlds, weights, known, self.simulator.one_start, 1.0 / spread)

    def combined(self) -> tuple[FloatArray, UtilityEstimate]:
        """Return the best combination of utilities, [U]; its upper bound holds for any utility."""
        worlds = self._worlds()
        fitted, fresh = start_bounds.fitted_and_fresh(self.episodes)
        counts = np.bincount(fitted.starts, minlength=worlds.n_states)
        policy = self._computable(worlds)
        collected = fitted.returns.mean(axis=0)
        if policy is not None:
            each = [
                worlds.evaluate(policy, one, confidence.AS_SEEN)
                for one in np.eye(len(worlds.ranges))
            ]
            collected = np.array(each)[:, fitted.starts].mean(axis=1)
        weights = confidence.best_weights(worlds, collected, counts / counts.sum())
        plain = self._plain(worlds, fresh)
        # If starts differ and the world is random, the weights may depend on the starts of the
        # episodes for bounds; no lower bound is valid then.
        if not weights.any() or not (self.simulator.one_start or policy is not None):
            return weights, UtilityEstimate(0.0, 0.0, interval(0.0, np.inf, plain))
        ends = self._of(worlds, weights)
        choice = ends.choose(fitted, 1.0, self._lower_error)
        bounds = interval(ends.lower(fresh, choice.beta, self._lower_error), np.inf, plain)
        value = ends.estimate(self.episodes, choice.best) if choice.beta else 0.0
        return weights, start_bounds.estimate_in(bounds, value, choice.best)

    def _computable(self, worlds: PossibleWorlds) -> FloatArray | None:
        """Return the agent's policy if its return can be computed from the table, else None."""
        if not self._is_deterministic(worlds):
            return None
        return self.simulator.policy(self.actor, self.horizon)

    def _is_deterministic(self, worlds: PossibleWorlds) -> bool:
        """Return whether all reachable pairs were sampled and are deterministic."""
        drawn = worlds.worlds.arrays.listed > 0
        return self._is_complete and bool(worlds.worlds.arrays.certain[drawn].all())

    def _plain(self, worlds: PossibleWorlds, fresh: Episodes) -> Ends:
        """Return the upper bound that holds for every utility."""
        policy = self._computable(worlds)
        if policy is None or not self.simulator.one_start:
            error = self._upper_error / 2
            return start_bounds.without_planning(
                fresh, self.simulator.most_information, self.horizon, error
            )
        nothing = np.zeros(len(worlds.ranges))
        gained = worlds.evaluate(
            policy, nothing, confidence.AS_SEEN, start_bounds.entropies(policy)
        )
        return Ends(0.0, float(gained[fresh.starts[0]]), "zero", "the agent's own entropy")

    def _play(self, budget: int) -> None:
        parts, steps = [self.episodes], 0
        try:
            while steps < budget:
                left = int(budget - steps)
                parts.append(self.simulator.play(self.actor, self.horizon, self._chunks, left))
                self._chunks += 1
                # Count empty episodes as a chunk, so that the loop ends.
                steps += max(parts[-1].steps, self.simulator.chunk)
        finally:
            # An interruption leaves complete episodes, which are valid for bounds.
            self.episodes = Episodes.of(parts)

    def _expand(self, budget: int) -> None:
        self.exploration.expand(np.unique(self.episodes.starts).tolist(), budget)

    def _spend(self, steps: int, gain: FloatArray, noise: float, total: FloatArray) -> None:
        """Spend a round's steps on the agent's episodes and the world's states."""
        # The width due to either decreases with the square root of its steps.
        states = (gain.sum() * np.sqrt(max(total.sum(), 1.0))) ** (2 / 3)
        agent = (noise * np.sqrt(max(self.episodes.steps, 1))) ** (2 / 3)
        share = states / (states + agent) if states + agent > 0 else 0.5
        if steps * (1 - share) >= 1:
            self._play(int(steps * (1 - share)))
        before = self.exploration.steps
        self._expand(int(steps * share))
        more = int(steps * share) - (self.exploration.steps - before)
        self.exploration.refine(gain, total, more)
