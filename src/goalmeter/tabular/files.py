"""Worlds, policies and features as .npz files.

A file is an archive of plain numerical arrays under the names below, as `numpy.savez` writes
it, compressed or not. Nothing else is accepted: an unknown name is a typing error more often
than an extension, and arrays of Python objects would have to be unpickled, which runs code.

    MDP       transition [S, A, S], or next_state and probability [S, A, K];
              reward [S] or [S, A]; initial: a state, or a distribution [S];
              horizon, absent for the infinite discounted problem; optional discount (1)
    policy    policy [S, A] or [H, S, A]
    features  features [S, D]

A file is written beside its destination and then moved there in one step, so that an
interrupted write leaves what was there before. It gets exactly the name that was asked for.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from goalmeter._errors import (
    InvalidFileError,
    InvalidPolicyError,
    InvalidUtilityError,
)
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.tabular._validation import as_floats, check_distributions, naming, shape_text
from goalmeter.tabular.mdp import TabularMDP

# Larger worlds are always written as successor lists: a dense array [S, A, S] is not even made.
DENSE_FILE_ENTRIES = 1_000_000


def load_mdp(path: str | Path) -> TabularMDP:
    """Read an MDP file.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks an array.
        InvalidModelError, InvalidParameterError: the arrays are not a well-formed MDP.
    """
    found = load_arrays(
        path,
        required=("reward", "initial"),
        optional=("transition", "next_state", "probability", "horizon", "discount"),
    )
    with naming(path):
        transition: AnyArray | tuple[AnyArray, AnyArray]
        match sorted({"transition", "next_state", "probability"} & found.keys()):
            case ["transition"]:
                transition = found["transition"]
            case ["next_state", "probability"]:
                transition = (found["next_state"], found["probability"])
            case other:
                raise InvalidFileError(
                    f"the file holds {_listing(other)}, expected either transition [S, A, S], "
                    f"or next_state and probability [S, A, K]"
                )
        return TabularMDP(
            transition,
            found["reward"],
            horizon=_number(found, "horizon", None),
            initial=found["initial"],
            discount=_number(found, "discount", 1.0),
        )


def save_mdp(mdp: TabularMDP, path: str | Path) -> Path:
    """Write an MDP file, dense or as successor lists, whichever is smaller; returns its path.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    arrays: dict[str, ArrayLike] = {"reward": mdp.reward, "initial": mdp.initial}
    next_state, probability = mdp.transition.to_successors()
    dense_entries = mdp.n_states * mdp.n_actions * mdp.n_states
    # A listed successor takes an index and a probability, twice the room of a dense entry.
    if dense_entries > DENSE_FILE_ENTRIES or 2 * probability.size < dense_entries:
        arrays |= {"next_state": next_state, "probability": probability}
    else:
        arrays["transition"] = mdp.transition.to_dense()
    if mdp.horizon is not None:
        arrays["horizon"] = mdp.horizon
    if mdp.discount != 1.0:
        arrays["discount"] = mdp.discount
    return save_arrays(path, arrays)


def load_policy(path: str | Path) -> FloatArray:
    """Read a policy file: [S, A] or [H, S, A]. Whether it fits a world is checked on use.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks the array.
        InvalidPolicyError: another number of axes, or rows that are not distributions.
    """
    found = load_arrays(path, required=("policy",))
    with naming(path):
        return _checked_policy(found["policy"])


def save_policy(policy: ArrayLike, path: str | Path) -> Path:
    """Write a policy file, [S, A] or [H, S, A]; returns its path.

    Raises:
        InvalidPolicyError: another number of axes, or rows that are not distributions.
        InvalidFileError: the file cannot be written there.
    """
    return save_arrays(path, {"policy": _checked_policy(policy)})


def load_features(path: str | Path) -> FloatArray:
    """Read a features file: [S, D], one row for each state.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks the array.
        InvalidUtilityError: another number of axes, no feature, NaN or infinity.
    """
    found = load_arrays(path, required=("features",))
    with naming(path):
        return _checked_features(found["features"])


def save_features(features: ArrayLike, path: str | Path) -> Path:
    """Write a features file, [S, D]; returns its path.

    Raises:
        InvalidUtilityError: another number of axes, no feature, NaN or infinity.
        InvalidFileError: the file cannot be written there.
    """
    return save_arrays(path, {"features": _checked_features(features)})


def load_arrays(
    path: str | Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Read the named arrays of an .npz file, all of them numerical.

    Args:
        path: the file; its extension does not matter.
        required: names that must be there.
        optional: names that may be there; any other name is refused.

    Raises:
        InvalidFileError: the file is missing or unreadable, a name is missing or unknown, or
            an array is not numerical (nothing is ever unpickled).
    """
    with naming(path), _open_archive(Path(path)) as archive:
        names = archive.files
        for name in required:
            if name not in names:
                raise InvalidFileError(
                    f"the array {name!r} is missing; the file holds {_listing(names)}"
                )
        known = [*required, *optional]
        for name in names:
            if name not in known:
                raise InvalidFileError(
                    f"the array {name!r} is not part of this format, "
                    f"whose names are {_listing(known)}; rename it or leave it out"
                )
        return {name: _read(archive, name) for name in names}


def save_arrays(path: str | Path, arrays: dict[str, ArrayLike]) -> Path:
    """Write named arrays as one .npz file, in a single step; returns its path.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    path = Path(path)
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    assert all(array.dtype.kind in "biuf" for array in plain.values()), "numpy would pickle it"
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    with naming(path):
        try:
            # An open file, because numpy would append .npz to a bare name that lacks it.
            with temporary.open("xb") as file:
                np.savez(file, **plain)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as cause:
            raise InvalidFileError(
                f"cannot be written: {cause.strerror or cause}; "
                f"choose a file name in a folder that exists and can be written to"
            ) from cause
        finally:
            with suppress(OSError):  # it is gone already, unless writing failed
                temporary.unlink()
    return path


@contextmanager
def _open_archive(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    try:
        archive = np.load(path, allow_pickle=False)
    except FileNotFoundError as cause:
        raise InvalidFileError("there is no such file; check the path") from cause
    except OSError as cause:
        raise InvalidFileError(f"cannot be read: {cause.strerror or cause}") from cause
    except (ValueError, EOFError, zipfile.BadZipFile) as cause:
        # numpy's own message proposes to allow pickles, which is never the remedy here.
        raise _not_an_archive("not an .npz archive, or a damaged one") from cause
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise _not_an_archive("a single array (.npy), expected an .npz archive of named arrays")
    with archive:
        yield archive


def _not_an_archive(what: str) -> InvalidFileError:
    return InvalidFileError(f"the file is {what}; write it with numpy.savez(path, name=array, ...)")


def _read(archive: np.lib.npyio.NpzFile, name: str) -> AnyArray:
    try:
        array = archive[name]
    except Exception as cause:  # whatever the decoder stumbles over, the file is at fault
        if "allow_pickle" in str(cause):
            raise InvalidFileError(
                f"the array {name!r} holds Python objects, expected numbers; it was not read, "
                f"because unpickling a file can run any code; save it with a numerical dtype"
            ) from cause
        raise InvalidFileError(
            f"the array {name!r} is damaged and cannot be read ({cause}); write the file again"
        ) from cause
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = f"type {array.dtype}" if isinstance(array, np.ndarray) else "bytes that are no array"
        raise InvalidFileError(f"the array {name!r} holds {kind}, expected numbers")
    return array


def _number(found: dict[str, AnyArray], name: str, default: float | None) -> Any:
    """A single number of a file as a plain Python number."""
    if name not in found:
        return default
    array = found[name]
    if array.ndim:
        raise InvalidFileError(
            f"{name} has shape {shape_text(array.shape)}, expected a single number"
        )
    return array.item()


def _checked_policy(policy: ArrayLike) -> FloatArray:
    array = as_floats(policy, "policy", InvalidPolicyError)
    if array.ndim not in (2, 3):
        raise InvalidPolicyError(
            f"policy has shape {shape_text(array.shape)}, expected [S, A] (stationary) "
            f"or [H, S, A] (time-dependent)"
        )
    check_distributions(array, "policy", InvalidPolicyError)
    return array


def _checked_features(features: ArrayLike) -> FloatArray:
    array = as_floats(features, "features", InvalidUtilityError)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidUtilityError(
            f"features has shape {shape_text(array.shape)}, expected [S, D] "
            f"(states, then at least one feature)"
        )
    return array


def _listing(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no array"
