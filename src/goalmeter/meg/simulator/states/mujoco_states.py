"""How Gymnasium's MuJoCo environments go back into a state.

All that the simulation holds is copied, not positions and velocities alone: rewards are differences
of places that MuJoCo computed at the step before, and going back must not compute them anew.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np

from goalmeter.meg.simulator.states.saver import Saver

# What rewards and observations read and the physical state does not hold.
_DERIVED = ("xpos", "xipos", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "sensordata")


def mujoco_saver(bare: Any) -> Saver | None:
    """A saver of an environment of `gymnasium.envs.mujoco`; None for another kind."""
    if not type(bare).__module__.startswith("gymnasium.envs.mujoco"):
        return None
    import mujoco

    held = mujoco.mjtState.mjSTATE_INTEGRATION

    def save(_: Any) -> Any:
        return copy.copy(bare.data)

    def restore(saved: Any) -> None:
        # A copy, since the steps that follow change it.
        bare.data = copy.copy(saved)

    def key() -> Hashable:
        state = np.empty(mujoco.mj_stateSize(bare.model, held))
        mujoco.mj_getState(bare.model, bare.data, state, held)
        derived = (np.asarray(getattr(bare.data, name)).tobytes() for name in _DERIVED)
        return state.tobytes(), *derived

    def one_start() -> bool:
        # Resets draw in any case, and scale what they drew by this; kinds without it draw a goal.
        return getattr(bare, "_reset_noise_scale", None) == 0

    return Saver("Gymnasium's MuJoCo", save, restore, key, one_start=one_start)
