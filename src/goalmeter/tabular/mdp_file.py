"""A world as an .npz file: plain numerical arrays under the names below.

    transition    [S, A, S], or next_state and probability [S, A, K]
    reward        [S] or [S, A]
    initial       a state, or a distribution [S]
    horizon       absent for the infinite discounted problem
    discount      optional (1)

Reading gives the arguments of `TabularMDP`, which makes and checks itself: so the world need not
be known here, and `TabularMDP.from_npz` can use this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidFileError
from goalmeter._types import AnyArray, ArrayLike
from goalmeter.tabular._validation import naming, wrong_shape
from goalmeter.tabular.npz import listing, load_arrays, save_arrays

if TYPE_CHECKING:
    from goalmeter.tabular.mdp import TabularMDP

# Larger worlds are always written as successor lists: a dense array [S, A, S] is not even made.
DENSE_FILE_ENTRIES = 1_000_000


def read_mdp(path: str | Path) -> dict[str, Any]:
    """The arguments of `TabularMDP` that an MDP file holds.

    Raises:
        InvalidFileError: the file is missing, not a readable .npz, or lacks an array.
    """
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


def _number(arrays: dict[str, AnyArray], name: str, default: float | None) -> Any:
    """A single number of a file as a plain Python number."""
    if name not in arrays:
        return default
    array = arrays[name]
    if array.ndim:
        raise wrong_shape(name, array.shape, "a single number", InvalidFileError)
    return array.item()
