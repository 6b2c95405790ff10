"""States of Gymnasium environments: saving, restoring and naming them, and sources of chance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError, in_a_line

# --- Savers --------------------------------------------------------------------------------------
# A saver knows what makes up the state of a kind of environment. `key` names the state: equal keys
# promise the same future, so it holds all that the dynamics and the reward read, but no generator.


@dataclass(frozen=True)
class Saver:
    """What is saved of one environment."""

    name: str
    save: Callable[[Any], Any]
    restore: Callable[[Any], Any]
    key: Callable[[], Hashable] | None = None
    chance: Callable[[int], bool] | None = None
    one_start: Callable[[], bool] | None = None
    copies: bool = False


# --- Wrappers -----------------------------------------------------------------------------------
# Around a vector of Stable-Baselines3, these change nothing that a model of it would miss.
_SHOW_THE_SAME = frozenset({"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder"})
# These reset by themselves at the step after an end, so a copy made there goes back to a start.
_RESETTING = frozenset({"Autoreset", "AutoResetWrapper"})


def layers(env: Any) -> list[Any]:
    """An environment with its wrappers, from the outermost to the bare one."""
    out = [env]
    while out[-1] is not env.unwrapped:
        out.append(out[-1].env)
    return out


def one_of(vector: Any) -> Any:
    """One of the copies that a vector of environments runs."""
    # Stable-Baselines3 lets copies be reached through wrappers that alter what they show.
    layer = vector
    while hasattr(layer, "venv"):
        if type(layer).__name__ not in _SHOW_THE_SAME:
            raise InvalidParameterError(
                f"the vector of environments is wrapped in {type(layer).__name__}, so its copies "
                f"do not show and pay what the agent was given; give one environment that does "
                f"the same with fixed numbers, such as gymnasium.wrappers.TransformObservation"
            )
        layer = layer.venv
    if not hasattr(vector, "envs"):
        raise InvalidParameterError(
            f"the vector of environments is {vector!r}, whose copies cannot be taken out; give "
            f"one environment, or a function that makes one"
        )
    return vector.envs[0]


def check_layers(env: Any) -> None:
    """See that no wrapper learns from one episode to the next."""
    for layer in layers(env):
        if getattr(layer, "update_running_mean", False) is True:
            raise InvalidParameterError(
                f"the wrapper {type(layer).__name__} goes on learning its scale, so no two "
                f"episodes are of one world; set its update_running_mean = False first, or give "
                f"the environment without it"
            )


# --- Chance -------------------------------------------------------------------------------------
FROM_GENERATOR, NO_CHANCE, UNDECLARED = CHANCES = "generator", "none", "unknown"
# What an interval assumes of each.
ASSUMED = {
    FROM_GENERATOR: "all chance comes from the environment's generator (chance='generator')",
    NO_CHANCE: "nothing is left to chance (chance='none')",
    UNDECLARED: "episodes are independent of each other (chance='unknown')",
}
# Environments that are known to draw from their `np_random` alone. Gymnasium's functional ones
# (phys2d, tabular) keep a key of jax in their state.
_KNOWN = (
    *("gymnasium.envs.toy_text", "gymnasium.envs.classic_control", "gymnasium.envs.box2d"),
    *("gymnasium.envs.mujoco", "goalmeter.gridworld"),
)
# These call what a user gives them, which may draw whatever it likes.
_CALLING = frozenset({"TransformObservation", "TransformAction", "TransformReward"})


def chance_of(env: Any, declared: str | None) -> str:
    """Where an environment's chance comes from, as declared or by default."""
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
# Kinds keep targets, obstacles, rooms, instructions and missions as attributes of their own, and
# some of these are the very objects that stand in the grid. So everything is copied at once,
# which leaves what was one object one object, and everything is part of the state's name.

# Spaces and the picture: no step reads or changes them.
_LEFT_OUT = frozenset(
    {"_np_random_seed", "action_space", "observation_space", "mission_space", "spec"}
    | {"render_mode", "window", "clock", "screen_size", "render_size", "metadata", "reward_range"}
    | {"actions", "highlight", "tile_size", "agent_pov"}
)


def minigrid_saver(bare: Any) -> Saver | None:
    """The saver of a MiniGrid environment; None for others."""
    if not all(hasattr(bare, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
        return None

    def kept() -> dict[str, Any]:
        return {name: value for name, value in vars(bare).items() if name not in _LEFT_OUT}

    def copied(held: dict[str, Any]) -> dict[str, Any]:
        # Objects may refer to the environment.
        return copy.deepcopy(held, {id(bare): bare})

    def restore(saved: dict[str, Any]) -> None:
        for name in kept().keys() - saved.keys():
            delattr(bare, name)
        vars(bare).update(copied(saved))

    def key() -> Hashable:
        seen: dict[int, int] = {id(bare): 0, id(bare.np_random): 1}
        held = kept()
        return tuple((name, _content(held[name], seen)) for name in sorted(held))

    return Saver("MiniGrid", lambda _: copied(kept()), restore, key)


def _content(thing: Any, seen: dict[int, int]) -> Hashable:
    """A hashable name of what something holds; `seen` numbers the objects that came before."""
    if thing is None or isinstance(thing, (str, bytes)):
        return thing
    if isinstance(thing, Enum):
        return thing.name
    if isinstance(thing, (bool, int, np.integer)):
        return int(thing)
    if isinstance(thing, (float, np.floating)):
        return float(thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        # Places are tuples at first and arrays later.
        is_place = thing.ndim == 1 and np.issubdtype(thing.dtype, np.integer)
        return tuple(thing.tolist()) if is_place else (thing.tobytes(), thing.shape)
    if isinstance(thing, tuple):
        return tuple(_content(each, seen) for each in thing)
    if callable(thing) and not hasattr(thing, "__dict__"):
        return id(thing)
    # The same object twice is another state than two objects that are alike.
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
    held = getattr(thing, "__dict__", None)
    if held is None:
        return repr(thing)
    return type(thing).__name__, tuple((k, _content(v, seen)) for k, v in held.items())


# --- MuJoCo -------------------------------------------------------------------------------------
# All that the simulation holds is copied, not positions and velocities alone: rewards are
# differences of places that MuJoCo computed at the step before, and going back must not compute
# them anew.

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


# --- Names of states ----------------------------------------------------------------------------
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


# --- Known environments -------------------------------------------------------------------------
# Wrappers that keep nothing an environment's future depends on, but for counting steps.
_TRANSPARENT = frozenset(
    {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlattenObservation", "DtypeObservation"}
    | {"FullyObsWrapper", "ImgObsWrapper", "RGBImgObsWrapper", "RGBImgPartialObsWrapper"}
    | {"FlatObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper", "ViewSizeWrapper"}
    | {"ReshapeObservation"}
    | {"TransformObservation", "RescaleObservation", "GrayscaleObservation", "FilterObservation"}
    | {"DiscretizeAction"}
)
_PACKAGES = frozenset({"gymnasium", "minigrid"})  # whose wrappers are meant


def saver_of(env: Any) -> Saver | None:
    """The saver of an environment; None where its wrappers or kind are not known (see `copies`)."""
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


# --- Met states ---------------------------------------------------------------------------------
# A state and the action that was taken in it; None for a start.
Came = tuple[int, int] | None
_WHY_UNDECLARED = (
    "where chance comes from is not declared, and a state that is put back could repeat it; give "
    "chance='generator' if all of it comes from Gymnasium's generator (np_random), or "
    "chance='none' if there is none"
)


class MetStates:
    """States of one environment, in the order in which they were met."""

    def __init__(self, env: Any, state: str | StateOf | None, chance: str) -> None:
        self._saver, self.why_not = _way_back(env, state)
        if chance == UNDECLARED:
            self.why_not = f"{_WHY_UNDECLARED}; {self.why_not}".removesuffix("; ")
        self._state_of = state_namer(state)
        self._numbers: dict[Hashable, int] = {}
        self._saved: list[Any] = []
        # Out of which decision each state was first met.
        self._came: list[Came] = []
        self.met_again: dict[int, Any] = {}
        self.observations: list[Any] = []
        self.observations_differ = False

    def __len__(self) -> int:
        return len(self._saved)

    def number(self, env: Any, observation: Any, info: Any, came: Came) -> int:
        """The number of the present state; it is saved when it is met for the first time."""
        if self._state_of is not None:
            key = self._state_of(observation, info)
        else:
            assert self.saver.key is not None, "a copy has no key, and then a state is asked for"
            key = self.saver.key()
        number = self._numbers.get(key, len(self._saved))
        if number == len(self._saved):
            # Environments may change in place what they show.
            saved, shown = self.saver.save(env), copy.deepcopy(observation)
            self._saved.append(saved)
            self.observations.append(shown)
            self._came.append(came)
            self._numbers[key] = number
            return number
        if not self.observations_differ:
            self.observations_differ = name_of(observation) != name_of(self.observations[number])
        another = came is not None and came != self._came[number]
        if another and self.saver.copies and number not in self.met_again:
            self.met_again[number] = self.saver.save(env)
        return number

    def renewed(self, number: int, env: Any, *, again: bool) -> Any:
        """The environment in a state: `env` itself or a copy."""
        saved = self.met_again[number] if again else self._saved[number]
        # A copy takes the place of the environment; other savers change it and give nothing.
        return self.saver.restore(saved) or env

    def put_back(self, number: int) -> None:
        """Put the environment into a state, for agents that look at it; no copy is made."""
        if not self.saver.copies:
            self.saver.restore(self._saved[number])

    def chance(self, action: int) -> bool | None:
        """Whether the present state leaves the outcome of an action to chance; None: not known."""
        return self.saver.chance(action) if self.saver.chance else None

    def one_start(self) -> bool | None:
        """Whether every episode begins in one state; None where the kind does not know it."""
        if self._saver is None or self._saver.one_start is None:
            return None
        return self._saver.one_start()

    @property
    def saver(self) -> Saver:
        """The way back."""
        assert self._saver is not None, "only asked of simulators that return to states"
        return self._saver


def _way_back(env: Any, state: str | StateOf | None) -> tuple[Saver | None, str]:
    if saver := saver_of(env):
        return saver, ""
    for layer in layers(env)[:-1]:
        if type(layer).__name__ in _RESETTING:
            return None, (
                f"the simulator cannot be put back into a state: its wrapper "
                f"{type(layer).__name__} resets by itself (leave it out)"
            )
    try:
        copy.deepcopy(copy.deepcopy(env))
    # Whatever a handle of a window, a socket or a foreign library raises.
    except Exception:
        return None, "the simulator cannot be put back into a state: no copy of it can be made"
    if state is None:
        return None, (
            "which of its states are the same is not known; give state='observation' if what is "
            "observed determines what can follow, or a function that names the state"
        )
    # It goes back to where it was, generators included, but does not say which copies are alike:
    # whoever steps it gives Gymnasium's generator another state.
    return Saver("a copy of the environment", copy.deepcopy, copy.deepcopy, copies=True), ""
