"""Copies of a whole environment, wrappers included: a way back to any state of any kind.

A copy goes back to where it was, but does not say which copies are alike. All that it holds goes
back too, generators included: whoever steps it gives Gymnasium's generator another state.
"""

from __future__ import annotations

import copy
from typing import Any

from goalmeter.meg.simulator.states.saver import Saver


def copier() -> Saver:
    """A saver that copies the environment."""
    return Saver("a copy of the environment", copy.deepcopy, copy.deepcopy, copies=True)


def can_be_copied(env: Any) -> bool:
    """Whether a deep copy of the environment can be made, and a copy of that."""
    try:
        copy.deepcopy(copy.deepcopy(env))
    # Whatever a handle of a window, a socket or a foreign library raises.
    except Exception:
        return False
    return True
