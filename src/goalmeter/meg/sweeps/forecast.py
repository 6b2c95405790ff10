"""What a sweep will cost, told by its plan alone: no row is measured.

    trials      chunks of rows, each kept as it ends
    rows        worlds * policies * utilities
    hours       seconds of the plan * rows left / rows / chunks that are made at once / 3600
    disk        of what is left: 100 bytes a row, 50 a world, 400 a chunk, and the plan as JSON text

Seconds of the plan are of one core. They go by the worlds' numbers of states (`plan.seconds_of`),
to within a factor of some.
"""

from __future__ import annotations

from pathlib import Path

from goalmeter._text import json_text
from goalmeter.meg.sweeps.plan import KIND, SweepPlan
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of, slots_at

ROW_BYTES, WORLD_BYTES, CHUNK_BYTES = 100, 50, 400


def forecast_of(plan: SweepPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """What is left of a sweep, and what measuring it will cost.

    Raises:
        InvalidFileError: a line of the folder is no chunk.
    """
    chunks = {chunk.key: chunk for chunk in plan.chunks}
    left = left_of(chunks, out)
    rows = sum(chunks[key].rows for key in left)
    worlds = sum(len(plan.part(chunks[key])[0]) for key in left)
    size = rows * ROW_BYTES + worlds * WORLD_BYTES + len(left) * CHUNK_BYTES
    slots, at_once = slots_at(on, len(left))
    return Forecast(
        name=KIND,
        noun="chunk",
        trials=len(chunks),
        kept=len(chunks) - len(left),
        left=len(left),
        # There may be fewer chunks than places for them.
        slots=slots,
        place=on,
        hours=Span.of(plan.seconds * rows / plan.rows / min(slots, max(len(left), 1)) / 3600),
        disk=Span.of(size + (len(json_text(plan.to_json())) if left else 0)),
        counted={
            "worlds": plan.worlds,
            "policies": len(plan.policies),
            "utilities": len(plan.utilities),
            "rows": plan.rows,
        },
        assumed=(
            "the time is guessed from the numbers of states, to within a factor of some, and "
            "nothing was measured for it",
            f"a row takes some {ROW_BYTES} bytes, a world {WORLD_BYTES} more, a chunk "
            f"{CHUNK_BYTES} more",
            at_once,
        ),
    )
