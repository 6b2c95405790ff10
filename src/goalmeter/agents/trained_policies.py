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

# The archive that `model.save` writes holds the weights and a JSON file in which whatever is no
# plain value is a pickle. The library's own `load` unpickles those, which runs any code that the
# author put there. Beside each pickle stands as text what the object held, which is enough to build
# the policy anew from a list of known classes; one of the user's own is therefore refused.
DATA, WEIGHTS = "data", "policy.pth"
_POLICIES = {
    ("stable_baselines3.common.policies", "ActorCriticPolicy"),
    ("stable_baselines3.dqn.policies", "DQNPolicy"),
}
# Settings of a policy that decide what its network computes, and are plain values.
_PLAIN = ("net_arch", "normalize_images", "share_features_extractor")
# Settings that decide how it learns, or what continuous actions it takes, and nothing here.
_NO_MATTER = frozenset(
    {"optimizer_class", "optimizer_kwargs", "ortho_init", "log_std_init", "full_std", "use_expln"}
    | {"squash_output", "use_sde", "n_critics", "features_extractor_kwargs"}
)
# A network larger than these is none that somebody trained; it would fill the memory.
_MOST_LAYERS, _MOST_WIDTH = 64, 1_000_000
_CLASS = re.compile(r"<class '([\w.]+)'>")
_METHOD = re.compile(r"<function (\w+)\.__init__ at ")
_FLATTEN = "stable_baselines3.common.torch_layers.FlattenExtractor"


@dataclass(frozen=True)
class Observations:
    """What a policy sees: one of `count` observations, or a flat array; the other is None."""

    count: int | None
    length: int | None = None


@dataclass(frozen=True, eq=False)
class SavedPolicy:
    """A policy in an archive of Stable-Baselines3; torch is imported when it is first asked."""

    path: str
    observations: Observations
    n_actions: int
    greedy: bool  # a Q-network, which takes the action of the largest value
    settings: Mapping[str, Any]  # of the policy's class

    def probabilities(self, observations: AnyArray) -> FloatArray:
        """Return the distributions [N, A] at observations, [N] numbers or [N, length] arrays."""
        policy = self._policy
        # In one thread, as every learner here computes: the last bits of a sum do not differ then.
        with borrowed_generators(), installed("torch").no_grad():
            seen, _ = policy.obs_to_tensor(observations)
            if self.greedy:
                best = policy.q_net(seen).argmax(dim=1).numpy()  # the lowest of equals
                return np.asarray(np.eye(self.n_actions)[best])
            chances = policy.get_distribution(seen).distribution.probs
        out = np.asarray(chances.numpy(), dtype=np.float64)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    @cached_property
    def _policy(self) -> Any:
        """The library's policy with the saved weights, on the processor."""
        installed()
        torch = installed("torch")
        from gymnasium import spaces
        from stable_baselines3.common.policies import ActorCriticPolicy
        from stable_baselines3.dqn.policies import DQNPolicy

        seen = self.observations
        space: Any
        if seen.count is not None:
            space = spaces.Discrete(seen.count)
        else:  # the bounds say nothing to a network that sees a flat array
            space = spaces.Box(-np.inf, np.inf, (seen.length or 0,), np.float32)
        settings = dict(self.settings)
        if "activation_fn" in settings:
            settings["activation_fn"] = getattr(torch.nn, settings["activation_fn"])
        build = DQNPolicy if self.greedy else ActorCriticPolicy
        # The first weights are drawn, and replaced below; nobody else's draws may change by that.
        with borrowed_generators():
            policy = build(space, spaces.Discrete(self.n_actions), lambda _: 0.0, **settings)
        with zipfile.ZipFile(self.path) as archive:
            weights = BytesIO(archive.read(WEIGHTS))
        try:
            policy.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # A damaged or hostile file raises whatever torch's reader stumbles over.
        except Exception as cause:
            raise InvalidFileError(
                f"{self.path}: {WEIGHTS} does not hold the weights of this policy: "
                f"{in_a_line(cause)[:300]}; save the model again"
            ) from cause
        policy.set_training_mode(False)
        return policy


def read_policy(path: str | Path) -> SavedPolicy:
    """Return what an archive of Stable-Baselines3 says of its policy, without its weights."""
    try:
        with reading(Path(path)) as file:
            entries = {entry.filename: entry for entry in listed(file)}
            if missing := [name for name in (DATA, WEIGHTS) if name not in entries]:
                raise InvalidFileError(f"it holds no {missing[0]!r}")
            check_sizes([entries[DATA], entries[WEIGHTS]])
            with zipfile.ZipFile(file) as archive:
                data = json.loads(archive.read(DATA))
        # Each entry is an object of JSON; what is none is refused like an empty one.
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
            f"there is no file {path}; a trained policy is named sb3:PATH.zip"
        ) from cause
    # Half a file, one that is no JSON, or JSON that is nested without end.
    except (OSError, TypeError, ValueError, RecursionError, zipfile.BadZipFile) as cause:
        raise InvalidFileError(
            f"{path} holds no policy that can be read ({in_a_line(cause)}); expected what "
            f"model.save writes for PPO, A2C or DQN of Stable-Baselines3 with its MlpPolicy, with "
            f"observations that are Discrete or a flat Box and actions that are Discrete; "
            f"goalmeter.meg.from_simulator takes any other model as its load gives it"
        ) from cause


def _kind(told: Mapping[str, Any]) -> str:
    """The name of the policy's class, which must be one of the library's own."""
    method = _METHOD.match(str(told.get("__init__")))
    module, name = str(told.get("__module__")), method[1] if method else "?"
    if (module, name) not in _POLICIES:
        raise InvalidFileError(f"its policy is {module}.{name}")
    return name


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the policy was made with, as far as they decide what it computes."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        module, _, last = _class_name(value).rpartition(".")
        if name.startswith(":") or name in _NO_MATTER:
            continue
        if name == "activation_fn" and module == "torch.nn.modules.activation":
            settings[name] = last
        elif name in _PLAIN and _is_plain(value):
            settings[name] = value
        elif name != "features_extractor_class" or not last:
            raise InvalidFileError(f"its policy was made with {name}={value!r}")
        elif f"{module}.{last}" != _FLATTEN:
            raise InvalidFileError(f"it looks through {value}")
    return settings


def _is_plain(value: Any) -> bool:
    """Whether a setting is a switch, or the sizes of layers that a network can have."""
    if isinstance(value, list):
        return len(value) <= _MOST_LAYERS and all(map(_is_plain, value))
    if isinstance(value, dict):
        return value.keys() <= {"pi", "vf"} and all(map(_is_plain, value.values()))
    return isinstance(value, bool) or _is_width(value)


def _is_width(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MOST_WIDTH


def _class_name(value: Any) -> str:
    named = _CLASS.fullmatch(str(value))
    return named[1] if named else ""


def _observations(told: Mapping[str, Any]) -> Observations:
    space = _class_name(told.get(":type:")).rpartition(".")[2]
    if space == "Discrete":
        return Observations(_discrete(told, "observations"))
    # An array of three axes may be a picture, whose bounds decide how it is scaled.
    shape = told.get("_shape")
    if space == "Box" and isinstance(shape, list) and len(shape) == 1 and _is_width(shape[0]):
        return Observations(None, shape[0])
    raise InvalidFileError(f"it sees {space or 'nothing known'}, not Discrete or a flat Box")


def _discrete(told: Mapping[str, Any], counted: str) -> int:
    space = _class_name(told.get(":type:")).rpartition(".")[2]
    count = str(told.get("n"))
    usual = str(told.get("start", "0")) == "0"
    if space != "Discrete" or not re.fullmatch(r"[1-9]\d{0,6}", count) or not usual:
        raise InvalidFileError(f"its {counted} are {space or 'nothing known'}, not Discrete(n)")
    return int(count)


# --- Names ----------------------------------------------------------------------------------------
# Prefix -> (ending of the file, what its agents are).
TRAINED = {
    "sb3": (".zip", "a policy that Stable-Baselines3 saved: PPO, A2C or DQN"),
    "policy": (".npz", "a policy file, [S, A] or [H, S, A], over the states of a world"),
}


def is_trained(name: str) -> bool:
    """Return whether a name is that of a trained policy in a file."""
    return name.partition(":")[0].strip() in TRAINED and ":" in name


def trained_agent(name: str) -> NamedAgent:
    """Return the agent of a trained policy; neither torch nor its weights are read yet."""
    prefix, _, path = name.partition(":")
    prefix, path = prefix.strip(), path.strip()
    ending, about = TRAINED[prefix]
    if not path.endswith(ending):
        raise InvalidParameterError(
            f"{name!r} names no {ending} file; a trained policy is named {prefix}:PATH{ending}"
        )
    # One spelling for each file, so that a run is continued from wherever it is named.
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

    @cache  # one pass through the network, which is asked again for every seed
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
                f"{name} is a policy over {count} states and {n_actions} actions, and the world "
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
# A policy of one of so many observations saw the index of the state (`observation="state"` of the
# Gymnasium grid worlds, the order of `tabular_world(world).states`). One of a flat array saw the
# whole grid (`observation="grid"`, through `gymnasium.wrappers.FlattenObservation`).


@dataclass(frozen=True, eq=False)
class TimedWalker:
    """A navigator by a table [H, S, 4]; `check` raises if its states are not those of a world."""

    name: str
    table: FloatArray
    check: Callable[[GridWorld], None]

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out in a world, at the first step of the table."""
        self.check(world)
        index = {state: number for number, state in enumerate(reachable(world))}
        step = 0

        def act(state: State) -> Decision:
            nonlocal step
            if step >= len(self.table):
                raise InvalidParameterError(
                    f"{self.name} has a policy for {len(self.table)} steps, and the walk goes on "
                    f"to step {step + 1}; end walks with --cap {len(self.table)}"
                )
            left, right, up, down = row = tuple(self.table[step, index[state]].tolist())
            step += 1
            return Decision(draws.weighted(row), (left, right, up, down))

        return Acting(act)


def _flat_walker(name: str, policy: SavedPolicy) -> Memoryless:
    """The navigator of a policy that sees flat arrays."""

    def check(world: GridWorld) -> None:
        length, (rows, columns) = policy.observations.length, world.shape
        # Three numbers a cell; then row, column, the key and the door, each one-hot.
        if (shown := 3 * rows * columns + rows + columns + 2 + 2) != length:
            raise InvalidParameterError(
                f"{name} sees arrays of {length} numbers, and a grid of {rows} x {columns} is "
                f"{shown} as gymnasium.wrappers.FlattenObservation gives it"
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
    """The policy over the planner's states, from that over the states of a world's MDP."""

    def policy_of(plan: Plan) -> FloatArray:
        check(plan.world)
        policy = np.zeros((len(plan.plans.successors[plan.index]), len(ACTIONS)))
        # Where nothing can be done, or nobody comes, it is uniform, as every navigator's policy is.
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
            f"{name} is a policy over {count} states, and this grid of {rows} x {columns} has "
            f"{states} that can be reached; let it walk in the world that it was made for"
        )


# --- At histories ---------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class TableAgent(Agent):
    """A policy [observations, actions]: it acts on the latest observation alone, by its row."""

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
        """Raise if an environment has other actions and observations than the table."""
        observations, actions = self.table.shape
        if (actions, observations) != (n_actions, n_observations):
            raise InvalidParameterError(
                f"{self.name} was trained with {actions} actions and {observations} observations, "
                f"and the environment has {n_actions} and {n_observations}; name environments of "
                f"its own numbers with --environment"
            )

    @cached_property
    def _cumulative(self) -> list[list[float]]:
        return cumulative(self.table)
