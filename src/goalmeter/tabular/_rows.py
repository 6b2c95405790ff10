"""How the rows of a transition matrix are stored: locked, viewed and transposed without copies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import AnyArray, FloatArray
from goalmeter.tabular._validation import normalised_rows, read_only


def compress(
    next_state: AnyArray, probability: FloatArray, bounds: Iterable[tuple[int, int]]
) -> Any:
    """Successor lists to CSR in the row order of `Transition`, block by block."""
    n_states, n_actions, width = next_state.shape
    # 32 bits for as long as they can count the entries: products read every index from memory.
    index = np.int32 if n_states * n_actions * width < 2**31 else np.int64
    columns = np.empty(n_states * n_actions * width, dtype=index)
    data = np.empty(n_states * n_actions * width)
    # Block by block, so that no second copy of the whole is made on the way.
    for a, b in bounds:
        rows = slice(a * n_actions * width, b * n_actions * width)
        columns[rows] = next_state[a:b].transpose(1, 0, 2).ravel()
        data[rows] = normalised_rows(probability[a:b]).transpose(1, 0, 2).ravel()
    pointers = np.arange(0, data.size + 1, width, dtype=index)
    matrix = sp.csr_matrix((data, columns, pointers), shape=(n_states * n_actions, n_states))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def some_rows(matrix: Any, first: int, last: int) -> Any:
    """Some rows of the matrix as a view."""
    if isinstance(matrix, np.ndarray):
        return matrix[first:last]
    # Slicing a compressed matrix may copy its rows, and a large world must not be stored twice.
    entries = slice(matrix.indptr[first], matrix.indptr[last])
    rows = sp.csr_matrix((last - first, matrix.shape[1]))
    rows.data, rows.indices = matrix.data[entries], matrix.indices[entries]
    rows.indptr = matrix.indptr[first : last + 1] - matrix.indptr[first]
    return rows


def transposed(rows: Any) -> Any:
    """The transpose, on the same memory."""
    if isinstance(rows, np.ndarray):
        return rows.T
    columns = sp.csc_matrix(rows.shape[::-1])
    columns.data, columns.indices, columns.indptr = rows.data, rows.indices, rows.indptr
    return columns


def lock(matrix: Any) -> None:
    """Make the stored numbers read-only, and with them every view that is handed out."""
    arrays = [matrix] if isinstance(matrix, np.ndarray) else [matrix.data, matrix.indices]
    for array in arrays:
        read_only(array)


def keep_freed_memory() -> None:
    """Have the allocator reuse the memory of one block's arrays for the next."""
    # glibc returns freed memory to the system beyond a threshold, and getting it back, page by
    # page and cleared, costs two thirds of a pass over 10^4 states. The threshold is twice the
    # largest array freed so far; one of 16 MiB, which is never touched, raises it far enough.
    # Other allocators take no notice.
    np.empty(2**21)
