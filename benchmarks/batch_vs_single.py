"""A batch of 256 problems on one MDP costs less than 256 single ones.

On CliffWorld and on a random sparse MDP of 2500 states: 256 rationalities planned for by
`soft_plan`, 256 policies and 256 utilities measured by `known_utility_many`, each against a loop
over the single call. Both sides give the same numbers to within rounding, which is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from sparse_worlds import sparse_world

import goalmeter as gm
from goalmeter.tabular import soft_plan

BATCH = 256


def measure(quick: bool) -> dict[str, Any]:
    batch = 4 if quick else BATCH
    worlds = {"CliffWorld (40 states)": gm.cliff_world(1)}
    n_states = 200 if quick else 2_500
    worlds[f"random sparse ({n_states:,} states)"] = sparse_world(n_states, 30)
    repeats = 1 if quick else 3
    rows = []
    for world, mdp in worlds.items():
        for kind, (together, apart) in _pairs(mdp, batch).items():
            values: dict[str, np.ndarray[Any, Any]] = {}

            def batched(call: Call = together, values: dict[str, Any] = values) -> None:
                values["batch"] = call()

            def looped(call: Call = apart, values: dict[str, Any] = values) -> None:
                values["singles"] = call()

            # The loop is an average over 256 calls in itself; only short ones are repeated.
            times = [harness.interleaved([batched, looped], 1, warm_up=False)]
            while len(times) < repeats and times[0][1] < 5.0:
                times.append(harness.interleaved([batched, looped], 1, warm_up=False))
            batch_seconds, single_seconds = np.median(times, axis=0).tolist()
            rows.append(
                {
                    "world": world,
                    "what": kind,
                    "batch_seconds": batch_seconds,
                    "single_seconds": single_seconds,
                    "times_cheaper": single_seconds / batch_seconds,
                    "largest_difference": float(np.abs(values["batch"] - values["singles"]).max()),
                }
            )
    return {"batch": batch, "rows": rows}


Call = Callable[[], np.ndarray[Any, Any]]


def _pairs(mdp: gm.TabularMDP, batch: int) -> dict[str, tuple[Call, Call]]:
    """For each kind of batch, the batch and the loop; both return what they found."""
    rng = np.random.default_rng(0)
    rationalities = np.geomspace(0.01, 10.0, batch)
    best = gm.optimal_policy(mdp)
    policies = [gm.epsilon_greedy(best, e) for e in np.linspace(0.05, 0.7, batch)]
    utilities = list(rng.random((batch, mdp.n_states)))
    policy = policies[batch // 2]
    many = gm.meg.known_utility_many

    def values(results: list[gm.MegResult]) -> np.ndarray[Any, Any]:
        return np.array([r.value for r in results])

    return {
        "rationalities, soft_plan": (
            lambda: soft_plan(mdp, rationalities).soft[0],
            lambda: np.concatenate([soft_plan(mdp, b).soft[0] for b in rationalities], axis=1),
        ),
        "policies, known_utility_many": (
            lambda: values(many(mdp, policies)),
            lambda: values([gm.meg.known_utility(mdp, p) for p in policies]),
        ),
        "utilities, known_utility_many": (
            lambda: values(many(mdp, [policy], utilities=utilities)),
            lambda: values([gm.meg.known_utility(mdp, policy, utility=u) for u in utilities]),
        ),
    }


def markdown(result: dict[str, Any]) -> str:
    header = ["world", f"{result['batch']} of", "batch", "singles", "batch is cheaper", "differ by"]
    rows = [
        [
            row["world"],
            row["what"],
            harness.short(row["batch_seconds"]),
            harness.short(row["single_seconds"]),
            f"{row['times_cheaper']:.1f}x",
            f"{row['largest_difference']:.0e}",
        ]
        for row in result["rows"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
