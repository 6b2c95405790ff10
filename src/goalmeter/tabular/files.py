"""Worlds, policies and features as .npz files, plain numerical arrays under the names below.

An unknown name is refused: it is a typing error more often than not. `goalmeter.tabular.npz` reads
and writes the archives; the names of logged trajectories are in `goalmeter.tabular.trajectories`.

    world     transition [S, A, S], or next_state and probability [S, A, K]
              reward [S] or [S, A]
              initial, a state or a distribution [S]
              horizon, absent for the infinite discounted problem
              discount, optional (1)
    policy    policy [S, A] or [H, S, A]
    features  features [S, D]
    utility   utility [S], [S, A], [H, S] or [H, S, A]

Reading a world gives the arguments of `TabularMDP`, which makes and checks itself: so the world
need not be known here, and `TabularMDP.from_npz` can use this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidPolicyError, InvalidUtilityError
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    ROW_TOLERANCE,
    as_floats,
    check_distributions,
    naming,
    transposed,
    wrong_shape,
)
from goalmeter.tabular.npz import listing, load_arrays, save_arrays

if TYPE_CHECKING:
    from goalmeter.tabular.mdp import TabularMDP

# Larger worlds are always written as successor lists: a dense array [S, A, S] is not even made.
DENSE_FILE_ENTRIES = 1_000_000


def read_mdp(path: str | Path) -> dict[str, Any]:
    """The arguments of `TabularMDP` that an MDP file holds."""
    arrays = load_arrays(
        path,
        required=("reward", "initial"),
        optional=("transition", "next_state", "probability", "horizon", "discount"),
    )
    with naming(path):
        transition: AnyArray | tuple[AnyArray, AnyArray]
        # Either form is complete; a mixture leaves open which of them counts.
        match sorted({"transition", "next_state", "probability"} & arrays.keys()):
            case ["transition"]:
                transition = arrays["transition"]
            case ["next_state", "probability"]:
                transition = (arrays["next_state"], arrays["probability"])
            case forms:
                raise InvalidFileError(
                    f"the file holds {listing(forms)}, expected either transition [S, A, S], "
                    f"or next_state and probability [S, A, K]"
                )
        return {
            "transition": transition,
            "reward": arrays["reward"],
            "horizon": _number(arrays, "horizon", None),
            "initial": arrays["initial"],
            "discount": _number(arrays, "discount", 1.0),
        }


def write_mdp(mdp: TabularMDP, path: str | Path) -> Path:
    """Write an MDP file, dense or as successor lists, whichever is smaller; returns its path."""
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


def load_utility(path: str | Path) -> FloatArray:
    """Read a utility file: [S], [S, A], [H, S] or [H, S, A]. Whether it fits is checked on use.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks the array.
        InvalidUtilityError: NaN or infinity.
    """
    arrays = load_arrays(path, required=("utility",))
    with naming(path):
        return as_floats(arrays["utility"], "utility", InvalidUtilityError)


def _checked_policy(policy: ArrayLike) -> FloatArray:
    array = as_floats(policy, "policy", InvalidPolicyError)
    if array.ndim not in (2, 3):
        expected = "[S, A] (stationary) or [H, S, A] (time-dependent)"
        raise wrong_shape("policy", array.shape, expected, InvalidPolicyError)
    # No world is known here, but a policy whose columns are distributions is [A, S].
    rows, columns = (np.abs(array.sum(axis=axis) - 1.0).max(initial=0.0) for axis in (-1, -2))
    if rows > ROW_TOLERANCE >= columns:
        raise transposed("policy", array.shape, InvalidPolicyError)
    check_distributions(array, "policy", InvalidPolicyError, ROW_TOLERANCE)
    return array


def _checked_features(features: ArrayLike) -> FloatArray:
    array = as_floats(features, "features", InvalidUtilityError)
    if array.ndim != 2 or array.shape[1] == 0:
        expected = "[S, D] (states, then at least one feature)"
        raise wrong_shape("features", array.shape, expected, InvalidUtilityError)
    return array


def _number(arrays: dict[str, AnyArray], name: str, default: float | None) -> Any:
    """A single number of a file as a plain Python number."""
    if name not in arrays:
        return default
    array = arrays[name]
    if array.ndim:
        raise wrong_shape(name, array.shape, "a single number", InvalidFileError)
    return array.item()
