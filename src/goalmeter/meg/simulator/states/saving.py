"""The kinds of Gymnasium environments that are known: how each goes back into a state."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from goalmeter.meg.simulator.states.minigrid_states import minigrid_saver
from goalmeter.meg.simulator.states.mujoco_states import mujoco_saver
from goalmeter.meg.simulator.states.saver import Saver
from goalmeter.meg.simulator.states.wrappers import layers

# Wrappers that keep nothing an environment's future depends on, but for counting steps.
_TRANSPARENT = frozenset(
    {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlattenObservation", "DtypeObservation"}
    | {"FullyObsWrapper", "ImgObsWrapper", "RGBImgObsWrapper", "RGBImgPartialObsWrapper"}
    | {"FlatObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper", "ViewSizeWrapper"}
    | {"ReshapeObservation"}
    | {"TransformObservation", "RescaleObservation", "GrayscaleObservation", "FilterObservation"}
    | {"DiscretizeAction"}
)
# Whose wrappers are meant.
_PACKAGES = frozenset({"gymnasium", "minigrid"})


def saver_of(env: Any) -> Saver | None:
    """The saver of an environment; None where its wrappers or its kind are not known.

    What is not known can still be copied as a whole: see `copies`.
    """
    outer = layers(env)[:-1]
    names = {type(layer).__name__ for layer in outer}
    packages = {type(layer).__module__.partition(".")[0] for layer in outer}
    if names - _TRANSPARENT or packages - _PACKAGES:
        return None
    bare = env.unwrapped
    for kind in (_grid_world, _toy_text, _classic_control, minigrid_saver, mujoco_saver):
        if saver := kind(bare):
            return saver
    return None


def _grid_world(bare: Any) -> Saver | None:
    """Our own worlds: the world, the state in it, and the steps where the reward reads them."""
    if not type(bare).__module__.startswith("goalmeter.gridworld"):
        return None
    timed = bare._reward == "minigrid"

    def key() -> Hashable:
        world = bare.world
        places = (world.start, world.goal, world.key, world.door, world.neutral)
        steps = bare._steps if timed else 0
        return world.walls.tobytes(), world.walls.shape, places, bare.state, steps

    def save(_: Any) -> Any:
        return bare.world, bare.state, bare._facing, bare._steps if timed else 0

    def restore(saved: Any) -> None:
        if bare.world is not saved[0]:
            bare._enter(saved[0])
        _, bare.state, bare._facing, bare._steps = saved
        bare._running = True

    # A world that is not fixed is drawn at each reset, from the seed itself.
    return Saver(
        "goalmeter's grid worlds", save, restore, key, one_start=lambda: bare._draw is None
    )


def _toy_text(bare: Any) -> Saver | None:
    """FrozenLake, Taxi, CliffWalking: the number of the state; Taxi may have a fickle passenger."""
    if not type(bare).__module__.startswith("gymnasium.envs.toy_text") or not hasattr(bare, "P"):
        return None
    fickle = getattr(bare, "fickle_passenger", False)

    def state() -> tuple[int, Any]:
        return int(bare.s), getattr(bare, "fickle_step", None) if fickle else None

    def restore(saved: Any) -> None:
        bare.s, bare.lastaction = saved[0], None
        if fickle:
            bare.fickle_step = saved[1]

    def chance(action: int) -> bool:
        # They ask their generator even where there is one outcome.
        return bool(fickle) or len(bare.P[int(bare.s)][action]) > 1

    def one_start() -> bool:
        return bool((np.asarray(bare.initial_state_distrib) > 0).sum() == 1)

    return Saver("Gymnasium's toy text", lambda _: state(), restore, state, chance, one_start)


def _classic_control(bare: Any) -> Saver | None:
    """CartPole, MountainCar, Acrobot, Pendulum: the vector of the physical state."""
    if not type(bare).__module__.startswith("gymnasium.envs.classic_control"):
        return None

    def save(_: Any) -> Any:
        return np.array(bare.state, dtype=np.float64)

    def restore(saved: Any) -> None:
        # Acrobot takes its state for an array, the others for a tuple or an array.
        as_tuple = isinstance(bare.state, tuple)
        bare.state = tuple(saved.tolist()) if as_tuple else saved.copy()
        if hasattr(bare, "steps_beyond_terminated"):
            bare.steps_beyond_terminated = None

    def key() -> Hashable:
        return np.array(bare.state, dtype=np.float64).tobytes()

    return Saver("Gymnasium's classic control", save, restore, key)
