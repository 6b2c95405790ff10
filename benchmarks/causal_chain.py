"""Fifty decisions in a diagram are measured in well under a second, a few times the MDP's time.

An MDP of 6 states and 3 actions, unrolled into an influence diagram with a state and a decision a
step, each of which sees the state alone (sufficient recall), a reward on each state and a random
policy. `causal_utility` measures the diagram for the sum of rewards, `targets` towards the last
state; both use only the graph and the tables. The peer is `gm.meg.known_utility` of the MDP itself,
which must give the same value: the ratio is the cost of the detour through the graph. Enumerating
the joint outcomes is no comparison here: at 50 decisions there are 10^62.
"""

from __future__ import annotations

import time
from typing import Any

import harness
from causal_worlds import random_mdp

import goalmeter as gm
from goalmeter.causal import unroll

STATES, ACTIONS = 6, 3
DECISIONS = (10, 25, 50, 100, 200)


def measure(quick: bool) -> dict[str, Any]:
    lengths = DECISIONS[:2] if quick else DECISIONS
    rows = [_row(horizon, quick) for horizon in lengths]
    horizons = [row["decisions"] for row in rows]
    growth = {
        name: harness.exponent(horizons[-2:], [row[f"{name}_seconds"] for row in rows[-2:]])
        for name in ("mdp", "utility", "targets")
    }
    return {"rows": rows, "exponent_last_two": growth}


def _row(horizon: int, quick: bool) -> dict[str, Any]:
    mdp, policy = random_mdp(STATES, ACTIONS, horizon)
    diagram = unroll(mdp, policy)
    last = f"S{horizon}"
    bare = gm.meg.known_utility(mdp, policy)
    began = time.perf_counter()
    whole = gm.meg.causal_utility(diagram)
    rounds = 1 if quick else harness.enough(time.perf_counter() - began, budget=2.0)
    towards = gm.meg.targets(diagram, targets=[last])
    seconds = harness.interleaved(
        [
            lambda: gm.meg.known_utility(mdp, policy),
            lambda: gm.meg.causal_utility(diagram),
            lambda: gm.meg.targets(diagram, targets=[last]),
        ],
        rounds,
        warm_up=False,
    )
    return {
        "decisions": horizon,
        "variables": 2 * horizon,
        "value": whole.value,
        "differ_by": abs(whole.value - bare.value),
        "targets_value": towards.value,
        "targets_gap": towards.upper_bound - towards.value,
        **dict(zip(("mdp_seconds", "utility_seconds", "targets_seconds"), seconds, strict=True)),
    }


def markdown(result: dict[str, Any]) -> str:
    header = ["decisions", "variables", "MDP: known utility", "diagram: known utility", "ratio"]
    header += ["differ by", "diagram: targets", "certified to"]
    rows = [
        [
            str(row["decisions"]),
            str(row["variables"]),
            harness.short(row["mdp_seconds"]),
            harness.short(row["utility_seconds"]),
            f"{row['utility_seconds'] / row['mdp_seconds']:.1f}",
            f"{row['differ_by']:.0e}",
            harness.short(row["targets_seconds"]),
            f"{row['targets_gap']:.0e}",
        ]
        for row in result["rows"]
    ]
    g = result["exponent_last_two"]
    lines = [
        harness.table(header, rows),
        "",
        f"- Growth between the last two sizes: the MDP decisions^{g['mdp']:.2f}, the diagram's "
        f"known utility decisions^{g['utility']:.2f}, its targets decisions^{g['targets']:.2f}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
