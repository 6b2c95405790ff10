"""Coverage of the interval of an estimate from trajectories.

Worlds and policies whose MEG is known exactly; trajectories are drawn from the policy, the
interval is computed, and coverage is the share of runs in which it contains the exact MEG. `low`
and `high` are the shares of runs in which the exact MEG lies below and above. `raw` and `corrected`
are means over the runs, to be compared with `exact`: the first is biased upwards; the second is
never below 0, and so too high where the truth is small. With 400 runs a true rate of 95% is
observed between 93% and 97%; no row of a hundred or more trajectories is below that. With 25
trajectories it is 89.0%, below the nominal rate, where a class of utilities is fitted to a nearly
deterministic policy, and 92.8% in Example 1. Where the truth is 0 (the uniform policy) the interval
includes 0 unless the test rejects it, so coverage is higher. Run i of a row has the seed (0, i):
the table is the same on every machine.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter.meg.likelihood import fit_class, fit_known, group_trajectories, pooled
from goalmeter.meg.trajectories import infer
from goalmeter.tabular import sample_trajectories

CONFIDENCE = 0.95
RESAMPLES = 500


def mouse() -> gm.TabularMDP:
    """The paper's Example 1: one choice between cheese and nothing."""
    transition = [[[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]
    return gm.TabularMDP(transition, [0, 1, -1], horizon=2)


def settings(quick: bool) -> list[dict[str, Any]]:
    """World, policy, class, numbers of trajectories and of runs for each row."""
    choice = [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]
    cliff = gm.cliff_world(1)
    optimal = gm.optimal_policy(cliff)
    runs = 4 if quick else 400
    rows = [
        {"name": "Example 1, 0.8 mouse", "mdp": mouse(), "policy": choice, "runs": runs},
        *(
            {
                "name": f"CliffWorld, ε = {epsilon}" if epsilon < 0.75 else "CliffWorld, uniform",
                "mdp": cliff,
                "policy": gm.epsilon_greedy(optimal, epsilon),
                "runs": runs,
            }
            for epsilon in (0.3, 0.6, 0.75)
        ),
    ]
    known = [{**row, "unknown": None, "n": n} for row in rows for n in (25, 100)]
    class_ = [{**row, "unknown": "state", "n": n} for row in rows[1:] for n in (25, 100, 400)]
    return known[:2] + class_[:1] if quick else known + class_


def row(setting: dict[str, Any]) -> dict[str, Any]:
    """Coverage of one setting."""
    mdp, policy, n, unknown = (setting[k] for k in ("mdp", "policy", "n", "unknown"))
    measure = gm.meg.known_utility if unknown is None else gm.meg.unknown_utility
    exact = measure(mdp, policy).value
    fitter = fit_known if unknown is None else fit_class
    # Each of the decisions but the last can matter at most so much; it bounds few trajectories.
    most = mdp.horizon * float(np.log(mdp.n_actions))
    estimates = []
    for run in range(setting["runs"]):
        rng = np.random.default_rng([0, run])
        groups = group_trajectories(
            mdp, sample_trajectories(mdp, policy, n, rng=rng), unknown=unknown
        )
        groups = pooled(groups)
        fit = fitter(groups)
        result = infer(
            groups, fit, confidence=CONFIDENCE, resamples=RESAMPLES, rng=rng, maximum=most
        )
        estimates.append((fit.value, result["corrected"], *result["interval"]))
    raw, corrected, low, high = np.array(estimates).T
    slack = 1e-9
    return {
        "name": setting["name"],
        "utility": "known" if unknown is None else "any over states",
        "n": n,
        "runs": setting["runs"],
        "exact": exact,
        "coverage": float(np.mean((low <= exact + slack) & (exact <= high + slack))),
        "low": float(np.mean(exact < low - slack)),
        "high": float(np.mean(exact > high + slack)),
        "raw": float(raw.mean()),
        "corrected": float(corrected.mean()),
        "width": float((high - low).mean()),
    }


def measure(quick: bool) -> dict[str, Any]:
    """All rows."""
    return {"confidence": CONFIDENCE, "rows": [row(s) for s in settings(quick)]}


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    header = ["behaviour", "utility", "n", "exact", "coverage", "low", "high", "raw", "corrected"]
    header += ["mean width"]
    rows = [
        [
            r["name"],
            r["utility"],
            str(r["n"]),
            f"{r['exact']:.4f}",
            f"{r['coverage']:.1%}",
            f"{r['low']:.1%}",
            f"{r['high']:.1%}",
            f"{r['raw']:.4f}",
            f"{r['corrected']:.4f}",
            f"{r['width']:.3f}",
        ]
        for r in result["rows"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
