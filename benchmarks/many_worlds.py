"""Thousands of different small worlds cost a fraction of as many single calls.

Random CliffWorlds (40 states, 4 actions, 20 decisions): wind, cliffs, two goals, start and
behaviour are drawn anew in each; behaviours are optimal, epsilon-greedy, soft-optimal or drawn at
random, a quarter each. `gm.meg.known_utility_many` and `gm.meg.unknown_utility_many` over all of
them, in five parts, in turns with a loop over the single call on some of the worlds. Times are CPU
times (`time.process_time`, all threads), because the machine is shared; the aims are 10,000 known
utilities in 10 seconds on two cores (20 s of CPU time) and 10,000 unknown ones in a minute (120 s).
Unknown utilities are grouped by kind of behaviour, because a distant optimum, or one at infinity,
takes more steps.

The results of the loop are compared with those of the batch. Worlds *left alone* were not certified
in the batch and were searched again by the single call; their cost is included.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import harness
import numpy as np

import goalmeter as gm
from goalmeter.meg import unknown as unknown_worlds
from goalmeter.meg.linear import linear_utility
from goalmeter.tabular import soft_plan

WORLDS, SINGLES, HORIZON, CORES, PARTS = 10_000, 200, 20, 2, 5
AIMS = {"known": 10.0, "unknown": 60.0}
HEIGHT, WIDTH = 4, 10
KINDS = ("optimal", "epsilon-greedy", "soft-optimal", "random")


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


Many = Callable[..., list[gm.MegResult]]
Single = Callable[..., gm.MegResult]


def measure(quick: bool) -> dict[str, Any]:
    n, singles = (60, 8) if quick else (WORLDS, SINGLES)
    worlds, policies = cliffs(n)
    left_alone = 0

    def counted(*arguments: Any, **options: Any) -> gm.MegResult:
        nonlocal left_alone
        left_alone += 1
        return linear_utility(*arguments, **options)

    everyone = slice(None)
    tasks: list[tuple[str, str, slice, Many, Single]] = [
        ("known", "all", everyone, gm.meg.known_utility_many, gm.meg.known_utility)
    ]
    for i, kind in enumerate(KINDS):
        those = slice(i, None, len(KINDS))
        tasks.append(("unknown", kind, those, gm.meg.unknown_utility_many, gm.meg.unknown_utility))
    rows = []
    with mock.patch.object(unknown_worlds, "linear_utility", counted):
        for name, kind, those, many, single in tasks:
            some, behaviours = worlds[those], policies[those]
            looped = singles * len(some) // n
            many(some[:8], behaviours[:8])
            left_alone = 0
            seconds, clock, results, loop = _in_turns(many, single, some, behaviours, looped)
            apart = seconds[1] * len(some) / looped
            differences = [abs(a.value - b.value) for a, b in zip(results, loop, strict=False)]
            rows.append(
                {
                    "what": name,
                    "behaviour": kind,
                    "worlds": len(some),
                    "many_seconds": seconds[0],
                    "many_wall_seconds": clock,
                    "single_seconds": apart,
                    "times_cheaper": apart / seconds[0],
                    "share_of_aim": seconds[0] / (CORES * AIMS[name] * len(some) / WORLDS),
                    "certified": sum(map(_certified, results)),
                    "certified_alone": sum(map(_certified, loop)),
                    "certified_of_these": sum(map(_certified, results[:looped])),
                    "looped": looped,
                    "left_alone": left_alone if name == "unknown" else None,
                    "value_differs": max(differences),
                    "value_differs_median": float(np.median(differences)),
                }
            )
    return {"worlds": n, "singles": singles, "rows": rows}


def _certified(result: gm.MegResult) -> int:
    return int(result.certified)


def _in_turns(
    many: Many, single: Single, worlds: list[gm.TabularMDP], policies: list[Any], singles: int
) -> tuple[list[float], float, list[gm.MegResult], list[gm.MegResult]]:
    """Seconds of the processor for all and for the loop, and by the clock for all; the results."""
    seconds, clock = [0.0, 0.0], 0.0
    together: list[gm.MegResult] = []
    loop: list[gm.MegResult] = []
    for part in range(PARTS):
        chosen = slice(part * len(worlds) // PARTS, (part + 1) * len(worlds) // PARTS)
        began, since = time.process_time(), time.perf_counter()
        together += many(worlds[chosen], policies[chosen])
        seconds[0] += time.process_time() - began
        clock += time.perf_counter() - since
        some = slice(part * singles // PARTS, (part + 1) * singles // PARTS)
        began = time.process_time()
        loop += [single(w, p) for w, p in zip(worlds[some], policies[some], strict=True)]
        seconds[1] += time.process_time() - began
    return seconds, clock, together, loop


def markdown(result: dict[str, Any]) -> str:
    header = [
        "utility",
        "behaviour",
        "worlds",
        "processor time",
        "by the clock",
        "one by one",
        "cheaper",
        "share of the aim",
        "certified",
        "left alone",
        "values differ by, at most",
        "median",
    ]
    rows = [
        [
            row["what"],
            row["behaviour"],
            f"{row['worlds']:,}",
            harness.short(row["many_seconds"]),
            harness.short(row["many_wall_seconds"]),
            f"{harness.short(row['single_seconds'])} (from {row['looped']})",
            f"{row['times_cheaper']:.1f}x",
            f"{row['share_of_aim']:.2f}",
            f"{row['certified']:,}",
            "-" if row["left_alone"] is None else str(row["left_alone"]),
            f"{row['value_differs']:.0e}",
            f"{row['value_differs_median']:.0e}",
        ]
        for row in result["rows"]
    ]
    unknown = [row for row in result["rows"] if row["what"] == "unknown"]
    together = sum(row["many_seconds"] for row in unknown)
    apart = sum(row["single_seconds"] for row in unknown)
    agree = all(row["certified_alone"] == row["certified_of_these"] for row in result["rows"])
    line = (
        f"- All {result['worlds']:,} unknown utilities: {harness.short(together)} of the "
        f"processor, {apart / together:.1f}x cheaper than one by one, "
        f"{together / (CORES * AIMS['unknown'] * result['worlds'] / WORLDS):.2f} of the aim. Of "
        f"those in the loop, {'as many' if agree else 'not as many'} are certified by either."
    )
    return harness.table(header, rows) + "\n\n" + line


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
