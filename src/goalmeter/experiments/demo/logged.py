"""The demo's logged trajectories: MEG when the policy is not known, only what it did."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import goalmeter as gm
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.report import Section
from goalmeter.report.numbers import between, nats, number, p_value, percent
from goalmeter.report.table_of import column, table_of, words
from goalmeter.tabular.trajectories import sample_trajectories

EPSILON, N = 0.1, 100


class Logged(NamedTuple):
    """An estimate from logs beside the exact value of the policy that wrote them."""

    agent: str
    goal: str
    estimate: TrajectoryMeg
    exact: gm.MegResult

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {"agent": self.agent, "goal": self.goal, "exact": self.exact.value} | (
            self.estimate.to_json()
        )


def measure(seed: int) -> list[Logged]:
    """Estimates from N sampled episodes of an epsilon-greedy and of the uniform policy."""
    mdp = gm.cliff_world()
    policies = {
        f"ε-greedy, ε = {EPSILON:g}": gm.epsilon_greedy(gm.optimal_policy(mdp), EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rng = np.random.default_rng(seed)
    out = []
    for name, policy in policies.items():
        log = sample_trajectories(mdp, policy, N, rng=rng)
        known = from_trajectories(mdp, log, rng=rng)
        out.append(Logged(name, "the reward", known, gm.meg.known_utility(mdp, policy)))
        unknown = from_trajectories(mdp, log, unknown="state", rng=rng)
        exact = gm.meg.unknown_utility(mdp, policy)
        out.append(Logged(name, "some utility over states", unknown, exact))
    return out


def section(rows: list[Logged]) -> Section:
    """The table."""
    return Section(
        title="From logged trajectories",
        text=(
            f"Usually the policy is not known, only what it did. Here {N} episodes of two "
            "CliffWorld agents are sampled and MEG is estimated from the samples alone, so it "
            "comes with an interval and a test. The exact value is shown to check "
            "the estimate against.",
        ),
        tables=(
            table_of(
                rows,
                (
                    words("agent", lambda row: row.agent),
                    words("towards", lambda row: row.goal),
                    column("episodes", lambda row: row.estimate.n),
                    column(
                        "estimate (nats)", lambda row: row.estimate.corrected, nats, answer=True
                    ),
                    column(
                        f"{percent(rows[0].estimate.confidence, 0)} interval",
                        lambda row: between(row.estimate.interval, 3),
                    ),
                    column("held out", lambda row: number(row.estimate.held_out, 3)),
                    column("p", lambda row: row.estimate.p_value, p_value),
                    column("exact", lambda row: row.exact.value, nats),
                ),
                caption=f"MEG estimated from {N} episodes",
                meaning="The estimate says how many nats of an episode's decisions the goal "
                "explains; the interval is what other samples of this size would have given.",
                notes=(
                    "Held out: the goal is fitted to four fifths of the episodes, and this is how "
                    "many nats it explains of the others. At or below 0 it predicted these no "
                    "better than chance does; it has no interval, so that its sign alone tells "
                    "nothing of other episodes.",
                    "p is how likely so good a fit would be if the agent chose uniformly.",
                ),
            ),
        ),
    )
