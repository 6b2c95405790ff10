"""Explore the states of a simulator and bound MEG from the steps taken there."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import log
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator import confidence, start_bounds
from goalmeter.meg.simulator.agents import SimulatorAgent
from goalmeter.meg.simulator.confidence import ConfidenceSet, PossibleWorlds, StepOutcomeTable
from goalmeter.meg.simulator.protocol import AGAIN, END, SUCCESSORS, Episodes, StepOutcome, seeded
from goalmeter.meg.simulator.start_bounds import Ends, UtilityEstimate
from goalmeter.meg.simulator.state_bounds import Bounded, StateEnds, excesses, interval
from goalmeter.meg.simulator.utilities import Range

if TYPE_CHECKING:
    from goalmeter.meg.simulator.worlds import Simulator

# --- Agreement of episodes with saved states -----------------------------------------------------
# If a state's name holds all that decides, both are draws of one distribution p, and with a
# predictor q named in advance q(walked) q(drawn) / max over p of p(walked) p(drawn) exceeds 1 /
# error with a probability of `error` at most, at every time (Wasserman, Ramdas & Balakrishnan, PNAS
# 2020).

_WEIGHT = 0.5  # weight of each outcome in the predictor, a Dirichlet mixture
_ERROR = 1e-4  # probability with which a world that keeps its promise is refused nevertheless


def disagree(walked: Sequence[int], drawn: Sequence[int], rank: int) -> bool:
    """Whether counts [K] from episodes and from a saved state contradict one distribution."""
    place = rank + 2.0
    price = math.log(confidence.SERIES * place * math.log(place) ** 2 / _ERROR)
    together = [a + b for a, b in zip(walked, drawn, strict=True)]
    total = sum(together)
    likely = sum(n * math.log(n / total) for n in together if n)
    return _predicted(walked) + _predicted(drawn) - likely > price


def _predicted(counts: Sequence[int]) -> float:
    """Log probability of a sequence with these counts under the mixture."""
    size = _WEIGHT * len(counts)
    out = math.lgamma(size) - math.lgamma(size + sum(counts))
    return out + sum(math.lgamma(_WEIGHT + n) - math.lgamma(_WEIGHT) for n in counts)


# --- Exploration --------------------------------------------------------------------------------
# Once every action of every reachable state was tried, further draws go where they lower the upper
# bound of the soft value most: to pairs that the bound's own plan visits often and whose
# expectation is still wide. The width of a pair falls like c / sqrt(n), and a sum of those under a
# given number of draws is smallest for n proportional to c^(2/3).

_LEFT_OUT = (
    "what is taken for the state leaves out something that the simulator's dynamics or utility "
    "depend on, or chance comes from elsewhere than declared; give state= a function of "
    "(observation, info) that tells such states apart, or chance='unknown', which assumes nothing"
)
TRIED = 2  # what settles whether a pair leaves anything to chance
_FIRST = 24  # draws that count at first of a pair that leaves something to chance
_AT_ONCE = 200_000  # no pair is drawn more often at once than this, so that memory stays bounded


class Exploration:
    """A table of outcomes that grows."""

    def __init__(self, simulator: Simulator, horizon: int, seed: int) -> None:
        self._simulator, self._horizon, self._seed = simulator, horizon, seed
        self.table = StepOutcomeTable(simulator.n_actions, len(simulator.utilities.names))
        self.steps = 0
        self._calls: Counter[tuple[int, int]] = Counter()
        # The fewest decisions after which each state was met, and what each tried one leads to.
        self._depth: dict[int, int] = {}
        self._next: dict[int, set[int]] = {}
        self._waiting: deque[int] = deque()
        # Pairs that were tried as the state was met another time, and what that led to.
        self._verified: set[tuple[int, int]] = set()
        self._again: Counter[tuple[int, int, StepOutcome]] = Counter()

    def complete(self, starts: Iterable[int]) -> bool:
        """Whether every action was tried in all states that can be decided in, from some starts."""
        return not self._waiting and all(start in self._next for start in starts)

    def expand(self, states: Iterable[int], budget: int) -> None:
        """Try every action of some states and of all that they lead to, nearest first."""
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
        """Take steps from states as they were met another time; `compare` looks at them."""
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

    def compare(self, walked: Mapping[tuple[int, int, StepOutcome], int]) -> None:
        """See that episodes, and other visits, went where steps from saved states lead."""
        # An interruption may have come between meeting a state and making room for it.
        self.table.grow(self._simulator.n_states)
        by_pair: dict[tuple[int, int], Counter[StepOutcome]] = {}
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
        """Draw pairs again by the nats each adds to the bound, [P]; `total` [P] draws count."""
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
            seen = seen + self._sampled(state, action, confidence.LISTING - TRIED)[0]
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

    def _take(self, state: int, action: int, seen: Counter[StepOutcome], certain: bool) -> None:
        self.table.grow(self._simulator.n_states)
        self.table.add(self.table.pair(state, action), seen, certain)
        for outcome in seen:
            if outcome.after != END and outcome.after not in self._next[state]:
                self._next[state].add(outcome.after)
                self._met(outcome.after, self._depth[state] + 1)

    def _sampled(self, state: int, action: int, count: int) -> tuple[Counter[StepOutcome], bool]:
        call = self._calls[state, action]
        self._calls[state, action] += 1
        seed = seeded(self._seed, SUCCESSORS, state, action, call)
        seen, certain = self._simulator.draw(state, action, count, np.random.default_rng(seed))
        self.steps += sum(seen.values())
        return seen, certain


def _in_words(outcome: StepOutcome) -> str:
    place = "the end" if outcome.after == END else f"state {outcome.after}"
    return f"{place}, paying {', '.join(f'{each:g}' for each in outcome.paid)},"


# --- Measurement by states ----------------------------------------------------------------------
# The states that can be reached are tried action by action; what was seen leaves a set of possible
# worlds (`confidence`), whose highest soft value bounds the true one, for every utility and
# rationality at once. What the agent collects comes from its own fresh episodes, or is computed
# without chance.

METHOD = "table of states with a confidence set of worlds"
# Of the budget: the first episodes, and what exploring may take before anything is bounded.
_FIRST_EPISODES, FIRST_STATES = 0.04, 0.3
_VERIFYING = 0.3  # of what exploring may take: for looking at states as they were met another time
_GROWTH = 0.6  # each round spends so much of what was spent before
_START_SHARE = 0.1  # what is left to the bound from the start, where that may prove more


@dataclass
class StatesMeasure:
    """A measurement that goes on round by round until its budget is spent."""

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
        """Whether there are episodes that anything could be bounded with."""
        return self._chunks > 0

    @property
    def steps(self) -> dict[str, int]:
        """Steps that were taken so far, by purpose."""
        return {"agent": self.episodes.steps, "states": self.exploration.steps}

    @property
    def _is_complete(self) -> bool:
        return self.exploration.complete(np.unique(self.episodes.starts).tolist())

    def explore(self) -> bool:
        """Begin; whether all states that can be reached could be tried."""
        self.episodes = self.simulator.play(self.actor, self.horizon, 0)
        self._chunks = 1
        self._play(int(_FIRST_EPISODES * self.budget))
        self._expand(int(FIRST_STATES * self.budget))
        self.exploration.compare(self.simulator.walked)
        self._explored = self._is_complete
        return self._explored

    def run(self, tell: Callable[[list[UtilityEstimate]], None]) -> str:
        """Measure until the budget is spent or the ends are close; what ended it."""
        while True:
            worlds = self._worlds()
            rough, widths, noises = self._rough(worlds)
            tell(rough)
            close = all(each.ends.low >= (1 - self.precision) * each.value for each in rough)
            # Where chance is, what a goal pays may be too rare to have been seen by now.
            close &= self._without_chance(worlds) or all(each.value > 0 for each in rough)
            left = self.budget - sum(self.steps.values())
            if self.wants_start([(each.ends.low, each.value) for each in rough]):
                left -= int(_START_SHARE * self.budget)
            if close or left < self.simulator.chunk:
                return "precision" if close else "budget"
            # The utility that is known worst decides where the steps go.
            worst = int(np.argmax([w.sum() + n for w, n in zip(widths, noises, strict=True)]))
            spent = sum(self.steps.values())
            steps = min(left, int(_GROWTH * spent) + 1)
            self._spend(steps, widths[worst], noises[worst], worlds.worlds.total)
            # A share may be too small for any draw; the agent's episodes can always go on.
            if sum(self.steps.values()) == spent:
                self._play(steps)
            # Only where episodes are over before they begin is there nothing left to do.
            if sum(self.steps.values()) == spent:
                return "budget"

    def wants_start(self, known: list[tuple[float, float]]) -> bool:
        """Whether the bound from the start may prove more of a utility's lower end and estimate."""
        # It never proves more than the logarithm of its episodes, and is asked for where less than
        # half of an estimate is proven.
        episodes = _START_SHARE * self.budget / max(float(self.episodes.decisions.mean()), 1.0)
        return any(low < min(value / 2, log(max(episodes, 1.0))) for low, value in known)

    @property
    def played(self) -> tuple[Episodes, int]:
        """The agent's episodes, and how many chunks they came in."""
        return self.episodes, self._chunks

    def ends(self) -> list[UtilityEstimate]:
        """The interval of each utility, from the episodes that nothing was chosen with."""
        self.exploration.compare(self.simulator.walked)
        worlds = self._worlds()
        fitted, fresh = start_bounds.fitted_and_fresh(self.episodes)
        count = len(self.simulator.utilities.names)
        if not len(fresh.decisions):
            # An interruption came before any episode that could bound.
            return [
                start_bounds.nothing_known(self.simulator.most_information, self.horizon)
            ] * count
        plain = self._plain(worlds, fresh)
        out, bounded = [], []
        for which, ends in enumerate(self._each(worlds)):
            choice = ends.choose(fitted, self._best[which], self._lower_error)
            low = ends.lower(fresh, choice.beta, self._lower_error)
            high = ends.upper(fresh, choice, low, self._upper_error / 2 / count)
            # One utility's upper end is none of the class that it was learnt from.
            if self.simulator.utilities.names[which] in self.simulator.utilities.learnt:
                high = np.inf
            bounds = interval(low, high, plain)
            # The point estimate promises nothing, so it may use every episode.
            value = ends.estimate(self.episodes, choice.best) if choice.beta else 0.0
            # Nothing was proven at any rationality if the lower end is 0.
            beta = choice.beta if bounds.low > 0 or choice.beta == 0 else choice.best
            # An interruption may leave states that nothing was tried in; no world was seen then.
            if self._explored:
                out.append(start_bounds.estimate_in(bounds, value, beta))
            else:
                beta = choice.beta if bounds.low > 0 else 0.0
                out.append(UtilityEstimate(bounds.low, beta, bounds))
            bounded.append(Bounded(ends, choice, bounds.low, bounds.high))
        exceeds = self._exceed(bounded, fresh)
        return [replace(known, exceeds=more) for known, more in zip(out, exceeds, strict=True)]

    def _exceed(self, bounded: list[Bounded], fresh: Episodes) -> list[dict[int, float]]:
        """How much more MEG is at least towards each utility than towards others, by number."""
        names, out = self.simulator.utilities.names, [dict[int, float]() for _ in bounded]
        # A learnt utility stands for the best of its class, which no curve of it bounds.
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
        """What each interval rests on that nobody vouches for, as a sentence; "" for nothing."""
        worlds = self._worlds()
        chance = not self._without_chance(worlds)
        return [
            each.in_words() if each.assumed and (chance or not self.simulator.one_start) else ""
            for each in worlds.ranges
        ]

    def _rough(
        self, worlds: PossibleWorlds
    ) -> tuple[list[UtilityEstimate], list[FloatArray], list[float]]:
        """What the fitting half says, and what is lost to the world's chance and the agent's."""
        fitted, _ = start_bounds.fitted_and_fresh(self.episodes)
        rough, widths, noises = [], [], []
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
            # What the world as seen cannot do at all may make an estimate as large as one likes.
            value = min(value, float(fitted.decisions.mean()) * self.simulator.most_information)
            rough.append(UtilityEstimate(value, choice.beta, bounds, estimated=True))
        return rough, widths, noises

    @property
    def _lower_error(self) -> float:
        # One more than there are utilities, for the best combination of them.
        return start_bounds.LOWER * self.error / (len(self.simulator.utilities.names) + 1)

    @property
    def _upper_error(self) -> float:
        several = len(self.simulator.utilities.names) > 1
        return (start_bounds.UPPER - start_bounds.PAIRED * several) * self.error

    def remarks(self) -> list[str]:
        """What a reader has to know of the agent and the world, as sentences."""
        return self.simulator.remarks(self.actor)

    def _worlds(self) -> PossibleWorlds:
        self.exploration.table.grow(self.simulator.n_states)
        utilities, arrays = self.simulator.utilities, self.exploration.table.arrays()
        ranges = tuple(
            utilities.bounds.get(name) or Range(*self.simulator.seen(i), assumed=True)
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
        """The combination of utilities that explains most, [U]; its upper end is of any utility."""
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
        # Where starts differ and chance remains, the weights may depend on where the episodes that
        # would bound them began; then nothing is claimed.
        if not weights.any() or not (self.simulator.one_start or policy is not None):
            return weights, UtilityEstimate(0.0, 0.0, interval(0.0, np.inf, plain))
        ends = self._of(worlds, weights)
        choice = ends.choose(fitted, 1.0, self._lower_error)
        bounds = interval(ends.lower(fresh, choice.beta, self._lower_error), np.inf, plain)
        value = ends.estimate(self.episodes, choice.best) if choice.beta else 0.0
        return weights, start_bounds.estimate_in(bounds, value, choice.best)

    def _computable(self, worlds: PossibleWorlds) -> FloatArray | None:
        """The agent's policy, where what it collects can be computed from the table."""
        if not self._without_chance(worlds):
            return None
        return self.simulator.policy(self.actor, self.horizon)

    def _without_chance(self, worlds: PossibleWorlds) -> bool:
        """Whether everything that can be reached was tried, and nothing is left to chance."""
        drawn = worlds.worlds.arrays.listed > 0
        return self._is_complete and bool(worlds.worlds.arrays.certain[drawn].all())

    def _plain(self, worlds: PossibleWorlds, fresh: Episodes) -> Ends:
        """The upper end that holds for every utility."""
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
        parts, taken = [self.episodes], 0
        try:
            while taken < budget:
                parts.append(self.simulator.play(self.actor, self.horizon, self._chunks))
                self._chunks += 1
                # Episodes that are over before they begin take no step, and must end too.
                taken += max(parts[-1].steps, self.simulator.chunk)
        finally:
            # An interruption leaves whole episodes, and these bound as they are.
            self.episodes = Episodes.of(parts)

    def _expand(self, budget: int) -> None:
        self.exploration.expand(np.unique(self.episodes.starts).tolist(), budget)
        self.exploration.verify(int(_VERIFYING * budget))

    def _spend(self, steps: int, gain: FloatArray, noise: float, total: FloatArray) -> None:
        """One more round, shared out between the agent's episodes and the world's states."""
        # What either loses falls with the root of its steps.
        states = (gain.sum() * np.sqrt(max(total.sum(), 1.0))) ** (2 / 3)
        agent = (noise * np.sqrt(max(self.episodes.steps, 1))) ** (2 / 3)
        share = states / (states + agent) if states + agent > 0 else 0.5
        if steps * (1 - share) >= 1:
            self._play(int(steps * (1 - share)))
        before = self.exploration.steps
        self._expand(int(steps * share))
        more = int(steps * share) - (self.exploration.steps - before)
        self.exploration.refine(gain, total, more)
