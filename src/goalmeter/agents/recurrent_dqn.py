"""Recurrent DQN agent: network, training and action selection as a function of the history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.history import ConvertedAgent, LearnerMind, Prefix, prefix

# The network has layers of gated recurrent units (Cho et al., 2014, as PyTorch has it). One layer
# with state h reads inputs u one after the other:
#
#     r = sigmoid(W_ir u + b_ir + W_hr h + b_hr)
#     z = sigmoid(W_iz u + b_iz + W_hz h + b_hz)
#     n = tanh(W_in u + b_in + r * (W_hn h + b_hn))
#     h <- (1 - z) * n + z * h
#
# The first layer reads the numbers, each further one the states of the one below (with dropout in
# between while learning); the Q-values are V relu(h) + v for the last state of the top layer.
#
# Calling anything costs more than computing, so all layers take a step at once: in wave w layer l
# is at number w - l, and one product of a block matrix with the column [number, 1, 1, dropped lower
# states, states] gives all gates. A step of learning takes a sixth of torch's.

# Rows of a wave's column: the number, two ones for the biases, and from the last one on the states.
_X, _ONE, _OTHER_ONE, _LOWER = 0, 1, 2, 3


@dataclass
class QNetwork:
    """A recurrent network that gives the values of actions."""

    hidden: int  # states of a layer
    layers: int  # at least 1
    # The block matrix, [4 layers hidden, 3 + (2 layers - 1) hidden]; rows r, z, hidden part of n,
    # input part of n, each for all layers.
    gates: FloatArray
    values: FloatArray  # V, [actions, hidden]
    bias: FloatArray  # v, [actions, 1]

    @classmethod
    def initial(
        cls, draws: np.random.Generator, n_actions: int, hidden: int, layers: int
    ) -> QNetwork:
        """Return a new network, every weight uniform in ±1/sqrt(hidden), as PyTorch begins."""
        # In PyTorch's order: for each layer W_i [3 hidden, inputs], W_h, b_i and b_h, each with the
        # rows of r, z and n, and then V and v.
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
        """Return the Q-values [actions, B]; `kept` is dropout, [length, layers - 1, hidden, B]."""
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

    def backward(self, network: QNetwork, error: FloatArray) -> tuple[FloatArray, ...]:
        """Return gradients by gates, values and bias, from those by the Q-values of `forward`."""
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
    """Settings of the learner; the defaults are the published ones."""

    learning_rate: float = 0.1  # of plain gradient descent
    lookback: int = 10  # past turns that the network reads besides the latest observation
    hidden: int = 5  # states of a layer of the network
    layers: int = 2
    dropout: float = 0.2  # share of the states below the top layer, while learning
    batch: int = 128  # transitions of a step
    memory: int = 10_000  # transitions that are remembered
    discount: float = 0.999
    target_every: int = 100  # pushes between copies of the network to the one that gives targets

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
    """Where a training takes its randomness from."""

    weights: np.random.Generator  # of the initial network
    # At each step a number in [0, 1) for every transition in the memory, the oldest first; those
    # with the `batch` smallest are learnt from, in this order.
    replay: np.random.Generator
    # At each step numbers [length, layers - 1, hidden, batch]; a state is kept where its number is
    # at least the share that is dropped.
    dropout: np.random.Generator


def windows_of(history: Prefix, length: int) -> FloatArray:
    """Return the last `length` of 0 ... 0 o_1 y_1 r_2 o_2 ... o_k at each percept, [length, k]."""
    count = len(history.rewards)
    numbers = np.zeros(length - 1 + 3 * count - 2)
    told = numbers[length - 1 :]
    told[0::3], told[1::3], told[2::3] = history.observations, history.actions, history.rewards[1:]
    windows = np.lib.stride_tricks.sliding_window_view(numbers, length)[::3]
    return np.ascontiguousarray(windows.T)


# The transitions (window, action, next window, reward) are pushed into the memory one by one. From
# the push that fills a batch on, each is followed by a step of descent on the mean of the smooth L1
# loss (Huber's, with threshold 1) between Q(window, action) and
#
#     reward + discount * max over b of Q'(next window, b),
#
# each entry of the gradient clipped to [-1, 1]. Q' is a copy of Q, without dropout, renewed after
# every `target_every`-th push, the first included. A transition whose action is not legal here is
# left out: it has no Q-value.


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
    targets = np.zeros(len(legal))  # of those that the memory holds until the next renewal
    learner, teacher = Pass(network, length, batch), Pass(network, length, batch)

    def renew_targets(pushed: int) -> None:
        last = min(pushed + learning.target_every, len(targets))
        if last < batch:
            return  # there will be no step before it
        for start in range(max(0, pushed - memory), last, batch):
            # As many windows at a time as ever, so that no rounding hangs on how many there are.
            chosen = np.minimum(np.arange(start, start + batch), last - 1)
            best = teacher.forward(network, after[:, chosen]).max(axis=0)
            targets[chosen] = rewards[chosen] + learning.discount * best

    def step(oldest: int, pushed: int) -> None:
        numbers = draws.replay.random(pushed - oldest)
        chosen = oldest + np.sort(np.argpartition(numbers, batch - 1)[:batch])
        kept = None
        if learning.dropout and learning.layers > 1:
            shape = (length, learning.layers - 1, learning.hidden, batch)
            kept = (draws.dropout.random(shape) >= learning.dropout) / (1 - learning.dropout)
        q = learner.forward(network, before[:, chosen], kept)
        taken = actions[chosen], np.arange(batch)
        error = np.zeros_like(q)
        error[taken] = np.clip(q[taken] - targets[chosen], -1, 1) / batch
        every = network.gates, network.values, network.bias
        for weights, gradient in zip(every, learner.backward(network, error), strict=True):
            weights -= rate * np.clip(gradient, -1, 1)

    # What is large enough to overflow has no best action; it is no error.
    with np.errstate(over="ignore", invalid="ignore"):
        renew_targets(0)
        for pushed in range(1, len(legal) + 1):
            if min(pushed, memory) >= batch:
                step(max(0, pushed - memory), pushed)
            if (pushed - 1) % learning.target_every == 0:
                renew_targets(pushed)
    return network


SEED, HISTORY = "seed", "history"
# Networks that an agent remembers, and answers that a network does: some 10 MB if all are full.
_NETWORKS, _ANSWERS = 32, 1024


class RecurrentDQN(ConvertedAgent):
    """Deep Q-learning with a small recurrent network that reads the latest turns as plain numbers.

    Trained on the first percepts (the largest power of two), it takes the action of the largest
    value, without exploring. It reads the last 3 * lookback + 1 numbers of

        o_1 y_1 r_2 o_2 y_2 r_3 ... o_n,

    with zeros before the beginning. With the published batch of 128 transitions nothing is learnt
    before percept 256. `settings` are fields of `Learning`; the paper varies the learning rate
    (0.1) and the lookback (10).

    In the authors' library every training, also of a copy, begins from other weights, as all draws
    come from one stream. Here they come from the seed (`draws_from="seed"`), or from the seed and
    the history that is trained on, which is closest to the library ("history"). A turn whose action
    is not legal here has no value to be learnt.

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

    def _own_rate(self, n_actions: int, n_observations: int) -> float:
        return self.learning.learning_rate

    def draws(self, state: int) -> Generators:
        """Return the randomness of a training on the history with this hash."""
        # NumPy's seeds have no sign, so that is a part of the key.
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
                state = mind.start  # too little to learn from: the same for all such histories
            rate = self.learning.learning_rate if mind.rate is None else mind.rate

            def trained() -> _Trained:
                told, draws = prefix(mind.trained_on), self.draws(state)
                network = train(told, mind.counts[0], self.learning, rate, draws)
                return _Trained(network, self.learning.length)

            mind.learned = self.remembered((state, rate), trained, _NETWORKS)
        window = np.zeros(self.learning.length)
        at, place = mind.turn, len(window) - 1
        assert at is not None, "asked before the first percept"
        window[place] = at.observation
        while place > 0 and at.before is not None:
            window[place - 1], window[place - 2] = at.reward, at.action
            at, place = at.before, place - 3
            window[place] = at.observation
        answer: int = mind.learned.answer(window.tobytes())
        return answer


class _Trained:
    """A network that learns no more, and what it answered to windows."""

    def __init__(self, network: QNetwork, length: int) -> None:
        self.network = network
        self._pass = Pass(network, length, 1)
        self.answer = lru_cache(maxsize=_ANSWERS)(self._answer)

    def _answer(self, window: bytes) -> int:
        """The action that is worth most, the lowest of equals."""
        numbers = np.frombuffer(window)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            return int(self._pass.forward(self.network, numbers).argmax())
