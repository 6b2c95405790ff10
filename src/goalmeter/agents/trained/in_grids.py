"""Trained policies in grid worlds: what they saw when they were trained, and how they walk.

A policy of one of so many observations saw the index of the state (`observation="state"` of the
Gymnasium grid worlds, the order of `tabular_world(world).states`). One of a flat array saw the
whole grid (`observation="grid"`, through `gymnasium.wrappers.FlattenObservation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import AnyArray, FloatArray
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.navigators.protocol import Decision
from goalmeter.agents.trained.sb3_file import SavedPolicy
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import Plan, State, existing
from goalmeter.gridworld.tabular_world import tabular_world
from goalmeter.gridworld.world import ACTIONS, GridWorld


@dataclass(frozen=True)
class SavedWalker(Memoryless):
    """A navigator from a file, which knows in which worlds it can walk.

    Attributes:
        check: raises InvalidParameterError if it sees other things than a world shows.
    """

    check: Callable[[GridWorld], None]


@dataclass(frozen=True, eq=False)
class TimedWalker:
    """A navigator whose policy depends on the step, [H, S, 4].

    Attributes:
        name: as on the command line.
        table: the policy.
        check: raises InvalidParameterError if the table is of other states than a world's.
    """

    name: str
    table: FloatArray
    check: Callable[[GridWorld], None]

    def begin(self, world: GridWorld, draws: Draws) -> _TimedWalk:
        """Set out in a world, at the first step of the table."""
        self.check(world)
        index = {state: number for number, state in enumerate(reachable(world))}
        return _TimedWalk(self, index, draws)


class _TimedWalk:
    def __init__(self, walker: TimedWalker, index: dict[State, int], draws: Draws) -> None:
        self._walker, self._index, self._draws, self._step = walker, index, draws, 0

    def act(self, state: State) -> Decision:
        """A move drawn from the policy of this step."""
        table = self._walker.table
        if self._step >= len(table):
            raise InvalidParameterError(
                f"{self._walker.name} has a policy for {len(table)} steps, and the walk goes on to "
                f"step {self._step + 1}; end walks with --cap {len(table)}"
            )
        left, right, up, down = table[self._step, self._index[state]].tolist()
        self._step += 1
        row = (left, right, up, down)
        return Decision(self._draws.weighted(row), row)


def table_walker(name: str, table: FloatArray) -> SavedWalker | TimedWalker:
    """Return the navigator of a policy file, [S, 4] or [H, S, 4] (states of the grid MDP)."""
    _check_actions(name, table.shape[-1])
    n_states = table.shape[-2]

    check = partial(_check_states, name, n_states)
    if table.ndim == 3:
        return TimedWalker(name, table, check)

    def policy_of(plan: Plan) -> FloatArray:
        check(plan.world)
        return _spread(plan, reachable(plan.world), table)

    return SavedWalker(name, policy_of, check)


def saved_walker(name: str, policy: SavedPolicy) -> SavedWalker:
    """The navigator of a policy of Stable-Baselines3."""
    _check_actions(name, policy.n_actions)
    count, length = policy.observations.count, policy.observations.length

    def check(world: GridWorld) -> None:
        if count is not None:
            _check_states(name, count, world)
            return
        rows, columns = world.shape
        shown = _flat_length(rows, columns)
        if shown == length:
            return
        size = next((n for n in range(3, 200) if _flat_length(n, n) == length), None)
        advice = f"it was trained in grids of size {size}" if size else "it saw no grid of ours"
        raise InvalidParameterError(
            f"{name} sees arrays of {length} numbers, and a grid of {rows} x {columns} is "
            f"{shown} as gymnasium.wrappers.FlattenObservation gives it; {advice}"
        )

    def policy_of(plan: Plan) -> FloatArray:
        check(plan.world)
        states = reachable(plan.world)
        seen = np.arange(len(states)) if count is not None else _flat(plan.world, states)
        return _spread(plan, states, policy.probabilities(seen))

    return SavedWalker(name, policy_of, check)


@lru_cache(maxsize=512)
def reachable(world: GridWorld) -> tuple[State, ...]:
    """The states of a world's MDP in their order: those that can be reached from the start."""
    return tabular_world(world, horizon=1).states


def _flat(world: GridWorld, states: tuple[State, ...]) -> AnyArray:
    """What `FlattenObservation` makes of each state, [states, length]."""
    from gymnasium.spaces import flatten

    from goalmeter.gridworld.world_env import WorldEnv

    env = WorldEnv(world)
    space = env.observation_space
    return np.stack([np.asarray(flatten(space, env.observation(state))) for state in states])


def _flat_length(rows: int, columns: int) -> int:
    # Three numbers a cell; then row, column, the key and the door, each one-hot.
    return 3 * rows * columns + rows + columns + 2 + 2


def _spread(plan: Plan, states: tuple[State, ...], table: FloatArray) -> FloatArray:
    """A table over the states of the MDP as one over the planner's numbers of states."""
    policy = np.zeros((len(plan.plans.successors[plan.index]), len(ACTIONS)))
    # Where nothing can be done, or nobody comes, it is uniform, as every navigator's policy is.
    policy[existing(plan)] = 0.25
    for state, row in zip(states, table, strict=True):
        if state.cell != plan.world.goal:
            policy[plan.number(state)] = row
    return policy


def _check_states(name: str, count: int, world: GridWorld) -> None:
    """Raises InvalidParameterError if a policy over so many states is none of a world's."""
    states = len(reachable(world))
    rows, columns = world.shape
    if states != count:
        raise InvalidParameterError(
            f"{name} is a policy over {count} states, and this grid of {rows} x {columns} has "
            f"{states} that can be reached; let it walk in the world that it was made for"
        )


def _check_actions(name: str, n_actions: int) -> None:
    if n_actions != len(ACTIONS):
        raise InvalidParameterError(
            f"{name} chooses among {n_actions} actions, and a grid world has the four "
            f"{', '.join(ACTIONS)}"
        )


def check_worlds(navigator: object, worlds: tuple[GridWorld, ...]) -> None:
    """See that a navigator can walk in all of some worlds, before the first of its walks."""
    check = getattr(navigator, "check", None)
    if callable(check):
        for world in dict.fromkeys(worlds):
            check(world)
