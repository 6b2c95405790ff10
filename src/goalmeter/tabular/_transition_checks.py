"""The checks of transition probabilities as users give them, before anything is stored."""

from __future__ import annotations

import numpy as np

from goalmeter._errors import InvalidModelError
from goalmeter._types import AnyArray, FloatArray
from goalmeter.tabular._validation import at, check_distributions, check_finite, shape_text


def check_dense(array: FloatArray) -> None:
    """Raises if P [S, A, S] has another shape or rows that are no distributions."""
    if array.ndim != 3 or array.shape[0] != array.shape[2]:
        raise InvalidModelError(
            f"transition has shape {shape_text(array.shape)}, expected [S, A, S] "
            f"(state, action, next state); for successor lists pass "
            f"(next_state, probability), each [S, A, K]"
        )
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
