"""Thousands of small worlds, all different, cost a fraction of as many single calls.

Random CliffWorlds (40 states, 4 actions, 20 decisions): in each the wind, the cliffs, two goals, the
start and the behaviour are drawn anew; behaviours are optimal, epsilon-greedy, soft-optimal or drawn
at random. `gm.meg.known_utility_many` and `gm.meg.unknown_utility_many` over all of them, against a
loop over the single call on some of them, in turns with parts of the many; seconds are of the
processor (`time.process_time`), since the machine is shared. The aims are 10,000 known utilities in
10 seconds and 10,000 unknown ones in a minute, on two cores. All results are compared with those
of the loop. `left alone` are the worlds whose search did not close beside others and was made anew
by the single engine; their cost is included.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter.meg import unknown_worlds
from goalmeter.tabular import soft_plan

WORLDS, SINGLES, HORIZON, CORES = 10_000, 200, 20, 2
AIMS = {"known": 10.0, "unknown": 60.0}
HEIGHT, WIDTH = 4, 10


def cliffs(n: int, seed: int = 0) -> tuple[list[gm.TabularMDP], list[Any]]:
    """Random CliffWorlds and what an agent does in each."""
    rng = np.random.default_rng(seed)
    worlds = [_world(rng) for _ in range(n)]
    return worlds, [_policy(world, i % 4, rng) for i, world in enumerate(worlds)]


def _world(rng: np.random.Generator) -> gm.TabularMDP:
    n_states, wind = HEIGHT * WIDTH, rng.uniform(0.05, 0.5)
    transition = np.zeros((n_states, 4, n_states))
    moves = tuple(enumerate(itertools.product((-1, 1), (-1, 1))))
    for row, column in itertools.product(range(HEIGHT), range(WIDTH)):
        for action, (down, right) in moves:
            to_column = min(max(column + right, 0), WIDTH - 1)
            for lift, probability in ((0, 1.0 - wind), (1, wind)):
                to_row = min(max(row + down - lift, 0), HEIGHT - 1)
                transition[row * WIDTH + column, action, to_row * WIDTH + to_column] += probability
    reward = np.where(rng.random(n_states) < 0.25, -10.0, -1.0)
    reward[rng.choice(n_states, 2, replace=False)] = 10.0
    start = int(rng.integers(n_states))
    return gm.TabularMDP(transition, reward, horizon=HORIZON, initial=start)


def _policy(world: gm.TabularMDP, kind: int, rng: np.random.Generator) -> Any:
    if kind == 0:
        return gm.optimal_policy(world)
    if kind == 1:
        return gm.epsilon_greedy(gm.optimal_policy(world), rng.uniform(0.02, 0.7))
    if kind == 2:
        return soft_plan(world, float(np.exp(rng.uniform(-4, 1)))).policy()[..., 0]
    return rng.dirichlet(np.ones(world.n_actions), size=(HORIZON, world.n_states))


KINDS = ("optimal", "epsilon-greedy", "soft-optimal", "random")


def measure(quick: bool) -> dict[str, Any]:
    n, singles = (60, 8) if quick else (WORLDS, SINGLES)
    worlds, policies = cliffs(n)
    calls: dict[str, tuple[Many, Single]] = {
        "known": (gm.meg.known_utility_many, gm.meg.known_utility),
        "unknown": (gm.meg.unknown_utility_many, gm.meg.unknown_utility),
    }
    rows = []
    for name, (many, single) in calls.items():
        many(worlds[:8], policies[:8])
        parts, apart, together = 5, 0.0, 0.0
        results: list[gm.MegResult] = []
        alone: list[gm.MegResult] = []
        wall = 0.0
        with _counting() as left:
            # In turns, so that a busy spell hits both alike.
            for part in range(parts):
                chosen = slice(part * n // parts, (part + 1) * n // parts)
                began, clock = time.process_time(), time.perf_counter()
                results += many(worlds[chosen], policies[chosen])
                together += time.process_time() - began
                wall += time.perf_counter() - clock
                some = slice(part * singles // parts, (part + 1) * singles // parts)
                began = time.process_time()
                alone += [single(w, p) for w, p in zip(worlds[some], policies[some], strict=True)]
                apart += time.process_time() - began
        rows.append(_row(name, n, together, wall, apart, results, alone, left[0]))
    return {"worlds": n, "rows": rows}


Many = Callable[..., list[gm.MegResult]]
Single = Callable[..., gm.MegResult]
