"""Scripted and tabular agents on histories: constant, random, naive and Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import (
    Agent,
    DrawingMind,
    Mind,
    below,
    hash_action,
    hash_percept,
    hash_start,
    uniform,
)

# Random stream of the second draw, which chooses the action after the draw for exploration.
_CHOOSE = 1


@dataclass(frozen=True)
class ConstantAgent(Agent):
    """Agent with one fixed action, 0 in the paper's library, even if illegal (section 5)."""

    action: int = 0
    seed = 0  # the agent is deterministic
    settled = True

    def __post_init__(self) -> None:
        if self.action < 0:
            raise InvalidParameterError(
                f"action is {self.action}, expected 0 or more; actions are numbered from 0"
            )

    def _choose(self, mind: DrawingMind) -> int:
        return self.action


@dataclass(frozen=True)
class RandomAgent(Agent):
    """Uniform random agent; its action is a function of seed and history (section 5)."""

    seed: int = 0

    def _choose(self, mind: DrawingMind) -> int:
        return below(mind.state, mind.n_actions)


# With S(a) the sum of the rewards received directly after action a, and N(a) their number,
#
#     score(a) = S(a) / (1 + N(a))    as published: the authors' library shrinks the average
#     score(a) = S(a) / N(a)          with `true_average`: the text of the paper
#
# In both cases an action without rewards scores 0 (unspecified in the paper). Ties go to the lowest
# action; observations and the reward of the first percept are ignored. Illegal actions of the
# history have no score. The first draw decides whether to explore.


@dataclass(frozen=True)
class NaiveLearner(Agent):
    """Agent that takes the action with the highest score, or explores at random (section 5)."""

    seed: int = 0
    exploration: float = 0.15  # probability of a uniform action
    true_average: bool = False

    def __post_init__(self) -> None:
        _check_probability("exploration", self.exploration)

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        start, zeros = hash_start(self.seed, n_actions, n_observations), [0] * n_actions
        lists: Any = [*zeros], [0 if self.true_average else 1] * n_actions, zeros
        return _NaiveMind(start, self.exploration, None, *lists)


def _check_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidParameterError(f"{name} is {value}, expected a probability in [0, 1]")


@dataclass(slots=True, eq=False)
class _NaiveMind:
    _state: int
    _exploration: float
    _last: int | None  # last action, if it has a score
    _sums: list[float]
    _divisors: list[int]
    _scores: list[float]

    def perceive(self, reward: float, observation: int) -> None:
        self._state = hash_percept(self._state, reward, observation)
        last = self._last
        if last is not None:
            sums, divisors = self._sums, self._divisors
            sums[last] = total = sums[last] + reward
            divisors[last] = divisor = divisors[last] + 1
            self._scores[last] = total / divisor

    def act(self) -> int:
        if uniform(self._state) < self._exploration:
            return below(self._state, len(self._scores), _CHOOSE)
        scores = self._scores  # `index` breaks ties by the lowest action
        return scores.index(max(scores))

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._last = action if 0 <= action < len(self._scores) else None

    def fork(self) -> _NaiveMind:
        lists = self._sums.copy(), self._divisors.copy(), self._scores.copy()
        return _NaiveMind(self._state, self._exploration, self._last, *lists)


# Q(o, a) starts at 0. When action a at observation o is followed by reward r and observation o',
#
#     Q(o, a) += learning_rate * (r + discount * max over b of Q(o', b) - Q(o, a)).
#
# The action is uniform if every Q(o, .) is 0. Otherwise it is the best action (lowest on ties) with
# probability `exploitation`, else uniform. Illegal actions of the history are not learnt from.
#
# Source: Watkins (1989); defaults of the authors' library (not in the paper's Table 1).


@dataclass(frozen=True)
class QLearner(Agent):
    """One-step Q-learning over observations; actions are random while all Q-values are 0."""

    seed: int = 0
    learning_rate: float = 0.1
    discount: float = 0.9
    exploitation: float = 0.9  # the library calls it epsilon
    options = frozenset({"learning_rate", "learning_rate_scale"})

    def __post_init__(self) -> None:
        _check_probability("exploitation", self.exploitation)

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        start = hash_start(self.seed, n_actions, n_observations)
        rate = options.get("learning_rate", self.learning_rate)
        rate *= options.get("learning_rate_scale", 1)
        return _QMind(start, n_actions, rate, self, 0, None, {})


@dataclass(slots=True, eq=False)
class _QMind:
    _state: int
    _n_actions: int
    _learning_rate: float
    _agent: QLearner
    _observation: int  # latest observation
    _action: int | None  # latest action, if it is legal
    _table: dict[int, list[float]]  # Q-values, one row per observation so far

    def perceive(self, reward: float, observation: int) -> None:
        self._state = hash_percept(self._state, reward, observation)
        table = self._table
        row = table.get(observation)
        if row is None:
            row = table[observation] = [0.0] * self._n_actions
        action = self._action
        if action is not None:
            before = table[self._observation]
            old = before[action]
            target = reward + self._agent.discount * max(row)
            before[action] = old + self._learning_rate * (target - old)
        self._observation = observation

    def act(self) -> int:
        # A row of zeros has no best action, so the action is random.
        row = self._table[self._observation]
        if any(row) and uniform(self._state) < self._agent.exploitation:
            return row.index(max(row))
        return below(self._state, self._n_actions, _CHOOSE)

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._action = action if 0 <= action < self._n_actions else None

    def fork(self) -> _QMind:
        table = {observation: row.copy() for observation, row in self._table.items()}
        latest = self._agent, self._observation, self._action
        return _QMind(self._state, self._n_actions, self._learning_rate, *latest, table)
