"""The search without sufficient recall matches a more elaborate one, with one exception.

An earlier version of the search had further parts (generations of utilities with inherited kinds of
policies, a walk along ridges at a fixed expected utility, limits in every direction). Its values,
stored in `baselines/causal_search.json`, are compared with those of the present search, which is
multi-start exact ascent, L-BFGS along branches of maximisers and mutations where branches end. The
random diagrams are decisions that forget, teams of two with binary choices, members who are to
match, and committees of three with three choices each; their policies are random, mixed or
deterministic. A diagram counts as *lost* where a value is lower by more than 1e-6 nats, and as
*gained* where one is higher by more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from causal.models import network_of
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter.causal import utility_of
from goalmeter.meg.causal.insufficient_recall import search
from goalmeter.meg.causal.outcomes import joint_outcomes

BASELINE = Path(__file__).resolve().parent / "baselines" / "causal_search.json"
SEEDS = {"forgetful": 9, "team": 9, "matching": 2, "committee": 2}
POLICIES = ("random", "mixed", "deterministic")
QUESTIONS = ("utility", "targets")
RESTARTS = 24
APART = 1e-6


def committee(rng: np.random.Generator, policy: str) -> Model:
    """Three members with three choices each, who see a private signal and not each other."""
    names = ["D1", "D2", "D3"]
    sizes = {"S": 3, **{f"O{i}": 2 for i in (1, 2, 3)}, **dict.fromkeys(names, 3), "T": 4}
    parents: dict[str, tuple[str, ...]] = {"S": ()}
    parents |= {f"O{i}": ("S",) for i in (1, 2, 3)} | {f"D{i}": (f"O{i}",) for i in (1, 2, 3)}
    parents["T"] = ("D1", "D2", "D3", "S")
    return diagrams.filled(rng, sizes, parents, names, [("T",)], policy)


def matching(rng: np.random.Generator, policy: str) -> Model:
    """Members who do not see each other; the outcome is how many choices there were among them.

    What all agree on is of no account, so as many policies are equally good as there are choices.
    """
    names = [f"D{i + 1}" for i in range(int(rng.integers(2, 4)))]
    sizes = {**dict.fromkeys(names, 3), "T": len(names)}
    parents: dict[str, tuple[str, ...]] = {**dict.fromkeys(names, ()), "T": tuple(names)}
    model = diagrams.filled(rng, sizes, parents, names, [("T",)], policy)
    outcome = diagrams.table(sizes, names, len(names), lambda *each: len(set(each)) - 1)
    return model._replace(cpds={**model.cpds, "T": outcome})


def models(quick: bool) -> Iterator[tuple[str, Model]]:
    """The random diagrams by name."""
    makers = {m.__name__: m for m in (*diagrams.INSUFFICIENT, matching, committee)}
    for name, count in ({"forgetful": 1} if quick else SEEDS).items():
        for i in range(count):
            policy = POLICIES[i % len(POLICIES)]
            yield f"{name} {i} {policy}", makers[name](np.random.default_rng(i), policy)


def solve(model: Model, question: str, restarts: int) -> float:
    """The value, nats."""
    network = network_of(model)
    goal: Any = utility_of(network, list(model.factors)) if question == "utility" else ("T",)
    table = joint_outcomes(network, model.decisions, goal)
    rng = np.random.default_rng(0)
    return float(search(table, table.policies(network), restarts=restarts, rng=rng).value)


def measure(quick: bool) -> dict[str, Any]:
    """Values beside those of the earlier search, and the processor's seconds."""
    before = json.loads(BASELINE.read_text())
    rows = []
    for name, model in models(quick):
        for question in QUESTIONS:
            value, seconds = harness.processor(
                lambda m=model, q=question: solve(m, q, 2 if quick else RESTARTS)
            )
            rows.append(
                {
                    "diagram": name,
                    "question": question,
                    "value": value,
                    "difference": value - before[f"{name} {question}"],
                    "seconds": seconds,
                }
            )
    return {"diagrams": len({row["diagram"] for row in rows}), "rows": rows}


def markdown(result: dict[str, Any]) -> str:
    """A line for each question, and one for each value that differs."""
    lines = []
    for question in QUESTIONS:
        rows = [row for row in result["rows"] if row["question"] == question]
        differences = np.array([row["difference"] for row in rows])
        lines.append(
            [
                f"{question}: {len(rows)} diagrams",
                f"{(differences < -APART).sum()} lost, {(differences > APART).sum()} gained",
                f"{differences.min():.2g} to {differences.max():.2g}",
                f"{sum(row['seconds'] for row in rows):.1f} s",
            ]
        )
    for row in result["rows"]:
        if abs(row["difference"]) > APART:
            name = f"{row['diagram']}, {row['question']}"
            value = f"{row['value']:.6f} nats"
            lines.append([name, value, f"{row['difference']:.2g}", f"{row['seconds']:.1f} s"])
    return harness.table(["diagrams", "values", "difference, nats", "time"], lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
