"""The demo's Gymnasium environment: FrozenLake, slippery, 4 x 4."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import goalmeter as gm
from goalmeter._errors import require
from goalmeter._types import FloatArray
from goalmeter.pages.meg.tables import PolicyRow, policy_table
from goalmeter.report import Figure, Section
from goalmeter.report.charts.grid_map import Marks, grid_map
from goalmeter.report.numbers import LEAST_SHARE, nats, percent

NAME = "FrozenLake-v1"
EPSILON = 0.2


class FrozenLake(NamedTuple):
    """The lake's map (rows of letters), its policies measured, and two maps of the optimal one."""

    letters: list[str]
    rows: list[PolicyRow]
    visits: FloatArray
    horizon: int
    simplest: gm.meg.SimplestUtility


def measure() -> FrozenLake:
    """The optimal, an epsilon-greedy and the uniform policy.

    Raises:
        MissingExtraError: Gymnasium is not installed.
    """
    gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    env = gymnasium.make(NAME)
    try:
        mdp = gm.TabularMDP.from_gymnasium(env)
        letters = ["".join(c.decode() for c in row) for row in env.unwrapped.desc]
    finally:
        env.close()
    optimal = gm.optimal_policy(mdp)
    policies = {
        "optimal": optimal,
        f"ε-greedy, ε = {EPSILON:g}": gm.epsilon_greedy(optimal, EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rows = [
        PolicyRow(
            name,
            gm.tabular.expected_return(mdp, policy).mean,
            gm.meg.known_utility(mdp, policy),
            gm.meg.unknown_utility(mdp, policy),
        )
        for name, policy in policies.items()
    ]
    visits = np.asarray(gm.tabular.occupancy(mdp, optimal).sum(axis=0))
    simplest = gm.meg.simplest_utility(mdp, optimal)
    return FrozenLake(letters, rows, visits, mdp.steps, simplest)


def section(lake: FrozenLake) -> Section:
    """The table and two maps."""
    return Section(
        title="A Gymnasium environment: FrozenLake",
        text=(
            "The same measures on an environment that somebody else wrote, read from its "
            f"transition table: {NAME}, 4 × 4, slippery, time limit {lake.horizon}. Reaching the "
            "goal pays 1, falling into a hole ends the episode.",
        ),
        tables=(
            policy_table(
                f"Policies in {NAME}",
                lake.rows,
                "How many nats of the agent's decisions are explained by the environment's reward "
                "(known) or by the best of all utilities over states (unknown).",
                notes=(
                    "Decisions after the episode's end cannot change anything, and are not "
                    "counted in the maxima.",
                    "The reward is not a utility over states, so here the unknown-utility value "
                    "need not be the larger one.",
                ),
                digits=3,
            ),
        ),
        figures=(_visits(lake), _utility(lake, lake.rows[0])),
    )


def _visits(lake: FrozenLake) -> Figure:
    return Figure(
        svg=grid_map(
            "lake-visits",
            _grid(lake, lake.visits),
            palette="visits",
            log=True,
            label=f"expected decisions in the square, of {lake.horizon}",
            marks=_marks(lake),
        ),
        alt="Map of FrozenLake with the expected number of decisions of the optimal policy in each "
        f"square; {lake.visits[-1]:.0f} of {lake.horizon} are in the goal square.",
        caption="Visits of the optimal policy. After the episode's end the agent stays where it "
        "ended. S: start. G: goal. Hatched: holes.",
    )


def _utility(lake: FrozenLake, row: PolicyRow) -> Figure:
    share = lake.simplest.evidence / row.unknown.maximum
    faint = share < LEAST_SHARE
    little = ", which is too little to say what the agent wants (grey, below "
    little = f"{little}{percent(LEAST_SHARE, 0)})" if faint else ""
    return Figure(
        svg=grid_map(
            "lake-utility",
            _grid(lake, lake.simplest.utility),
            palette="faint" if faint else "utility",
            limit=1.0,
            label="learnt utility" + ", explains little" * faint,
            marks=_marks(lake),
        ),
        alt="Map of FrozenLake with the simplest utility over states that explains the "
        f"policy {row.name}.",
        caption="A utility over states, from 0 (worst) to 1, learnt from the policy "
        f"{row.name}. It explains {nats(lake.simplest.evidence)} nats, "
        f"{percent(share)} of the maximum{little}; the best of all utilities explains "
        f"{nats(row.unknown.value)}. See the remarks on the maps above.",
    )


def _grid(lake: FrozenLake, values: FloatArray) -> FloatArray:
    # A state that the import added behind the others is not a square.
    rows, columns = len(lake.letters), len(lake.letters[0])
    return values[: rows * columns].reshape(rows, columns)


def _marks(lake: FrozenLake) -> Marks:
    letters = "".join(lake.letters)
    return Marks(
        {i: c for i, c in enumerate(letters) if c in "SG"},
        frozenset(i for i, c in enumerate(letters) if c == "H"),
    )
