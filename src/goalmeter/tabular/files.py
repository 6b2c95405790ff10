"""Policies, features and trajectories as .npz files; worlds are in `goalmeter.tabular.mdp_file`.

A file is an archive of plain numerical arrays under the names below (`goalmeter.tabular.npz`
reads and writes it). An unknown name is refused: it is a typing error more often than not.

    policy        policy [S, A] or [H, S, A]
    features      features [S, D]
    trajectories  states [N, H] and actions [N, H]; optional length [N] (H)
"""

from __future__ import annotations

from pathlib import Path

from goalmeter._errors import InvalidPolicyError, InvalidUtilityError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    ROW_TOLERANCE,
    as_floats,
    check_distributions,
    naming,
    wrong_shape,
)
from goalmeter.tabular.npz import load_arrays, save_arrays
from goalmeter.tabular.trajectories import Trajectories


def load_policy(path: str | Path) -> FloatArray:
    """Read a policy file: [S, A] or [H, S, A]. Whether it fits a world is checked on use.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks the array.
        InvalidPolicyError: another number of axes, or rows that are not distributions.
    """
    arrays = load_arrays(path, required=("policy",))
    with naming(path):
        return _checked_policy(arrays["policy"])


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
    arrays = load_arrays(path, required=("features",))
    with naming(path):
        return _checked_features(arrays["features"])


def save_features(features: ArrayLike, path: str | Path) -> Path:
    """Write a features file, [S, D]; returns its path.

    Raises:
        InvalidUtilityError: another number of axes, no feature, NaN or infinity.
        InvalidFileError: the file cannot be written there.
    """
    return save_arrays(path, {"features": _checked_features(features)})


def load_trajectories(path: str | Path) -> Trajectories:
    """Read a trajectories file. Whether a world can produce them is checked on use.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks an array.
        InvalidTrajectoryError: the arrays are not well-formed trajectories.
    """
    return Trajectories.from_npz(path)


def save_trajectories(trajectories: Trajectories, path: str | Path) -> Path:
    """Write a trajectories file; returns its path.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    # A log that came without lengths is written without, so that padding is still found out.
    names = ("states", "actions", *(("length",) if trajectories.length_given else ()))
    return save_arrays(path, {name: getattr(trajectories, name) for name in names})


def _checked_policy(policy: ArrayLike) -> FloatArray:
    array = as_floats(policy, "policy", InvalidPolicyError)
    if array.ndim not in (2, 3):
        expected = "[S, A] (stationary) or [H, S, A] (time-dependent)"
        raise wrong_shape("policy", array.shape, expected, InvalidPolicyError)
    check_distributions(array, "policy", InvalidPolicyError, ROW_TOLERANCE)
    return array


def _checked_features(features: ArrayLike) -> FloatArray:
    array = as_floats(features, "features", InvalidUtilityError)
    if array.ndim != 2 or array.shape[1] == 0:
        expected = "[S, D] (states, then at least one feature)"
        raise wrong_shape("features", array.shape, expected, InvalidUtilityError)
    return array
