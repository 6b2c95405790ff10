"""The network of the recurrent DQN: gated recurrent layers over a row of numbers, then Q-values.

One layer with state h reads inputs u one after the other (Cho et al., 2014, as PyTorch has it):

    r = sigmoid(W_ir u + b_ir + W_hr h + b_hr)
    z = sigmoid(W_iz u + b_iz + W_hz h + b_hz)
    n = tanh(W_in u + b_in + r * (W_hn h + b_hn))
    h <- (1 - z) * n + z * h

The first layer reads the numbers, each further one the states of the one below (with dropout in
between while learning); the Q-values are V relu(h) + v for the last state of the top layer.

The network is so small that calling anything costs more than computing. So all layers take a step
at once: in wave w layer l is at number w - l, and one product of a block matrix with the column
[number, 1, 1, dropped lower states, states] gives all gates. Everything is in double precision, so
that actions do not hang on the order in which sums are taken. No torch is needed, and on one core
a step of learning takes a sixth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from goalmeter._types import BoolArray, FloatArray

_X, _ONE, _OTHER_ONE, _LOWER = 0, 1, 2, 3  # rows of a wave's column; the states come last


# Blocks of rows: the gates r and z, and n's parts from the state and from the input.
_R, _Z, _STATE, _INPUT = 0, 1, 2, 3


def _blocks(hidden: int, layers: int) -> Iterator[tuple[int, slice, tuple[int, int, int]]]:
    """Layer, columns and blocks of rows of W_i, W_h, b_i and b_h of each layer, in this order."""
    first = _LOWER + (layers - 1) * hidden
    for layer in range(layers):
        start, width = (_LOWER + (layer - 1) * hidden, hidden) if layer else (_X, 1)
        states = first + layer * hidden
        yield layer, slice(start, start + width), (_R, _Z, _INPUT)
        yield layer, slice(states, states + hidden), (_R, _Z, _STATE)
        yield layer, slice(_ONE, _OTHER_ONE), (_R, _Z, _INPUT)
        yield layer, slice(_OTHER_ONE, _LOWER), (_R, _Z, _STATE)


def _rows(layer: int, blocks: Sequence[int], hidden: int, layers: int) -> Iterator[slice]:
    for block in blocks:
        row = (block * layers + layer) * hidden
        yield slice(row, row + hidden)


@cache
def used_weights(hidden: int, layers: int) -> BoolArray:
    """Where the block matrix has weights; elsewhere it is, and stays, zero."""
    used = np.zeros((4 * layers * hidden, _LOWER + (2 * layers - 1) * hidden), dtype=bool)
    for layer, columns, blocks in _blocks(hidden, layers):
        for rows in _rows(layer, blocks, hidden, layers):
            used[rows, columns] = True
    used.flags.writeable = False
    return used


@dataclass
class QNetwork:
    """The weights.

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
        """A new network, every weight uniform in ±1/sqrt(hidden), as PyTorch begins.

        The weights are drawn in PyTorch's order: for each layer W_i [3 hidden, inputs], W_h, b_i
        and b_h, each with the rows of r, z and n, and then V and v.
        """
        bound = hidden**-0.5
        gates = np.zeros(used_weights(hidden, layers).shape)
        for layer, columns, rows in _blocks(hidden, layers):
            width = columns.stop - columns.start
            weights = draws.uniform(-bound, bound, (3, hidden, width))
            for row, block in zip(_rows(layer, rows, hidden, layers), weights, strict=True):
                gates[row, columns] = block
        values = draws.uniform(-bound, bound, (n_actions, hidden))
        return cls(hidden, layers, gates, values, draws.uniform(-bound, bound, (n_actions, 1)))

    def q_values(self, windows: FloatArray) -> FloatArray:
        """The Q-values of windows [length, B], without dropout: [actions, B]."""
        return Pass(self, *windows.shape).forward(self, windows)


class Pass:
    """Memory for passes through networks of one shape, forward and back.

    Args:
        like: a network of that shape.
        length: numbers in a window.
        size: windows at a time, B.
    """

    def __init__(self, like: QNetwork, length: int, size: int) -> None:
        self._length, self._hidden, self._layers = length, like.hidden, like.layers
        waves, n = length + like.layers - 1, like.layers * like.hidden
        self._n, self._lower = n, n - like.hidden
        self._columns = np.zeros((waves + 1, like.gates.shape[1], size))
        self._columns[:, _ONE : _OTHER_ONE + 1] = 1
        self._gates = np.empty((waves, 4 * n, size))
        self._new = np.empty((waves, n, size))
        self._kept = np.zeros((waves, self._lower, size))
        self._used = used_weights(like.hidden, like.layers)
        # tanh(a / 2) / 2 + 1/2 is the sigmoid.
        self._half = np.ones((4 * n, 1))
        self._half[: 2 * n] = 0.5

    def forward(
        self, network: QNetwork, windows: FloatArray, kept: FloatArray | None = None
    ) -> FloatArray:
        """The Q-values, [actions, B].

        Args:
            network: asked.
            windows: numbers, [length, B].
            kept: what the state of a layer below the top is multiplied by on its way up,
                [length, layers - 1, hidden, B]; None: 1.
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
            column, following, new = columns[wave], columns[wave + 1], self._new[wave]
            np.matmul(weights, column, out=gates)
            sigmoids = gates[: 2 * n]
            np.tanh(sigmoids, out=sigmoids)
            sigmoids *= 0.5
            sigmoids += 0.5
            np.multiply(gates[:n], gates[2 * n : 3 * n], out=new)
            new += gates[3 * n :]
            np.tanh(new, out=new)
            states = following[-n:]
            np.subtract(column[-n:], new, out=states)
            states *= gates[n : 2 * n]
            states += new
            states[(wave + 1) * hidden :] = 0  # layers that have not begun
            np.multiply(states[:lower], self._kept[wave], out=following[_LOWER:-n])
        self._top = np.maximum(columns[-1, -hidden:], 0)
        return network.values @ self._top + network.bias

    def backward(
        self, network: QNetwork, error: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradients with respect to `gates`, `values` and `bias` after a `forward` with dropout.

        Args:
            network: the same as in `forward`.
            error: derivative of the loss by the Q-values, [actions, B].
        """
        n, hidden, lower = self._n, self._hidden, self._lower
        back = np.ascontiguousarray(network.gates[:, _LOWER:].T)
        total, by_gate = np.zeros_like(network.gates), np.empty_like(self._gates[0])
        by_state, through = np.zeros_like(self._new[0]), np.empty_like(self._new[0])
        by_state[-hidden:] = (network.values.T @ error) * (self._top > 0)
        by_reset, by_keep, by_old, by_new = (by_gate[i * n : (i + 1) * n] for i in range(4))
        for wave in reversed(range(len(self._gates))):
            column, gates, new = self._columns[wave], self._gates[wave], self._new[wave]
            reset, keep, old = (gates[i * n : (i + 1) * n] for i in range(3))
            by_state[(wave + 1) * hidden :] = 0
            np.subtract(column[-n:], new, out=by_keep)
            by_keep *= by_state
            by_keep *= keep
            np.subtract(1, keep, out=through)
            by_keep *= through
            np.multiply(new, new, out=by_new)
            np.subtract(1, by_new, out=by_new)
            by_new *= through
            by_new *= by_state
            np.multiply(by_new, reset, out=by_old)
            np.multiply(by_old, old, out=by_reset)
            np.subtract(1, reset, out=through)
            by_reset *= through
            total += by_gate @ column.T
            by_column = back @ by_gate
            by_state *= keep
            by_state += by_column[lower:]
            if wave:  # the first wave has no states before it
                by_state[:lower] += by_column[:lower] * self._kept[wave - 1]
        return total * self._used, error @ self._top.T, error.sum(axis=1, keepdims=True)
