"""A million (activation, cell) rows train in minutes on one core, without a matrix of rows × dims.

Activations of 576 dimensions (three tokens of 192) with planted maps of size 7. Ours processes each
activation once per state and each cell once per shape; the naive design is one hidden layer of the
same size over whole rows. The table has an epoch of both at growing numbers of rows and, at the
largest, a complete fit of a ridge head per cell and three epochs of the MLP with its evaluations on
validation grids. Peak memory is that of the process; the size of the largest naive matrix is
computed, not allocated.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any

import harness
import numpy as np
from baselines.naive_rows import train_whole_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from representation.planted import Plant, planted

from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import Mlp, Ridge, Schedule
from goalmeter.representation.scenes import Scenes, split

DIMENSIONS, HIDDEN, CELLS = 576, 256, 49
NAIVE_UP_TO = 100_000


def reading_of(rows: int) -> Reading:
    """States with as many cells as rows; a few hundred grids, repeated with noise of their own."""
    made = planted(Plant(grids=300, noise=0.7, dimensions=DIMENSIONS), seed=0)
    states = -(-rows // CELLS)
    chosen = np.resize(np.arange(len(made.scenes)), states)
    rng = np.random.default_rng(1)
    noise = rng.normal(scale=0.7, size=(states, DIMENSIONS)).astype(np.float32)
    scenes = made.scenes
    return Reading(
        made.activations[chosen] + noise,
        Scenes(
            tuple(scenes.worlds[i] for i in chosen),
            tuple(scenes.states[i] for i in chosen),
            (None,) * states,
            scenes.grids[chosen],
        ),
    )


def timed(kind: str, rows: int, quick: bool) -> dict[str, Any]:
    """One fit in a process of its own: seconds, and how far its peak rose above its data, MiB."""
    import torch

    torch.set_num_threads(1)
    # The first optimiser of a process loads what takes seconds.
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]).zero_grad()
    reading = reading_of(rows)
    labels = reading.scenes.labels
    parts = split(reading.scenes, validation=0.1, test=0.01, seed=0)
    train, validation = reading.where(parts.train), reading.where(parts.validation)
    _ = train.scenes.labels, validation.scenes.labels  # made once, by whatever comes after
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    if kind == "naive, an epoch":
        train_whole_rows(
            reading.activations[parts.train],
            labels[parts.train],
            hidden=HIDDEN,
            epochs=1,
            batch=2048,
            seed=0,
        )
    elif kind == "MLP, an epoch":
        Mlp(HIDDEN, Schedule(epochs=1)).fit(train, validation, seed=0)
    elif kind == "MLP, three epochs":
        Mlp(HIDDEN, Schedule(epochs=1 if quick else 3)).fit(train, validation, seed=0)
    else:
        Ridge().fit(train, validation, seed=0)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "what": kind,
        "rows": len(parts.train) * CELLS,
        "seconds": seconds,
        "memory_mib": (after - before) / 1024,
        "matrix_mib": len(parts.train) * CELLS * (DIMENSIONS + 14) * 4 / 2**20,
    }


def measure(quick: bool) -> dict[str, Any]:
    sizes = [15_000] if quick else [20_000, 80_000, 1_120_000]
    plan = [
        (kind, rows)
        for rows in sizes
        for kind in ("naive, an epoch", "MLP, an epoch")
        if rows <= NAIVE_UP_TO or kind != "naive, an epoch"
    ]
    plan += [(kind, sizes[-1]) for kind in ("ridge, whole fit", "MLP, three epochs")]
    rows = []
    # A process each, so that the peak of one is not that of the next.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for kind, size in plan:
            rows.append(pool.apply(timed, (kind, size, quick)))
    return {"dimensions": DIMENSIONS, "hidden": HIDDEN, "rows": rows}


def markdown(result: dict[str, Any]) -> str:
    header = ["what", "rows", "time", "peak above the data", "rows × dims would be"]
    rows = [
        [
            row["what"],
            f"{row['rows']:,}",
            harness.short(row["seconds"]),
            f"{row['memory_mib']:.0f} MiB",
            f"{row['matrix_mib']:,.0f} MiB",
        ]
        for row in result["rows"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
