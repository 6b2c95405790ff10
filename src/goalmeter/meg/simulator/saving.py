"""How a Gymnasium environment is put back into a state, and which states are the same: by kind.

A saver knows what makes up the state of a kind of environment. `key` names the state: equal keys
promise the same future, so it holds all that the dynamics and the reward read, but no generator. A
copy of the whole environment goes back to where it was, but does not say which copies are alike.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Wrappers that keep nothing an environment's future depends on, but for counting steps.
_TRANSPARENT = frozenset(
    {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlattenObservation", "DtypeObservation"}
    | {"FullyObsWrapper", "ImgObsWrapper", "RGBImgObsWrapper", "ReshapeObservation"}
    | {"TransformObservation", "RescaleObservation", "GrayscaleObservation", "FilterObservation"}
)


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
    """

    name: str
    save: Callable[[Any], Any]
    restore: Callable[[Any], Any]
    key: Callable[[], Hashable] | None = None
    chance: Callable[[int], bool] | None = None
    one_start: Callable[[], bool] | None = None


def saver_of(env: Any) -> Saver | None:
    """The saver of an environment; None where its wrappers or its kind are not known.

    What is not known can still be copied as a whole: see `copier`.
    """
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ not in _TRANSPARENT:
            return None
        layer = layer.env
    bare = env.unwrapped
    for kind in (_grid_world, _toy_text, _classic_control, _minigrid):
        if saver := kind(bare):
            return saver
    return None


def can_be_copied(env: Any) -> bool:
    """Whether a deep copy of the environment can be made."""
    try:
        copy.deepcopy(env)
    # Whatever a handle of a window, a socket or a foreign library raises.
    except Exception:
        return False
    return True


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

    return Saver("goalmeter's grid worlds", save, restore, key)


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


def _minigrid(bare: Any) -> Saver | None:
    """MiniGrid: the grid, the agent, what it carries, and the steps that its reward reads."""
    if not all(hasattr(bare, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
        return None
    kept = ("agent_pos", "agent_dir", "step_count")

    def save(_: Any) -> Any:
        # Objects may be opened, carried and moved, so they are copied with the grid.
        return copy.deepcopy((bare.grid, bare.carrying)), [getattr(bare, name) for name in kept]

    def restore(saved: Any) -> None:
        bare.grid, bare.carrying = copy.deepcopy(saved[0])
        for name, value in zip(kept, saved[1], strict=True):
            setattr(bare, name, value)

    def key() -> Hashable:
        carried = bare.carrying.encode() if bare.carrying is not None else None
        place = tuple(int(x) for x in bare.agent_pos), int(bare.agent_dir), int(bare.step_count)
        return bare.grid.encode().tobytes(), carried, place, getattr(bare, "mission", None)

    return Saver("MiniGrid", save, restore, key)
