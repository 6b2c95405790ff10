"""Scripted and tabular agents of histories: constant, random, naive and Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import (
    Mind,
    below,
    hash_action,
    hash_percept,
    hash_start,
    refuse_unknown,
    uniform,
)

# The stream of the second draw of those that draw twice: which action, after whether to explore.
_CHOOSE = 1


@dataclass(frozen=True)
class ConstantAgent:
    """Takes one action, 0 in the paper's library, whatever happens and is legal (section 5)."""

    action: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.action < 0:
            raise InvalidParameterError(
                f"action is {self.action}, expected 0 or more: actions are counted from 0"
            )

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        return _ConstantMind(self.action)


class _ConstantMind:
    __slots__ = ("_action",)

    settled = True  # from the start: see `environments.base.replay`

    def __init__(self, action: int) -> None:
        self._action = action

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> int:
        return self._action

    def take(self, action: int) -> None:
        pass

    def fork(self) -> _ConstantMind:
        return self  # nothing that it is told changes it


@dataclass(frozen=True)
class RandomAgent:
    """Uniform over the legal actions; the draw is a function of (seed, history) (section 5)."""

    seed: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        return _RandomMind(hash_start(self.seed, n_actions, n_observations), n_actions)


class _RandomMind:
    __slots__ = ("_n_actions", "_state")

    def __init__(self, state: int, n_actions: int) -> None:
        self._state = state
        self._n_actions = n_actions

    def perceive(self, reward: float, observation: int) -> None:
        self._state = hash_percept(self._state, reward, observation)

    def act(self) -> int:
        return below(self._state, self._n_actions)

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)

    def fork(self) -> _RandomMind:
        return _RandomMind(self._state, self._n_actions)


@dataclass(frozen=True)
class NaiveLearner:
    """Explores with a fixed probability, else takes the action with the greatest score.

    With S(a) the sum of the rewards received right after action a, and N(a) how many there were,

        score(a) = S(a) / (1 + N(a))    as published: the authors' library shrinks the average
        score(a) = S(a) / N(a)          with `true_average`: the text of the paper

    In both an action without a reward yet scores 0 (the text does not say). Ties go to the lowest
    action; observations are ignored, and so is the reward of the first percept. An action of the
    history that is not legal here has no score. Whether to explore is drawn first.

    Args:
        seed: of its draws, which are functions of (seed, history).
        exploration: probability of a uniform action, in [0, 1].
        true_average: divide by N(a) instead of 1 + N(a).

    Source: section 5, and the agent of that name in the authors' library.
    """

    seed: int = 0
    exploration: float = 0.15
    true_average: bool = False
    options: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.exploration <= 1:
            raise InvalidParameterError(
                f"exploration is {self.exploration}, expected a probability in [0, 1]"
            )

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        mind = _NaiveMind()
        mind._state = hash_start(self.seed, n_actions, n_observations)
        mind._n_actions = n_actions
        mind._exploration = self.exploration
        mind._last = None
        mind._sums = [0] * n_actions
        mind._divisors = [0 if self.true_average else 1] * n_actions
        mind._scores = [0] * n_actions
        return mind


@dataclass(slots=True, init=False, eq=False)
class _NaiveMind:
    # Made without arguments and filled in: a fork is made at every step of some environments, and
    # passing arguments costs as much as the copying.

    _state: int
    _n_actions: int
    _exploration: float
    _last: int | None  # the action that the next reward follows, if it has a score
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
            return below(self._state, self._n_actions, _CHOOSE)
        scores = self._scores  # `index` gives the lowest of equals
        return scores.index(max(scores))

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._last = action if 0 <= action < self._n_actions else None

    def fork(self) -> _NaiveMind:
        twin = _NaiveMind()
        twin._state = self._state
        twin._n_actions = self._n_actions
        twin._exploration = self._exploration
        twin._last = self._last
        twin._sums = self._sums.copy()
        twin._divisors = self._divisors.copy()
        twin._scores = self._scores.copy()
        return twin


@dataclass(frozen=True)
class QLearner:
    """One-step Q-learning over observations, with random actions where it knows nothing.

    Q(o, a) starts at 0. When action a at observation o is followed by reward r and observation o',

        Q(o, a) += learning_rate * (r + discount * max over b of Q(o', b) - Q(o, a)).

    Where every Q(o, .) is 0 the action is uniform; elsewhere it is the best one, the lowest of
    equals, with probability `exploitation`, and uniform else. An action of the history that is not
    legal here teaches nothing. It can be asked to assume another `learning_rate`, or a
    `learning_rate_scale`: that many times its own.

    Args:
        seed: of its draws.
        learning_rate: weight of what is new.
        discount: weight of the next observation's value.
        exploitation: probability of the best action, in [0, 1]; the library calls it epsilon.

    Source: Watkins (1989); defaults of the authors' library (not in the paper's Table 1).
    """

    seed: int = 0
    learning_rate: float = 0.1
    discount: float = 0.9
    exploitation: float = 0.9
    options: ClassVar[frozenset[str]] = frozenset({"learning_rate", "learning_rate_scale"})

    def __post_init__(self) -> None:
        if not 0 <= self.exploitation <= 1:
            raise InvalidParameterError(
                f"exploitation is {self.exploitation}, expected a probability in [0, 1]"
            )

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history, with the settings that it is asked to assume."""
        if options:
            refuse_unknown(self, options)
        mind = _QMind()
        mind._state = hash_start(self.seed, n_actions, n_observations)
        mind._n_actions = n_actions
        rate = options.get("learning_rate", self.learning_rate)
        mind._learning_rate = rate * options.get("learning_rate_scale", 1)
        mind._discount = self.discount
        mind._exploitation = self.exploitation
        mind._observation = 0
        mind._action = None
        mind._table = {}
        return mind


# Made without arguments and filled in, as the mind of the naive learner.
@dataclass(slots=True, init=False, eq=False)
class _QMind:
    _state: int
    _n_actions: int
    _learning_rate: float
    _discount: float
    _exploitation: float
    _observation: int  # the latest one
    _action: int | None  # the latest one, if it is legal
    _table: dict[int, list[float]]  # Q, a row for each observation that was made

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
            target = reward + self._discount * max(row)
            before[action] = old + self._learning_rate * (target - old)
        self._observation = observation

    def act(self) -> int:
        # A row of zeros knows nothing, so its action is drawn, whatever the exploitation.
        row = self._table[self._observation]
        if any(row) and uniform(self._state) < self._exploitation:
            return row.index(max(row))
        return below(self._state, self._n_actions, _CHOOSE)

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._action = action if 0 <= action < self._n_actions else None

    def fork(self) -> _QMind:
        twin = _QMind()
        twin._state = self._state
        twin._n_actions = self._n_actions
        twin._learning_rate = self._learning_rate
        twin._discount = self._discount
        twin._exploitation = self._exploitation
        twin._observation = self._observation
        twin._action = self._action
        twin._table = {observation: row.copy() for observation, row in self._table.items()}
        return twin
