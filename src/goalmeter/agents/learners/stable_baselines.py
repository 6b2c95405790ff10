"""Stable-Baselines3's A2C, DQN and PPO as functions of the history.

A learner that trains on a stream of experience becomes an agent in the sense of Definition 1 by
the conversion of section 2.1: at a history of n percepts a new learner is trained on the first k,
the largest power of two that n allows, is held to the actions that the history says were taken, and
then acts on the latest observation without learning. Percepts k+1 ... n-1 count for nothing.

What a trained learner does is a table, a distribution over actions for each observation. Tables are
remembered, up to a number, by what they were trained on; the draw from a row is a function of
(seed, history) like that of every agent here.

Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 2.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.draws import hash_action, hash_percept, hash_start, uniform
from goalmeter.agents.histories.protocol import Mind, refuse_unknown
from goalmeter.agents.learners.sb3_training import ALGORITHMS, SETTLED, Learner, installed
from goalmeter.agents.learners.turns import Turn, prefix

# Tables that an agent remembers, and cells of all of them. DejaVu and BackwardConsciousness ask for
# a new one at every step, all others for two at each power of two.
_REMEMBERED = 4096
_CELLS = 1_000_000
# The stream of a copy with another learning rate, as published: the same table, another draw.
_PUBLISHED_COPY = 1

Table = tuple[tuple[float, ...], ...]  # cumulative probabilities of the actions by observation


class StableBaselinesAgent:
    """A learner of Stable-Baselines3, through the power-of-two conversion.

    The multilayer perceptron policy with the library's own hyperparameters, but for what the
    conversion needs: A2C and PPO make one rollout of all k-1 steps, PPO in one batch; DQN begins to
    learn after the first step, and its steps are rounded down to whole training intervals. Where
    there is too little to train on at all (PPO below 4 percepts, DQN below 8) the action is 0;
    A2C acts untrained at the first percept.

    It can be asked to assume a `learning_rate`, or a `learning_rate_scale` times its own.

    Two things differ from the authors' library, unless `as_published`. PPO compares what it does
    with what it did by the probability of the action that was *taken*; the library stores that of
    the action that the network would have taken, so that the ratio is wrong. And a copy with
    another learning rate is a learner trained at that rate; the library hands out the learner
    that it trained first, so that only the draw differs.

    Args:
        algorithm: "a2c", "dqn" or "ppo".
        seed: of the learner's weights and batches, and of the agent's draws.
        as_published: do as the authors' library does, for comparisons.
        hyperparameters: of Stable-Baselines3's class, such as `gamma`; without those that the
            conversion sets.

    Source: section 2.1 and section 5; Raffin et al., Stable-Baselines3 (JMLR 2021).
    """

    options: ClassVar[frozenset[str]] = frozenset({"learning_rate", "learning_rate_scale"})

    def __init__(
        self, algorithm: str, seed: int = 0, *, as_published: bool = False, **hyperparameters: Any
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise InvalidParameterError(
                f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}"
            )
        if taken := sorted(SETTLED & hyperparameters.keys()):
            raise InvalidParameterError(
                f"{algorithm}: {', '.join(taken)} cannot be given: the conversion of a learner to "
                f"a function of the history sets {', '.join(sorted(SETTLED))}"
            )
        self.algorithm = algorithm
        self.seed = seed
        self.as_published = as_published
        # Copies, here and below: the library writes into dictionaries that it is given.
        self.hyperparameters = deepcopy(hyperparameters)
        self._learners: dict[tuple[int, int, float | None], Learner] = {}
        self._tables: OrderedDict[tuple[int, int, float | None], Table] = OrderedDict()

    def __repr__(self) -> str:
        published = ", as_published=True" if self.as_published else ""
        settings = "".join(f", {name}={value!r}" for name, value in self.hyperparameters.items())
        return f"StableBaselinesAgent({self.algorithm!r}, seed={self.seed}{published}{settings})"

    def check_installed(self) -> None:
        """Import what the first training would import."""
        installed()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history; `learning_rate` or `learning_rate_scale` may be given."""
        if options:
            refuse_unknown(self, options, self.options)
        rate, stream = options.get("learning_rate"), 0
        if "learning_rate_scale" in options:
            if rate is None:
                rate = self._learner(n_actions, n_observations, None).learning_rate
            rate *= options["learning_rate_scale"]
        # The library hands out the learner that it trained first, whatever rate was asked for.
        if rate is not None and self.as_published:
            rate, stream = None, _PUBLISHED_COPY
        mind = _LearnerMind()
        mind._agent = self
        mind._counts = (n_actions, n_observations)
        mind._rate = rate
        mind._stream = stream
        mind._state = hash_start(self.seed, n_actions, n_observations)
        mind._turn = None
        mind._action = None
        mind._n = 0
        mind._trained_on = None
        mind._trained_state = 0
        mind._k = 0
        mind._table = None
        return mind

    def _learner(self, n_actions: int, n_observations: int, rate: float | None) -> Learner:
        key = (n_actions, n_observations, rate)
        learner = self._learners.get(key)
        if learner is None:
            settings = deepcopy(self.hyperparameters)
            if rate is not None:
                settings["learning_rate"] = rate
            learner = self._learners[key] = ALGORITHMS[self.algorithm](
                n_actions, n_observations, self.seed, settings, self.as_published
            )
        return learner

    def _trained(
        self, trained_on: Turn, state: int, k: int, counts: tuple[int, int], rate: float | None
    ) -> Table:
        """What a learner does after its training; `state` is the hash of the history up to k."""
        # The hash tells apart histories, seeds and counts, but not learning rates.
        key = (state, k, rate)
        table = self._tables.get(key)
        if table is None:
            table = self._learner(*counts, rate).train(prefix(trained_on))
            self._tables[key] = table
            while len(self._tables) > max(1, min(_REMEMBERED, _CELLS // (counts[0] * counts[1]))):
                self._tables.popitem(last=False)
        else:
            self._tables.move_to_end(key)
        return table


@dataclass(slots=True, init=False, eq=False)
class _LearnerMind:
    """The history, marked where the training ends; training waits until it is asked."""

    _agent: StableBaselinesAgent
    _counts: tuple[int, int]
    _rate: float | None
    _stream: int
    _state: int
    _turn: Turn | None
    _action: int | None  # since the latest percept
    _n: int  # percepts
    _trained_on: Turn | None  # up to percept k
    _trained_state: int
    _k: int
    _table: Table | None  # of the learner trained on them, once it was needed

    def perceive(self, reward: float, observation: int) -> None:
        self._state = state = hash_percept(self._state, reward, observation)
        self._turn = turn = Turn(self._turn, self._action, reward, observation)
        self._n = n = self._n + 1
        if not n & (n - 1):  # a power of two
            self._trained_on, self._trained_state, self._k, self._table = turn, state, n, None

    def act(self) -> int:
        table = self._table
        if table is None:
            assert self._trained_on is not None, "asked before the first percept"
            self._table = table = self._agent._trained(
                self._trained_on, self._trained_state, self._k, self._counts, self._rate
            )
        assert self._turn is not None
        observation = self._turn.observation
        if not 0 <= observation < len(table):
            raise InvalidParameterError(
                f"{self._agent!r} is told of observation {observation}, expected 0 to "
                f"{len(table) - 1}: the environment tells of one that it does not have"
            )
        return bisect_right(table[observation], uniform(self._state, self._stream))

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._action = action

    def fork(self) -> _LearnerMind:
        twin = _LearnerMind()
        for name in _LearnerMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
