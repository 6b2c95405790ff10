"""Example 1 of the first paper, the mouse and the cheese: every number that it prints.

python replications/example_one/study.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg import mce_plug_in
from goalmeter.tabular import TabularMDP

LEDGER_PREFIX = "example-1/"
_SIDES = ("left", "right")


def mouse(towards_cheese: float) -> CausalBayesianNetwork:
    """Figure 1b: where the cheese is (S), where the mouse goes (D), what it gets (T)."""
    p = towards_cheese
    return CausalBayesianNetwork(
        domains={"S": _SIDES, "D": _SIDES, "T": ["cheese", "none"]},
        parents={"D": ["S"], "T": ["S", "D"]},
        cpds={
            "S": [0.5, 0.5],
            "D": [[p, 1 - p], [1 - p, p]],
            "T": lambda s, d: "cheese" if s == d else "none",
        },
    )


def numbers() -> dict[str, float]:
    """Every printed number: id in the ledger -> ours, nats (β: nats for each unit of utility)."""

    def known(towards_cheese: float, scale: float = 1.0) -> meg.CausalMeg:
        goal = {"T": {"cheese": scale, "none": -scale}}
        return meg.causal_utility(mouse(towards_cheese), ["D"], goal)

    often = known(0.8)
    values = {
        "known/0.8": often.value,
        "known/optimal": known(1.0).value,
        "rationality/0.8": often.rationality,
        # A MEG is the expected log-probability of the best model less that of a uniform one.
        "log-probability/0.8": often.value + math.log(1 / 2),
        "log-probability/uniform": math.log(1 / 2),
        "known/0.8/2U": known(0.8, scale=2.0).value,
        "plug-in/U": _plug_in(1.0),
        "plug-in/2U": _plug_in(2.0),
    }
    return {f"{LEDGER_PREFIX}{name}": value for name, value in values.items()}


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return values of rows of the ledger."""
    found = numbers()
    return {name: found[name] for name in ids}


def _plug_in(scale: float) -> float:
    """Expected log-probability of the optimal mouse under the utility put in as it is."""
    # State 0: before the choice; 1: cheese; 2: none. Where the cheese is does not matter to a mouse
    # that sees it, so the actions are "towards" and "away".
    transition = np.array([np.eye(3)[[1, 2]], np.eye(3)[[1, 1]], np.eye(3)[[2, 2]]])
    utility = scale * np.array([0.0, 1.0, -1.0])
    world = TabularMDP(transition, utility, horizon=2)
    optimal = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    # The second decision is there for the outcome to be paid, and its evidence is 0.
    return mce_plug_in(world, optimal).evidence + math.log(1 / 2)


if __name__ == "__main__":
    import sys

    from goalmeter.commands.replicate import find_replications

    find_replications("example-1")
    from replications import ledger

    lines = [
        f"{row.setting}: published {row.published}, ours {numbers()[row.id]:.6f}\n"
        for row in ledger.load(LEDGER_PREFIX)
    ]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # whatever the locale is
    sys.stdout.writelines(lines)
