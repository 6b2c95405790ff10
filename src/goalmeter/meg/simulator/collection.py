"""Collection of counted steps from a simulator: from restored states, or from episodes."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.agents.environment_agents import Actor
from goalmeter.meg.simulator.counts import AgentRecord, CountTable, Models, variances
from goalmeter.meg.simulator.environments import Simulator
from goalmeter.meg.simulator.guarantee import parts_of
from goalmeter.meg.simulator.protocol import (
    END,
    SUCCESSORS,
    Draws,
    Episodes,
    episodes_until,
    seeded,
)
from goalmeter.statistics.intervals import contradict

_ERROR = 1e-4  # probability of refusing a world that meets the assumption, over all pairs
# Number of draws that determine whether a pair is deterministic, and the least of a random pair.
TRIED, _FEWEST = 2, 8
# Shares of the budget: the agent's first episodes; at most for trying every action; the pilot; of
# the final draws those that all random pairs get alike; what is left for states that are met last;
# and episodes of free choice that check the names of states that a caller gave.
_EPISODES, _EXPANSION, _PILOT, _EVEN, _RESERVE, _CHECKS = 0.04, 0.5, 0.2, 0.5, 0.02, 0.05
_ANSWERS = 0.25  # share of the agent's first episodes if only they show its answers
# Where states cannot be restored: number of rounds, share of free choice in each decision, and
# multiples of the best rationality at which soft-optimal policies are played.
_ROUNDS, _FREE, _MULTIPLES = 8, 0.1, (1.0, 0.3, 3.0)


@dataclass
class Collection:
    """Counted steps of a world, and episodes of an agent in it, within a budget of steps.

    States are restored where possible: every action of every reachable state is sampled, then more
    where the pilot's influence function says that the error of MEG is largest. Otherwise steps are
    counted in episodes of the agent, of free choice, and of soft-optimal policies of the counts.
    """

    simulator: Simulator
    actor: Actor
    horizon: int
    budget: int
    seed: int
    report: Callable[[Collection], None] = lambda so_far: None
    steps: dict[str, int] = field(default_factory=lambda: {"agent": 0, "states": 0})
    # Draws in the pilot and in the final part.
    draws: tuple[Draws, Draws] = field(default_factory=lambda: ({}, {}))
    certain: set[int] = field(default_factory=set)
    complete: bool = False  # whether states are few enough to be counted
    _played: list[Episodes] = field(default_factory=list)  # by the agent
    # The agent as it was estimated after a number of steps.
    _record: tuple[int, AgentRecord] | None = None
    # Number of decisions before each state that was met, and states whose actions are untried.
    _depth: dict[int, int] = field(default_factory=lambda: {END: 0})
    _waiting: deque[int] = field(default_factory=deque)
    _calls: Counter[int] = field(default_factory=Counter)

    def run(self) -> Collection:
        """Collect counts; afterwards it is `complete` unless there are too many states."""
        restores = self.simulator.returns_to_states
        self._play(1)
        (self._from_states if restores else self._from_episodes)()
        if restores and self.complete:
            self._compare()
        return self

    @property
    def episodes(self) -> Episodes:
        """Episodes of the agent so far."""
        return Episodes.of(self._played)

    # --- Tables -----------------------------------------------------------------------------------
    def tables(self) -> tuple[CountTable, CountTable]:
        """Return the tables of the pilot and of the final part, with the same outcomes."""
        n_states, n_actions = self.simulator.n_states, self.simulator.n_actions
        size = n_states * n_actions
        parts = [[part.get(pair, Counter()) for part in self.draws] for pair in range(size)]
        outcomes = [[*(pilot + final)] for pilot, final in parts]
        width = max(1, *map(len, outcomes))
        after = np.full((size, width), n_states, dtype=np.int64)
        paid = np.zeros((size, width, len(self.simulator.utilities.names)))
        counts = np.zeros((2, size, width))
        for p, each in enumerate(outcomes):
            for k, outcome in enumerate(each):
                after[p, k] = outcome.after if outcome.after != END else n_states
                paid[p, k] = outcome.paid
                counts[:, p, k] = [part[outcome] for part in parts[p]]
        certain = np.isin(np.arange(size), list(self.certain))
        starts = [np.bincount(x.starts, minlength=n_states) for x in parts_of(self.episodes)]
        first, second = (
            CountTable(after, paid, part, certain, begun.astype(float), n_actions, self.horizon)
            for part, begun in zip(counts, starts, strict=True)
        )
        return first, second

    @property
    def table(self) -> CountTable:
        """Table of all counts."""
        pilot, final = self.tables()
        counts, starts = pilot.counts + final.counts, pilot.starts + final.starts
        return replace(pilot, counts=counts, starts=starts)

    @property
    def length(self) -> float:
        """Mean number of steps of the agent's episodes if pairs are drawn one by one, else 0."""
        played = self.episodes
        return played.steps / len(played.starts) if self.simulator.returns_to_states else 0.0

    @property
    def _hardly_recur(self) -> bool:
        """Whether the states that can be reached are too many to be counted."""
        # Lower estimate of their number from those that were seen once and twice (Chao 1984).
        seen = np.unique(self.episodes.visits[:, 0], return_counts=True)[1]
        once, twice = (int((seen == count).sum()) for count in (1, 2))
        least = len(seen) + once * (once - 1) / (2 * (twice + 1))
        needed = least * self.simulator.n_actions * TRIED
        return len(self.episodes.starts) >= 5 and needed > self.budget

    def agent(self) -> AgentRecord:
        """Return what is known of the agent."""
        policy = self.simulator.policy(self.actor, self.horizon)
        if policy is not None:
            return AgentRecord(policy)
        if self._record is None or self._record[0] != self._spent:
            self._record = self._spent, estimated_agent(self.table, self.episodes)
        return self._record[1]

    # --- Restored states --------------------------------------------------------------------------
    def _from_states(self) -> None:
        self._play(_EPISODES * self.budget - self._spent)
        if self._hardly_recur:
            return
        if self.simulator.policy(self.actor, self.horizon) is None:
            self._play(_ANSWERS * self.budget - self._spent)
        for start in np.unique(self.episodes.starts).tolist():
            self._meet(start, 0)
        pilot, final = self.draws
        if not self._expand(pilot, self._spent + _EXPANSION * (self.budget - self._spent)):
            return
        if self.simulator.names_given:
            # Free choice reaches states in other ways.
            self._play(_CHECKS * self.budget, self.simulator.reference.agent())
        random = [pair for pair in pilot if pair not in self.certain]
        each = (self.budget - self._spent) / max(len(random), 1)
        # With too few draws for two parts, all are distributed evenly.
        each *= 1.0 if each < 3 * _FEWEST else _PILOT
        self._draw_all(pilot, dict.fromkeys(random, int(each)))
        self._expand(pilot, self.budget)
        self.complete = True
        self.report(self)
        more, episodes = self._allocation()
        self._draw_all(final, more)
        self._play(episodes)
        # States that were met now; their numbers of draws do not depend on any outcome.
        self._expand(final, self.budget)

    def _compare(self) -> None:
        """Require that steps of episodes and steps from restored states agree."""
        for rank, (pair, walked) in enumerate(self.simulator.walked.items()):
            drawn = self.draws[0].get(pair, Counter()) + self.draws[1].get(pair, Counter())
            counts = [[each[outcome] for outcome in walked | drawn] for each in (walked, drawn)]
            new = pair in self.certain and len(counts[0]) > 1
            error = _ERROR / (2.11 * (rank + 2) * math.log(rank + 2) ** 2)  # all add up to _ERROR
            if drawn and (new or contradict(counts[0], counts[1], error)):
                state, action = divmod(pair, self.simulator.n_actions)
                raise InvalidParameterError(
                    f"the outcomes of action {action} in state {state} differ significantly "
                    f"between {walked.total()} steps of episodes and {drawn.total()} steps from "
                    f"the restored state: the state key omits something on which the simulator's "
                    f"dynamics or utility depend, or the source of randomness is not the declared "
                    f"one; pass as state= a function of (observation, info) that distinguishes "
                    f"such states, or chance='unknown', which assumes nothing"
                )

    @property
    def _spent(self) -> int:
        return sum(self.steps.values())

    def _meet(self, state: int, depth: int) -> None:
        """Queue a new state if it is reached in time."""
        if state not in self._depth and depth < self.horizon:
            self._depth[state] = depth
            self._waiting.append(state)

    def _expand(self, part: Draws, limit: float) -> bool:
        """Try every action in queued states, nearest first; False if a number of steps is spent."""
        while self._waiting:
            if self._spent >= limit:
                return False
            first = self._waiting.popleft() * self.simulator.n_actions
            pairs = range(first, first + self.simulator.n_actions)
            self._draw_all(part, dict.fromkeys(pairs, TRIED), first=True)
            random = [pair for pair in pairs if pair not in self.certain]
            self._draw_all(part, dict.fromkeys(random, _FEWEST - TRIED))
        return True

    def _draw_all(self, part: Draws, numbers: dict[int, int], first: bool = False) -> None:
        """Draw each pair a given number of times."""
        for pair, count in numbers.items():
            state, action = divmod(pair, self.simulator.n_actions)
            seed = seeded(self.seed, SUCCESSORS, state, action, self._calls[pair])
            self._calls[pair] += 1
            outcomes, certain = self.simulator.draw(
                state, action, count, np.random.default_rng(seed)
            )
            self.steps["states"] += outcomes.total()
            part.setdefault(pair, Counter()).update(outcomes)
            if first and certain and len(outcomes) == 1:
                self.certain.add(pair)
            for outcome in outcomes:
                self._meet(outcome.after, self._depth[state] + 1)

    def _allocation(self) -> tuple[dict[int, int], float]:
        """Return final draws of each pair, and steps of the agent's episodes, by the pilot."""
        table = self.table
        models, random = Models(table, self.agent()), table.random
        drawn = np.append(table.total[random], table.starts.sum())
        variance = np.zeros(len(drawn))
        for direction in np.eye(table.paid.shape[2])[..., None]:
            weights = direction[:, 0] * models.maximise(direction).weights[0]
            if not weights.any():
                # Without any preference seen, what a weak one would visit.
                weights = direction[:, 0] / (self.horizon * np.abs(table.paid).max() + 1e-300)
            pairs, episode = variances(models, models.influence(weights), weights)
            # The actions of a state are drawn alike: if those that the pilot overrates were drawn
            # more, the others would remain underrated.
            alike = np.repeat(pairs.reshape(table.n_states, -1).mean(axis=1), table.n_actions)
            per_draw = np.append(alike[random], episode)
            variance += per_draw / max((per_draw / drawn).sum(), 1e-300)
        cost = np.append(np.ones(len(random)), max(self.length, 1.0))
        left = (1 - _RESERVE) * (self.budget - self._spent)
        # Without random pairs only episodes have an error.
        even = _EVEN * left if len(random) else 0.0
        # The error is smallest if all numbers, with the pilot's, are proportional to these.
        best = np.sqrt(variance / cost)
        best *= (left - even + (cost * drawn).sum()) / max((cost * best).sum(), 1e-300)
        more = np.maximum(best - drawn, 0.0)
        more *= (left - even) / max((cost * more).sum(), 1e-300)
        more[:-1] += even / max(len(random), 1)
        numbers = dict(zip(random.tolist(), more.astype(int).tolist(), strict=False))
        return numbers, more[-1] * cost[-1]

    # --- Episodes ---------------------------------------------------------------------------------
    def _play(self, steps: float, other: Actor | None = None, turn: int = 0) -> None:
        """Play the agent, or another one whose steps are only counted, until so many more steps."""
        number = (turn + 1) * 2**41 if other else sum(len(part.starts) for part in self._played)
        player, purpose = other or self.actor, "states" if other else "agent"
        for played in episodes_until(self.simulator, player, self.horizon, steps, number, least=0):
            self.steps[purpose] += played.steps
            if other is None:
                self._played.append(played)

    def _from_episodes(self) -> None:
        self.draws = {}, self.simulator.walked
        share, others = self.budget / (2 * _ROUNDS), self.simulator.reference.agent()
        for turn in range(_ROUNDS):
            self._play(share)
            self._play(share, others, turn)
            if not turn and self._hardly_recur:
                return
            self.complete = True
            self.report(self)
            others = self._soft(turn) if turn else others

    def _soft(self, turn: int) -> Actor:
        """Return a soft-optimal policy of the counts, mixed with free choice."""
        table, agent = self.table, self.agent()
        models, n_utilities = Models(table, agent), table.paid.shape[2]
        direction = np.eye(n_utilities)[:, [turn % n_utilities]]
        weights = direction * models.maximise(direction).weights
        weights *= _MULTIPLES[turn % len(_MULTIPLES)]
        policies = models.soft_policies((models.payoff * weights).sum(axis=1))[1][..., 0]
        return self.simulator.agent_by_state((1 - _FREE) * policies + _FREE / table.n_actions)


# --- Agents that are known by their answers -------------------------------------------------------
_PARTS = 10  # number of parts of the episodes, each of which corrects the answers of the others
_ALIKE = 1e-6  # tolerance of equal answers
_FEW = 0.01  # share of answers that other parts do not predict up to which the answers are known


def estimated_agent(table: CountTable, episodes: Episodes) -> AgentRecord:
    """Return the record of an agent of which only its answers in episodes are known.

    Its return is that of the policy with the mean answer in each state at each time, which visits
    states as often as an agent with a memory does. Corrections add what each answer gains over the
    mean answers of other parts of the episodes, so that the mean is unbiased.

    Source: docs/notes/mathematics.md, "Agents that are known by their answers".
    """
    decided, state, starts = episodes.decisions, episodes.visits[:, 0], episodes.starts
    episode = np.repeat(np.arange(len(decided)), decided)
    time = np.arange(len(state)) - np.repeat(np.cumsum(decided) - decided, decided)
    answers = episodes.answers
    policy = _mean_answers(table, time, state, answers)
    models = Models(table, AgentRecord(policy))
    # Expected visits of states that no episode visited, from the first decision on.
    visits, arrivals = np.zeros(policy.shape[:2]), models.starts
    for t, rows in enumerate(policy):
        visits[t] = arrivals[:, 0]
        arrivals = models.move((rows * arrivals).reshape(-1, 1))
    cells = np.bincount(time * table.n_states + state, minlength=visits.size)
    unvisited = cells.reshape(visits.shape) == 0
    visits *= unvisited.all(axis=0)
    gains, values = models.gains()
    squares = np.einsum("ts,tsu->u", visits, np.ptp(gains, axis=2) ** 2)
    corrections, unpredicted = -values[starts], 0
    for part in range(_PARTS):
        members = episode % _PARTS == part
        others = _mean_answers(table, time[~members], state[~members], answers[~members])
        gains, values = Models(table, AgentRecord(others)).gains()
        place = time[members], state[members]
        error = answers[members] - others[place]
        unpredicted += int((np.abs(error).max(axis=1) > _ALIKE).sum())
        np.add.at(corrections, episode[members], np.einsum("na,nau->nu", error, gains[place]))
        corrections[part::_PARTS] += values[starts[part::_PARTS]]
    if (np.abs(answers - policy[time, state]) > _ALIKE).any():
        return AgentRecord(policy, starts, corrections)
    if unpredicted <= _FEW * len(state):
        # Answers that were seen are known. Others differ from interpolated ones by about as much as
        # the few that other parts of the episodes did not predict.
        mean, square = corrections.mean(axis=0), (corrections**2).mean(axis=0)
        squares += 4.0 * (square + len(decided) * mean**2)
        corrections = np.zeros_like(corrections)
    return AgentRecord(policy, starts, corrections, np.sqrt(squares), unvisited)


def _mean_answers(
    table: CountTable, time: IntArray, state: IntArray, answers: FloatArray
) -> FloatArray:
    """Return the mean answers in each state at each time, [H, S, A].

    They are interpolated between times with a visit; in a state without one they are free choice.
    """
    shape = table.horizon, table.n_states
    place, size = time * shape[1] + state, shape[0] * shape[1]
    count = np.bincount(place, minlength=size).reshape(*shape, 1)
    total = np.stack([np.bincount(place, each, size) for each in answers.T], axis=1)
    mean = total.reshape(*shape, -1) / np.maximum(count, 1)
    policy = np.full_like(mean, 1.0 / table.n_actions)
    for s in np.unique(state):
        times = np.flatnonzero(count[:, s])
        for a, each in enumerate(mean[times, s].T):
            policy[:, s, a] = np.interp(np.arange(shape[0]), times, each)
    return policy
