"""The recurrent DQN of the paper's tempting button, as a function of the history."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.histories.draws import hash_action, hash_percept, hash_start
from goalmeter.agents.histories.protocol import Mind, refuse_unknown
from goalmeter.agents.learners.recurrent_network import Pass, QNetwork
from goalmeter.agents.learners.recurrent_training import Draws, Learning, train
from goalmeter.agents.learners.turns import Turn, prefix

SEED, HISTORY = "seed", "history"
_STREAMS = 3  # weights, replay, dropout
# Networks that an agent remembers, and answers that a network does: some 10 MB if all are full.
_NETWORKS, _ANSWERS = 32, 1024


class RecurrentDQN:
    """Deep Q-learning with a small recurrent network that reads the latest turns as plain numbers.

    At a history of n percepts a new network is trained on the first k, the largest power of two
    that n allows (the conversion of section 2.1), and then does what it values most, the lowest of
    equals, without exploring. It reads the last 3 * lookback + 1 numbers of

        o_1 y_1 r_2 o_2 y_2 r_3 ... o_n,

    with zeros before the beginning. `recurrent_training.train` says how it learns. With the
    published settings a batch is 128 transitions, so nothing is learnt before percept 256: until
    then the initial network acts.

    It can be asked to assume a `learning_rate`, or a `learning_rate_scale` times its own.

    Differences from the authors' library: there, initial weights and everything else that is random
    come from one global stream, so every training, also of a copy, begins from other weights. Here
    they are drawn from the seed, so that every training of an agent begins from the same ones
    (`draws_from="seed"`); or from the seed and the history that is trained on, which comes closest
    to the library (`draws_from="history"`). The number of actions is what the environment says, not
    always 2; a turn whose action is not legal here is read but has no value to be learnt. The
    library also has a prioritised memory and an exploration schedule, both never used.

    Args:
        seed: of the weights, the batches and the dropout.
        draws_from: "seed" or "history".
        settings: see `Learning`; learning_rate (0.1) and lookback (10) are those that the paper's
            experiment varies.

    Source: section 3.2, and custom_DQN of the authors' library at e4dd0d0.
    """

    options: ClassVar[frozenset[str]] = frozenset({"learning_rate", "learning_rate_scale"})

    def __init__(self, seed: int = 0, *, draws_from: str = SEED, **settings: Any) -> None:
        if draws_from not in (SEED, HISTORY):
            raise InvalidParameterError(
                f"draws_from is {draws_from!r}, expected {SEED!r} or {HISTORY!r}"
            )
        known = Learning.__dataclass_fields__
        if unknown := [name for name in settings if name not in known]:
            raise InvalidParameterError(
                f"the recurrent DQN has no setting {unknown[0]!r}; it has {', '.join(known)}"
            )
        self.seed = seed
        self.draws_from = draws_from
        self.learning = Learning(**settings)
        self._trained: OrderedDict[tuple[int, float], _Trained] = OrderedDict()

    def __repr__(self) -> str:
        usual = Learning()
        changed = [
            f", {name}={value!r}"
            for name, value in vars(self.learning).items()
            if value != getattr(usual, name)
        ]
        if self.draws_from != SEED:
            changed.insert(0, f", draws_from={self.draws_from!r}")
        return f"RecurrentDQN(seed={self.seed}{''.join(changed)})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history; `learning_rate` or `learning_rate_scale` may be given."""
        if options:
            refuse_unknown(self, options, self.options)
        mind = _RecurrentMind()
        mind._agent = self
        mind._n_actions = n_actions
        mind._rate = options.get("learning_rate", self.learning.learning_rate) * options.get(
            "learning_rate_scale", 1
        )
        mind._start = mind._state = hash_start(self.seed, n_actions, n_observations)
        mind._turn = mind._action = mind._trained_on = mind._known = None
        mind._n = mind._trained_state = 0
        return mind

    def draws(self, state: int) -> Draws:
        """Where a training takes its randomness from; `state` is the hash of its history."""
        # NumPy's seeds have no sign, so that is a part of the key.
        entropy = [abs(self.seed)] if self.draws_from == SEED else [abs(self.seed), state]
        weights, replay, dropout = (
            np.random.default_rng(
                np.random.SeedSequence(entropy, spawn_key=(int(self.seed < 0), stream))
            )
            for stream in range(_STREAMS)
        )
        return Draws(weights, replay, dropout)

    def trained(self, mind: _RecurrentMind) -> _Trained:
        """The network that a mind asks, trained on the first k percepts of its history."""
        state, turn = mind._trained_state, mind._trained_on
        assert turn is not None, "asked before the first percept"
        if self.draws_from == SEED and mind._n <= self.learning.batch:
            state = mind._start  # too little to learn from: the same for all such histories
        key = (state, mind._rate)
        trained = self._trained.get(key)
        if trained is None:
            network = train(
                prefix(turn), mind._n_actions, self.learning, mind._rate, self.draws(state)
            )
            trained = self._trained[key] = _Trained(network, self.learning.length)
            if len(self._trained) > _NETWORKS:
                self._trained.popitem(last=False)
        else:
            self._trained.move_to_end(key)
        return trained


@dataclass
class _Trained:
    """A network that learns no more, and what it answered to windows."""

    network: QNetwork
    length: int
    answers: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pass = Pass(self.network, self.length, 1)

    def action(self, window: FloatArray) -> int:
        """The action that is worth most, the lowest of equals."""
        key = window.tobytes()
        answer = self.answers.get(key)
        if answer is None:
            if len(self.answers) >= _ANSWERS:
                self.answers.clear()
            with np.errstate(over="ignore", invalid="ignore"):
                answer = int(self._pass.forward(self.network, window[:, None]).argmax())
            self.answers[key] = answer
        return answer


@dataclass(slots=True, init=False, eq=False)
class _RecurrentMind:
    """The history, marked where the training ends; training waits until it is asked for."""

    _agent: RecurrentDQN
    _n_actions: int
    _rate: float
    _start: int  # the hash of the empty history
    _state: int
    _turn: Turn | None  # the latest
    _action: int | None  # taken since the latest percept
    _n: int  # percepts
    _trained_on: Turn | None  # up to percept k
    _trained_state: int
    _known: int | None  # what it does here, if it was asked

    def perceive(self, reward: float, observation: int) -> None:
        self._state = state = hash_percept(self._state, reward, observation)
        self._turn = turn = Turn(self._turn, self._action, reward, observation)
        self._known = None
        self._n = n = self._n + 1
        if not n & (n - 1):  # a power of two
            self._trained_on, self._trained_state = turn, state

    def act(self) -> int:
        if self._known is None:
            self._known = self._agent.trained(self).action(self._window())
        return self._known

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)
        self._action = action

    def fork(self) -> _RecurrentMind:
        twin = _RecurrentMind()
        for name in _RecurrentMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def _window(self) -> FloatArray:
        """The latest numbers of the history, zeros before its beginning."""
        window = np.zeros(self._agent.learning.length)
        at, place = self._turn, len(window) - 1
        assert at is not None, "asked before the first percept"
        window[place] = at.observation
        while place > 0 and at.before is not None:
            window[place - 1], window[place - 2] = at.reward, at.action
            at, place = at.before, place - 3
            window[place] = at.observation
        return window
