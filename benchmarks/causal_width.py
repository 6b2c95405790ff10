"""The cost of MEG in a diagram grows with its elimination width, nearly linearly with its size.

Grids of binary variables: each has two parents, the one before it on its rail and the one above,
so every CPD is small and the elimination width is the number of rails. A decision at the near end
of the first rail, towards the far end of the last one. `ours` is the whole of `gm.meg.targets`. It
is compared with a lower bound that uses the structure of the grid: the conditional probability of
the target given the decision and its observations, by a hand-written sweep along the rails
(`baselines/grid_sweep.py`), whose tables have 2^(rails + 2) numbers. The sweep measures nothing and
needs no elimination order; both sides' probabilities must agree. The first table has grids of one
width and growing length, where time should be linear, the second grids of growing width.
"""

from __future__ import annotations

import time
from typing import Any

import harness
import numpy as np
from baselines.grid_sweep import conditional
from causal_worlds import grid, tables

import goalmeter as gm
from goalmeter.causal.contexts import neutral_network

DECISION = "R0_1"
# Rails -> numbers of variables.
GROWING = {1: (20, 40, 80, 160, 320), 2: (20, 40, 80, 160, 320), 4: (40, 80, 160, 320)}
VARIABLES = 240
RAILS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)


def measure(quick: bool) -> dict[str, Any]:
    longer = []
    for rails, sizes in GROWING.items():
        rows = [_row(rails, n, quick) for n in (sizes[:2] if quick else sizes)]
        n, seconds = [r["variables"] for r in rows], [r["ours_seconds"] for r in rows]
        longer.append(
            {
                "rails": rails,
                "rows": rows,
                "exponent": harness.exponent(n, seconds),
                "exponent_last_two": harness.exponent(n[-2:], seconds[-2:]),
            }
        )
    variables = 24 if quick else VARIABLES
    wider = [_row(rails, variables, quick) for rails in (RAILS[:3] if quick else RAILS)]
    return {"longer": longer, "variables": variables, "wider": wider}


def _row(rails: int, n: int, quick: bool) -> dict[str, Any]:
    """A grid of about n variables."""
    length = n // rails
    network = grid(rails, length)
    target = f"R{rails - 1}_{length - 1}"
    evidence = (*network.parents(DECISION), DECISION)
    neutral = neutral_network(network, [DECISION])
    order = [f"R{i}_{j}" for j in range(length) for i in range(rails)]
    cpds = tables(neutral)[0]
    began = time.perf_counter()
    try:
        value = gm.meg.targets(network, [DECISION], [target]).value
    except gm.GoalmeterError as refusal:
        return {"rails": rails, "variables": rails * length, "refused": str(refusal)}
    rounds = 1 if quick else harness.enough(time.perf_counter() - began, budget=1.0)
    ours_exact = neutral.elimination.conditional((target,), evidence)
    exact = conditional(cpds, order, evidence, target)
    ours, sweep = harness.interleaved(
        [
            lambda: gm.meg.targets(network, [DECISION], [target]),
            lambda: conditional(cpds, order, evidence, target),
        ],
        rounds,
    )
    return {
        "rails": rails,
        "variables": rails * length,
        "refused": "",
        "value": value,
        "ours_seconds": ours,
        "sweep_seconds": sweep,
        "differ_by": float(np.abs(ours_exact - exact).max()),
    }


def markdown(result: dict[str, Any]) -> str:
    header = ["rails (width)", "variables", "largest table of the sweep", "ours", "by hand"]
    header += ["ours / by hand", "differ by"]
    rows = [_cells(row) for part in result["longer"] for row in part["rows"]]
    lines = [harness.table(header, rows), ""]
    for part in result["longer"]:
        last = part["rows"][-1]
        lines.append(
            f"- Width {part['rails']}: time ~ variables^{part['exponent']:.2f} over all sizes, "
            f"variables^{part['exponent_last_two']:.2f} between the last two "
            f"({1e6 * last['ours_seconds'] / last['variables']:.0f} us a variable)."
        )
    lines += ["", f"About {result['variables']} variables, of growing width:", ""]
    lines += [harness.table(header, [_cells(row) for row in result["wider"]])]
    done = [row for row in result["wider"] if not row["refused"]]
    if len(done) > 2:
        a, b = done[-3], done[-1]
        ours, sweep = (
            (b[k] / a[k]) ** (1 / (b["rails"] - a["rails"]))
            for k in ("ours_seconds", "sweep_seconds")
        )
        lines += [
            "",
            f"- From {a['rails']} to {b['rails']} rails each rail more makes ours {ours:.2f} times "
            f"as long and the sweep {sweep:.2f} times; 2 is what the largest table grows by.",
        ]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    head = [str(row["rails"]), str(row["variables"]), f"{2 ** (row['rails'] + 2):,}"]
    if row["refused"]:
        return [*head, "refused: too large", "-", "-", "-"]
    ours, sweep = row["ours_seconds"], row["sweep_seconds"]
    times = [harness.short(ours), harness.short(sweep), f"{ours / sweep:.1f}"]
    return [*head, *times, f"{row['differ_by']:.0e}"]


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
