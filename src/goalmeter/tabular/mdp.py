"""Finite Markov decision processes from arrays and Gymnasium tables, and CliffWorld."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import (
    InvalidFileError,
    InvalidModelError,
    InvalidParameterError,
    require,
    shown,
)
from goalmeter._names import listed
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.arrays import (
    Immutable,
    as_floats,
    as_initial,
    load_arrays,
    naming,
    read_only,
    save_arrays,
    wrong_shape,
)
from goalmeter.tabular.transition import Transition

if TYPE_CHECKING:
    from gymnasium import Env


# --- Gymnasium tables ---------------------------------------------------------------------------
# Gymnasium's small environments expose their dynamics as `env.unwrapped.P`: for each state and
# action a list of (probability, next state, reward, terminated). Unlike in an MDP, episodes can
# terminate, and rewards may depend on the next state.

_LIMITS = ("max_steps", "max_episode_steps")  # attributes of environments with a time limit


def _read_environment(env: Any, horizon: int | None, initial: Any) -> dict[str, Any]:
    """Return the arguments of `TabularMDP` for an environment; see `from_gymnasium`."""
    n_states, n_actions, table = _read_table(env.unwrapped)
    if initial is None:
        initial = getattr(env.unwrapped, "initial_state_distrib", None)
    if initial is None:
        raise InvalidModelError(
            f"the environment has no initial state distribution "
            f"(env.unwrapped.initial_state_distrib); "
            f"give initial=, a state or a distribution [{n_states}]"
        )
    start = as_initial(initial, n_states)
    horizon = _time_limit(env) if horizon is None else horizon
    if horizon is None:
        raise InvalidParameterError(
            "the environment has no time limit (neither in its registration nor as "
            "max_steps or max_episode_steps); "
            "give horizon=H, a number of decisions (or max_episode_steps=H to gymnasium.make)"
        )
    # Some environments list outcomes of probability 0, which never terminate an episode.
    possible, target = table.probability > 0, table.target
    absorbing = np.unique(target[table.terminated & possible])
    # States that can be visited before an episode terminates.
    continues = ~table.terminated & possible
    tails, heads = table.state[continues], target[continues]
    visited, more = np.zeros(n_states, dtype=bool), start > 0
    while (more != visited).any():
        visited = more.copy()
        more[heads[visited[tails]]] = True
    # States that are also visited before termination cannot be absorbing.
    if visited[absorbing].any():
        absorbing = np.array([n_states])
        target = np.where(table.terminated, n_states, target)
        n_states += 1
        start = np.append(start, 0.0)

    shape = (n_states, n_actions, int(table.slot.max()) + 1)
    next_state, probability = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    next_state[table.state, table.action, table.slot] = target
    probability[table.state, table.action, table.slot] = table.probability
    reward = np.zeros(shape[:2])
    # A pair may have several outcomes.
    np.add.at(reward, (table.state, table.action), table.probability * table.reward)

    next_state[absorbing] = absorbing[:, None, None]
    probability[absorbing] = 0.0
    probability[absorbing, :, 0] = 1.0
    reward[absorbing] = 0.0
    transition = next_state, probability
    return {"transition": transition, "reward": reward, "horizon": horizon, "initial": start}


def _time_limit(env: Any) -> int | None:
    """Return the maximum number of decisions of an episode; None if there is no limit."""
    # The limit may be set in the registration, by a `TimeLimit` wrapper, or by the environment
    # itself, as in goalmeter's and MiniGrid's worlds.
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    layer = env
    while layer is not env.unwrapped:
        limits.append(vars(layer).get("_max_episode_steps"))  # a TimeLimit
        layer = layer.env
    limits += [getattr(layer, name, None) for name in _LIMITS]
    valid = [int(n) for n in limits if isinstance(n, (int, np.integer)) and n > 0]
    return min(valid) if valid else None


def _read_table(env: Any) -> tuple[int, int, Any]:
    """Return S, A and all outcomes listed in P, as a record array of their fields."""
    if not hasattr(env, "P"):
        raise InvalidModelError(
            "the environment does not expose its transition probabilities (it has no table "
            "env.unwrapped.P); "
            "build TabularMDP(transition, reward, ...) from arrays instead"
        )
    if getattr(env, "fickle_passenger", False):
        raise InvalidModelError(
            "with fickle_passenger=True the destination changes outside the table P, so P does "
            "not contain the environment's dynamics; remove this option"
        )
    # P and its rows are mappings or lists.
    _check_keys(env.P, "P", "the states 0, 1, ..., S-1", None)
    n_states, n_actions, outcomes = len(env.P), len(env.P[0]), []
    for state in range(n_states):
        expected = "the actions 0, 1, ..., A-1, the same in every state"
        _check_keys(env.P[state], f"P[{state}]", expected, n_actions)
        for action in range(n_actions):
            entries = env.P[state][action]
            if not isinstance(entries, Sequence) or not entries:
                raise InvalidModelError(
                    f"P[{state}][{action}] is {entries!r}, expected a list of at least one outcome"
                )
            for slot, outcome in enumerate(entries):
                try:
                    probability, after, reward, terminated = outcome
                    numbers = (float(probability), int(after), float(reward), bool(terminated))
                except (TypeError, ValueError) as cause:
                    raise InvalidModelError(
                        f"P[{state}][{action}][{slot}] is {outcome!r}, expected "
                        f"(probability, next state, reward, terminated)"
                    ) from cause
                if not 0 <= numbers[1] < n_states:
                    raise InvalidModelError(
                        f"P[{state}][{action}][{slot}] leads to state {numbers[1]}, "
                        f"expected 0..{n_states - 1}"
                    )
                outcomes.append((state, action, slot, *numbers))
    names = "state, action, slot, probability, target, reward, terminated"
    table = np.rec.fromrecords(outcomes, formats="i8, i8, i8, f8, i8, f8, ?", names=names)
    return n_states, n_actions, table


def _check_keys(level: Any, name: str, expected: str, size: int | None) -> None:
    keys: list[Any] = []
    if isinstance(level, (Mapping, Sequence)):
        keys = list(level if isinstance(level, Mapping) else range(len(level)))
    if not keys or set(keys) != set(range(len(keys) if size is None else size)):
        raise InvalidModelError(f"{name} is indexed by {keys}, expected {expected}")


# --- TabularMDP ---------------------------------------------------------------------------------
MAX_HORIZON = 10_000_000  # measures store a number for each state and decision
DENSE_FILE_ENTRIES = 1_000_000  # larger worlds are written as successor lists


class TabularMDP(Immutable):
    """A finite Markov decision process with rewards on states or on state-action pairs.

    The agent makes decisions t = 0, 1, ... in states s_t and collects the reward of s_t (and
    a_t) at each decision; nothing is collected after the last action. Two kinds of horizon:

    * `horizon=H`: H decisions, time-dependent policies allowed. With `discount` g the utility
      is sum_t g^t reward(s_t, a_t). The discount applies to the utility only: every decision
      has full weight as evidence about the agent (Definition 3.2 of the MEG paper).
    * `horizon=None` and `discount` g < 1: the infinite discounted problem with stationary
      policies. Decision t then has weight g^t both in the utility and in the evidence, which
      keeps both sums finite.

    `transition` is P [S, A, S], or sparse successor lists (next_state [S, A, K] of integers,
    probability [S, A, K]), or the `transition` of another MDP; its rows sum to 1 within 1e-9.
    `reward` is [S] or [S, A], in reward units, `initial` a state or a distribution over states [S].

    Source: "Measuring Goal-Directedness" (NeurIPS 2024), Definition 5.1.

    Example: action 0 stays in its state, action 1 moves to state 1, which has reward 1.
        >>> transition = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
        >>> TabularMDP(transition, reward=[0, 1], horizon=3)
        TabularMDP(2 states, 2 actions, 4 transitions, reward [S] in [0, 1], horizon 3)
    """

    transition: Transition
    reward: FloatArray
    initial: FloatArray
    horizon: int | None
    discount: float

    def __init__(
        self,
        transition: ArrayLike | tuple[ArrayLike, ArrayLike] | Transition,
        reward: ArrayLike,
        *,
        horizon: int | None = None,
        initial: ArrayLike | int = 0,
        discount: float = 1.0,
    ) -> None:
        if isinstance(transition, tuple) and len(transition) == 2:
            try:
                next_state = np.asarray(transition[0])
            except ValueError as cause:
                raise InvalidModelError(f"next_state is not an array: {cause}") from cause
            probability = as_floats(transition[1], "probability", InvalidModelError)
            transition = Transition.from_successors(next_state, probability)
        elif not isinstance(transition, Transition):
            dense = as_floats(transition, "transition", InvalidModelError)
            transition = Transition.from_dense(dense)
        s, a = transition.n_states, transition.n_actions
        array = as_floats(reward, "reward", InvalidModelError)
        if array.shape not in ((s,), (s, a)):
            expected = f"[{s}] (one for each state) or [{s}, {a}] (one for each state and action)"
            raise wrong_shape("reward", array.shape, expected, InvalidModelError)
        self._fill(transition, array.copy(), as_initial(initial, s), horizon, discount)

    def _fill(
        self,
        transition: Transition,
        reward: FloatArray,
        initial: FloatArray,
        horizon: int | None,
        discount: float,
    ) -> None:
        real = (int, float, np.integer, np.floating)
        # The remainder of NaN and infinity is NaN, so they are not whole numbers.
        is_whole = isinstance(horizon, real) and not isinstance(horizon, bool) and horizon % 1 == 0
        if horizon is not None and not (is_whole and 1 <= horizon <= MAX_HORIZON):
            raise InvalidParameterError(
                f"horizon is {shown(horizon)}, expected a whole number of decisions, from 1 to "
                f"{MAX_HORIZON:g}; for more, use the infinite problem: discount < 1 and no horizon"
            )
        if not isinstance(discount, real) or not 0.0 < discount <= 1.0:
            raise InvalidParameterError(
                f"discount is {shown(discount)}, expected a number in (0, 1]"
            )
        if horizon is None and discount >= 1.0:
            raise InvalidParameterError(
                "horizon is missing and discount is 1, so the utility is an infinite sum; "
                "give horizon=H for H decisions, or discount < 1 for the infinite discounted "
                "problem"
            )
        self.__dict__.update(transition=transition, reward=read_only(reward))
        self.__dict__.update(initial=read_only(initial), discount=float(discount))
        self.__dict__.update(horizon=None if horizon is None else int(horizon))

    @classmethod
    def branching(
        cls,
        transition: Transition,
        initial: FloatArray,
        *,
        horizon: int | None,
        discount: float = 1.0,
    ) -> TabularMDP:
        """Return a process in which a decision leads to any number of further decisions."""
        # Used for influence diagrams (`goalmeter.causal.contexts`) and for many worlds at once.
        # Entries are expected numbers of successors, equal for all actions of a state and all
        # states of a kind. `initial` has the numbers of first decisions, `horizon` is that of the
        # longest branch. The constructor is not used, since it requires distributions.
        mdp = cls.__new__(cls)
        mdp._fill(transition, np.zeros(transition.n_states), initial, horizon, discount)
        return mdp

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return self.transition.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return self.transition.n_actions

    @property
    def steps(self) -> int:
        """Number of distinct decision steps: the horizon, or 1 for the infinite problem."""
        return 1 if self.horizon is None else self.horizon

    def active_states(self) -> FloatArray:
        """Return 1.0 for states whose actions lead to different distributions, else 0.0: [S]."""
        # Decisions in other states, such as absorbing ones, do not affect utilities over states, so
        # they have no evidence and are not counted in the maximum of MEG.
        if "_active" not in vars(self):
            vars(self)["_active"] = read_only(self.transition.actions_differ().astype(np.float64))
        return np.asarray(vars(self)["_active"])

    def replace(self, **changes: Any) -> TabularMDP:
        """Return a copy with some arguments of the constructor changed; other data are shared."""
        names = ("transition", "reward", "horizon", "initial", "discount")
        return TabularMDP(**{**{name: getattr(self, name) for name in names}, **changes})

    @classmethod
    def from_npz(cls, path: str | Path) -> TabularMDP:
        """Read an MDP file (format: `goalmeter.tabular.arrays`)."""
        optional = ("transition", "next_state", "probability", "horizon", "discount")
        arrays = load_arrays(path, required=("reward", "initial"), optional=optional)
        with naming(path):
            # A mixture of the two forms would be ambiguous.
            forms = sorted({"transition", "next_state", "probability"} & arrays.keys())
            if forms not in (["transition"], ["next_state", "probability"]):
                raise InvalidFileError(
                    f"the file has {', '.join(forms) or 'no array'}, expected either transition "
                    f"[S, A, S], or next_state and probability [S, A, K]"
                )
            numbers = {name: arrays[name] for name in ("horizon", "discount") if name in arrays}
            for name, array in numbers.items():
                if array.ndim:
                    raise wrong_shape(name, array.shape, "a single number", InvalidFileError)
            transition = tuple(arrays[name] for name in forms)
            return cls(
                transition if len(transition) == 2 else transition[0],
                arrays["reward"],
                initial=arrays["initial"],
                **{name: array.item() for name, array in numbers.items()},
            )

    def to_npz(self, path: str | Path) -> Path:
        """Write an MDP file (format: `goalmeter.tabular.arrays`) and return its path."""
        arrays: dict[str, ArrayLike] = {"reward": self.reward, "initial": self.initial}
        next_state, probability = self.transition.to_successors()
        dense_entries = self.n_states * self.n_actions * self.n_states
        # A listed successor has an index and a probability, twice the size of a dense entry.
        if dense_entries > DENSE_FILE_ENTRIES or 2 * probability.size < dense_entries:
            arrays |= {"next_state": next_state, "probability": probability}
        else:
            arrays["transition"] = self.transition.to_dense()
        if self.horizon is not None:
            arrays["horizon"] = self.horizon
        if self.discount != 1.0:
            arrays["discount"] = self.discount
        return save_arrays(path, arrays)

    @classmethod
    def from_gymnasium(
        cls,
        env: str | Env[Any, Any],
        *,
        horizon: int | None = None,
        initial: ArrayLike | int | None = None,
        **make_options: Any,
    ) -> TabularMDP:
        """Return the MDP of a Gymnasium environment that exposes its transition table.

        Supported are FrozenLake, Taxi, CliffWalking and all other environments whose `unwrapped`
        has `P[state][action]`, a list of (probability, next state, reward, terminated). `env` is an
        environment, or an id for `gymnasium.make(env, **make_options)`. The horizon is by default
        the environment's time limit, the start its `initial_state_distrib`.

        Rewards become their expectation given state and action, [S, A]: the expected return of a
        policy equals that of the environment, its variance only if the reward does not depend on
        the next state. Terminal states become absorbing, without reward; if one of them can also be
        visited before termination, an absorbing state is appended, to which every terminating
        transition leads. Wrappers of observations, rewards or actions are ignored; time limits are
        not.
        """
        gymnasium = require("gymnasium", extra="rl", feature="Reading a Gymnasium environment")
        if isinstance(env, str):
            # An invalid option raises TypeError in the constructor of the environment.
            try:
                environment = gymnasium.make(env, **make_options)
            except (gymnasium.error.Error, TypeError) as cause:
                raise InvalidParameterError(
                    f"gymnasium cannot create {env!r}: {cause}; check the id and the options"
                ) from cause
            try:
                return cls.from_gymnasium(environment, horizon=horizon, initial=initial)
            finally:
                environment.close()
        if not isinstance(env, gymnasium.Env) or make_options:
            raise InvalidParameterError(
                f"env is of type {type(env).__name__} with the options {listed(make_options)}, "
                f"expected the id of a Gymnasium environment, or an environment without options"
            )
        with naming(env.spec.id if env.spec is not None else type(env.unwrapped).__name__):
            return cls(**_read_environment(env, horizon, initial))

    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of all arrays and numbers."""
        numbers = (self.n_states, self.n_actions, self.horizon, self.discount)
        total = hashlib.sha256(repr(numbers).encode())
        for array in (*self.transition.to_successors(), self.reward, self.initial):
            total.update(repr(array.shape).encode())
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()[:16]

    def __repr__(self) -> str:
        kind = "[S]" if self.reward.ndim == 1 else "[S, A]"
        parts = [
            f"{self.n_states} states",
            f"{self.n_actions} actions",
            f"{self.transition.n_entries} transitions",
            f"reward {kind} in [{self.reward.min():g}, {self.reward.max():g}]",
            f"horizon {self.horizon}" if self.horizon is not None else "infinite horizon",
        ]
        if self.discount != 1.0:
            parts.append(f"discount {self.discount:g}")
        return f"TabularMDP({', '.join(parts)})"


# --- CliffWorld ---------------------------------------------------------------------------------
HEIGHT, WIDTH = 4, 10
# Diagonal moves (row, column), in the order of the action indices.
MOVES = tuple(itertools.product((-1, 1), (-1, 1)))
WIND = 0.3


def cliff_world(goal_length: int = 1, *, horizon: int = 30) -> TabularMDP:
    """Return the 4 x 10 CliffWorld of the MEG paper, with a goal region of some length.

    The state is 10 * row + column; row 0 is the top. The four actions are the diagonal moves
    (up-left, up-right, down-left, down-right); with probability 0.3 the wind moves the agent up by
    one more row; the sum is clamped to the grid. The agent starts in state 0, the top left corner.
    The reward is +10 in goal squares, -10 in the cliff (the top row between start and goal) and -1
    elsewhere. The goal region of length k consists of the last k squares of the top row and the
    first k of the right-hand column, k = 1 (the corner only) to 4.

    Source: MEG paper (NeurIPS 2024), section 6 and appendix D; dynamics of the `seals` suite.
    Horizon and goal region are not in the paper and were recovered from its tables.
    """
    # bool is a subclass of int.
    is_whole = isinstance(goal_length, (int, np.integer)) and not isinstance(goal_length, bool)
    if not is_whole or not 1 <= goal_length <= HEIGHT:
        raise InvalidParameterError(
            f"goal_length is {shown(goal_length)}, expected a whole number from 1 to {HEIGHT}"
        )
    reward = np.full((HEIGHT, WIDTH), -1.0)
    reward[0, 1:-1] = -10.0
    reward[0, WIDTH - goal_length :] = 10.0
    reward[:goal_length, -1] = 10.0
    return TabularMDP(_cliff_transition(), reward.ravel(), horizon=horizon, initial=0)


# All goal regions share the transition, and a sweep creates thousands of worlds.
@cache
def _cliff_transition() -> Transition:
    n_states = HEIGHT * WIDTH
    transition = np.zeros((n_states, len(MOVES), n_states))
    for row, column, action in np.ndindex(HEIGHT, WIDTH, len(MOVES)):
        move = MOVES[action]
        to_column = min(max(column + move[1], 0), WIDTH - 1)
        for lift, probability in ((0, 1.0 - WIND), (1, WIND)):
            to_row = min(max(row + move[0] - lift, 0), HEIGHT - 1)
            transition[row * WIDTH + column, action, to_row * WIDTH + to_column] += probability
    return Transition.from_dense(transition)
