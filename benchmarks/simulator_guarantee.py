"""Width and coverage of the guaranteed bounds of `meg.from_simulator`.

Worlds whose MEG is known exactly are sampled: the measure sees steps, not tables. The first table
has the mean ends of the interval and of the guaranteed bounds over three runs. The second counts
runs whose guaranteed bounds contain the exact value, at the nominal level and at one of 55%, with
budgets that are small for these worlds.

Run i of a row has the seed 20,000,000 + i: the numbers are the same on every machine.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
from simulator_coverage import frozen_lake, lottery

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.tabular import epsilon_greedy, optimal_policy

FIRST = 2 * 10**7
WIDTH_RUNS, COVERAGE_RUNS = 3, 10
Case = tuple[str, gm.TabularMDP, FloatArray, tuple[int, ...] | None]


def case(name: str, mdp: gm.TabularMDP, epsilon: float, bounds: tuple[int, ...] | None) -> Case:
    policy = np.asarray(epsilon_greedy(optimal_policy(mdp), epsilon))
    return f"{name}, ε = {epsilon}", mdp, policy, bounds


def cases() -> list[Case]:
    # The prize of FrozenLake is paid once.
    lakes = [case("FrozenLake, slippery", frozen_lake(), e, (0, 1, 0, 1)) for e in (0.1, 0.2, 0.3)]
    return [*lakes, *(case("CliffWorld", gm.cliff_world(1), e, None) for e in (0.1, 0.3, 0.5))]


def measured(one: Case, budget: int, runs: int, level: float = 0.95) -> dict[str, Any]:
    name, mdp, policy, bounds = one
    exact = gm.meg.known_utility(mdp, policy).value
    results, seconds = harness.processor(
        lambda: [
            gm.meg.from_simulator(
                mdp,
                policy,
                budget=budget,
                bounds=bounds,
                level=level,
                guarantee=True,
                seed=FIRST + run,
                progress=False,
            )
            for run in range(runs)
        ]
    )
    guaranteed = np.array([each.guaranteed for each in results])
    inside = (guaranteed[:, 0] <= exact + 1e-7) & (exact <= guaranteed[:, 1] + 1e-7)
    return {
        "name": name,
        "budget": budget,
        "level": level,
        "exact": exact,
        "runs": runs,
        "inside": int(inside.sum()),
        "interval": np.mean([each.interval for each in results], axis=0).tolist(),
        "guaranteed": guaranteed.mean(axis=0).tolist(),
        "seconds": seconds / runs,
    }


def measure(quick: bool) -> dict[str, Any]:
    chosen = cases()
    if quick:
        return {"widths": [measured(chosen[5], 20_000, 1)], "coverage": []}
    rare = case("lottery of 0.001", lottery(1e-3), 0.2, (0, 1))
    return {
        "widths": [
            measured(one, budget, WIDTH_RUNS) for one in chosen for budget in (200_000, 1_000_000)
        ],
        "coverage": [
            measured(one, budget, COVERAGE_RUNS, level)
            for one in (chosen[1], chosen[5], rare)
            for budget in (1_000, 5_000, 20_000)
            for level in (0.95, 0.55)
        ],
    }


def markdown(result: dict[str, Any]) -> str:
    ends = "[{:.2f}, {:.2f}]".format
    widths = [
        [r["name"], f"{r['budget']:,}", f"{r['exact']:.2f}", ends(*r["interval"]),
         ends(*r["guaranteed"]), f"{r['seconds']:.1f}"]
        for r in result["widths"]
    ]  # fmt: skip
    coverage = [
        [r["name"], f"{r['budget']:,}", f"{r['level']:.0%}", f"{r['inside']} of {r['runs']}",
         ends(*r["guaranteed"])]
        for r in result["coverage"]
    ]  # fmt: skip
    first = ["world and agent", "budget", "exact", "interval", "guaranteed", "seconds"]
    second = ["world and agent", "budget", "level", "contain", "guaranteed"]
    return f"{harness.table(first, widths)}\n\n{harness.table(second, coverage)}"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
