"""Worlds, policies, features and trajectories as .npz files.

A file is an archive of plain numerical arrays under the names below (`goalmeter.tabular.npz`
reads and writes it). An unknown name is refused: it is a typing error more often than not.

    MDP           transition [S, A, S], or next_state and probability [S, A, K];
                  reward [S] or [S, A]; initial: a state, or a distribution [S];
                  horizon, absent for the infinite discounted problem; optional discount (1)
    policy        policy [S, A] or [H, S, A]
    features      features [S, D]
    trajectories  states [N, H] and actions [N, H]; optional length [N] (H)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter._errors import (
    InvalidFileError,
    InvalidPolicyError,
    InvalidUtilityError,
)
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    ROW_TOLERANCE,
    as_floats,
    check_distributions,
    naming,
    shape_text,
)
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.npz import listing, load_arrays, save_arrays
from goalmeter.tabular.trajectories import Trajectories

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
                    f"the file holds {listing(other)}, expected either transition [S, A, S], "
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


def load_trajectories(path: str | Path) -> Trajectories:
    """Read a trajectories file. Whether a world can produce them is checked on use.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks an array.
        InvalidTrajectoryError: the arrays are not well-formed trajectories.
    """
    found = load_arrays(path, required=("states", "actions"), optional=("length",))
    with naming(path):
        return Trajectories(found["states"], found["actions"], found.get("length"))


def save_trajectories(trajectories: Trajectories, path: str | Path) -> Path:
    """Write a trajectories file; returns its path.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    # A log that came without lengths is written without, so that padding is still found out.
    names = ("states", "actions", *(("length",) if trajectories.length_given else ()))
    return save_arrays(path, {name: getattr(trajectories, name) for name in names})


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
    check_distributions(array, "policy", InvalidPolicyError, ROW_TOLERANCE)
    return array


def _checked_features(features: ArrayLike) -> FloatArray:
    array = as_floats(features, "features", InvalidUtilityError)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidUtilityError(
            f"features has shape {shape_text(array.shape)}, expected [S, D] "
            f"(states, then at least one feature)"
        )
    return array
