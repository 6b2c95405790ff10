"""Trained policies from files: Stable-Baselines3 archives and policy tables."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import (
    InvalidFileError,
    InvalidParameterError,
    InvalidPolicyError,
    in_a_line,
)
from goalmeter._files import check_sizes, listed, reading
from goalmeter._types import AnyArray, FloatArray
from goalmeter.agents.abilities import Ability, NamedAgent
from goalmeter.agents.grid_agents import Acting, Decision, Memoryless, Navigator, Walk
from goalmeter.agents.history import Agent, DrawingMind, Mind, uniform
from goalmeter.agents.stable_baselines import borrowed_generators, cumulative, drawn, installed
from goalmeter.agents.user_code import from_here
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import Plan, State, existing
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.tabular.arrays import load_policy
from goalmeter.tabular.mdp import TabularMDP

# An archive of `model.save` contains the weights and a JSON file in which all but plain values are
# pickles. The library's `load` unpickles these, which can run arbitrary code. A text description
# next to each pickle suffices to rebuild the policy from a list of known classes; custom classes
# are therefore unsupported.
DATA, WEIGHTS = "data", "policy.pth"
_POLICIES = {
    ("stable_baselines3.common.policies", "ActorCriticPolicy"),
    ("stable_baselines3.dqn.policies", "DQNPolicy"),
}
# Settings with plain values that affect the output of a policy's network.
_PLAIN = ("net_arch", "normalize_images", "share_features_extractor")
# Settings that affect training or continuous actions only.
_IGNORED = frozenset(
    {"optimizer_class", "optimizer_kwargs", "ortho_init", "log_std_init", "full_std", "use_expln"}
    | {"squash_output", "use_sde", "n_critics", "features_extractor_kwargs"}
)
# Larger networks are not plausible, and would fill the memory.
_MOST_LAYERS, _MOST_WIDTH = 64, 1_000_000
_CLASS = re.compile(r"<class '([\w.]+)'>")
_METHOD = re.compile(r"<function (\w+)\.__init__ at ")
_FLATTEN = "stable_baselines3.common.torch_layers.FlattenExtractor"


@dataclass(frozen=True)
class Observations:
    """Observation space of a policy: `count` observations or a flat array; the other is None."""

    count: int | None
    length: int | None = None


@dataclass(frozen=True, eq=False)
class SavedPolicy:
    """Policy in an archive of Stable-Baselines3; torch is imported on first use."""

    path: str
    observations: Observations
    n_actions: int
    greedy: bool  # whether it is a Q-network, which takes the action with the highest value
    settings: Mapping[str, Any]  # arguments of the policy's class

    def probabilities(self, observations: AnyArray) -> FloatArray:
        """Return the distributions [N, A] at observations, [N] numbers or [N, length] arrays."""
        policy = self._policy
        # One thread, since the last bits of sums depend on the number of threads.
        with borrowed_generators(), installed("torch").no_grad():
            inputs, _ = policy.obs_to_tensor(observations)
            if self.greedy:
                best = policy.q_net(inputs).argmax(dim=1).numpy()  # the lowest on ties
                return np.asarray(np.eye(self.n_actions)[best])
            probs = policy.get_distribution(inputs).distribution.probs
        out = np.asarray(probs.numpy(), dtype=np.float64)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    @cached_property
    def _policy(self) -> Any:
        """The library's policy with the saved weights, on the CPU."""
        installed()
        torch = installed("torch")
        from gymnasium import spaces
        from stable_baselines3.common.policies import ActorCriticPolicy
        from stable_baselines3.dqn.policies import DQNPolicy

        observations = self.observations
        space: Any
        if observations.count is not None:
            space = spaces.Discrete(observations.count)
        else:  # the bounds have no effect on a network for flat arrays
            space = spaces.Box(-np.inf, np.inf, (observations.length or 0,), np.float32)
        settings = dict(self.settings)
        if "activation_fn" in settings:
            settings["activation_fn"] = getattr(torch.nn, settings["activation_fn"])
        build = DQNPolicy if self.greedy else ActorCriticPolicy
        # The initial weights are random and replaced below; global random generators are restored.
        with borrowed_generators():
            policy = build(space, spaces.Discrete(self.n_actions), lambda _: 0.0, **settings)
        with zipfile.ZipFile(self.path) as archive:
            weights = BytesIO(archive.read(WEIGHTS))
        try:
            policy.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # torch's reader raises many kinds of errors for corrupt or malicious files.
        except Exception as cause:
            raise InvalidFileError(
                f"{self.path}: {WEIGHTS} does not contain the weights of this policy: "
                f"{in_a_line(cause)[:300]}; save the model again"
            ) from cause
        policy.set_training_mode(False)
        return policy


def read_policy(path: str | Path) -> SavedPolicy:
    """Read the description of a policy from a Stable-Baselines3 archive, without its weights."""
    try:
        with reading(Path(path)) as file:
            entries = {entry.filename: entry for entry in listed(file)}
            if missing := [name for name in (DATA, WEIGHTS) if name not in entries]:
                raise InvalidFileError(f"it has no entry {missing[0]!r}")
            check_sizes([entries[DATA], entries[WEIGHTS]])
            with zipfile.ZipFile(file) as archive:
                data = json.loads(archive.read(DATA))
        # Each entry is a JSON object; other values are treated as missing.
        entry = {name: value for name, value in dict(data).items() if isinstance(value, dict)}
        return SavedPolicy(
            str(path),
            _observations(entry.get("observation_space", {})),
            _discrete(entry.get("action_space", {}), "actions"),
            greedy=_kind(entry.get("policy_class", {})) == "DQNPolicy",
            settings=_settings(entry.get("policy_kwargs", {})),
        )
    except FileNotFoundError as cause:
        raise InvalidFileError(
            f"there is no file {path}, expected a trained policy as sb3:PATH.zip"
        ) from cause
    # The file is truncated, not JSON, or nested too deeply.
    except (OSError, TypeError, ValueError, RecursionError, zipfile.BadZipFile) as cause:
        raise InvalidFileError(
            f"{path} contains no supported policy ({in_a_line(cause)}); expected a model saved by "
            f"model.save of PPO, A2C or DQN of Stable-Baselines3 with MlpPolicy, with Discrete or "
            f"flat Box observations and Discrete actions; load any other model yourself and use "
            f"goalmeter.meg.from_simulator"
        ) from cause


def _kind(entry: Mapping[str, Any]) -> str:
    """Return the name of the policy's class, which must be a class of the library."""
    method = _METHOD.match(str(entry.get("__init__")))
    module, name = str(entry.get("__module__")), method[1] if method else "?"
    if (module, name) not in _POLICIES:
        raise InvalidFileError(f"its policy is {module}.{name}")
    return name


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the policy's class that affect its output."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        module, _, last = _class_name(value).rpartition(".")
        if name.startswith(":") or name in _IGNORED:
            continue
        if name == "activation_fn" and module == "torch.nn.modules.activation":
            settings[name] = last
        elif name in _PLAIN and _is_plain(value):
            settings[name] = value
        elif name != "features_extractor_class" or not last:
            raise InvalidFileError(f"its policy has the setting {name}={value!r}")
        elif f"{module}.{last}" != _FLATTEN:
            raise InvalidFileError(f"its features extractor is {value}")
    return settings


def _is_plain(value: Any) -> bool:
    """Return whether a setting is a bool or valid layer sizes."""
    if isinstance(value, list):
        return len(value) <= _MOST_LAYERS and all(map(_is_plain, value))
    if isinstance(value, dict):
        return value.keys() <= {"pi", "vf"} and all(map(_is_plain, value.values()))
    return isinstance(value, bool) or _is_width(value)


def _is_width(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MOST_WIDTH


def _class_name(value: Any) -> str:
    match = _CLASS.fullmatch(str(value))
    return match[1] if match else ""


def _observations(entry: Mapping[str, Any]) -> Observations:
    space = _class_name(entry.get(":type:")).rpartition(".")[2]
    if space == "Discrete":
        return Observations(_discrete(entry, "observations"))
    # An array with three axes may be an image, whose scaling depends on the bounds.
    shape = entry.get("_shape")
    if space == "Box" and isinstance(shape, list) and len(shape) == 1 and _is_width(shape[0]):
        return Observations(None, shape[0])
    raise InvalidFileError(f"its observations are {space or 'unknown'}, not Discrete or flat Box")


def _discrete(entry: Mapping[str, Any], noun: str) -> int:
    space = _class_name(entry.get(":type:")).rpartition(".")[2]
    count = str(entry.get("n"))
    starts_at_0 = str(entry.get("start", "0")) == "0"
    if space != "Discrete" or not re.fullmatch(r"[1-9]\d{0,6}", count) or not starts_at_0:
        raise InvalidFileError(f"its {noun} are {space or 'unknown'}, not Discrete(n)")
    return int(count)


# --- Names ----------------------------------------------------------------------------------------
# Prefix -> (file ending, description of its agents).
TRAINED = {
    "sb3": (".zip", "a policy that Stable-Baselines3 saved: PPO, A2C or DQN"),
    "policy": (".npz", "a policy file, [S, A] or [H, S, A], over the states of a world"),
}


def is_trained(name: str) -> bool:
    """Return whether a name refers to a trained policy in a file."""
    return name.partition(":")[0].strip() in TRAINED and ":" in name


def trained_agent(name: str) -> NamedAgent:
    """Return the agent of a trained policy, without importing torch or loading weights."""
    prefix, _, path = name.partition(":")
    prefix, path = prefix.strip(), path.strip()
    ending, about = TRAINED[prefix]
    if not path.endswith(ending):
        raise InvalidParameterError(
            f"{name!r} is not a {ending} file, expected a trained policy as {prefix}:PATH{ending}"
        )
    # The canonical path lets a run be resumed from any working directory.
    path = from_here(path)
    name = f"{prefix}:{path}"
    saved: Any = None
    policy: Any = None
    is_timed = False
    if prefix == "sb3":
        saved = read_policy(path)
        count, n_actions = saved.observations.count, saved.n_actions
    else:
        policy = load_policy(path)
        is_timed, (count, n_actions) = policy.ndim == 3, policy.shape[-2:]

    @cache  # one pass through the network for all seeds
    def table() -> Any:
        return policy if saved is None else saved.probabilities(np.arange(count))

    def in_grids() -> Navigator:
        if count is None:
            return _flat_walker(name, saved)
        check = partial(_check_states, name, count)
        if is_timed:
            return TimedWalker(name, table(), check)
        return Memoryless(name, _policy_of(check, lambda world: table()), check)

    def in_table(world: TabularMDP) -> Any:
        if (count, n_actions) != (world.n_states, world.n_actions):
            raise InvalidPolicyError(
                f"{name} is a policy for {count} states and {n_actions} actions, but the world "
                f"has {world.n_states} and {world.n_actions}; measure it in the world it was "
                f"trained in"
            )
        return table()

    makers: dict[Ability, Callable[..., Any]] = {}
    if n_actions == len(ACTIONS):
        makers[Ability.GRID] = in_grids
    if count is not None:
        makers[Ability.TABLE] = in_table
    if count is not None and not is_timed:
        makers[Ability.HISTORY] = lambda seed=0: TableAgent(name, table(), seed)
    return NamedAgent(name, about, makers, files=(path,))


# --- In grid worlds -------------------------------------------------------------------------------
# Discrete observations are state indices (`observation="state"` of the Gymnasium grid worlds, the
# order of `tabular_world(world).states`). Flat arrays encode the whole grid (`observation="grid"`
# with `gymnasium.wrappers.FlattenObservation`).


@dataclass(frozen=True, eq=False)
class TimedWalker:
    """Navigator with a table [H, S, 4]; `check` raises if a world has other states."""

    name: str
    table: FloatArray
    check: Callable[[GridWorld], None]

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Begin a walk in a world, at the first step of the table."""
        self.check(world)
        index = {state: number for number, state in enumerate(reachable(world))}
        step = 0

        def act(state: State) -> Decision:
            nonlocal step
            if step >= len(self.table):
                raise InvalidParameterError(
                    f"{self.name} is a policy for {len(self.table)} steps, but the walk is at step "
                    f"{step + 1}; limit walks with --cap {len(self.table)}"
                )
            left, right, up, down = row = tuple(self.table[step, index[state]].tolist())
            step += 1
            return Decision(draws.weighted(row), (left, right, up, down))

        return Acting(act)


def _flat_walker(name: str, policy: SavedPolicy) -> Memoryless:
    """Return the navigator of a policy on flat arrays."""

    def check(world: GridWorld) -> None:
        length, (rows, columns) = policy.observations.length, world.shape
        # Three numbers per cell; then row, column, key and door, each one-hot.
        if (size := 3 * rows * columns + rows + columns + 2 + 2) != length:
            raise InvalidParameterError(
                f"{name} expects arrays of {length} numbers, but a grid of {rows} x {columns} has "
                f"{size} with gymnasium.wrappers.FlattenObservation"
            )

    def table_of(world: GridWorld) -> FloatArray:
        from gymnasium.spaces import flatten

        from goalmeter.gridworld.gymnasium_worlds import WorldEnv

        env = WorldEnv(world)
        space = env.observation_space
        flat = [np.asarray(flatten(space, env.observation(state))) for state in reachable(world)]
        return policy.probabilities(np.stack(flat))

    return Memoryless(name, _policy_of(check, table_of), check)


def _policy_of(
    check: Callable[[GridWorld], None], table_of: Callable[[GridWorld], FloatArray]
) -> Callable[[Plan], FloatArray]:
    """Return the policy over the planner's states, given one over the states of the MDP."""

    def policy_of(plan: Plan) -> FloatArray:
        check(plan.world)
        policy = np.zeros((len(plan.plans.successors[plan.index]), len(ACTIONS)))
        # It is uniform in unreachable states and in states without a choice.
        policy[existing(plan)] = 0.25
        for state, row in zip(reachable(plan.world), table_of(plan.world), strict=True):
            if state.cell != plan.world.goal:
                policy[plan.number(state)] = row
        return policy

    return policy_of


@lru_cache(maxsize=512)
def reachable(world: GridWorld) -> tuple[State, ...]:
    """Return the states of a world's MDP in their order: those reachable from the start."""
    return tabular_world(world, horizon=1).states


def _check_states(name: str, count: int, world: GridWorld) -> None:
    states, (rows, columns) = len(reachable(world)), world.shape
    if states != count:
        raise InvalidParameterError(
            f"{name} is a policy for {count} states, but this grid of {rows} x {columns} has "
            f"{states} reachable states; use the world that it was trained in"
        )


# --- At histories ---------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class TableAgent(Agent):
    """Agent with a policy [observations, actions], which depends on the latest observation only."""

    name: str
    table: FloatArray
    seed: int = 0

    def __repr__(self) -> str:
        return f"TableAgent({self.name!r}, seed={self.seed})"

    def _mind(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        self.check_counts(n_actions, n_observations)
        return super()._mind(n_actions, n_observations)

    def _choose(self, mind: DrawingMind) -> int:
        return drawn(self._cumulative, mind.observation, uniform(mind.state), self)

    def check_counts(self, n_actions: int, n_observations: int) -> None:
        """Raise if an environment has other numbers of actions or observations than the table."""
        observations, actions = self.table.shape
        if (actions, observations) != (n_actions, n_observations):
            raise InvalidParameterError(
                f"{self.name} was trained with {actions} actions and {observations} observations, "
                f"but the environment has {n_actions} and {n_observations}; choose environments "
                f"with the same numbers by --environment"
            )

    @cached_property
    def _cumulative(self) -> list[list[float]]:
        return cumulative(self.table)
