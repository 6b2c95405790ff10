"""Fitting all utilities over states costs some hundreds of soft plans at every size.

One quantity at a time is changed: the states, the decisions and the share of noise of an open grid
of 400 states, 40 decisions and noise 0.2, and the actions of a random world of 400 states (four
successors each, 30 decisions). A plan is one soft plan of the same world, the fastest of seven.
Steps are Newton steps, products those with the information matrix. SciPy's share is the time in its
compiled sparse products, factorisations and solutions, from a second fit under Python's profiler;
the profiler slows down everything else, so the share is a lower bound. Times are CPU times of the
process, valid only on an otherwise idle machine.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from functools import partial
from typing import Any

import harness
import numpy as np
from unknown_sweep import Products, newton_steps
from unknown_worlds import greedy, open_grid, plan_seconds, random_world

import goalmeter as gm

NOISE = 0.2
_KERNELS = ("_sparsetools", "_dsolve", "SuperLU")


def _open(n: int, horizon: int) -> gm.TabularMDP:
    return open_grid(n).replace(horizon=horizon)


# What is changed, its value, the world, the noise.
ROWS: list[tuple[str, str, Callable[[], gm.TabularMDP], float]] = [
    *(("states", str(n * n), partial(_open, n, 90), NOISE) for n in (11, 16, 22, 32, 45)),
    *(("decisions", str(h), partial(_open, 20, h), NOISE) for h in (40, 80, 160, 320)),
    *(("actions", str(a), partial(random_world, 400, 30, 0, a), NOISE) for a in (2, 4, 8, 16)),
    *(("noise", f"{p:g}", partial(_open, 20, 40), p) for p in (0.5, 0.2, 0.05, 0.01)),
]


def measure(quick: bool) -> dict[str, Any]:
    """Every row; the first alone where it has to be quick."""
    return {"rows": [_row(*row) for row in ROWS[: 1 if quick else None]]}


def _row(changed: str, value: str, world: Callable[[], gm.TabularMDP], noise: float) -> Any:
    mdp = world()
    policy = greedy(mdp, noise)
    plan = plan_seconds(mdp)
    fit = partial(gm.meg.unknown_utility, mdp, policy, progress=False)
    with Products() as products:
        result, seconds = harness.processor(fit)
    profile = cProfile.Profile()
    profile.runcall(fit)
    return {
        "changed": changed,
        "value": value,
        "gap": result.gap,
        "seconds": seconds,
        "plan": plan,
        "steps": newton_steps(result),
        "products": products.count,
        "scipy": _share_of_kernels(profile),
    }


def _share_of_kernels(profile: cProfile.Profile) -> float:
    stats = pstats.Stats(profile)
    timings = stats.stats.items()  # type: ignore[attr-defined]
    seconds = {f"{place[0]} {place[2]}": timing[2] for place, timing in timings}
    kernels = sum(t for name, t in seconds.items() if any(kernel in name for kernel in _KERNELS))
    return float(kernels / sum(seconds.values()))


def markdown(result: dict[str, Any]) -> str:
    """The table, a row for each fit, and how time grows between the ends of each series."""
    header = ["changed", "to", "bound − value", "CPU", "a plan", "in plans", "steps", "products"]
    rows = [
        [
            r["changed"],
            r["value"],
            f"{max(r['gap'], 0.0):.0e}",
            harness.short(r["seconds"]),
            harness.short(r["plan"]),
            f"{r['seconds'] / r['plan']:.0f}",
            str(r["steps"]),
            str(r["products"]),
            f"{r['scipy']:.0%}",
        ]
        for r in result["rows"]
    ]
    lines = []
    for changed in ("states", "decisions", "actions"):
        series = [r for r in result["rows"] if r["changed"] == changed]
        if len(series) > 1:
            fit, plan = (_power(series, key) for key in ("seconds", "plan"))
            lines.append(
                f"- Growth with {changed}: a fit ~ {fit:.2f}, a plan ~ {plan:.2f} (power)."
            )
    return "\n\n".join([harness.table([*header, "in SciPy's kernels"], rows), "\n".join(lines)])


def _power(series: list[dict[str, Any]], key: str) -> float:
    """The slope of a line through the logarithms."""
    sizes, seconds = (np.log([float(r[k]) for r in series]) for k in ("value", key))
    return float(np.polyfit(sizes, seconds, 1)[0])


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
