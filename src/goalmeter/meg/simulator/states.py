"""States of Gymnasium environments: saving, restoring and naming; sources of randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError, in_a_line

# --- Savers --------------------------------------------------------------------------------------
# A saver saves and restores the state of a kind of environment. `key` identifies the state: equal
# keys imply the same distribution of the future, so it contains everything that dynamics and reward
# read, except the generator.


@dataclass(frozen=True)
class Saver:
    """Functions that save, restore and identify the state of an environment."""

    name: str
    save: Callable[[Any], Any]
    restore: Callable[[Any], Any]
    key: Callable[[], Hashable] | None = None
    chance: Callable[[int], bool] | None = None
    one_start: Callable[[], bool] | None = None
    copies: bool = False


# --- Wrappers -----------------------------------------------------------------------------------
# Wrappers of Stable-Baselines3 vectors that do not change the inputs of a model.
_SHOW_THE_SAME = frozenset({"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder"})
# Wrappers that reset automatically at the step after an end: a copy made there returns to a start.
_RESETTING = frozenset({"Autoreset", "AutoResetWrapper"})


def layers(env: Any) -> list[Any]:
    """Return the wrappers of an environment from the outermost on, and the bare environment."""
    out = [env]
    while out[-1] is not env.unwrapped:
        out.append(out[-1].env)
    return out


def one_of(vector: Any) -> Any:
    """Return one of the copies of a vector environment."""
    # Stable-Baselines3 gives access to copies through wrappers that alter observations.
    layer = vector
    while hasattr(layer, "venv"):
        if type(layer).__name__ not in _SHOW_THE_SAME:
            raise InvalidParameterError(
                f"the vector environment is wrapped in {type(layer).__name__}, so its copies do "
                f"not return the agent's observations and rewards; pass one environment with an "
                f"equivalent fixed wrapper, such as gymnasium.wrappers.TransformObservation"
            )
        layer = layer.venv
    if not hasattr(vector, "envs"):
        raise InvalidParameterError(
            f"the copies of the vector environment {vector!r} are not accessible; pass one "
            f"environment, or a function that creates one"
        )
    return vector.envs[0]


def check_layers(env: Any) -> None:
    """Require that no wrapper learns between episodes."""
    for layer in layers(env):
        if getattr(layer, "update_running_mean", False) is True:
            raise InvalidParameterError(
                f"the wrapper {type(layer).__name__} keeps updating its scale, so episodes are not "
                f"from one world; set its update_running_mean = False first, or remove it"
            )


# --- Chance -------------------------------------------------------------------------------------
FROM_GENERATOR, NO_CHANCE, UNDECLARED = CHANCES = "generator", "none", "unknown"
# Assumption of an interval for each source of randomness.
ASSUMED = {
    FROM_GENERATOR: "all randomness comes from the environment's generator (chance='generator')",
    NO_CHANCE: "the world is deterministic (chance='none')",
    UNDECLARED: "episodes are independent of each other (chance='unknown')",
}
# Environments known to draw only from their `np_random`. Gymnasium's functional ones (phys2d,
# tabular) have a jax key in their state.
_KNOWN = (
    *("gymnasium.envs.toy_text", "gymnasium.envs.classic_control", "gymnasium.envs.box2d"),
    *("gymnasium.envs.mujoco", "goalmeter.gridworld"),
)
# Wrappers that call a user's function, which may use any source of randomness.
_CALLING = frozenset({"TransformObservation", "TransformAction", "TransformReward"})


def chance_of(env: Any, declared: str | None) -> str:
    """Return the source of an environment's randomness, as declared or by default."""
    if declared is not None:
        if declared not in CHANCES:
            raise InvalidParameterError(
                f"chance is {declared!r}, expected one of {', '.join(CHANCES)}"
            )
        return declared
    *outer, bare = map(type, layers(env))
    plain = all(
        each.__module__.startswith("gymnasium.") and each.__name__ not in _CALLING for each in outer
    )
    return FROM_GENERATOR if plain and bare.__module__.startswith(_KNOWN) else UNDECLARED


# --- MiniGrid -----------------------------------------------------------------------------------
# Kinds of MiniGrid store targets, obstacles, rooms, instructions and missions in their own
# attributes, some of which are objects of the grid. So all attributes are copied together, which
# preserves object identity, and all are part of the state's key.

# Spaces and rendering, which no step reads or changes.
_LEFT_OUT = frozenset(
    {"_np_random_seed", "action_space", "observation_space", "mission_space", "spec"}
    | {"render_mode", "window", "clock", "screen_size", "render_size", "metadata", "reward_range"}
    | {"actions", "highlight", "tile_size", "agent_pov"}
)


def minigrid_saver(bare: Any) -> Saver | None:
    """Return the saver of a MiniGrid environment; None for other environments."""
    if not all(hasattr(bare, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
        return None

    def attributes() -> dict[str, Any]:
        return {name: value for name, value in vars(bare).items() if name not in _LEFT_OUT}

    def copied(values: dict[str, Any]) -> dict[str, Any]:
        # Objects may refer to the environment.
        return copy.deepcopy(values, {id(bare): bare})

    def restore(saved: dict[str, Any]) -> None:
        for name in attributes().keys() - saved.keys():
            delattr(bare, name)
        vars(bare).update(copied(saved))

    def key() -> Hashable:
        seen: dict[int, int] = {id(bare): 0, id(bare.np_random): 1}
        values = attributes()
        return tuple((name, _content(values[name], seen)) for name in sorted(values))

    return Saver("MiniGrid", lambda _: copied(attributes()), restore, key)


def _content(thing: Any, seen: dict[int, int]) -> Hashable:
    """Return a hashable key of an object's content; `seen` numbers the objects before it."""
    if thing is None or isinstance(thing, (str, bytes)):
        return thing
    if isinstance(thing, Enum):
        return thing.name
    if isinstance(thing, (bool, int, np.integer)):
        return int(thing)
    if isinstance(thing, (float, np.floating)):
        return float(thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        # Positions are tuples at first and arrays later.
        is_place = thing.ndim == 1 and np.issubdtype(thing.dtype, np.integer)
        return tuple(thing.tolist()) if is_place else (thing.tobytes(), thing.shape)
    if isinstance(thing, tuple):
        return tuple(_content(each, seen) for each in thing)
    if callable(thing) and not hasattr(thing, "__dict__"):
        return id(thing)
    # One object that occurs twice is another state than two equal objects.
    if id(thing) in seen:
        return ("again", seen[id(thing)])
    seen[id(thing)] = len(seen)
    if isinstance(thing, (list, np.ndarray)):
        return tuple(_content(each, seen) for each in thing)
    if isinstance(thing, dict):
        return tuple((_content(k, seen), _content(v, seen)) for k, v in thing.items())
    if isinstance(thing, (set, frozenset)):
        return tuple(sorted(repr(_content(each, seen)) for each in thing))
    if isinstance(thing, type) or callable(thing):
        return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', id(thing))}"
    values = getattr(thing, "__dict__", None)
    if values is None:
        return repr(thing)
    return type(thing).__name__, tuple((k, _content(v, seen)) for k, v in values.items())


# --- MuJoCo -------------------------------------------------------------------------------------
# The whole simulation data are copied, not only positions and velocities: rewards are differences
# of positions that MuJoCo computed at the previous step, and restoring must not recompute them.

# Fields that rewards and observations read and that are not part of the physical state.
_DERIVED = ("xpos", "xipos", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "sensordata")


def mujoco_saver(bare: Any) -> Saver | None:
    """Return the saver of an environment of `gymnasium.envs.mujoco`; None for other kinds."""
    if not type(bare).__module__.startswith("gymnasium.envs.mujoco"):
        return None
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION

    def save(_: Any) -> Any:
        return copy.copy(bare.data)

    def restore(saved: Any) -> None:
        # Restore a copy, since later steps change it.
        bare.data = copy.copy(saved)

    def key() -> Hashable:
        state = np.empty(mujoco.mj_stateSize(bare.model, kind))
        mujoco.mj_getState(bare.model, bare.data, state, kind)
        derived = (np.asarray(getattr(bare.data, name)).tobytes() for name in _DERIVED)
        return state.tobytes(), *derived

    def one_start() -> bool:
        # Resets always draw and scale the noise by this; kinds without it draw a goal.
        return getattr(bare, "_reset_noise_scale", None) == 0

    return Saver("Gymnasium's MuJoCo", save, restore, key, one_start=one_start)


# --- Names of states ----------------------------------------------------------------------------
OBSERVATION = "observation"
StateOf = Callable[[Any, Any], Hashable]


def state_namer(state: str | StateOf | None) -> StateOf | None:
    """Return the function that names states; None if the kind of environment names them."""
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
    """Return a hashable key of the content of an observation."""
    if isinstance(observation, dict):
        return tuple((key, name_of(observation[key])) for key in sorted(observation, key=repr))
    if isinstance(observation, (tuple, list)):
        return tuple(map(name_of, observation))
    if isinstance(observation, (str, bytes)):
        return observation
    array = np.asarray(observation)
    if array.dtype == object:
        raise InvalidParameterError(
            f"an observation contains {observation!r}, expected numbers, strings, and tuples, "
            f"lists or dictionaries of these; pass as state= a function of (observation, info) "
            f"that returns a key"
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
                f"the function state= returned no hashable key: {in_a_line(cause)}; expected a "
                f"number, a string or a tuple of these for every (observation, info) of reset and "
                f"step"
            ) from cause
        return name

    return named


# --- Known environments -------------------------------------------------------------------------
# Wrappers without state that affects the future, except step counts.
_TRANSPARENT = frozenset(
    {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlattenObservation", "DtypeObservation"}
    | {"FullyObsWrapper", "ImgObsWrapper", "RGBImgObsWrapper", "RGBImgPartialObsWrapper"}
    | {"FlatObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper", "ViewSizeWrapper"}
    | {"ReshapeObservation"}
    | {"TransformObservation", "RescaleObservation", "GrayscaleObservation", "FilterObservation"}
    | {"DiscretizeAction"}
)
_PACKAGES = frozenset({"gymnasium", "minigrid"})  # packages of these wrappers


def saver_of(env: Any) -> Saver | None:
    """Return the saver of an environment; None if its wrappers or kind are unknown."""
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
    """Return a saver of goalmeter's worlds; steps are saved if the reward reads them."""
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

    # A world that is not fixed is drawn from the seed at each reset.
    return Saver(
        "goalmeter's grid worlds", save, restore, key, one_start=lambda: bare._draw is None
    )


def _toy_text(bare: Any) -> Saver | None:
    """Return a saver of FrozenLake, Taxi (with a fickle passenger, if any) or CliffWalking."""
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
        # They use their generator even for a single outcome.
        return bool(fickle) or len(bare.P[int(bare.s)][action]) > 1

    def one_start() -> bool:
        return bool((np.asarray(bare.initial_state_distrib) > 0).sum() == 1)

    return Saver("Gymnasium's toy text", lambda _: state(), restore, state, chance, one_start)


def _classic_control(bare: Any) -> Saver | None:
    """Return a saver of CartPole, MountainCar, Acrobot or Pendulum: the physical state vector."""
    if not type(bare).__module__.startswith("gymnasium.envs.classic_control"):
        return None

    def save(_: Any) -> Any:
        return np.array(bare.state, dtype=np.float64)

    def restore(saved: Any) -> None:
        # Acrobot needs an array as state, the others a tuple or an array.
        as_tuple = isinstance(bare.state, tuple)
        bare.state = tuple(saved.tolist()) if as_tuple else saved.copy()
        if hasattr(bare, "steps_beyond_terminated"):
            bare.steps_beyond_terminated = None

    def key() -> Hashable:
        return np.array(bare.state, dtype=np.float64).tobytes()

    return Saver("Gymnasium's classic control", save, restore, key)


# --- Met states ---------------------------------------------------------------------------------
# A state and the action taken in it; None for a start.
Origin = tuple[int, int] | None
_WHY_UNDECLARED = (
    "the source of randomness is undeclared, and a restored state could repeat it; pass "
    "chance='generator' if all randomness comes from Gymnasium's generator (np_random), or "
    "chance='none' if the world is deterministic"
)


class MetStates:
    """States of one environment in the order in which they were reached."""

    def __init__(self, env: Any, state: str | StateOf | None, chance: str) -> None:
        self._saver, self.why_not = _way_back(env, state)
        if chance == UNDECLARED:
            self.why_not = f"{_WHY_UNDECLARED}; {self.why_not}".removesuffix("; ")
        self._state_of = state_namer(state)
        self._numbers: dict[Hashable, int] = {}
        self._saved: list[Any] = []
        # The decision by which each state was first reached.
        self._origins: list[Origin] = []
        self.met_again: dict[int, Any] = {}
        self.observations: list[Any] = []
        self.observations_differ = False

    def __len__(self) -> int:
        return len(self._saved)

    def number(self, env: Any, observation: Any, info: Any, origin: Origin) -> int:
        """Return the number of the current state, which is saved when it is first reached."""
        if self._state_of is not None:
            key = self._state_of(observation, info)
        else:
            assert self.saver.key is not None, "copies have no key and require state="
            key = self.saver.key()
        number = self._numbers.get(key, len(self._saved))
        if number == len(self._saved):
            # Environments may change observations in place.
            saved, shown = self.saver.save(env), copy.deepcopy(observation)
            self._saved.append(saved)
            self.observations.append(shown)
            self._origins.append(origin)
            self._numbers[key] = number
            return number
        if not self.observations_differ:
            self.observations_differ = name_of(observation) != name_of(self.observations[number])
        another = origin is not None and origin != self._origins[number]
        if another and self.saver.copies and number not in self.met_again:
            self.met_again[number] = self.saver.save(env)
        return number

    def renewed(self, number: int, env: Any, *, again: bool) -> Any:
        """Return the environment restored to a state: `env` itself or a copy."""
        saved = self.met_again[number] if again else self._saved[number]
        # A copy replaces the environment; other savers change it and return None.
        return self.saver.restore(saved) or env

    def put_back(self, number: int) -> None:
        """Restore the environment to a state, for agents that read it; makes no copy."""
        if not self.saver.copies:
            self.saver.restore(self._saved[number])

    def chance(self, action: int) -> bool | None:
        """Return whether the outcome of an action in the current state is random; None: unknown."""
        return self.saver.chance(action) if self.saver.chance else None

    def one_start(self) -> bool | None:
        """Return whether every episode begins in one state; None if unknown."""
        if self._saver is None or self._saver.one_start is None:
            return None
        return self._saver.one_start()

    @property
    def saver(self) -> Saver:
        """Saver of the environment."""
        assert self._saver is not None, "used only by simulators that return to states"
        return self._saver


def _way_back(env: Any, state: str | StateOf | None) -> tuple[Saver | None, str]:
    if saver := saver_of(env):
        return saver, ""
    for layer in layers(env)[:-1]:
        if type(layer).__name__ in _RESETTING:
            return None, (
                f"the simulator cannot be restored to a state: its wrapper "
                f"{type(layer).__name__} resets automatically (remove it)"
            )
    try:
        copy.deepcopy(copy.deepcopy(env))
    # Handles of windows, sockets or foreign libraries raise various exceptions.
    except Exception:
        return None, "the simulator cannot be restored to a state: it cannot be copied"
    if state is None:
        return None, (
            "it is unknown which of its states are identical; pass state='observation' if the "
            "observation determines what can follow, or a function that returns a key"
        )
    # A copy restores everything, including generators, but has no key; before each step Gymnasium's
    # generator gets another state.
    return Saver("a copy of the environment", copy.deepcopy, copy.deepcopy, copies=True), ""
