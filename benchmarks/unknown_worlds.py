"""Worlds and behaviours that the best of all utilities is fitted to, at any size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import harness
import numpy as np

import goalmeter as gm
from goalmeter.gridworld import key_door, maze, tabular_world

# Left, right, up, down; and for each the two that lie across.
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))
ACROSS = [[2, 3], [2, 3], [0, 1], [0, 1]]


class Task(NamedTuple):
    """A world, a behaviour in it, and the class of utilities."""

    mdp: gm.TabularMDP
    policy: Any
    over: Any = "state"


def squares(free: Any, horizon: int, slip: float = 0.0) -> gm.TabularMDP:
    """Free squares [rows, columns] in row order; a move that is blocked stays where it is.

    The intended move has 1 - 2 slip, each one across slip. Start in the first, reward in the last.
    """
    number = np.full(free.shape, -1)
    number[free] = np.arange(free.sum())
    cells = np.argwhere(free)
    n = len(cells)
    target = np.empty((n, 4), dtype=np.int64)
    for action, move in enumerate(MOVES):
        there = cells + move
        inside = ((there >= 0) & (there < free.shape)).all(axis=1)
        clipped = np.where(inside[:, None], there, cells)
        leads = number[clipped[:, 0], clipped[:, 1]]
        target[:, action] = np.where(leads >= 0, leads, np.arange(n))
    if slip == 0.0:
        next_state, probability = target[..., None], np.ones((n, 4, 1))
    else:
        next_state = np.concatenate([target[..., None], target[:, ACROSS]], axis=2)
        probability = np.broadcast_to([1 - 2 * slip, slip, slip], next_state.shape)
    reward, start = _ends(n)
    return gm.TabularMDP((next_state, probability), reward, horizon=horizon, initial=start)


def _ends(n: int) -> tuple[Any, Any]:
    """1 in the last of n states, and 1 in the first."""
    last, first = np.zeros(n), np.zeros(n)
    last[-1] = first[0] = 1.0
    return last, first


def open_grid(n: int, slip: float = 0.0) -> gm.TabularMDP:
    """n x n free squares, 2 n decisions."""
    return squares(np.ones((n, n), dtype=bool), 2 * n, slip)


def four_rooms(n: int, slip: float = 0.05) -> gm.TabularMDP:
    """Walls on the middle row and column, two doors in each; 4 n decisions."""
    free = np.ones((n, n), dtype=bool)
    free[n // 2], free[:, n // 2] = False, False
    for door in (n // 4, n - 1 - n // 4):
        free[n // 2, door] = free[door, n // 2] = True
    return squares(free, 4 * n, slip)


def cluttered(n: int, seed: int, slip: float = 0.0) -> gm.TabularMDP:
    """A grid with a quarter of its squares walled, some of which may cut others off."""
    free = np.random.default_rng(seed).random((n, n)) > 0.25
    free[0, 0] = free[-1, -1] = True
    return squares(free, 3 * n, slip)


def random_world(n: int, horizon: int, seed: int, actions: int = 4) -> gm.TabularMDP:
    """Four successors for each action, anywhere; every fiftieth state is absorbing."""
    rng = np.random.default_rng(seed)
    next_state = rng.integers(n, size=(n, actions, 4))
    next_state[1::50] = np.arange(n)[1::50, None, None]
    probability = rng.dirichlet(np.ones(4), size=(n, actions))
    reward, start = _ends(n)
    return gm.TabularMDP((next_state, probability), reward, horizon=horizon, initial=start)


def plan_seconds(mdp: gm.TabularMDP) -> float:
    """Processor time of one soft plan, the quickest of seven."""
    utility = np.random.default_rng(0).normal(size=mdp.n_states)
    plan = partial(gm.tabular.soft_plan, mdp, 1.0, utility=utility)
    return min(harness.processor(plan)[1] for _ in range(7))


def greedy(mdp: gm.TabularMDP, epsilon: float) -> Any:
    """The optimum of the world's reward, epsilon spread over the other actions."""
    return gm.epsilon_greedy(gm.optimal_policy(mdp), epsilon)


def soft(mdp: gm.TabularMDP, rng: np.random.Generator) -> Any:
    """The soft-optimal policy of a random utility over states."""
    utility = rng.normal(size=mdp.n_states)
    return gm.tabular.soft_plan(mdp, 1.0, utility=utility).policy()[..., 0]


def noisy(mdp: gm.TabularMDP, rng: np.random.Generator) -> Any:
    """The optimum, of which a random half is a random policy in every state."""
    share = rng.random((mdp.n_states, 1)) * 0.5
    other = rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)
    return (1 - share) * gm.optimal_policy(mdp) + share * other


def _noise(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-2, -0.3))


def _side(rng: np.random.Generator) -> int:
    return int(rng.integers(11, 19))


def _of(mdp: gm.TabularMDP, behave: Callable[..., Any], argument: Any) -> Task:
    return Task(mdp, behave(mdp, argument))


def _infinite(rng: np.random.Generator) -> Task:
    mdp = four_rooms(_side(rng)).replace(horizon=None, discount=float(rng.choice([0.8, 0.95])))
    return _of(mdp, greedy, _noise(rng))


def _over(over: str, n: int, rng: np.random.Generator) -> Task:
    mdp = open_grid(n, 0.05)
    return Task(mdp, greedy(mdp, _noise(rng)), over)


def maze_world(size: int, seed: int) -> gm.TabularMDP:
    """A maze of this package with half of its walls, 2 size decisions."""
    world = maze(size, 0.5, seed).world
    return tabular_world(world, horizon=2 * size).mdp


def key_world(rooms: int, seed: int) -> gm.TabularMDP:
    """Rooms behind a locked door (4 rooms + 1 squares along each side), 16 rooms decisions."""
    return tabular_world(key_door(seed, rooms=rooms), horizon=16 * rooms).mdp


def toy_text(name: str, horizon: int, **options: Any) -> gm.TabularMDP:
    """A tabular world of Gymnasium."""
    return gm.TabularMDP.from_gymnasium(name, horizon=horizon, **options)


def _behaving(mdp: gm.TabularMDP, rng: np.random.Generator) -> Task:
    """One of three behaviours, drawn at random."""
    kind = rng.integers(3)
    if kind == 0:
        return _of(mdp, greedy, _noise(rng))
    return _of(mdp, soft if kind == 1 else noisy, rng)


def _mazes(rng: np.random.Generator) -> Task:
    size = 2 * int(rng.integers(5, 13)) + 1
    return _behaving(maze_world(size, int(rng.integers(10_000))), rng)


def _keys(rng: np.random.Generator) -> Task:
    return _behaving(key_world(int(rng.integers(2, 5)), int(rng.integers(10_000))), rng)


def _gymnasium(rng: np.random.Generator) -> Task:
    options: dict[str, Any] = {}
    name = str(rng.choice(["CliffWalking-v1", "FrozenLake-v1", "Taxi-v4"]))
    if name == "FrozenLake-v1":
        options["map_name"] = str(rng.choice(["4x4", "8x8"]))
    return _behaving(toy_text(name, int(rng.integers(20, 80)), **options), rng)


# Thirteen kinds of worlds and behaviours, drawn at random; sizes to 500 states.
KINDS: dict[str, Callable[[np.random.Generator], Task]] = {
    "open grid, greedy but for noise": lambda rng: _of(open_grid(_side(rng)), greedy, _noise(rng)),
    "open grid, soft-optimal": lambda rng: _of(open_grid(_side(rng)), soft, rng),
    "four rooms with slip, noisy": lambda rng: _of(four_rooms(_side(rng)), noisy, rng),
    "cluttered grid, greedy but for noise": lambda rng: _of(
        cluttered(_side(rng), int(rng.integers(1000))), greedy, _noise(rng)
    ),
    "random sparse world, greedy but for noise": lambda rng: _of(
        random_world(int(rng.integers(100, 300)), 20, int(rng.integers(1000))), greedy, _noise(rng)
    ),
    "random sparse world, soft-optimal": lambda rng: _of(
        random_world(int(rng.integers(100, 300)), 20, int(rng.integers(1000))), soft, rng
    ),
    "infinite problem, four rooms": _infinite,
    "time-dependent utilities": lambda rng: _over("time-state", 8, rng),
    "utilities over state-action pairs": lambda rng: _over("state-action", 10, rng),
    "open grid, the optimum itself": lambda rng: _of(open_grid(_side(rng)), greedy, 0.0),
    "mazes to 25 x 25, any behaviour": _mazes,
    "key worlds to 17 x 17, any behaviour": _keys,
    "worlds of Gymnasium, any behaviour": _gymnasium,
}


def _random_400() -> gm.TabularMDP:
    rng = np.random.default_rng(0)
    next_state = rng.integers(400, size=(400, 4, 4))
    probability = rng.dirichlet(np.ones(4), size=(400, 4))
    reward, start = np.eye(400)[-1], np.eye(400)[0]
    return gm.TabularMDP((next_state, probability), reward, horizon=30, initial=start)


def _frozen_lake(size: int, horizon: int) -> gm.TabularMDP:
    return toy_text("FrozenLake-v1", horizon, map_name=f"{size}x{size}")


# Worlds that have names or are large, and how much noise the optimum has.
NAMED: list[tuple[str, Callable[[], gm.TabularMDP], float]] = [
    ("maze 45 x 45", lambda: maze_world(45, 0), 0.2),
    ("key world 45 x 45", lambda: key_world(11, 0), 0.2),
    ("CliffWalking", lambda: toy_text("CliffWalking-v1", 200), 0.2),
    ("CliffWalking", lambda: toy_text("CliffWalking-v1", 200), 0.0),
    ("Taxi", lambda: toy_text("Taxi-v4", 200), 0.2),
    ("Taxi", lambda: toy_text("Taxi-v4", 200), 0.0),
    ("FrozenLake 8 x 8", lambda: _frozen_lake(8, 200), 0.2),
    ("FrozenLake 8 x 8", lambda: _frozen_lake(8, 200), 0.0),
    ("random sparse world of 400", _random_400, 0.0),
    ("four rooms 21 with slip", lambda: four_rooms(21), 0.0),
]
