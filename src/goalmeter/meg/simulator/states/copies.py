"""Copies of a whole environment, wrappers included: a way back to any state of any kind.

A copy goes back to where it was, but does not say which copies are alike. The generators that it
holds would go back too and draw the same again, so every restored copy gets fresh ones.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from goalmeter.meg.simulator.states.generators import anew, generators_in
from goalmeter.meg.simulator.states.saver import Saver


class Copied(NamedTuple):
    """A copy that is never stepped, and the generators that only it holds."""

    env: Any
    generators: list[Any]


def copier() -> Saver:
    """A saver that copies the environment."""
    return Saver(
        "a copy of the environment",
        _saved,
        lambda saved: copy.deepcopy(saved.env),
        renew=_renewed,
    )


def can_be_copied(env: Any) -> bool:
    """Whether a deep copy of the environment can be made, and a copy of that."""
    try:
        _renewed(_saved(env), np.random.default_rng(0))
    # Whatever a handle of a window, a socket or a foreign library raises.
    except Exception:
        return False
    return True


def _saved(env: Any) -> Copied:
    made = copy.deepcopy(env)
    # What a copy shares with the original (of a module, a class, a closure) goes on by itself.
    shared = {id(generator) for generator in generators_in(env)}
    shared.add(id(_np_random(made)))
    held = [each for each in generators_in(made) if id(each) not in shared]
    return Copied(made, held)


def _renewed(saved: Copied, source: np.random.Generator) -> Any:
    fresh = {id(each): anew(each, source) for each in saved.generators}
    # Every name that the environment has for its `np_random` is to mean `source`.
    if (gymnasiums := _np_random(saved.env)) is not None:
        fresh[id(gymnasiums)] = source
    return copy.deepcopy(saved.env, fresh)


def _np_random(env: Any) -> Any:
    return getattr(env.unwrapped, "_np_random", None)
