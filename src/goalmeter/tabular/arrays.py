"""Validate numerical arrays, and load and save them as .npz files."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidModelError,
    InvalidPolicyError,
    InvalidUtilityError,
)
from goalmeter._files import check_sizes, reading, replacing
from goalmeter._types import AnyArray, ArrayLike, FloatArray

SUM_TOLERANCE = 1e-9
ROW_TOLERANCE = 1e-5  # for rows of a policy, which may be in single precision
ROUNDING = 1e-14


def as_floats(value: ArrayLike, name: str, error: type[GoalmeterError]) -> FloatArray:
    """Return a float64 array of finite numbers; the error names the first invalid entry."""
    try:
        if np.ma.is_masked(value):
            raise TypeError("it has masked entries; fill them first")
        raw = np.asarray(value)
        # NumPy would convert text, and complex numbers without their imaginary part.
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"its type is {raw.dtype}")
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(f"{name} is not an array of numbers: {cause}") from cause
    check_finite(array, name, error)
    return array


def check_finite(array: AnyArray, name: str, error: type[GoalmeterError]) -> None:
    """Raise an error at the first NaN or infinity."""
    # A finite sum proves that all entries are finite, without a boolean array of the model's size;
    # entries are checked only if the sum is not finite (it may overflow).
    if not np.isfinite(array.sum()) and not np.isfinite(array).all():
        where = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise error(
            f"{name}{at(where)} is {array[where]}, expected a finite number; "
            f"remove or replace NaN and infinite entries"
        )


def check_distributions(
    rows: FloatArray, name: str, error: type[GoalmeterError], tolerance: float = SUM_TOLERANCE
) -> None:
    """Raise an error unless rows (last axis) are distributions within a tolerance."""
    if rows.size and rows.min() < 0:
        where = np.unravel_index(int(np.argmin(rows)), rows.shape)
        raise error(f"{name}{at(where)} is {rows[where]:.6g}, expected a probability in [0, 1]")
    sums = rows.sum(axis=-1)
    off = np.abs(sums - 1.0)
    if off.size and off.max() > tolerance:
        where = np.unravel_index(int(np.argmax(off)), off.shape)
        raise error(
            f"{name}{at(where)} sums to {sums[where]:.10g}, "
            f"expected 1 (tolerance {tolerance:g}); "
            f"divide each row by its sum if it contains counts or rounded numbers"
        )


def normalised_rows(rows: FloatArray) -> FloatArray:
    """Return a new array whose rows (last axis) sum to 1 up to rounding."""
    # Rows are accepted within 1e-9 of 1, an error that accumulates over a long horizon.
    sums = rows.sum(axis=-1, keepdims=True)
    # Sums that differ from 1 by rounding only are unchanged, so that files are read back exactly.
    return np.asarray(rows / np.where(np.abs(sums - 1.0) > ROUNDING, sums, 1.0))


def as_initial(initial: ArrayLike | int, n_states: int) -> FloatArray:
    """Return an initial state or distribution as a validated distribution [S]."""
    mass = as_floats(initial, "initial", InvalidModelError)
    if mass.ndim == 0 and np.asarray(initial).dtype.kind in "iu":
        state = int(mass)
        if not 0 <= state < n_states:
            raise InvalidModelError(f"initial is state {state}, expected 0..{n_states - 1}")
        return read_only(np.eye(1, n_states, state)[0])
    if mass.shape != (n_states,):
        expected = f"a state (an integer) or a distribution of shape [{n_states}]"
        raise wrong_shape("initial", mass.shape, expected, InvalidModelError)
    check_distributions(mass, "initial", InvalidModelError)
    return read_only(normalised_rows(mass))


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Prefix the messages of errors with the name of a file or an environment."""
    try:
        yield
    except GoalmeterError as error:
        raise type(error)(f"{source}: {error}") from error


def at(index: Sequence[Any]) -> str:
    """Return the subscript of an entry, such as [0, 2]."""
    return shape_text([int(i) for i in index]) if len(index) else ""


def wrong_shape(
    name: str, shape: Sequence[object], expected: str, error: type[GoalmeterError]
) -> GoalmeterError:
    """Return the error for an array of the wrong shape."""
    return error(f"{name} has shape {shape_text(shape)}, expected {expected}")


def transposed(name: str, shape: tuple[int, ...], error: type[GoalmeterError]) -> GoalmeterError:
    """Return the error for a policy [A, S] or [H, A, S], whose last two axes are exchanged."""
    axes = "(states, actions)" if len(shape) == 2 else "(decisions, states, actions)"
    expected = (*shape[:-2], shape[-1], shape[-2])
    return error(f"{name} has shape {shape}, expected {expected} {axes}; transpose it.")


def shape_text(shape: Sequence[object]) -> str:
    """Return a shape as in the documentation: [3, 2]."""
    return f"[{', '.join(str(n) for n in shape)}]"


def read_only(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


class Immutable:
    """Base class of immutable classes; `_copies` is the method that makes a changed copy."""

    _copies = "replace(...)"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"a {type(self).__name__} is immutable, so {name!r} cannot be set; make a changed copy "
            f"with {self._copies}"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; write it to a file")


# --- Archives -----------------------------------------------------------------------------------
# Only numerical arrays are read, since unpickling Python objects can run code of the file. Sizes
# are checked before unpacking, since numpy allocates the size stated in an array's header.

# Readers of array headers by format version; version 3 is for named columns, not for numbers.
HEADS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_FIX = "write it with numpy.savez(path, name=array, ...)"


def load_arrays(
    path: str | Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Read named numerical arrays from an .npz file."""
    known = [*required, *optional]
    with naming(path), _open_archive(Path(path)) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        for name in required:
            if name not in entries:
                raise InvalidFileError(
                    f"the array {name!r} is missing; the file has {', '.join(entries) or 'none'}"
                )
        for name in entries:
            if name not in known:
                raise InvalidFileError(
                    f"the array {name!r} is not part of this format, "
                    f"expected {', '.join(known)}; rename or remove it"
                )
        return {name: _read(archive, entry, name) for name, entry in entries.items()}


def states_in(path: str | Path) -> int:
    """Read the number of states in the head of an MDP file's reward: 0 where there is none."""
    try:
        with _open_archive(Path(path)) as archive:
            if "reward.npy" not in archive.namelist():
                return 0
            with archive.open("reward.npy") as member:  # its first axis is the states
                return int(HEADS[np.lib.format.read_magic(member)](member)[0][0]) or 1
    except Exception:  # whoever reads the whole file learns what is wrong with it
        return 1


def save_arrays(path: str | Path, arrays: dict[str, ArrayLike]) -> Path:
    """Write named arrays to an .npz file atomically and return its path."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    assert all(array.dtype.kind in "biuf" for array in plain.values()), "numpy would pickle it"
    # An open file, since numpy appends .npz to paths without it.
    with replacing(path) as file:
        np.savez(file, **plain)  # type: ignore[arg-type]
    return Path(path)


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file = reading(path)
    except FileNotFoundError as cause:
        raise InvalidFileError("there is no such file; check the path") from cause
    except OSError as cause:
        raise InvalidFileError(f"cannot be read: {cause.strerror or cause}") from cause
    with file:
        prefix = file.read(len(np.lib.format.MAGIC_PREFIX))
        if prefix == np.lib.format.MAGIC_PREFIX:
            raise InvalidFileError(
                f"the file is a single array (.npy), expected an archive of named arrays; {_FIX}"
            )
        try:
            archive = zipfile.ZipFile(file)
        # Corrupt directories raise BadZipFile, struct.error, ValueError and others.
        except Exception as cause:
            raise InvalidFileError(f"the file is not a valid .npz archive; {_FIX}") from cause
        with archive:
            check_sizes(archive.infolist())
            yield archive


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> AnyArray:
    """Return an array if it is numerical and its header states the right number of bytes."""
    try:
        with archive.open(entry) as member:
            version = np.lib.format.read_magic(member)
            if version not in HEADS:
                raise InvalidFileError(
                    f"the array {name!r} has format {version}, expected the format of numpy.savez "
                    f"for numbers"
                )
            shape, _, dtype = HEADS[version](member)
            if dtype.kind not in "biuf":
                raise InvalidFileError(
                    f"the array {name!r} has {dtype.name} values, expected numbers (Python "
                    f"objects are not supported, since unpickling can run arbitrary code)"
                )
            expected, size = math.prod(shape) * dtype.itemsize, entry.file_size - member.tell()
            if expected != size:
                raise ValueError(
                    f"shape {shape_text(shape)} requires {expected:,} bytes, but there are {size:,}"
                )
            member.seek(0)
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
    except InvalidFileError:
        raise
    except Exception as cause:  # the decoder raises many kinds of errors for corrupt files
        raise InvalidFileError(
            f"the array {name!r} is damaged and cannot be read ({cause}); write the file again"
        ) from cause


# --- Files --------------------------------------------------------------------------------------
# Files contain the following arrays; other names are errors, since they are mostly typing errors:
#
#     world     transition [S, A, S], or next_state and probability [S, A, K]
#               reward [S] or [S, A]
#               initial, a state or a distribution [S]
#               horizon, absent for the infinite discounted problem
#               discount, optional (1)
#     policy    policy [S, A] or [H, S, A]
#     features  features [S, D]
#     utility   utility [S], [S, A], [H, S] or [H, S, A]


def load_policy(path: str | Path) -> FloatArray:
    """Read a policy file: [S, A] or [H, S, A]; it is validated against a world on use."""
    return _load(path, "policy", _check_policy)


def save_policy(policy: ArrayLike, path: str | Path) -> Path:
    """Write a policy file, [S, A] or [H, S, A], and return its path."""
    return save_arrays(path, {"policy": _check_policy(policy)})


def load_features(path: str | Path) -> FloatArray:
    """Read a features file: [S, D], one row for each state."""
    return _load(path, "features", _check_features)


def save_features(features: ArrayLike, path: str | Path) -> Path:
    """Write a features file, [S, D], and return its path."""
    return save_arrays(path, {"features": _check_features(features)})


def load_utility(path: str | Path) -> FloatArray:
    """Read a utility file: [S], [S, A], [H, S] or [H, S, A]; it is validated on use."""
    return _load(path, "utility", lambda u: as_floats(u, "utility", InvalidUtilityError))


def _load(path: str | Path, name: str, check: Callable[[ArrayLike], FloatArray]) -> FloatArray:
    arrays = load_arrays(path, required=(name,))
    with naming(path):
        return check(arrays[name])


def _check_policy(policy: ArrayLike) -> FloatArray:
    array = as_floats(policy, "policy", InvalidPolicyError)
    if array.ndim not in (2, 3):
        expected = "[S, A] (stationary) or [H, S, A] (time-dependent)"
        raise wrong_shape("policy", array.shape, expected, InvalidPolicyError)
    # Without a world, a transposed policy [A, S] is recognized by its columns.
    rows, columns = (np.abs(array.sum(axis=axis) - 1.0).max(initial=0.0) for axis in (-1, -2))
    if rows > ROW_TOLERANCE >= columns:
        raise transposed("policy", array.shape, InvalidPolicyError)
    check_distributions(array, "policy", InvalidPolicyError, ROW_TOLERANCE)
    return array


def _check_features(features: ArrayLike) -> FloatArray:
    array = as_floats(features, "features", InvalidUtilityError)
    if array.ndim != 2 or array.shape[1] == 0:
        expected = "[S, D] (states, then at least one feature)"
        raise wrong_shape("features", array.shape, expected, InvalidUtilityError)
    return array
