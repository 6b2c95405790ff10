"""More processes give the same trials in less time.

The naive learner in the whole battery, 10 seeds of 1000 steps, by `reflection.measure` with one
process (this one) and with 2, 4, ... workers, up to the cores of the machine; whole calls by the
clock, workers started and ended. Every trial must be the same. Speed-up is over one process.
"""

from __future__ import annotations

import time
from typing import Any

import harness

import goalmeter as gm

AGENT, STEPS, SEEDS = "naive", 1000, 10


def measure(quick: bool) -> dict[str, Any]:
    steps, seeds = (20, 1) if quick else (STEPS, SEEDS)
    counts = [1, 2]
    while not quick and 2 * counts[-1] <= harness.cores():
        counts.append(2 * counts[-1])
    rows: list[dict[str, Any]] = []
    first = None
    for workers in counts:
        began = time.perf_counter()
        result = gm.reflection.measure(
            AGENT, steps=steps, seeds=seeds, on="here" if workers == 1 else f"processes:{workers}"
        )
        seconds = time.perf_counter() - began
        first = first or result
        rows.append(
            {
                "workers": workers,
                "seconds": seconds,
                "speed_up": (rows[0]["seconds"] if rows else seconds) / seconds,
                "trials": len(result.trials),
                "differ": sum(
                    trial != again for trial, again in zip(first.trials, result.trials, strict=True)
                ),
            }
        )
    return {"agent": AGENT, "steps": steps, "rows": rows}


def markdown(result: dict[str, Any]) -> str:
    header = ["workers", "time", "speed-up", "trials", "differ"]
    rows = [
        [
            str(row["workers"]),
            harness.short(row["seconds"]),
            f"{row['speed_up']:.2f}x",
            str(row["trials"]),
            str(row["differ"]),
        ]
        for row in result["rows"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
