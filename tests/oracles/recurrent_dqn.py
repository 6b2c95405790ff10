"""The recurrent DQN, literally as a function of the history, with PyTorch's layers and gradients.

A history is (percepts, actions): percepts x_1 ... x_n as pairs (reward, observation), actions
y_1 ... y_{n-1}. At every call a network is trained from scratch on the first k percepts, k the
largest power of two up to n, one transition after the other, and then asked for the value of each
action. Nothing is remembered between calls, and no gradient is written by hand.

`draws` gives three NumPy generators: of the initial weights (uniform in ±1/sqrt(hidden), tensor by
tensor in PyTorch's order), of the replay (a number for each remembered transition, the oldest
first; the `batch` smallest are learnt from, in order of age) and of the dropout (numbers [length,
layers - 1, hidden, batch]; what is below the share is dropped).

Sources: sections 2.1 and 3.2 of "Extending Environments To Measure Self-Reflection In Reinforcement
Learning"; the recurrent DQN of the authors' library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

Percepts = Sequence[tuple[Any, int]]
History = tuple[Percepts, Sequence[int]]
Generators = tuple[np.random.Generator, np.random.Generator, np.random.Generator]
Transition = tuple[list[float], int, list[float], float]


class Network:
    """A stack of gated recurrent units, one PyTorch layer each, and a linear layer."""

    def __init__(self, n_actions: int, hidden: int, layers: int) -> None:
        def unit(inputs: int) -> torch.nn.GRU:
            return torch.nn.GRU(inputs, hidden, dtype=torch.float64)

        self.units = [unit(hidden if layer else 1) for layer in range(layers)]
        self.linear = torch.nn.Linear(hidden, n_actions, dtype=torch.float64)

    def parameters(self) -> list[torch.nn.Parameter]:
        return [p for module in (*self.units, self.linear) for p in module.parameters()]

    def copy_to(self, other: Network) -> None:
        for mine, theirs in zip(self.parameters(), other.parameters(), strict=True):
            theirs.data = mine.data.clone()

    def __call__(
        self, states: Sequence[Sequence[float]], factors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Values [B, actions] of B states; `factors` is dropout's, as its draws are."""
        read = torch.tensor(states, dtype=torch.float64).T.unsqueeze(2)  # [length, B, 1]
        for layer, unit in enumerate(self.units):
            read, _ = unit(read)
            if factors is not None and layer < len(self.units) - 1:
                read = read * factors[:, layer].transpose(1, 2)
        return self.linear(torch.relu(read[-1]))


def state_of(history: History, n: int, lookback: int) -> list[float]:
    """What the network reads at percept n: o_1 y_1 r_2 o_2 ... o_n, cut or filled up in front."""
    percepts, actions = history
    numbers: list[float] = []
    for i in range(n - 1):
        numbers += [percepts[i][1], actions[i], float(percepts[i + 1][0])]
    numbers.append(percepts[n - 1][1])
    length = 3 * lookback + 1
    return ([0.0] * length + numbers)[-length:]


def transitions_of(history: History, k: int, n_actions: int, lookback: int) -> list[Transition]:
    """(state, action, next state, reward) along the first k percepts; legal actions only."""
    percepts, actions = history
    return [
        (
            state_of(history, i, lookback),
            actions[i - 1],
            state_of(history, i + 1, lookback),
            float(percepts[i][0]),
        )
        for i in range(1, k)
        if actions[i - 1] in range(n_actions)
    ]


def trained_values(
    history: History,
    n_actions: int,
    *,
    draws: Callable[[History], Generators],
    learning_rate: float = 0.1,
    lookback: int = 10,
    hidden: int = 5,
    layers: int = 2,
    dropout: float = 0.2,
    batch: int = 128,
    memory: int = 10_000,
    discount: float = 0.999,
    target_every: int = 100,
) -> list[float]:
    """The value of each action at a history."""
    percepts, actions = history
    k = 1
    while 2 * k <= len(percepts):
        k *= 2
    weights, replay, dropping = draws((percepts[:k], actions[: k - 1]))
    network, teacher = Network(n_actions, hidden, layers), Network(n_actions, hidden, layers)
    for parameter in network.parameters():
        numbers = weights.uniform(-(hidden**-0.5), hidden**-0.5, tuple(parameter.shape))
        parameter.data = torch.from_numpy(numbers)
    network.copy_to(teacher)
    remembered: list[Transition] = []
    for i, transition in enumerate(transitions_of(history, k, n_actions, lookback)):
        remembered = [*remembered, transition][-memory:]
        if len(remembered) >= batch:
            numbers = list(replay.random(len(remembered)))
            limit = sorted(numbers)[batch - 1]
            sample = [t for t, number in zip(remembered, numbers, strict=True) if number <= limit]
            factors = None
            if dropout > 0 and layers > 1:
                shape = (3 * lookback + 1, layers - 1, hidden, batch)
                kept = torch.from_numpy(dropping.random(shape)) >= dropout
                factors = kept / (1 - dropout)
            predicted = network([t[0] for t in sample], factors)
            following = teacher([t[2] for t in sample]).detach()
            loss = torch.tensor(0.0, dtype=torch.float64)
            for row, (_, action, _, reward) in enumerate(sample):
                target = reward + discount * following[row].max()
                loss = loss + torch.nn.functional.smooth_l1_loss(predicted[row, action], target)
            gradients = torch.autograd.grad(loss / batch, network.parameters())
            for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                parameter.data = parameter.data - learning_rate * gradient.clamp(-1, 1)
        if i % target_every == 0:
            network.copy_to(teacher)
    values = network([state_of(history, len(percepts), lookback)])[0].detach()
    return [float(value) for value in values]


def recurrent_dqn(history: History, n_actions: int, n_observations: int, **settings: Any) -> int:
    """The action that is worth most, the lowest of equals."""
    values = trained_values(history, n_actions, **settings)
    return values.index(max(values))
