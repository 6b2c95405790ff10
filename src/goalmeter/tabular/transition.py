"""Transition probabilities, stored once for fast products with value functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._types import AnyArray, FloatArray
from goalmeter.tabular.arrays import (
    ROUNDING,
    at,
    check_distributions,
    check_finite,
    normalised_rows,
    read_only,
    shape_text,
    wrong_shape,
)


def some_rows(matrix: Any, first: int, last: int) -> Any:
    """Return rows of a matrix as a view."""
    if isinstance(matrix, np.ndarray):
        return matrix[first:last]
    # Slicing a compressed matrix may copy its rows, which would store a large world twice.
    entries = slice(matrix.indptr[first], matrix.indptr[last])
    rows = sp.csr_matrix((last - first, matrix.shape[1]))
    rows.data, rows.indices = matrix.data[entries], matrix.indices[entries]
    rows.indptr = matrix.indptr[first : last + 1] - matrix.indptr[first]
    return rows


def transposed(rows: Any) -> Any:
    """Return the transpose as a view."""
    if isinstance(rows, np.ndarray):
        return rows.T
    columns = sp.csc_matrix(rows.shape[::-1])
    columns.data, columns.indices, columns.indptr = rows.data, rows.indices, rows.indptr
    return columns


# --- Threads ------------------------------------------------------------------------------------
_T = TypeVar("_T")
_R = TypeVar("_R")


def map_all(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call `work` for every item, on all threads if there is more than one item."""
    if len(items) == 1 or thread_count() == 1:
        return [work(item) for item in items]
    return list(_pool(thread_count(), os.getpid()).map(work, items))


def thread_count() -> int:
    """Return the number of threads for large worlds: GOALMETER_THREADS, else the cores."""
    text = os.environ.get("GOALMETER_THREADS", "")
    if not text:
        # The affinity respects the limits of containers.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else (os.cpu_count() or 1)
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise InvalidParameterError(
            f"GOALMETER_THREADS is {text!r}, expected a whole number of threads, at least 1"
        )
    return int(text)


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    # The process is part of the cache key: a forked child inherits the pool but not its threads.
    return ThreadPoolExecutor(threads, thread_name_prefix="goalmeter")


# --- Transition ---------------------------------------------------------------------------------
# Rows P[s, a, :] are stored in one matrix, compressed unless the world is small, in blocks of
# states, action-major within a block. The arrays of a block fit the cache, and threads can process
# several blocks: each row is computed in a fixed order, so results do not depend on the threads.

BLOCK_STATES = 8_192  # intermediates [A, BLOCK_STATES] of a few doubles fit a core's cache
# A product reads its value columns in random order. Columns larger than this together evict each
# other from the last-level cache, so they are multiplied one at a time.
GATHER_BYTES = 2**23
WAVE_STATES = 2**17  # number of states whose products by column are buffered before use
DENSE_ENTRIES = 32_768  # up to this size a dense product is faster (first-level cache)


@dataclass(frozen=True)
class Block:
    """Consecutive states and their rows of the transition matrix."""

    start: int
    stop: int
    matrix: Any  # [A * n, S], CSR or ndarray; rows action-major within the block

    @property
    def states(self) -> slice:
        """States of this block."""
        return slice(self.start, self.stop)

    @property
    def size(self) -> int:
        """Number of states, n."""
        return self.stop - self.start

    @cached_property
    def compressed(self) -> Any:
        """Rows as CSR; cached, since every step of policy iteration uses them."""
        return sp.csr_matrix(self.matrix)


class Transition:
    """Transition probabilities P[s, a, z] from s to z under action a; immutable."""

    def __init__(self, matrix: Any, n_states: int, n_actions: int) -> None:
        """Wrap a row-blocked matrix."""
        if sp.issparse(matrix) and n_states * n_actions * n_states <= DENSE_ENTRIES:
            matrix = matrix.toarray()
        self.n_states = n_states
        self.n_actions = n_actions
        self._matrix = matrix
        # Arrays and all their views are read-only.
        for array in [matrix] if isinstance(matrix, np.ndarray) else [matrix.data, matrix.indices]:
            read_only(array)
        # glibc returns freed memory beyond twice the largest array freed so far to the system, and
        # new allocations are slow; an unused array of 16 MiB raises this threshold.
        np.empty(2**21)
        self.blocks = tuple(
            Block(a, b, some_rows(matrix, a * n_actions, b * n_actions))
            for a, b in block_bounds(n_states)
        )
        # Two halves of the rows let a transposed product use two threads with the same order of
        # summation on every machine.
        cuts = sorted({0, self.blocks[len(self.blocks) // 2].start * n_actions})
        self._halves = tuple(
            (slice(a, b), transposed(some_rows(matrix, a, b)))
            for a, b in pairwise([*cuts, n_states * n_actions])
        )

    @classmethod
    def from_dense(cls, array: FloatArray) -> Transition:
        """Return the transition of a validated array P [S, A, S]."""
        if array.ndim != 3 or array.shape[0] != array.shape[2] or not array.size:
            expected = "[S, A, S] (state, action, next state; at least one each); for successor "
            expected += "lists pass (next_state, probability), each [S, A, K]"
            raise wrong_shape("transition", array.shape, expected, InvalidModelError)
        n_states, n_actions, _ = array.shape
        check_finite(array, "transition", InvalidModelError)
        check_distributions(array, "transition", InvalidModelError)
        # `normalised_rows` copies the caller's array.
        rows = normalised_rows(array).reshape(-1, n_states)
        return cls.from_rows(rows, n_states, n_actions)

    @classmethod
    def from_successors(cls, next_state: AnyArray, probability: FloatArray) -> Transition:
        """Return the transition of validated successor lists [S, A, K]; 0 is padding."""
        if next_state.ndim != 3 or next_state.shape != probability.shape or not next_state.size:
            raise InvalidModelError(
                f"next_state has shape {shape_text(next_state.shape)} and probability "
                f"{shape_text(probability.shape)}, expected the same shape [S, A, K], at least one "
                f"state, action and successor"
            )
        if next_state.dtype.kind not in "iu":
            raise InvalidModelError(
                f"next_state has type {next_state.dtype}, expected integers; "
                f"it contains the index of each successor state"
            )
        n_states, n_actions, width = next_state.shape
        # These passes need no temporary array; the wrong entry is located only if there is one.
        if next_state.min() < 0 or next_state.max() >= n_states:
            bad = (next_state < 0) | (next_state >= n_states)
            where = np.unravel_index(int(np.argmax(bad)), bad.shape)
            raise InvalidModelError(
                f"next_state{at(where)} is {next_state[where]}, "
                f"expected a state in 0..{n_states - 1}"
            )
        check_finite(probability, "probability", InvalidModelError)
        check_distributions(probability, "probability", InvalidModelError)
        # 32-bit indices where possible, since products read every index from memory.
        size = n_states * n_actions * width
        index = np.int32 if size < 2**31 else np.int64
        columns, data = np.empty(size, dtype=index), np.empty(size)
        # Filling blocks one by one avoids a second copy of the arrays.
        for a, b in block_bounds(n_states):
            rows = slice(a * n_actions * width, b * n_actions * width)
            columns[rows] = next_state[a:b].transpose(1, 0, 2).ravel()
            data[rows] = normalised_rows(probability[a:b]).transpose(1, 0, 2).ravel()
        pointers = np.arange(0, size + 1, width, dtype=index)
        matrix = sp.csr_matrix((data, columns, pointers), shape=(n_states * n_actions, n_states))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(matrix, n_states, n_actions)

    @classmethod
    def from_rows(cls, rows: Any, n_states: int, n_actions: int) -> Transition:
        """Return the transition of rows [S * A, S], state-major, which need not sum to 1."""
        place = np.arange(n_states) * n_actions + np.arange(n_actions)[:, None]
        order = np.concatenate([place[:, a:b].ravel() for a, b in block_bounds(n_states)])
        return cls(sp.csr_matrix(rows)[order], n_states, n_actions)

    @property
    def nbytes(self) -> int:
        """Size of the stored matrix in bytes."""
        m = self._matrix
        parts = [m] if isinstance(m, np.ndarray) else [m.data, m.indices, m.indptr]
        return sum(part.nbytes for part in parts)

    @property
    def n_entries(self) -> int:
        """Number of stored probabilities: possible triples (state, action, successor)."""
        m = self._matrix
        return int(np.count_nonzero(m) if isinstance(m, np.ndarray) else m.nnz)

    def map_blocks(self, work: Callable[[Block], _R]) -> list[_R]:
        """Call `work` for every block, on all threads if there is more than one block."""
        return map_all(work, self.blocks)

    def map_expected(
        self, columns: Sequence[FloatArray], work: Callable[[Block, FloatArray], _R]
    ) -> list[_R]:
        """Call `work` for every block with its expected next values [A, n, all columns]."""
        # `work` may overwrite the values, which are valid until it returns.
        large = sum(c.nbytes for c in columns) > GATHER_BYTES
        if large and all(c.shape[1] == 1 for c in columns):
            return self._map_by_column(columns, work)
        stacked = np.concatenate(columns, axis=1)
        return self.map_blocks(lambda block: work(block, self.expect(block, stacked)))

    def _map_by_column(
        self, columns: Sequence[FloatArray], work: Callable[[Block, FloatArray], _R]
    ) -> list[_R]:
        """Implement `map_expected` for columns that do not fit the cache together."""
        # The products of a wave of blocks share one buffer, which stays in the cache until use.
        results = []
        widest = self.blocks[0].stop
        length = min(-(-WAVE_STATES // widest), len(self.blocks))
        buffer = np.empty((len(columns), length, self.n_actions * widest))
        for first in range(0, len(self.blocks), length):
            wave = list(enumerate(self.blocks[first : first + length]))
            for products, column in zip(buffer, columns, strict=True):
                map_all(partial(_multiply, column.ravel(), products), wave)

            def finish(item: tuple[int, Block]) -> _R:
                slot, block = item
                expected = buffer[:, slot, : self.n_actions * block.size]
                shape = (-1, self.n_actions, block.size)
                return work(block, expected.reshape(shape).transpose(1, 2, 0))

            results += map_all(finish, wave)
        return results

    def expect(self, block: Block, values: FloatArray) -> FloatArray:
        """Return the expected next value of a block, sum_z P[s, a, z] values[z]: [A, n, ...]."""
        product = np.asarray(block.matrix @ values)
        return product.reshape(self.n_actions, block.size, *values.shape[1:])

    def expect_all(self, values: FloatArray) -> FloatArray:
        """Return the expected next value of every state: [A, S, ...]."""
        if len(self.blocks) == 1:
            return self.expect(self.blocks[0], values)
        out = np.empty((self.n_actions, self.n_states, *values.shape[1:]))

        def fill(block: Block) -> None:
            out[:, block.states] = self.expect(block, values)

        self.map_blocks(fill)
        return out

    def push(self, mass: FloatArray) -> FloatArray:
        """Return the next-state mass [S, ...] of a mass on state-action pairs [A, S, ...]."""
        if len(self.blocks) == 1:
            flat = mass.reshape(self.n_actions * self.n_states, *mass.shape[2:])
        else:
            flat = np.empty((self.n_actions * self.n_states, *mass.shape[2:]))
            for block in self.blocks:
                rows = slice(block.start * self.n_actions, block.stop * self.n_actions)
                flat[rows] = mass[:, block.states].reshape(-1, *mass.shape[2:])

        def half(item: tuple[slice, Any]) -> FloatArray:
            return np.asarray(item[1] @ flat[item[0]])

        parts = map_all(half, self._halves)
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def probability(self, states: AnyArray, actions: AnyArray, next_states: AnyArray) -> FloatArray:
        """Return P[s, a, z] for n triples: [n]."""
        return np.asarray(self._matrix[self._rows(states, actions), next_states]).ravel()

    def sample(self, states: AnyArray, actions: AnyArray, rng: np.random.Generator) -> AnyArray:
        """Draw a successor of each state-action pair: [n]."""
        # One search in the cumulative sum of all rows replaces a search in each row.
        rows = sp.csr_matrix(self._matrix[self._rows(states, actions)])
        totals = np.cumsum(rows.data)
        first, last = rows.indptr[:-1], rows.indptr[1:] - 1
        below = np.where(first > 0, totals[np.maximum(first - 1, 0)], 0.0)
        target = below + rng.random(len(first)) * (totals[last] - below)
        slots = np.searchsorted(totals, target, side="right")
        return np.asarray(rows.indices[np.clip(slots, first, last)], dtype=np.int64)

    def _rows(self, states: AnyArray, actions: AnyArray) -> AnyArray:
        """Return the rows of the stored matrix for state-action pairs."""
        start = states // BLOCK_STATES * BLOCK_STATES
        size = np.minimum(start + BLOCK_STATES, self.n_states) - start
        return np.asarray(start * self.n_actions + actions * size + (states - start))

    def under(self, policy: FloatArray) -> Any:
        """Return the state-to-state matrix [S, S] (CSR) of a stationary policy [A, S]."""
        rows = []
        for block in self.blocks:
            n, a = block.size, self.n_actions
            where = (np.arange(a) * n + np.arange(n)[:, None]).ravel()
            chosen = np.ascontiguousarray(policy[:, block.states].T).ravel()
            weight = sp.csr_matrix((chosen, where, np.arange(0, n * a + 1, a)), shape=(n, n * a))
            rows.append(weight @ block.compressed)
        return rows[0] if len(rows) == 1 else sp.vstack(rows, format="csr")

    def by_action(self) -> Any:
        """Return all rows as CSR [A * S, S], action-major."""
        if len(self.blocks) == 1:
            return self.blocks[0].compressed
        parts = [
            block.compressed[action * block.size : (action + 1) * block.size]
            for action in range(self.n_actions)
            for block in self.blocks
        ]
        return sp.vstack(parts, format="csr")

    def actions_differ(self, by_more_than: float = ROUNDING) -> AnyArray:
        """Return a mask of states with actions whose distributions differ by more: [S]."""
        out = np.zeros(self.n_states, dtype=bool)
        for block in self.blocks:
            first, *others = (
                sp.csr_matrix(block.matrix[action * block.size : (action + 1) * block.size])
                for action in range(self.n_actions)
            )
            for other in others:
                gap = abs(other - first)
                out[block.states] |= np.asarray(gap.sum(axis=1)).ravel() > by_more_than
        return out

    def to_dense(self) -> FloatArray:
        """Return P as [S, A, S], for small worlds and tests."""
        dense = self.by_action().toarray().reshape(self.n_actions, self.n_states, self.n_states)
        return np.ascontiguousarray(dense.transpose(1, 0, 2))

    def to_successors(self) -> tuple[AnyArray, FloatArray]:
        """Return successor lists (next_state, probability), each [S, A, K], padded with zeros."""
        rows = self.by_action()
        length = np.diff(rows.indptr)
        slot = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], length)
        action, state = np.divmod(np.repeat(np.arange(len(length)), length), self.n_states)
        shape = (self.n_states, self.n_actions, int(length.max()))
        next_state, probability = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        next_state[state, action, slot] = rows.indices
        probability[state, action, slot] = rows.data
        return next_state, probability


def _multiply(values: FloatArray, products: FloatArray, item: tuple[int, Block]) -> None:
    """Write the expected next value of one column [S] for a block into its slot."""
    slot, block = item
    products[slot, : block.matrix.shape[0]] = block.matrix @ values


def block_bounds(n_states: int) -> Iterator[tuple[int, int]]:
    """Yield the first and one-past-last state of every block."""
    for start in range(0, n_states, BLOCK_STATES):
        yield start, min(start + BLOCK_STATES, n_states)
