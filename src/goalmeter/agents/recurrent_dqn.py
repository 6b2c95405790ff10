"""Recurrent DQN agent: network, training and action selection as a function of the history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.history import ConvertedAgent, LearnerMind, Prefix, prefix

# The network has layers of gated recurrent units (Cho et al., 2014, as in PyTorch). One layer with
# state h reads inputs u in sequence:
#
#     r = sigmoid(W_ir u + b_ir + W_hr h + b_hr)
#     z = sigmoid(W_iz u + b_iz + W_hz h + b_hz)
#     n = tanh(W_in u + b_in + r * (W_hn h + b_hn))
#     h <- (1 - z) * n + z * h
#
# The first layer reads the numbers, each higher layer the states of the layer below (with dropout
# during training). The Q-values are V relu(h) + v for the last state of the top layer.
#
# Function calls dominate the cost, so all layers advance together: in wave w layer l is at number
# w - l, and one product of a block matrix with the column [number, 1, 1, lower states after
# dropout, states] gives all gates. A training step takes a sixth of torch's time.

# Rows of a wave's column: the number, two ones for the biases, then the states.
_X, _ONE, _OTHER_ONE, _LOWER = 0, 1, 2, 3


@dataclass
class QNetwork:
    """Recurrent network for Q-values."""

    hidden: int  # number of states of a layer
    layers: int  # number of layers, at least 1
    # Block matrix [4 layers hidden, 3 + (2 layers - 1) hidden] with rows r, z, hidden part of n and
    # input part of n, each for all layers.
    gates: FloatArray
    values: FloatArray  # V, [actions, hidden]
    bias: FloatArray  # v, [actions, 1]

    @classmethod
    def initial(
        cls, draws: np.random.Generator, n_actions: int, hidden: int, layers: int
    ) -> QNetwork:
        """Return a new network with weights uniform in ±1/sqrt(hidden), as in PyTorch."""
        # The order is PyTorch's: for each layer W_i [3 hidden, inputs], W_h, b_i and b_h, each with
        # the rows of r, z and n, and then V and v.
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


class Pass:
    """Buffers for passes of `size` windows of `length` numbers through networks of one shape."""

    def __init__(self, like: QNetwork, length: int, size: int) -> None:
        self._length, self._hidden, self._layers = length, like.hidden, like.layers
        waves, n = length + like.layers - 1, like.layers * like.hidden
        self._n, self._lower = n, n - like.hidden
        self._columns = np.zeros((waves + 1, like.gates.shape[1], size))
        self._columns[:, _ONE : _OTHER_ONE + 1] = 1
        self._gates = np.empty((waves, 4 * n, size))
        self._new = np.empty((waves, n, size))
        self._masks = np.zeros((waves, self._lower, size))
        self._used = like.gates != 0  # all other entries of the block matrix stay 0
        # tanh(a / 2) / 2 + 1/2 is the sigmoid.
        self._half = np.ones((4 * n, 1))
        self._half[: 2 * n] = 0.5

    def forward(
        self, network: QNetwork, windows: FloatArray, mask: FloatArray | None = None
    ) -> FloatArray:
        """Return Q-values [actions, B]; `mask` is for dropout, [length, layers - 1, hidden, B]."""
        n, hidden, lower = self._n, self._hidden, self._lower
        columns, weights = self._columns, network.gates * self._half
        columns[: self._length, _X] = windows
        if mask is None:
            self._masks[:] = 1
        else:
            for layer in range(self._layers - 1):
                rows = slice(layer * hidden, (layer + 1) * hidden)
                self._masks[layer : layer + self._length, rows] = mask[:, layer]
        for wave, gates in enumerate(self._gates):
            column, following = columns[wave], columns[wave + 1]
            np.matmul(weights, column, out=gates)
            gates[: 2 * n] = np.tanh(gates[: 2 * n]) * 0.5 + 0.5
            reset, keep, old, of_input = gates.reshape(4, n, -1)
            new = self._new[wave] = np.tanh(reset * old + of_input)
            states = (column[-n:] - new) * keep + new
            states[(wave + 1) * hidden :] = 0  # layers that have not started
            following[-n:] = states
            following[_LOWER:-n] = states[:lower] * self._masks[wave]
        self._top = np.maximum(columns[-1, -hidden:], 0)
        return network.values @ self._top + network.bias

    def backward(self, network: QNetwork, error: FloatArray) -> tuple[FloatArray, ...]:
        """Return gradients for gates, values and bias, given those for the Q-values."""
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
            if wave:  # the first wave has no previous states
                by_state[:lower] += by_column[:lower] * self._masks[wave - 1]
        return total * self._used, error @ self._top.T, error.sum(axis=1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Hyperparameters of the learner; the defaults are the published values."""

    learning_rate: float = 0.1  # learning rate of plain gradient descent
    lookback: int = 10  # number of past turns that the network reads with the latest observation
    hidden: int = 5  # number of states of a layer
    layers: int = 2
    dropout: float = 0.2  # dropout rate of the states below the top layer, in training
    batch: int = 128  # transitions per training step
    memory: int = 10_000  # capacity of the replay memory, in transitions
    discount: float = 0.999
    target_every: int = 100  # pushes between updates of the target network

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
                f"memory is {self.memory}, expected at least the batch size, {self.batch}; without "
                "a full batch there is no training"
            )

    @property
    def length(self) -> int:
        """Number of values in a window."""
        return 3 * self.lookback + 1


class Generators(NamedTuple):
    """Random generators of a training."""

    weights: np.random.Generator  # for the initial network
    # Draws at each step a number in [0, 1) for every transition in the memory, the oldest first; a
    # batch consists of the transitions with the smallest numbers, in order of age.
    replay: np.random.Generator
    # Draws at each step numbers [length, layers - 1, hidden, batch]; dropout removes states whose
    # number is below the dropout rate.
    dropout: np.random.Generator


def windows_of(history: Prefix, length: int) -> FloatArray:
    """Return the last `length` of 0 ... 0 o_1 y_1 r_2 o_2 ... o_k at each percept, [length, k]."""
    count = len(history.rewards)
    numbers = np.zeros(length - 1 + 3 * count - 2)
    flat = numbers[length - 1 :]
    flat[0::3], flat[1::3], flat[2::3] = history.observations, history.actions, history.rewards[1:]
    windows = np.lib.stride_tricks.sliding_window_view(numbers, length)[::3]
    return np.ascontiguousarray(windows.T)


# Transitions (window, action, next window, reward) are pushed into the memory one by one. Once the
# memory holds a batch, each push is followed by a gradient step on the mean smooth L1 loss (Huber
# loss with threshold 1) between Q(window, action) and
#
#     reward + discount * max over b of Q'(next window, b),
#
# with each entry of the gradient clipped to [-1, 1]. The target network Q' is a copy of Q without
# dropout, updated after every `target_every`-th push, including the first. Transitions with illegal
# actions are ignored, since these have no Q-value.


def train(
    history: Prefix, n_actions: int, learning: Learning, rate: float, draws: Generators
) -> QNetwork:
    """Train a network on a history."""
    network = QNetwork.initial(draws.weights, n_actions, learning.hidden, learning.layers)
    length, batch, memory = learning.length, learning.batch, learning.memory
    actions = np.asarray(history.actions, dtype=np.intp)
    legal = np.flatnonzero((actions >= 0) & (actions < n_actions))
    if len(legal) < batch:
        return network
    windows = windows_of(history, length)
    before, after, actions = windows[:, legal], windows[:, legal + 1], actions[legal]
    rewards = np.asarray(history.rewards, dtype=np.float64)[legal + 1]
    targets = np.zeros(len(legal))  # targets of transitions in the memory until the next update
    learner, teacher = Pass(network, length, batch), Pass(network, length, batch)

    def update_targets(pushed: int) -> None:
        last = min(pushed + learning.target_every, len(targets))
        if last < batch:
            return  # there is no training step before the next update
        for start in range(max(0, pushed - memory), last, batch):
            # Passes have a constant number of windows, since rounding depends on it.
            chosen = np.minimum(np.arange(start, start + batch), last - 1)
            best = teacher.forward(network, after[:, chosen]).max(axis=0)
            targets[chosen] = rewards[chosen] + learning.discount * best

    def step(oldest: int, pushed: int) -> None:
        numbers = draws.replay.random(pushed - oldest)
        chosen = oldest + np.sort(np.argpartition(numbers, batch - 1)[:batch])
        mask = None
        if learning.dropout and learning.layers > 1:
            shape = (length, learning.layers - 1, learning.hidden, batch)
            mask = (draws.dropout.random(shape) >= learning.dropout) / (1 - learning.dropout)
        q = learner.forward(network, before[:, chosen], mask)
        taken = actions[chosen], np.arange(batch)
        error = np.zeros_like(q)
        error[taken] = np.clip(q[taken] - targets[chosen], -1, 1) / batch
        parameters = network.gates, network.values, network.bias
        for weights, gradient in zip(parameters, learner.backward(network, error), strict=True):
            weights -= rate * np.clip(gradient, -1, 1)

    # Overflow is allowed; the network then has no best action.
    with np.errstate(over="ignore", invalid="ignore"):
        update_targets(0)
        for pushed in range(1, len(legal) + 1):
            if min(pushed, memory) >= batch:
                step(max(0, pushed - memory), pushed)
            if (pushed - 1) % learning.target_every == 0:
                update_targets(pushed)
    return network


SEED, HISTORY = "seed", "history"
# Cache sizes: networks of an agent, and actions of a network; about 10 MB if all are full.
_NETWORKS, _ANSWERS = 32, 1024


class RecurrentDQN(ConvertedAgent):
    """Deep Q-learning with a small recurrent network that reads the latest turns as numbers.

    The agent trains on the first percepts (the largest power of two) and takes the action with the
    highest value, without exploration. It reads the last 3 * lookback + 1 numbers of

        o_1 y_1 r_2 o_2 y_2 r_3 ... o_n,

    padded with zeros. With the published batch of 128 transitions there is no training before
    percept 256. `settings` are fields of `Learning`; the paper varies the learning rate (0.1) and
    the lookback (10).

    In the authors' library each training, also of a copy, starts from other weights, since all
    draws come from one stream. Here draws depend on the seed (`draws_from="seed"`), or on the seed
    and the training data ("history"), which is closest to the library. Turns with illegal actions
    are not learnt from.

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
                f"the recurrent DQN has no setting {min(unknown)!r}, expected {', '.join(known)}"
            )
        super().__init__(seed)
        self.draws_from = draws_from
        self.learning = Learning(**settings)

    def __repr__(self) -> str:
        settings = {"draws_from": self.draws_from} | vars(self.learning)
        defaults = {"draws_from": SEED} | vars(Learning())
        changed = [f", {k}={v!r}" for k, v in settings.items() if v != defaults[k]]
        return f"RecurrentDQN(seed={self.seed}{''.join(changed)})"

    def _own_rate(self, n_actions: int, n_observations: int) -> float:
        return self.learning.learning_rate

    def draws(self, state: int) -> Generators:
        """Return the random generators of a training on the history with this hash."""
        # NumPy's seeds are non-negative, so the sign is part of the key.
        entropy = [abs(self.seed)] if self.draws_from == SEED else [abs(self.seed), state]
        seeds = (
            np.random.SeedSequence(entropy, spawn_key=(int(self.seed < 0), stream))
            for stream in range(len(Generators._fields))
        )
        return Generators(*map(np.random.default_rng, seeds))

    def _choose(self, mind: LearnerMind) -> int:
        if mind.learned is None:
            state = mind.trained_state
            if self.draws_from == SEED and mind.n <= self.learning.batch:
                state = mind.start  # histories without a full batch share the initial network
            rate = self.learning.learning_rate if mind.rate is None else mind.rate

            def trained() -> _Trained:
                history, draws = prefix(mind.trained_on), self.draws(state)
                network = train(history, mind.counts[0], self.learning, rate, draws)
                return _Trained(network, self.learning.length)

            mind.learned = self.remembered((state, rate), trained, _NETWORKS)
        window = np.zeros(self.learning.length)
        at, place = mind.turn, len(window) - 1
        assert at is not None, "queried before the first percept"
        window[place] = at.observation
        while place > 0 and at.before is not None:
            window[place - 1], window[place - 2] = at.reward, at.action
            at, place = at.before, place - 3
            window[place] = at.observation
        answer: int = mind.learned.answer(window.tobytes())
        return answer


class _Trained:
    """Trained network with a cache of its actions for windows."""

    def __init__(self, network: QNetwork, length: int) -> None:
        self.network = network
        self._pass = Pass(network, length, 1)
        self.answer = lru_cache(maxsize=_ANSWERS)(self._answer)

    def _answer(self, window: bytes) -> int:
        """Return the action with the highest value, the lowest on ties."""
        numbers = np.frombuffer(window)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            return int(self._pass.forward(self.network, numbers).argmax())
