"""How the recurrent DQN learns: a history pushed into a memory, a step of descent at each push."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.agents.learners.recurrent_network import Pass, QNetwork
from goalmeter.agents.learners.turns import Prefix


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
        for name, least in (
            ("lookback", 0),
            ("hidden", 1),
            ("layers", 1),
            ("batch", 1),
            ("target_every", 1),
        ):
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


@dataclass(frozen=True)
class Draws:
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
    """The latest `length` numbers of o_1 y_1 r_2 o_2 ... o_k at each of the k percepts.

    Zeros stand before the beginning. The shape is [length, k].
    """
    count = len(history.rewards)
    numbers = np.zeros(length - 1 + 3 * count - 2)
    told = numbers[length - 1 :]
    told[0::3], told[1::3], told[2::3] = history.observations, history.actions, history.rewards[1:]
    windows = np.lib.stride_tricks.sliding_window_view(numbers, length)[::3]
    return np.ascontiguousarray(windows.T)


def train(
    history: Prefix, n_actions: int, learning: Learning, rate: float, draws: Draws
) -> QNetwork:
    """A network trained on a history.

    The transitions (window, action, next window, reward) are pushed into the memory one by one.
    From the push that fills a batch on, each is followed by a step of descent on the mean of the
    smooth L1 loss (Huber's, with threshold 1) between Q(window, action) and

        reward + discount * max over b of Q'(next window, b),

    each entry of the gradient clipped to [-1, 1]. Q' is a copy of Q, without dropout, renewed
    after every `target_every`-th push, the first included. A transition whose action is not legal
    here is left out: it has no Q-value.

    Args:
        history: what is learnt from.
        n_actions: legal actions.
        learning: settings.
        rate: the learning rate, which may differ from that of the settings.
        draws: of the initial weights, the batches and the dropout.
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

    def step(self, pushed: int, rate: float, draws: Draws) -> None:
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
