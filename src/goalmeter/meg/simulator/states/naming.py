"""Which states are the same, by what is observed or by what a caller's function says."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._text import in_a_line

OBSERVATION = "observation"
StateOf = Callable[[Any, Any], Hashable]


def state_namer(state: str | StateOf | None) -> StateOf | None:
    """The function that names states; None where the kind of environment does."""
    if state is None:
        return None
    if callable(state):
        return _checked(state)
    if not (isinstance(state, str) and state == OBSERVATION):
        raise InvalidParameterError(
            f"state is {state!r}, expected None, 'observation' or a function of (observation, info)"
        )
    return lambda observation, info: name_of(observation)


def name_of(observation: Any) -> Hashable:
    """A hashable name of an observation: its content."""
    if isinstance(observation, dict):
        return tuple((key, name_of(observation[key])) for key in sorted(observation, key=repr))
    if isinstance(observation, (tuple, list)):
        return tuple(map(name_of, observation))
    if isinstance(observation, (str, bytes)):
        return observation
    array = np.asarray(observation)
    if array.dtype == object:
        raise InvalidParameterError(
            f"an observation holds {observation!r}, expected numbers, texts, and "
            f"tuples, lists or dictionaries of these; give state= a function of "
            f"(observation, info) that names the state"
        )
    return array.tobytes(), array.shape, array.dtype.str


def _checked(function: StateOf) -> StateOf:
    def named(observation: Any, info: Any) -> Hashable:
        try:
            name = function(observation, info)
            hash(name)
        except GoalmeterError:
            raise
        except Exception as cause:
            raise InvalidParameterError(
                f"the function state= gave no name of a state: {in_a_line(cause)}; expected "
                f"something hashable, such as a number, a text or a tuple of these, for every "
                f"(observation, info) that reset and step give"
            ) from cause
        return name

    return named
