"""A tabular Q-learner, as the authors' library has it since 2021-09."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.draws import below, hash_action, hash_percept, hash_start, uniform
from goalmeter.agents.histories.protocol import Mind, refuse_unknown

EXPLOIT, CHOOSE = 0, 1  # the streams of its two draws: whether to exploit, and else which action


@dataclass(frozen=True)
class QLearner:
    """One-step Q-learning over observations, with random actions where it knows nothing.

    Q(o, a) starts at 0. When action a at observation o is followed by reward r and observation o',

        Q(o, a) += learning_rate * (r + discount * max over b of Q(o', b) - Q(o, a)).

    Where every Q(o, .) is 0 the action is uniform; elsewhere it is the best one, the lowest of
    equals, with probability `exploitation`, and uniform else. Unlike in the authors' library the
    draws are functions of (seed, history), not of the number of steps. An action of the history
    that is not legal here teaches nothing.

    It can be asked to assume another `learning_rate`, and another `learning_rate_scale`: that many
    times the rate it has.

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
        """A mind at the empty history, with the settings that it is asked to assume."""
        if options:
            refuse_unknown(self, options, self.options)
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
        return below(self._state, self._n_actions, CHOOSE)

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
