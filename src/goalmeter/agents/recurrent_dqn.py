"""Recurrent DQN agent: network, training and action selection as a function of the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.agents.history import ConvertedAgent, LearnerMind, Prefix, prefix

# Rows of a wave's column: the number, two ones for the biases, and from the last one on the states.
_X, _ONE, _OTHER_ONE, _LOWER = 0, 1, 2, 3


@dataclass
class QNetwork:
    """A network of gated recurrent units (Cho et al., 2014, as PyTorch has it).

    One layer with state h reads inputs u one after the other:

        r = sigmoid(W_ir u + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz u + b_iz + W_hz h + b_hz)
        n = tanh(W_in u + b_in + r * (W_hn h + b_hn))
        h <- (1 - z) * n + z * h

    The first layer reads the numbers, each further one the states of the one below (with dropout in
    between while learning); the Q-values are V relu(h) + v for the last state of the top layer.

    The network is so small that calling anything costs more than computing. So all layers take a
    step at once: in wave w layer l is at number w - l, and one product of a block matrix with the
    column [number, 1, 1, dropped lower states, states] gives all gates. In double precision actions
    do not hang on the order in which sums are taken; a step of learning takes a sixth of torch's.

    Attributes:
        hidden: states of a layer.
        layers: number of layers, at least 1.
        gates: the block matrix, [4 layers hidden, 3 + (2 layers - 1) hidden]; rows r, z, hidden
            part of n, input part of n, each for all layers.
        values: V, [actions, hidden].
        bias: v, [actions, 1].
    """

    hidden: int
    layers: int
    gates: FloatArray
    values: FloatArray
    bias: FloatArray

    @classmethod
    def initial(
        cls, draws: np.random.Generator, n_actions: int, hidden: int, layers: int
    ) -> QNetwork:
        """Return a new network, every weight uniform in ±1/sqrt(hidden), as PyTorch begins.

        The weights are drawn in PyTorch's order: for each layer W_i [3 hidden, inputs], W_h, b_i
        and b_h, each with the rows of r, z and n, and then V and v.
        """
        bound = hidden**-0.5
        gates = np.zeros((4 * layers * hidden, _LOWER + (2 * layers - 1) * hidden))
        rows = np.arange(len(gates)).reshape(4, layers, hidden)
        for layer in range(layers):
            lower = _LOWER + (layer - 1) * hidden
            inputs = slice(lower, lower + hidden) if layer else slice(_X, _ONE)
            states = slice(lower + layers * hidden, lower + (layers + 1) * hidden)
            r, z, of_states, of_inputs = rows[:, layer]
            for columns, n in (
                (inputs, of_inputs),
                (states, of_states),
                (slice(_ONE, _OTHER_ONE), of_inputs),
                (slice(_OTHER_ONE, _LOWER), of_states),
            ):
                shape = 3 * hidden, columns.stop - columns.start
                gates[np.concatenate([r, z, n]), columns] = draws.uniform(-bound, bound, shape)
        values = draws.uniform(-bound, bound, (n_actions, hidden))
        return cls(hidden, layers, gates, values, draws.uniform(-bound, bound, (n_actions, 1)))

    def q_values(self, windows: FloatArray) -> FloatArray:
        """Return the Q-values of windows [length, B], without dropout: [actions, B]."""
        return Pass(self, *windows.shape).forward(self, windows)


class Pass:
    """Memory for passes of `size` windows of `length` numbers through networks of one shape."""

    def __init__(self, like: QNetwork, length: int, size: int) -> None:
        self._length, self._hidden, self._layers = length, like.hidden, like.layers
        waves, n = length + like.layers - 1, like.layers * like.hidden
        self._n, self._lower = n, n - like.hidden
        self._columns = np.zeros((waves + 1, like.gates.shape[1], size))
        self._columns[:, _ONE : _OTHER_ONE + 1] = 1
        self._gates = np.empty((waves, 4 * n, size))
        self._new = np.empty((waves, n, size))
        self._kept = np.zeros((waves, self._lower, size))
        self._used = like.gates != 0  # elsewhere the block matrix stays 0
        # tanh(a / 2) / 2 + 1/2 is the sigmoid.
        self._half = np.ones((4 * n, 1))
        self._half[: 2 * n] = 0.5

    def forward(
        self, network: QNetwork, windows: FloatArray, kept: FloatArray | None = None
    ) -> FloatArray:
        """Return the Q-values, [actions, B].

        Args:
            network: of the shape.
            windows: numbers, [length, B].
            kept: factors of the states below the top on their way up, [length, layers - 1, hidden,
                B]; None: 1.
        """
        n, hidden, lower = self._n, self._hidden, self._lower
        columns, weights = self._columns, network.gates * self._half
        columns[: self._length, _X] = windows
        if kept is None:
            self._kept[:] = 1
        else:
            for layer in range(self._layers - 1):
                rows = slice(layer * hidden, (layer + 1) * hidden)
                self._kept[layer : layer + self._length, rows] = kept[:, layer]
        for wave, gates in enumerate(self._gates):
            column, following = columns[wave], columns[wave + 1]
            np.matmul(weights, column, out=gates)
            gates[: 2 * n] = np.tanh(gates[: 2 * n]) * 0.5 + 0.5
            reset, keep, old, of_input = gates.reshape(4, n, -1)
            new = self._new[wave] = np.tanh(reset * old + of_input)
            states = (column[-n:] - new) * keep + new
            states[(wave + 1) * hidden :] = 0  # layers that have not begun
            following[-n:] = states
            following[_LOWER:-n] = states[:lower] * self._kept[wave]
        self._top = np.maximum(columns[-1, -hidden:], 0)
        return network.values @ self._top + network.bias

    def backward(
        self, network: QNetwork, error: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the gradients by `gates`, `values` and `bias` after a `forward` with dropout.

        `error` is the derivative of the loss by the Q-values, [actions, B].
        """
        n, hidden, lower = self._n, self._hidden, self._lower
        back = np.ascontiguousarray(network.gates[:, _LOWER:].T)
        total = np.zeros_like(network.gates)
        by_state = np.zeros_like(self._new[0])
        by_state[-hidden:] = (network.values.T @ error) * (self._top > 0)
        for wave in reversed(range(len(self._gates))):
            column, new = self._columns[wave], self._new[wave]
            reset, keep, old, _ = self._gates[wave].reshape(4, n, -1)
            by_state[(wave + 1) * hidden :] = 0
            by_keep = (column[-n:] - new) * by_state * keep * (1 - keep)
            by_new = (1 - new * new) * (1 - keep) * by_state
            by_old = by_new * reset
            by_reset = by_old * old * (1 - reset)
            by_gate = np.concatenate([by_reset, by_keep, by_old, by_new])
            total += by_gate @ column.T
            by_column = back @ by_gate
            by_state = by_state * keep + by_column[lower:]
            if wave:  # the first wave has no states before it
                by_state[:lower] += by_column[:lower] * self._kept[wave - 1]
        return total * self._used, error @ self._top.T, error.sum(axis=1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Settings of the learner; the defaults are the published ones.

    Attributes:
        learning_rate: of plain gradient descent.
        lookback: how many past turns the network reads besides the latest observation.
        hidden: states of a layer of the network.
        layers: number of layers.
        dropout: share of the states below the top layer that are dropped while learning.
        batch: transitions of a step.
        memory: transitions that are remembered.
        discount: weight of the next state's value.
        target_every: pushes between copies of the network to the one that gives the targets.
    """

    learning_rate: float = 0.1
    lookback: int = 10
    hidden: int = 5
    layers: int = 2
    dropout: float = 0.2
    batch: int = 128
    memory: int = 10_000
    discount: float = 0.999
    target_every: int = 100

    def __post_init__(self) -> None:
        for name in ("lookback", "hidden", "layers", "batch", "target_every"):
            least = 0 if name == "lookback" else 1
            if getattr(self, name) < least:
                raise InvalidParameterError(
                    f"{name} is {getattr(self, name)}, expected at least {least}"
                )
        if not 0 <= self.dropout < 1:
            raise InvalidParameterError(f"dropout is {self.dropout}, expected a share in [0, 1)")
        if self.memory < self.batch:
            raise InvalidParameterError(
                f"memory is {self.memory}, expected at least the batch, {self.batch}: with less "
                "nothing would ever be learnt"
            )

    @property
    def length(self) -> int:
        """Numbers in a window."""
        return 3 * self.lookback + 1


class Generators(NamedTuple):
    """Where a training takes its randomness from.

    Attributes:
        weights: of the initial network.
        replay: at each step a number in [0, 1) for every transition in the memory, the oldest
            first; those with the `batch` smallest are learnt from, in this order.
        dropout: at each step numbers [length, layers - 1, hidden, batch]; a state is kept where
            its number is at least the share that is dropped.
    """

    weights: np.random.Generator
    replay: np.random.Generator
    dropout: np.random.Generator


def windows_of(history: Prefix, length: int) -> FloatArray:
    """Return the latest `length` numbers of o_1 y_1 r_2 o_2 ... o_k at each percept, [length, k].

    Zeros stand before the beginning.
    """
    count = len(history.rewards)
    numbers = np.zeros(length - 1 + 3 * count - 2)
    told = numbers[length - 1 :]
    told[0::3], told[1::3], told[2::3] = history.observations, history.actions, history.rewards[1:]
    windows = np.lib.stride_tricks.sliding_window_view(numbers, length)[::3]
    return np.ascontiguousarray(windows.T)


def train(
    history: Prefix, n_actions: int, learning: Learning, rate: float, draws: Generators
) -> QNetwork:
    """Train a network on a history.

    The transitions (window, action, next window, reward) are pushed into the memory one by one.
    From the push that fills a batch on, each is followed by a step of descent on the mean of the
    smooth L1 loss (Huber's, with threshold 1) between Q(window, action) and

        reward + discount * max over b of Q'(next window, b),

    each entry of the gradient clipped to [-1, 1]. Q' is a copy of Q, without dropout, renewed
    after every `target_every`-th push, the first included. A transition whose action is not legal
    here is left out: it has no Q-value.
    """
    network = QNetwork.initial(draws.weights, n_actions, learning.hidden, learning.layers)
    actions = np.asarray(history.actions, dtype=np.intp)
    legal = np.flatnonzero((actions >= 0) & (actions < n_actions))
    if len(legal) < learning.batch:
        return network
    training = _Training(learning, network, history, legal)
    # What is large enough to overflow has no best action; it is no error.
    with np.errstate(over="ignore", invalid="ignore"):
        for pushed in range(1, len(legal) + 1):
            if min(pushed, learning.memory) >= learning.batch:
                training.step(pushed, rate, draws)
            if (pushed - 1) % learning.target_every == 0:
                training.renew_targets(pushed)
    return network


class _Training:
    """One training: the transitions, and the targets of those that may come up."""

    def __init__(
        self, learning: Learning, network: QNetwork, history: Prefix, legal: IntArray
    ) -> None:
        self.learning, self.network = learning, network
        windows = windows_of(history, learning.length)
        self.before, self.after = windows[:, legal], windows[:, legal + 1]
        self.actions = np.asarray(history.actions, dtype=np.intp)[legal]
        self.rewards = np.asarray(history.rewards, dtype=np.float64)[legal + 1]
        self.targets = np.zeros(len(legal))
        self.learner = Pass(network, learning.length, learning.batch)
        self.teacher = Pass(network, learning.length, learning.batch)
        self.renew_targets(0)

    def renew_targets(self, pushed: int) -> None:
        """The targets, by the present network, of what the memory holds until the next renewal."""
        learning = self.learning
        last = min(pushed + learning.target_every, len(self.targets))
        if last < learning.batch:
            return  # there will be no step before it
        size = learning.batch
        for start in range(max(0, pushed - learning.memory), last, size):
            # As many windows at a time as ever, so that no rounding hangs on how many there are.
            chosen = np.minimum(np.arange(start, start + size), last - 1)
            best = self.teacher.forward(self.network, self.after[:, chosen]).max(axis=0)
            self.targets[chosen] = self.rewards[chosen] + learning.discount * best

    def step(self, pushed: int, rate: float, draws: Generators) -> None:
        """One step of descent."""
        learning, network = self.learning, self.network
        oldest = max(0, pushed - learning.memory)
        numbers = draws.replay.random(pushed - oldest)
        chosen = oldest + np.sort(np.argpartition(numbers, learning.batch - 1)[: learning.batch])
        kept = None
        if learning.dropout and learning.layers > 1:
            shape = (learning.length, learning.layers - 1, learning.hidden, learning.batch)
            kept = (draws.dropout.random(shape) >= learning.dropout) / (1 - learning.dropout)
        q = self.learner.forward(network, self.before[:, chosen], kept)
        taken = self.actions[chosen], np.arange(learning.batch)
        error = np.zeros_like(q)
        error[taken] = np.clip(q[taken] - self.targets[chosen], -1, 1) / learning.batch
        gradients = self.learner.backward(network, error)
        for weights, gradient in zip(
            (network.gates, network.values, network.bias), gradients, strict=True
        ):
            weights -= rate * np.clip(gradient, -1, 1)


SEED, HISTORY = "seed", "history"
_STREAMS = 3  # weights, replay, dropout
# Networks that an agent remembers, and answers that a network does: some 10 MB if all are full.
_NETWORKS, _ANSWERS = 32, 1024


class RecurrentDQN(ConvertedAgent):
    """Deep Q-learning with a small recurrent network that reads the latest turns as plain numbers.

    Once trained (see `ConvertedAgent`) it does what it values most, the lowest of equals, without
    exploring. It reads the last 3 * lookback + 1 numbers of

        o_1 y_1 r_2 o_2 y_2 r_3 ... o_n,

    with zeros before the beginning. `train` says how it learns. With the
    published settings a batch is 128 transitions, so nothing is learnt before percept 256: until
    then the initial network acts.

    Differences from the authors' library: there, everything random comes from one global stream, so
    every training, also of a copy, begins from other weights. Here every training of an agent
    begins from those that the seed gives (`draws_from="seed"`), or the seed and the history that is
    trained on, which comes closest to the library ("history"). The number of actions is what the
    environment says, not always 2; a turn whose action is not legal here has no value to be learnt.

    Args:
        seed: of the weights, the batches and the dropout.
        draws_from: "seed" or "history".
        settings: see `Learning`; learning_rate (0.1) and lookback (10) are those that the paper's
            experiment varies.

    Source: section 3.2, and custom_DQN of the authors' library at e4dd0d0.
    """

    def __init__(self, seed: int = 0, *, draws_from: str = SEED, **settings: Any) -> None:
        if draws_from not in (SEED, HISTORY):
            raise InvalidParameterError(
                f"draws_from is {draws_from!r}, expected {SEED!r} or {HISTORY!r}"
            )
        known = Learning.__dataclass_fields__
        if unknown := settings.keys() - known.keys():
            raise InvalidParameterError(
                f"the recurrent DQN has no setting {min(unknown)!r}; it has {', '.join(known)}"
            )
        super().__init__(seed)
        self.draws_from = draws_from
        self.learning = Learning(**settings)

    def __repr__(self) -> str:
        settings = {"draws_from": self.draws_from} | vars(self.learning)
        usual = {"draws_from": SEED} | vars(Learning())
        changed = [f", {k}={v!r}" for k, v in settings.items() if v != usual[k]]
        return f"RecurrentDQN(seed={self.seed}{''.join(changed)})"

    def own_rate(self, n_actions: int, n_observations: int) -> float:
        """Return the learning rate of the settings."""
        return self.learning.learning_rate

    def draws(self, state: int) -> Generators:
        """Where a training takes its randomness from; `state` is the hash of its history."""
        # NumPy's seeds have no sign, so that is a part of the key.
        entropy = [abs(self.seed)] if self.draws_from == SEED else [abs(self.seed), state]
        weights, replay, dropout = (
            np.random.default_rng(
                np.random.SeedSequence(entropy, spawn_key=(int(self.seed < 0), stream))
            )
            for stream in range(_STREAMS)
        )
        return Generators(weights, replay, dropout)

    def choose(self, mind: LearnerMind) -> int:
        """Return the action that the trained network values most at the latest turns."""
        if mind.learned is None:
            state = mind.trained_state
            if self.draws_from == SEED and mind.n <= self.learning.batch:
                state = mind.start  # too little to learn from: the same for all such histories
            rate = self.learning.learning_rate if mind.rate is None else mind.rate
            train = partial(self._trained, mind, state, rate)
            mind.learned = self.remembered((state, rate), train, _NETWORKS)
        trained: _Trained = mind.learned
        window = np.zeros(self.learning.length)
        at, place = mind.turn, len(window) - 1
        assert at is not None, "asked before the first percept"
        window[place] = at.observation
        while place > 0 and at.before is not None:
            window[place - 1], window[place - 2] = at.reward, at.action
            at, place = at.before, place - 3
            window[place] = at.observation
        return trained.action(window)

    def _trained(self, mind: LearnerMind, state: int, rate: float) -> _Trained:
        assert mind.trained_on is not None, "asked before the first percept"
        history, draws = prefix(mind.trained_on), self.draws(state)
        network = train(history, mind.counts[0], self.learning, rate, draws)
        return _Trained(network, self.learning.length)


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
