"""The best of all utilities over states is proven for thousands of states in seconds.

Open grids (n x n squares, 2 n decisions) and four rooms with slip; behaviour greedy for the last
square with noise, fitted with `gm.meg.unknown_utility`: the whole call, value and proven bound.
A plan is one soft plan of the same world, the fastest of seven; memory is the peak of the
process so far, so rows are in order of size. The previous engine is the dense one, which is still
used for classes of up to a hundred weights; it is stopped after 60 seconds. Times are CPU times
of the process, one thread for linear algebra, valid only on an otherwise idle machine.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import harness
from unknown_sweep import Products
from unknown_worlds import four_rooms, greedy, open_grid, plan_seconds

import goalmeter as gm
from goalmeter.meg import linear

CAP = 60.0
# Name, world, noise, and whether the engine of before is tried too.
ROWS: list[tuple[str, Callable[[], gm.TabularMDP], float, bool]] = [
    ("open 10", partial(open_grid, 10), 0.2, True),
    ("open 20", partial(open_grid, 20), 0.2, True),
    ("open 20", partial(open_grid, 20), 0.05, False),
    ("open 20", partial(open_grid, 20), 0.0, True),
    ("four rooms 21", partial(four_rooms, 21), 0.2, True),
    ("four rooms 31", partial(four_rooms, 31), 0.2, False),
    ("open 45", partial(open_grid, 45), 0.2, False),
    ("open 45", partial(open_grid, 45), 0.0, False),
    ("four rooms 45", partial(four_rooms, 45), 0.2, False),
    ("open 100", partial(open_grid, 100), 0.2, False),
    ("open 200", partial(open_grid, 200), 0.2, False),
]


def measure(quick: bool) -> dict[str, Any]:
    """Every row, the smallest world first; the first alone where it has to be quick."""
    return {"cap": CAP, "rows": [_row(*row) for row in ROWS[: 1 if quick else None]]}


def _row(name: str, world: Callable[[], gm.TabularMDP], noise: float, both: bool) -> dict[str, Any]:
    mdp = world()
    policy = greedy(mdp, noise)
    plan = plan_seconds(mdp)
    fit = partial(gm.meg.unknown_utility, mdp, policy, progress=False)
    with Products() as products:
        result, seconds = harness.processor(fit)
    out = {
        "world": name,
        "states": mdp.n_states,
        "decisions": mdp.horizon,
        "noise": noise,
        "value": result.value,
        "gap": result.gap,
        "seconds": seconds,
        "plans": seconds / plan,
        "products": products.count,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "before": None,
    }
    if both:
        large, linear._LARGE_WEIGHTS = linear._LARGE_WEIGHTS, 10**12
        try:
            before, taken = harness.processor(partial(fit, timeout=CAP))
        finally:
            linear._LARGE_WEIGHTS = large
        out["before"] = {"seconds": taken, "value": before.value, "gap": before.gap}
    return out


def markdown(result: dict[str, Any]) -> str:
    """The table, a row for each fit."""
    header = [
        "world",
        "S, H",
        "noise",
        "MEG, nats",
        "bound − value",
        "CPU",
        "in plans",
        "products",
        "peak memory",
        "previous engine: CPU, bound − value",
    ]
    rows = [
        [
            r["world"],
            f"{r['states']}, {r['decisions']}",
            f"{r['noise']:g}",
            f"{r['value']:.7f}",
            f"{max(r['gap'], 0.0):.0e}",
            harness.short(r["seconds"]),
            f"{r['plans']:.0f}",
            str(r["products"]),
            f"{r['peak_gb']:.2f} GB",
            f"{harness.short(b['seconds'])}, {max(b['gap'], 0.0):.0e}"
            if (b := r["before"])
            else "–",
        ]
        for r in result["rows"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
