"""The best of all utilities is found and proven in worlds and behaviours of ten kinds.

Worlds and behaviours (`unknown_worlds.py`) are drawn at random, and each is fitted with
`gm.meg.unknown_utility` as a user would, with 60 seconds for each. The penalties and the damping
were chosen on other worlds; the dense fallback was added after the first fit of utilities over
state-action pairs in this sweep had stayed open.

Closed is a bound within a millionth of the value (or 1e-9 nats).
Products are those with the information, each of which costs two passes over the decisions; steps
are Newton steps. Medians and 95th percentiles are over the fits of a kind. Times are of the process
and count only on a machine that does nothing else.
"""

from __future__ import annotations

import time
from typing import Any

import harness
import numpy as np
from unknown_worlds import KINDS, Task

import goalmeter as gm
from goalmeter.meg.soft_model import SoftModel

EACH = 10
TIMEOUT = 60.0


class Products:
    """Counts the products with the information while it is entered."""

    def __enter__(self) -> Products:
        self.count, self._curve = 0, SoftModel.curve

        def counted(model: SoftModel, direction: Any, states: Any) -> Any:
            self.count += 1
            return self._curve(model, direction, states)

        SoftModel.curve = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        SoftModel.curve = self._curve  # type: ignore[method-assign]


def measure(quick: bool) -> dict[str, Any]:
    """Every kind, so many times."""
    each = 1 if quick else EACH
    return {"each": each, "timeout": TIMEOUT, "rows": [_kind(name, each) for name in KINDS]}


def _kind(name: str, each: int) -> dict[str, Any]:
    fits = []
    for i in range(each):
        rng = np.random.default_rng([16, list(KINDS).index(name), i])
        fits.append(_fit(KINDS[name](rng)))
    open_ = [f["gap"] for f in fits if not f["closed"]]
    return {
        "kind": name,
        "fits": len(fits),
        "closed": sum(f["closed"] for f in fits),
        "largest_open_gap": max(open_, default=0.0),
        **{
            f"{what}_{q}": float(np.percentile([f[what] for f in fits], q))
            for what in ("steps", "products", "seconds")
            for q in (50, 95)
        },
    }


def _fit(task: Task) -> dict[str, Any]:
    with Products() as products:
        began = time.process_time()
        result = gm.meg.unknown_utility(
            task.mdp, task.policy, over=task.over, timeout=TIMEOUT, progress=False
        )
        seconds = time.process_time() - began
    steps = int(result.method.split(",")[1].split()[0])
    closed = result.gap <= max(1e-6 * result.value, 1e-9)
    return {
        "gap": result.gap,
        "closed": bool(closed),
        "steps": steps,
        "products": products.count,
        "seconds": seconds,
    }


def markdown(result: dict[str, Any]) -> str:
    """The table, a row for each kind."""
    header = ["kind", "closed", "largest open gap", "steps", "products", "CPU"]
    rows = [
        [
            r["kind"],
            f"{r['closed']} of {r['fits']}",
            f"{r['largest_open_gap']:.1e}" if r["largest_open_gap"] else "–",
            f"{r['steps_50']:.0f} / {r['steps_95']:.0f}",
            f"{r['products_50']:.0f} / {r['products_95']:.0f}",
            f"{harness.short(r['seconds_50'])} / {harness.short(r['seconds_95'])}",
        ]
        for r in result["rows"]
    ]
    total, fits = (sum(r[key] for r in result["rows"]) for key in ("closed", "fits"))
    text = harness.table(header, rows)
    return f"{text}\n\n- Closed: {total} of {fits}. Median / 95th percentile."


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
