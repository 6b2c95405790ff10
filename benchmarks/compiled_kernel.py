"""A compiled search of many small worlds is faster, but not worth a second engine.

Random CliffWorlds with epsilon-greedy and random behaviour (`many_worlds.py`), whose optima are
finite. Compiled is the bare search (`baselines/compiled_search.py`, numba: no certificate, no
optimum at infinity, no result object); in NumPy it is the whole of `gm.meg.unknown_utility_many`,
which has all of these. Both have one thread and take turns; times are CPU times. The
first call of each version compiles; other processes load the compiled code from a cache. The NumPy
engine would still be needed where numba is not installed, and compilation pays off only after some
thousands of worlds, so the compiled search is not part of goalmeter. Without numba the script
prints a message and measures nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import time
from typing import Any

import harness
import numpy as np
from many_worlds import cliffs

import goalmeter as gm

WORLDS, REPEATS = 200, 3


def measure(quick: bool) -> dict[str, Any]:
    os.environ["GOALMETER_THREADS"] = "1"
    n, repeats = (8, 1) if quick else (WORLDS, REPEATS)
    worlds, policies = cliffs(2 * n)
    # Of every four, the second is epsilon-greedy and the last is random.
    worlds, policies = worlds[1::2], policies[1::2]
    began = time.perf_counter()
    from baselines.compiled_search import best_evidence

    rows = [_rows(world) for world in worlds]
    behaviour = [_action_major(world, p) for world, p in zip(worlds, policies, strict=True)]
    starts = [np.array(world.initial) for world in worlds]
    best_evidence(rows[0], behaviour[0], starts[0])
    first_call = time.perf_counter() - began
    compiled, batched, differences = [], [], [0.0]
    for _ in range(repeats):
        began = time.process_time()
        values = [best_evidence(*each) for each in zip(rows, behaviour, starts, strict=True)]
        compiled.append(time.process_time() - began)
        began = time.process_time()
        results = gm.meg.unknown_utility_many(worlds, policies)
        batched.append(time.process_time() - began)
        differences += [abs(r.value - v) for r, v in zip(results, values, strict=True)]
    return {
        "worlds": n,
        "first_call_seconds": first_call,
        "compiled_seconds": statistics.median(compiled) / n,
        "numpy_seconds": statistics.median(batched) / n,
        "value_differs": max(differences),
        "numba": importlib.import_module("numba").__version__,
    }


def _rows(world: gm.TabularMDP) -> tuple[Any, Any, Any]:
    matrix = world.transition.blocks[0].compressed
    successors = matrix.indices.astype(np.int64)
    return matrix.indptr.astype(np.int64), successors, np.array(matrix.data)


def _action_major(world: gm.TabularMDP, policy: Any) -> Any:
    shape = (world.steps, world.n_states, world.n_actions)
    return np.ascontiguousarray(np.broadcast_to(policy, shape).transpose(0, 2, 1))


def markdown(result: dict[str, Any]) -> str:
    compiled, batched = result["compiled_seconds"], result["numpy_seconds"]
    header = ["search", "a world", "ratio", "first call in a process", "values differ by, at most"]
    rows = [
        ["NumPy, many at once, whole", harness.short(batched), "1", "-", "-"],
        [
            f"numba {result['numba']}, bare",
            harness.short(compiled),
            f"{batched / compiled:.1f}x",
            harness.short(result["first_call_seconds"]),
            f"{result['value_differs']:.0e}",
        ],
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    if importlib.util.find_spec("numba") is None:
        print("numba is not installed, so there is nothing to compare with: pip install numba")
    else:
        harness.run(__file__, __doc__, measure, markdown)
