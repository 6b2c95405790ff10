"""NaiveLearner of the paper: mostly the action that paid best at once, on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.draws import below, hash_action, hash_percept, hash_start, uniform
from goalmeter.agents.histories.protocol import Mind, refuse_unknown

EXPLORE, CHOOSE = 0, 1  # the streams of its two draws: whether to explore, and then which action


@dataclass(frozen=True)
class NaiveLearner:
    """Explores with a fixed probability, else takes the action with the greatest score.

    With S(a) the sum of the rewards received right after action a, and N(a) how many there were,

        score(a) = S(a) / (1 + N(a))    as published: the authors' library shrinks the average
        score(a) = S(a) / N(a)          with `true_average`: the text of the paper

    In both an action without a reward yet scores 0, so it is preferred to one that was punished;
    the text does not say how such an action counts. Ties go to the lowest action, observations are
    ignored, and so is the reward of the first percept, which follows no action. An action of the
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
        """A mind at the empty history."""
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
    """Sums and divisors of all actions, and their ratios, which one percept changes in one place.

    Made without arguments and filled in: a fork is made at every step of some environments, and
    passing eight arguments costs as much as the copying.
    """

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
            return below(self._state, self._n_actions, CHOOSE)
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
