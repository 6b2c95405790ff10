"""What a `TabularMDP` takes, from the transition table of a Gymnasium environment.

Gymnasium's small environments keep their dynamics in `env.unwrapped.P`: for each state and
action a list of (probability, next state, reward, terminated). Two things differ from an MDP:
an episode ends, where an MDP goes on, and a reward may depend on the next state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError, require
from goalmeter._types import ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.tabular._validation import as_initial, naming

if TYPE_CHECKING:
    from gymnasium import Env


# Attributes that environments keep their own time limit in.
_LIMITS = ("max_steps", "max_episode_steps")


def read_environment(
    env: str | Env[Any, Any],
    *,
    horizon: int | None = None,
    initial: ArrayLike | int | None = None,
    **make_options: Any,
) -> tuple[str, dict[str, Any]]:
    """What the table says as a name for messages and the arguments of `TabularMDP`.

    See `TabularMDP.from_gymnasium`.
    """
    gymnasium = require("gymnasium", extra="rl", feature="Reading a Gymnasium environment")
    if isinstance(env, str):
        # A typo in an option surfaces as a TypeError of the environment's own constructor.
        try:
            made = gymnasium.make(env, **make_options)
        except (gymnasium.error.Error, TypeError) as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {cause}; check the id and the options"
            ) from cause
        try:
            return read_environment(made, horizon=horizon, initial=initial)
        finally:
            made.close()
    if not isinstance(env, gymnasium.Env):
        raise InvalidParameterError(
            f"env is of type {type(env).__name__}, expected the id of a Gymnasium environment "
            f"or an environment"
        )
    if make_options:
        raise InvalidParameterError(
            f"got {', '.join(make_options)} with an environment that is already made; "
            f"give such options together with an id, or to gymnasium.make"
        )
    name = str(env.spec.id) if env.spec is not None else type(env.unwrapped).__name__
    with naming(name):
        table = _read_table(env.unwrapped)
        start = _starts(env.unwrapped, initial, table.n_states)
        steps = _time_limit(env) if horizon is None else horizon
        if steps is None:
            raise InvalidParameterError(
                "the environment has no time limit (neither in its registration nor as "
                "max_steps or max_episode_steps), expected a number of decisions; "
                "give horizon=H (or max_episode_steps=H to gymnasium.make)"
            )
        return name, _arguments(table, start, steps)


def _time_limit(env: Any) -> int | None:
    """Decisions after which an episode is truncated at the latest; None if it never is."""
    # Each wrapper is asked, and the environment itself: a limit may be set where it is registered,
    # by a `TimeLimit` around it, or inside, where goalmeter's own worlds and MiniGrid's have it.
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    layer = env
    while layer is not env.unwrapped:
        limits.append(vars(layer).get("_max_episode_steps"))  # a TimeLimit
        layer = layer.env
    limits += [getattr(layer, name, None) for name in _LIMITS]
    whole = [int(n) for n in limits if isinstance(n, (int, np.integer)) and n > 0]
    return min(whole) if whole else None


class _Table(NamedTuple):
    """All outcomes that P lists, one after the other: arrays [M]."""

    n_states: int
    n_actions: int
    state: IntArray
    action: IntArray
    slot: IntArray  # place in the list of its state and action
    probability: FloatArray
    next_state: IntArray
    reward: FloatArray
    terminated: BoolArray


def _read_table(env: Any) -> _Table:
    if not hasattr(env, "P"):
        raise InvalidModelError(
            "the environment does not expose its transition probabilities (it has no table "
            "env.unwrapped.P), so they cannot be read; "
            "build TabularMDP(transition, reward, ...) from arrays instead"
        )
    if getattr(env, "fickle_passenger", False):
        raise InvalidModelError(
            "with fickle_passenger=True the destination changes outside the table P, so the "
            "table is not the environment's dynamics; make it without that option"
        )
    outcomes = []
    for state, action, listed in _rows(env.P):
        for slot, outcome in enumerate(listed):
            try:
                probability, next_state, reward, terminated = outcome
                numbers = (float(probability), int(next_state), float(reward), bool(terminated))
            except (TypeError, ValueError) as cause:
                raise InvalidModelError(
                    f"P[{state}][{action}][{slot}] is {outcome!r}, expected "
                    f"(probability, next state, reward, terminated)"
                ) from cause
            if not 0 <= numbers[1] < len(env.P):
                raise InvalidModelError(
                    f"P[{state}][{action}][{slot}] leads to state {numbers[1]}, "
                    f"expected 0..{len(env.P) - 1}"
                )
            outcomes.append((state, action, slot, *numbers))
    columns = [np.array(column) for column in zip(*outcomes, strict=True)]
    return _Table(len(env.P), len(env.P[0]), *columns)


def _rows(table: Any) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """Each state, each action and its list of outcomes; P may be nested mappings or lists."""
    _check_keys(table, "P", "the states 0, 1, ..., S-1", None)
    for state in range(len(table)):
        expected = "the actions 0, 1, ..., A-1, the same in every state"
        _check_keys(table[state], f"P[{state}]", expected, len(table[0]))
        for action in range(len(table[state])):
            listed = table[state][action]
            if not isinstance(listed, Sequence) or not listed:
                raise InvalidModelError(
                    f"P[{state}][{action}] is {listed!r}, expected a list of outcomes, at least one"
                )
            yield state, action, listed


def _check_keys(level: Any, name: str, expected: str, size: int | None) -> None:
    keys: list[Any] = []
    if isinstance(level, Mapping):
        keys = list(level)
    elif isinstance(level, Sequence):
        keys = list(range(len(level)))
    if not keys or set(keys) != set(range(size if size is not None else len(keys))):
        raise InvalidModelError(f"{name} is indexed by {keys}, expected {expected}")


def _starts(env: Any, initial: ArrayLike | int | None, n_states: int) -> FloatArray:
    """The distribution over the table's states in which episodes start."""
    if initial is None:
        initial = getattr(env, "initial_state_distrib", None)
    if initial is None:
        raise InvalidModelError(
            f"the environment does not tell where episodes start (it has no "
            f"env.unwrapped.initial_state_distrib); "
            f"give initial=, a state or a distribution [{n_states}]"
        )
    return as_initial(initial, n_states)


def _arguments(table: _Table, start: FloatArray, horizon: int) -> dict[str, Any]:
    n_states, n_actions = table.n_states, table.n_actions
    # An outcome of probability 0 is listed by some environments and ends no episode.
    ends = table.terminated & (table.probability > 0)
    absorbing = np.unique(table.next_state[ends])
    target = table.next_state
    # A state that is also visited on the way cannot be made absorbing itself.
    if _visited(table, start)[absorbing].any():
        absorbing = np.array([n_states])
        target = np.where(table.terminated, n_states, target)
        n_states += 1
        start = np.append(start, 0.0)

    shape = (n_states, n_actions, int(table.slot.max()) + 1)
    next_state, probability = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    next_state[table.state, table.action, table.slot] = target
    probability[table.state, table.action, table.slot] = table.probability
    reward = np.zeros(shape[:2])
    # `add.at`, because a pair may be listed with several outcomes.
    np.add.at(reward, (table.state, table.action), table.probability * table.reward)

    next_state[absorbing] = absorbing[:, None, None]
    probability[absorbing] = 0.0
    probability[absorbing, :, 0] = 1.0
    reward[absorbing] = 0.0
    return {
        "transition": (next_state, probability),
        "reward": reward,
        "horizon": horizon,
        "initial": start,
    }


def _visited(table: _Table, start: FloatArray) -> BoolArray:
    """States that an episode can be in without having terminated: [S]."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    # One more node leads to every state in which episodes start.
    source = table.n_states
    goes_on = ~table.terminated & (table.probability > 0)
    starts = np.flatnonzero(start)
    tails = np.concatenate([table.state[goes_on], np.full(len(starts), source)])
    heads = np.concatenate([table.next_state[goes_on], starts])
    graph = csr_array((np.ones(len(tails)), (tails, heads)), shape=(source + 1, source + 1))
    visited = np.zeros(source + 1, dtype=np.bool_)
    visited[breadth_first_order(graph, source, return_predecessors=False)] = True
    return visited[:source]
