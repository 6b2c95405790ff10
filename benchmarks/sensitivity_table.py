"""A sensitivity table over all pairs of 30 variables takes seconds, less than its sets one by one.

`gm.meg.sensitivity` with sets of up to two targets, against calling `gm.meg.targets` for each set
of the table on its own: the same values, which is checked. The table shares eliminations between
sets, and skips sets that have the value of a subset (Theorem 4.1 of the paper: d-separation gives
equality). The two savings are separated by timing the calls for the sets that the theorem settles.

Random networks of 30 three-state variables with up to three and up to two parents, a decision near
their beginning; an MDP of 15 steps as a diagram, its first decision; and, where pgmpy is installed,
the networks that it ships as insurance and alarm.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import harness
import numpy as np
from causal_worlds import chain, random_network

import goalmeter as gm
from goalmeter.meg.causal.sensitivity import Sensitivity

# A decision that influences much, in the shipped networks.
SHIPPED = {"insurance": "DrivingSkill", "alarm": "INTUBATION"}


def models(quick: bool) -> dict[str, tuple[gm.CausalBayesianNetwork, tuple[str, ...]]]:
    """Name -> network and decisions."""
    if quick:
        return {"random, small": (random_network(8), ("X3",))}
    networks = {
        f"random, up to {p} parents": (random_network(30, parents=p), ("X3",)) for p in (3, 2)
    }
    networks["MDP of 15 steps, D1"] = (chain(3, 2, 15).network, ("D1",))
    pgmpy = importlib.util.find_spec("pgmpy")
    if pgmpy is not None and pgmpy.origin is not None:
        folder = Path(pgmpy.origin).parent / "utils" / "example_models"
        for name, decision in SHIPPED.items():
            network = gm.CausalBayesianNetwork.from_bif(folder / f"{name}.bif.gz")
            networks[name] = (network, (decision,))
    return networks


def measure(quick: bool) -> dict[str, Any]:
    rows = [
        _row(name, network, decisions, rounds=1 if quick else 3)
        for name, (network, decisions) in models(quick).items()
    ]
    return {"rows": rows}


def _row(
    name: str, network: gm.CausalBayesianNetwork, decisions: tuple[str, ...], rounds: int
) -> dict[str, Any]:
    def table() -> tuple[float, Sensitivity]:
        began = time.perf_counter()
        sensitivity = gm.meg.sensitivity(network, decisions)
        return time.perf_counter() - began, sensitivity

    seconds, sets = table()
    whole = [seconds]
    # The sets one by one are an average over hundreds of calls in itself: once, between the tables.
    settled = unsettled = differ = 0.0
    for row in sets.rows:
        began = time.perf_counter()
        alone = gm.meg.targets(network, decisions, row.targets)
        taken = time.perf_counter() - began
        settled += taken * (row.equal_to is not None)
        unsettled += taken * (row.equal_to is None)
        differ = max(differ, abs(alone.value - row.value))
    whole += [table()[0] for _ in range(rounds - 1)]
    return {
        "model": name,
        "variables": len(network.variables),
        "decisions": len(decisions),
        "sets": len(sets.rows),
        "settled_by_theorem": sum(row.equal_to is not None for row in sets.rows),
        "bounded_by_theorem": sum(bool(row.at_most) for row in sets.rows),
        "table_seconds": float(np.median(whole)),
        "alone_seconds": settled + unsettled,
        "alone_settled_seconds": settled,
        "differ_by": differ,
    }


def markdown(result: dict[str, Any]) -> str:
    header = ["model", "variables", "sets", "settled by Theorem 4.1", "table", "a set"]
    header += ["sets one by one", "ratio", "of it sharing", "of it the theorem", "differ by"]
    rows = []
    for row in result["rows"]:
        table, alone = row["table_seconds"], row["alone_seconds"]
        needed = alone - row["alone_settled_seconds"]
        rows.append(
            [
                row["model"],
                str(row["variables"]),
                str(row["sets"]),
                str(row["settled_by_theorem"]),
                harness.short(table),
                harness.short(table / row["sets"]),
                harness.short(alone),
                f"{alone / table:.2f}x",
                f"{needed / table:.2f}x",
                f"{alone / needed:.2f}x",
                f"{row['differ_by']:.0e}",
            ]
        )
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
