"""States of Gymnasium environments: saving, restoring and naming; sources of randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.environment_agents import key_of


def layers(env: Any) -> list[Any]:
    """Return the wrappers of an environment from the outermost on, and the bare environment."""
    out = [env]
    while out[-1] is not env.unwrapped:
        out.append(out[-1].env)
    return out


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
    if declared in CHANCES:
        return declared
    if declared is not None:
        raise InvalidParameterError(f"chance is {declared!r}, expected one of {', '.join(CHANCES)}")
    *outer, bare = map(type, layers(env))
    plain = all(
        each.__module__.startswith("gymnasium.") and each.__name__ not in _CALLING for each in outer
    )
    return FROM_GENERATOR if plain and bare.__module__.startswith(_KNOWN) else UNDECLARED


# --- Savers --------------------------------------------------------------------------------------
# The state of most kinds is in a few attributes. Kinds of MiniGrid store targets, obstacles, rooms,
# instructions and missions in their own attributes, some of which are objects of the grid: there
# all attributes are copied together, which preserves object identity, and all are part of the key.

# Attributes of MiniGrid that no step reads or changes; and the generator.
_LEFT_OUT = frozenset(
    {"_np_random", "_np_random_seed", "action_space", "observation_space", "mission_space", "spec"}
    | {"render_mode", "window", "clock", "screen_size", "render_size", "metadata", "reward_range"}
    | {"actions", "highlight", "tile_size", "agent_pov"}
)
# Fields of MuJoCo that rewards and observations read and that are not in the physical state.
_DERIVED = ("xpos", "xipos", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "sensordata")


class Saver:
    """Saves, restores and identifies states of environments: some attributes, or all of them."""

    one_start = False  # whether every episode begins in one state, though resets draw

    def __init__(self, *names: str) -> None:
        self._names = names

    def _attributes(self, bare: Any) -> dict[str, Any]:
        chosen = self._names or sorted(vars(bare).keys() - _LEFT_OUT)
        return {name: getattr(bare, name, None) for name in chosen}

    def _copies(self, bare: Any, values: dict[str, Any]) -> dict[str, Any]:
        if self._names:
            # Arrays and MuJoCo's data are copied; numbers, tuples and grid worlds never change.
            each = values.items()
            return {name: v.__copy__() if hasattr(v, "__copy__") else v for name, v in each}
        # Objects may refer to the environment and its generator.
        return copy.deepcopy(values, {id(bare): bare, id(bare.np_random): bare.np_random})

    def save(self, env: Any) -> Any:
        """Return the state."""
        return self._copies(env.unwrapped, self._attributes(env.unwrapped))

    def restore(self, env: Any, saved: Any) -> Any:
        """Return the environment, or a copy of it, in a saved state."""
        bare = env.unwrapped
        for name in self._attributes(bare).keys() - saved.keys():
            delattr(bare, name)
        vars(bare).update(self._copies(bare, saved))
        return env

    def key(self, env: Any) -> Hashable:
        """Return what identifies the state: equal keys imply the same distribution of the future.

        It has everything that dynamics and reward read, except the generator.
        """
        values = self._attributes(env.unwrapped)
        if self._names:
            own = values.values()
            return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in own)
        seen = {id(env.unwrapped): 0, id(env.unwrapped.np_random): 1}
        return tuple((name, key_of(value, seen)) for name, value in values.items())

    def varies(self, env: Any, action: int) -> bool | None:
        """Return whether the outcome of an action is random; None: if it uses the generator."""
        return None


class _Copies(Saver):
    """Copies of environments of any kind, which need names of states."""

    def save(self, env: Any) -> Any:
        # The generator is shared: it gets another state before steps are drawn.
        generator = getattr(env.unwrapped, "_np_random", None)
        return copied(env, {id(generator): generator})

    def restore(self, env: Any, saved: Any) -> Any:
        return self.save(saved)


COPIES = _Copies()


def copied(env: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a copy of an environment in its state; `memo` as for `copy.deepcopy`."""
    memo, bare = memo or {}, env.unwrapped
    if hasattr(bare, "_ezpickle_args"):
        # These create a new environment when they are copied, which has no state.
        memo[id(bare)] = made = object.__new__(type(bare))
        vars(made).update(copy.deepcopy(vars(bare), memo))
    return copy.deepcopy(env, memo)


# --- Kinds of environments ----------------------------------------------------------------------
class _GridWorlds(Saver):
    """Grid worlds of goalmeter."""

    def restore(self, env: Any, saved: Any) -> Any:
        bare = env.unwrapped
        if bare.world is not saved["world"]:
            bare._enter(saved["world"])
        bare._running = True
        return super().restore(env, saved)


class _ToyText(Saver):
    """FrozenLake, Taxi and CliffWalking, which use their generator even for a single outcome."""

    def varies(self, env: Any, action: int) -> bool:
        bare = env.unwrapped
        return getattr(bare, "fickle_passenger", False) or len(bare.P[int(bare.s)][action]) > 1


class _Mujoco(Saver):
    """MuJoCo: rewards are differences to the previous step, and restoring must not recompute it."""

    def key(self, env: Any) -> Hashable:
        import mujoco

        bare, kind = env.unwrapped, mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(bare.model, kind))
        mujoco.mj_getState(bare.model, bare.data, state, kind)
        derived = (np.asarray(getattr(bare.data, name)).tobytes() for name in _DERIVED)
        return state.tobytes(), *derived


# Wrappers without state that affects the future, except step counts; and their packages.
_TRANSPARENT = frozenset(
    {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlattenObservation", "DtypeObservation"}
    | {"FullyObsWrapper", "ImgObsWrapper", "RGBImgObsWrapper", "RGBImgPartialObsWrapper"}
    | {"FlatObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper", "ViewSizeWrapper"}
    | {"TransformObservation", "RescaleObservation", "GrayscaleObservation", "FilterObservation"}
    | {"ReshapeObservation", "DiscretizeAction"}
)
_PACKAGES = ("gymnasium", "minigrid")


def saver_of(env: Any) -> Saver | None:
    """Return the saver of an environment's kind; None if its wrappers or kind are unknown."""
    for wrapper in map(type, layers(env)[:-1]):
        package = wrapper.__module__.partition(".")[0]
        if wrapper.__name__ not in _TRANSPARENT or package not in _PACKAGES:
            return None
    bare = env.unwrapped
    module = type(bare).__module__
    if module.startswith("goalmeter.gridworld"):
        # Only one of the rewards reads the number of steps.
        steps = ["_steps"] if bare._reward == "minigrid" else []
        return _GridWorlds("world", "state", *steps)
    if module.startswith("gymnasium.envs.toy_text") and hasattr(bare, "P"):
        saver = _ToyText("s", "fickle_step")
        saver.one_start = np.count_nonzero(bare.initial_state_distrib) == 1
        return saver
    if module.startswith("gymnasium.envs.classic_control"):
        return Saver("state", "steps_beyond_terminated")
    if module.startswith("gymnasium.envs.mujoco"):
        return _Mujoco("data")
    if all(hasattr(bare, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
        return Saver()
    return None


# --- States of one environment --------------------------------------------------------------------
OBSERVATION = "observation"
StateOf = Callable[[Any, Any], Hashable]
_UNDECLARED = (
    "the source of randomness is undeclared, and a restored state could repeat it; pass "
    "chance='generator' if all randomness comes from Gymnasium's generator (np_random), or "
    "chance='none' if the world is deterministic"
)
_UNNAMED = (
    "it is unknown which of its states are identical; pass state='observation' if the observation "
    "determines what can follow, or a function that returns a key"
)


class States:
    """States of one environment in the order in which they were reached."""

    def __init__(self, env: Any, state: str | StateOf | None, chance: str) -> None:
        if not (state is None or state == OBSERVATION or callable(state)):
            raise InvalidParameterError(
                f"state is {state!r}, expected None, 'observation' or a function of (observation, "
                f"info)"
            )
        self._state, self.saver = state, saver_of(env)
        self.named = state is not None or self.saver is not None
        reasons = [_UNDECLARED] if chance == UNDECLARED else []
        reasons += [] if self.named else [_UNNAMED]
        # Copies are slow and serve only to draw steps.
        if not reasons and self.saver is None:
            reasons += _why_not_copied(env)
            self.saver = None if reasons else COPIES
        self.why_not = "; ".join(reasons)
        self._numbers: dict[Hashable, int] = {}
        self.saved: list[Any] = []
        self.observations: list[Any] = []
        # Whether a state was shown with different observations, which only a function can cause.
        self.observations_differ = False

    def __len__(self) -> int:
        return len(self.observations)

    def number(self, env: Any, observation: Any, info: Any) -> int:
        """Return the number of the current state, which is saved when it is first reached."""
        if callable(self._state):
            key = self._state(observation, info)
        elif self._state is None and self.saver is not None:
            key = self.saver.key(env)
        else:
            key = key_of(observation)
        try:
            number = self._numbers.get(key)
        except TypeError as cause:
            raise InvalidParameterError(
                f"the function state= returned {key!r}, expected a hashable key, such as a tuple "
                f"of numbers or bytes"
            ) from cause
        if number is None:
            # Environments may change observations in place.
            saved, shown = self.saver and self.saver.save(env), copy.deepcopy(observation)
            number = self._numbers[key] = len(self.saved)
            self.saved.append(saved)
            self.observations.append(shown)
        elif callable(self._state) and not self.observations_differ:
            self.observations_differ = key_of(observation) != key_of(self.observations[number])
        return number


def _why_not_copied(env: Any) -> list[str]:
    """Return why copies of an environment are not restored states, if they are not."""
    # These reset at the step after an end: a copy made there returns to a start.
    resetting = {"Autoreset", "AutoResetWrapper"} & {type(each).__name__ for each in layers(env)}
    if resetting:
        return [f"its wrapper {min(resetting)} resets automatically (remove it)"]
    try:
        copied(copied(env))
    # Handles of windows, sockets or foreign libraries raise various exceptions.
    except Exception:
        return ["the simulator cannot be copied, and so not restored to a state"]
    return []
