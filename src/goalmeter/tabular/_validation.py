"""The checks a world makes once, at construction, so that the numerical code can be clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidModelError
from goalmeter._types import AnyArray, ArrayLike, FloatArray

SUM_TOLERANCE = 1e-9
# Rows of a policy may come from a network, which computes in single precision.
ROW_TOLERANCE = 1e-5
ROUNDING = 1e-14


def as_floats(value: ArrayLike, name: str, error: type[GoalmeterError]) -> FloatArray:
    """A float64 array of finite numbers, or an error that names the first bad entry."""
    try:
        if np.ma.is_masked(value):
            raise TypeError("it has masked entries; fill them first")
        raw = np.asarray(value)
        # NumPy would cast text and complex numbers, the latter without their imaginary part.
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"its type is {raw.dtype}")
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(f"{name} is not an array of numbers: {cause}") from cause
    check_finite(array, name, error)
    return array


def as_array(value: Any, name: str) -> AnyArray:
    """The value as an array of any type; raises if it is ragged."""
    try:
        return np.asarray(value)
    except ValueError as cause:
        raise InvalidModelError(f"{name} is not an array of numbers: {cause}") from cause


def check_finite(array: AnyArray, name: str, error: type[GoalmeterError]) -> None:
    """Raises at NaN and infinity, naming the first of them."""
    # The sum is finite unless an entry is not (or the sum itself overflows): one cheap pass,
    # and no boolean array the size of the model.
    if not np.isfinite(array.sum()) and not np.isfinite(array).all():
        where = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise error(
            f"{name}{at(where)} is {array[where]}, expected a finite number; "
            f"remove or replace NaN and infinite entries"
        )


def check_distributions(
    rows: FloatArray, name: str, error: type[GoalmeterError], tolerance: float = SUM_TOLERANCE
) -> None:
    """Raises if rows (last axis) are not probability distributions to within a tolerance."""
    if rows.size and rows.min() < 0:
        where = np.unravel_index(int(np.argmin(rows)), rows.shape)
        raise error(
            f"{name}{at(where)} is {rows[where]:.6g}, expected a probability in [0, 1]; "
            f"a probability cannot be negative"
        )
    sums = rows.sum(axis=-1)
    off = np.abs(sums - 1.0)
    if off.size and off.max() > tolerance:
        where = np.unravel_index(int(np.argmax(off)), off.shape)
        raise error(
            f"{name}{at(where)} sums to {sums[where]:.10g}, "
            f"expected 1 (tolerance {tolerance:g}); "
            f"divide each row by its sum if it holds counts or rounded numbers"
        )


def normalised_rows(rows: FloatArray) -> FloatArray:
    """Rows (last axis) that sum to 1 up to rounding, as a new array."""
    # Rows are accepted within 1e-9 of 1, and over a long horizon even that would add up.
    sums = rows.sum(axis=-1, keepdims=True)
    # Sums that differ from 1 by rounding alone are left, so that files read back bit for bit.
    return np.asarray(rows / np.where(np.abs(sums - 1.0) > ROUNDING, sums, 1.0))


def as_initial(initial: ArrayLike | int, n_states: int) -> FloatArray:
    """A state, or a distribution over states, as a checked distribution [S]."""
    array = as_array(initial, "initial")
    if array.ndim == 0 and array.dtype.kind in "iu":
        state = int(array)
        if not 0 <= state < n_states:
            raise InvalidModelError(f"initial is state {state}, expected 0..{n_states - 1}")
        mass = np.zeros(n_states)
        mass[state] = 1.0
        return read_only(mass)
    mass = as_floats(initial, "initial", InvalidModelError)
    if mass.shape != (n_states,):
        expected = f"a state (an integer) or a distribution of shape [{n_states}]"
        raise wrong_shape("initial", mass.shape, expected, InvalidModelError)
    check_distributions(mass, "initial", InvalidModelError)
    return read_only(normalised_rows(mass))


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Put the name of a file or an environment before the message of every error inside."""
    try:
        yield
    except GoalmeterError as error:
        raise type(error)(f"{source}: {error}") from error


def at(index: Sequence[object]) -> str:
    """The subscript that reaches an entry, as a user would type it."""
    return f"[{', '.join(str(int(i)) for i in index)}]" if len(index) else ""  # type: ignore[call-overload]


def wrong_shape(
    name: str, shape: Sequence[object], expected: str, error: type[GoalmeterError]
) -> GoalmeterError:
    """The error for an array that has another shape than the one expected."""
    return error(f"{name} has shape {shape_text(shape)}, expected {expected}")


def transposed(name: str, shape: tuple[int, ...], error: type[GoalmeterError]) -> GoalmeterError:
    """The error for a policy [A, S] or [H, A, S] whose last two axes are exchanged."""
    axes = "(states, actions)" if len(shape) == 2 else "(decisions, states, actions)"
    expected = (*shape[:-2], shape[-1], shape[-2])
    return error(f"{name} has shape {shape}, expected {expected} {axes}; transpose it.")


def shape_text(shape: Sequence[object]) -> str:
    """A shape as the documentation writes it: [3, 2]."""
    return f"[{', '.join(str(n) for n in shape)}]"


def read_only(array: AnyArray) -> AnyArray:
    """The same array, locked against writing."""
    array.flags.writeable = False
    return array


def check_dense(array: FloatArray) -> None:
    """Raises if P [S, A, S] has another shape or rows that are no distributions."""
    if array.ndim != 3 or array.shape[0] != array.shape[2]:
        expected = "[S, A, S] (state, action, next state); for successor lists pass "
        expected += "(next_state, probability), each [S, A, K]"
        raise wrong_shape("transition", array.shape, expected, InvalidModelError)
    n_states, n_actions, _ = array.shape
    check_size(n_states, n_actions)
    check_finite(array, "transition", InvalidModelError)
    check_distributions(array, "transition", InvalidModelError)


def check_successors(next_state: AnyArray, probability: FloatArray) -> None:
    """Raises if successor lists [S, A, K] name what is no state, or are no distributions."""
    if next_state.ndim != 3 or next_state.shape != probability.shape:
        raise InvalidModelError(
            f"next_state has shape {shape_text(next_state.shape)} and probability "
            f"{shape_text(probability.shape)}, expected the same shape [S, A, K]"
        )
    if next_state.dtype.kind not in "iu":
        raise InvalidModelError(
            f"next_state has type {next_state.dtype}, expected integers; "
            f"it holds the index of each successor state"
        )
    n_states, n_actions, width = next_state.shape
    check_size(n_states, n_actions)
    if width == 0:
        raise InvalidModelError(
            "next_state lists no successor (K = 0), expected at least one per state and action"
        )
    # Two passes without a temporary array; which entry is wrong is looked for only if one is.
    if next_state.min() < 0 or next_state.max() >= n_states:
        bad = (next_state < 0) | (next_state >= n_states)
        where = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InvalidModelError(
            f"next_state{at(where)} is {next_state[where]}, "
            f"expected a state in 0..{n_states - 1}; the mass sent there cannot be reached"
        )
    check_finite(probability, "probability", InvalidModelError)
    check_distributions(probability, "probability", InvalidModelError)


def check_size(n_states: int, n_actions: int) -> None:
    """Raises if there is no state or no action."""
    if n_states < 1 or n_actions < 1:
        raise InvalidModelError(
            f"transition has {n_states} states and {n_actions} actions, expected at least one each"
        )
