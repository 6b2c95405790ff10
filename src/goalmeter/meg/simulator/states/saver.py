"""What it takes to put a Gymnasium environment back into a state, and to name that state.

A saver knows what makes up the state of a kind of environment. `key` names the state: equal keys
promise the same future, so it holds all that the dynamics and the reward read, but no generator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Saver:
    """What is saved of one environment.

    Attributes:
        name: of the kind, in words.
        save: what is to be kept of the present state of the environment, which is its argument.
        restore: puts it back; gives an environment that takes the place of this one, or None.
        key: the name of the present state; None where there is none.
        chance: whether a step with an action leaves something to chance, where the kind knows it
            better than its generator tells.
        one_start: whether every episode begins in one state, likewise.
        copies: whether `restore` gives a copy that takes the place of the environment.
    """

    name: str
    save: Callable[[Any], Any]
    restore: Callable[[Any], Any]
    key: Callable[[], Hashable] | None = None
    chance: Callable[[int], bool] | None = None
    one_start: Callable[[], bool] | None = None
    copies: bool = False
