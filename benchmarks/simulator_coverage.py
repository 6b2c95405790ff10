"""How often the interval of `meg.from_simulator` holds the truth, how close it is, at what cost.

Worlds whose MEG is known exactly are run as simulators: the measure sees steps, not tables.
`coverage` counts in how many runs the exact value lies inside; `low` and `high` in how many it lies
below and above. The level is 95%; the limits hold at every sample size, so they cover more often.
`lower / exact` is the mean lower end as a share of the truth with the budget of the row.

The second table says what it takes until the lower end has reached 90% of the truth: steps, and
seconds of one core. Worlds without chance need each action of each state twice and are then exact.
It is loose for hot rationalities (the width of a soft value grows with the rationality), long
horizons (widths of all decisions add up), strong chance, and small MEG (the width is absolute).
The third table has the same against the horizon and the number of successors.

Run i of a row has the seed i: the numbers are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.gridworld import key_door, key_no_door, maze, tabular_world
from goalmeter.tabular import epsilon_greedy, optimal_policy, soft_plan

RUNS = 50
SHARE = 0.9
MOST_STEPS = 150_000_000


@dataclass(frozen=True)
class Case:
    """A world, a policy, the budget of its coverage, and what is known of the utility."""

    name: str
    mdp: gm.TabularMDP
    policy: FloatArray
    budget: int
    bounds: tuple[float, ...] | None = None


def greedy(mdp: gm.TabularMDP, epsilon: float) -> FloatArray:
    return np.asarray(epsilon_greedy(optimal_policy(mdp), epsilon))


def soft(mdp: gm.TabularMDP, rationality: float) -> FloatArray:
    return np.asarray(soft_plan(mdp, rationality).policy()[..., 0])


def sparse(seed: int, successors: int = 2, horizon: int = 20) -> gm.TabularMDP:
    """A random world of 30 states and 4 actions with few successors."""
    rng = np.random.default_rng(seed)
    after = rng.integers(0, 30, (30, 4, successors))
    probability = rng.dirichlet(np.full(successors, 2.0), (30, 4))
    return gm.TabularMDP((after, probability), rng.normal(size=30), horizon=horizon)


def frozen_lake(slippery: bool) -> gm.TabularMDP:
    """FrozenLake, being on the goal paid once: the goal leads on to an end that pays nothing."""
    table = gm.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=30, is_slippery=slippery)
    p = np.zeros((17, 4, 17))
    p[:16, :, :16] = table.transition.to_dense()
    p[15] = 0.0
    p[15:, :, 16] = 1.0
    reward = np.zeros(17)
    reward[15] = 1.0
    return gm.TabularMDP(p, reward, horizon=30)


def taxi() -> gm.TabularMDP:
    return gm.TabularMDP.from_gymnasium("Taxi-v4", horizon=25)


def cases(quick: bool) -> list[Case]:
    cliffs = [
        Case(f"CliffWorld{words}, ε = {e}", mdp, greedy(mdp, e), 500_000)
        for words, mdp, errors in (
            ("", gm.cliff_world(1), (0.0, 0.1, 0.3, 0.5)),
            (", goal of 3", gm.cliff_world(3), (0.1,)),
        )
        for e in errors
    ]
    random = [
        Case(f"random sparse {seed}, β = {b}", mdp, soft(mdp, b), 2_000_000)
        for seed, b in ((0, 1.0), (1, 2.0), (2, 4.0), (3, 1.0))
        for mdp in [sparse(seed)]
    ]
    lakes = [
        # The goal is paid once: that much is known without a table.
        Case(f"FrozenLake, {words}, ε = {e}", mdp, greedy(mdp, e), 5_000_000, (0, 1, 0, 1))
        for words, slippery, e in (
            ("slippery", True, 0.1),
            ("slippery", True, 0.3),
            ("firm", False, 0.2),
        )
        for mdp in [frozen_lake(slippery)]
    ]
    cabs = [Case("Taxi, ε = 0.1", mdp, greedy(mdp, 0.1), 150_000) for mdp in [taxi()]]
    grids = {
        "maze 7": maze(7, 0.8, 0).world,
        "maze 9": maze(9, 0.8, 1).world,
        "maze 9, open": maze(9, 0.0, 2).world,
        "key and door": key_door(0),
        "key, no door": key_no_door(1),
    }
    walls = [
        Case(f"{name}, ε = {e}", mdp, greedy(mdp, e), 30_000)
        for (name, world), e in zip(grids.items(), (0.1, 0.3, 0.2, 0.1, 0.3), strict=True)
        for mdp in [tabular_world(world, horizon=30).mdp]
    ]
    keys = [
        Case(f"{name}, towards the key, ε = 0.2", mdp, greedy(mdp, 0.2), 30_000)
        for name in ("key and door", "key, no door")
        for mdp in [tabular_world(grids[name], horizon=30, utility="key").mdp]
    ]
    uniform = Case("CliffWorld, free choice", cliffs[0].mdp, np.full((40, 4), 0.25), 60_000)
    if quick:
        return [cliffs[2], walls[0]]
    return [*cliffs, uniform, *random, *lakes, *cabs, *walls, *keys]


def covered(case: Case, runs: int) -> dict[str, Any]:
    """Coverage of one world."""
    exact = gm.meg.known_utility(case.mdp, case.policy).value
    slack = 1e-7 * max(exact, 1.0)
    results, seconds = harness.processor(
        lambda: [
            gm.meg.from_simulator(
                case.mdp,
                case.policy,
                budget=case.budget,
                bounds=case.bounds,
                seed=run,
                progress=False,
            )
            for run in range(runs)
        ]
    )
    low, high = np.array([result.interval for result in results]).T
    return {
        "name": case.name,
        "exact": exact,
        "runs": runs,
        "coverage": float(np.mean((low <= exact + slack) & (exact <= high + slack))),
        "low": float(np.mean(exact < low - slack)),
        "high": float(np.mean(exact > high + slack)),
        "lower": float(low.mean()),
        "upper": float(high.mean()),
        "estimate": float(np.mean([result.value for result in results])),
        "steps": float(np.mean([sum(result.steps.values()) for result in results])),
        "seconds": seconds / runs,
        "binding": results[0].binding,
    }


def tight(case: Case, most: int) -> dict[str, Any]:
    """Steps until the lower end has reached its share of the truth; budgets are tripled."""
    mdp, policy = case.mdp, case.policy
    exact = gm.meg.known_utility(mdp, policy)
    budget = 20_000
    while True:
        result, seconds = harness.processor(
            lambda budget=budget: gm.meg.from_simulator(  # type: ignore[misc]
                mdp,
                policy,
                budget=budget,
                bounds=case.bounds,
                seed=0,
                precision=0.05,
                progress=False,
            )
        )
        if result.interval[0] >= SHARE * exact.value or 3 * budget > most:
            break
        budget *= 3
    return {
        "name": case.name,
        "exact": exact.value,
        "rationality": exact.rationality if np.isfinite(exact.rationality) else "inf",
        "share": result.interval[0] / exact.value if exact.value > 0 else 1.0,
        "upper": result.interval[1],
        "steps": sum(result.steps.values()),
        "seconds": seconds,
        "binding": result.binding,
    }


def measure(quick: bool) -> dict[str, Any]:
    """All three tables."""
    chosen, most = cases(quick), 60_000 if quick else MOST_STEPS
    growing = [
        *((f"CliffWorld, horizon {h}", gm.cliff_world(1, horizon=h)) for h in (10, 20, 40, 80)),
        *((f"{k} successors", sparse(5, k)) for k in (1, 2, 4, 8)),
    ]
    return {
        "coverage": [covered(case, 2 if quick else RUNS) for case in chosen],
        "tight": [tight(c, most) for c in chosen if "free" not in c.name],
        "growth": [
            tight(Case(name, mdp, greedy(mdp, 0.1), 0), most)
            for name, mdp in growing[: 1 if quick else 8]
        ],
    }


def tight_row(row: dict[str, Any]) -> list[str]:
    """A row of the second and third tables."""
    beta = row["rationality"]
    return [
        row["name"],
        f"{row['exact']:.3f}",
        beta if isinstance(beta, str) else f"{beta:.3g}",
        f"{row['share']:.1%}",
        f"{row['upper']:.3f}",
        f"{row['steps']:,}",
        f"{row['seconds']:.1f}",
    ]


def markdown(result: dict[str, Any]) -> str:
    """The tables."""
    total = sum(row["runs"] for row in result["coverage"])
    inside = sum(row["runs"] * row["coverage"] for row in result["coverage"])
    first = harness.table(
        ["world and agent", "exact", "runs", "coverage", "low", "high", "lower / exact", "upper",
         "estimate", "steps", "seconds"],
        [
            [r["name"], f"{r['exact']:.3f}", str(r["runs"]), f"{r['coverage']:.1%}",
             f"{r['low']:.1%}", f"{r['high']:.1%}",
             f"{r['lower'] / r['exact']:.1%}" if r["exact"] > 1e-9 else "–",
             f"{r['upper']:.3f}", f"{r['estimate']:.3f}", f"{r['steps']:,.0f}",
             f"{r['seconds']:.1f}"]
            for r in result["coverage"]
        ],
    )  # fmt: skip
    header = ["world and agent", "exact", "β", "lower / exact", "upper", "steps", "seconds"]
    others = [harness.table(header, [tight_row(r) for r in result[n]]) for n in ("tight", "growth")]
    return "\n\n".join([f"{inside:.0f} of {total} runs hold the truth.", first, *others])


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
