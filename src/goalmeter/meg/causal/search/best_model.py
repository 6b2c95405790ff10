"""The front of the package: the best model of a policy, and how well a given goal predicts it."""

from __future__ import annotations

import numpy as np

from goalmeter.meg.causal.search.candidates import (
    SearchResult,
    Task,
    near_measured,
    random_policies,
    stacked,
)
from goalmeter.meg.causal.search.known import search_known
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies
from goalmeter.meg.causal.search.supported import maximisers
from goalmeter.meg.causal.search.targets import search_targets


def search(
    table: OutcomeTable,
    measured: Policies,
    *,
    visits: Policies | None = None,
    restarts: int = 24,
    rng: np.random.Generator,
) -> SearchResult:
    """The maximum entropy policies that predict a policy best, by search.

    With respect to the utility of the table or, if the table is one of targets, to the best of all
    utilities over their joint states.

    Args:
        table: the joint outcomes of the decisions (`joint_outcomes`).
        measured: the policy, [contexts, actions] for each decision.
        visits: how often it comes by each context and action, [contexts, actions] for each
            decision, each with sum 1; default what the table says of the policy.
        restarts: random starts of each round (for targets, about as many utilities are tried at
            first) and of the last test, at least 1.
        rng: of the starts; the same seed gives the same numbers.

    Returns:
        A `SearchResult`; `value` is a lower bound of MEG provided that its policies are maximum
        entropy policies, as far as `restarts` fresh starts can tell.

    Source: MEG paper (NeurIPS 2024), Definitions 3.2 and 4.4.
    """
    by = search_known if table.targets is None else search_targets
    return by(table, measured, visits, restarts, rng)


def planned_evidence(
    table: OutcomeTable,
    measured: Policies,
    rationality: float,
    *,
    restarts: int,
    rng: np.random.Generator,
) -> float:
    """How well the policies of a known utility at a known rationality predict a policy, nats.

    Of equally good plans the one counts that predicts best.

    Args:
        table: the joint outcomes with the expected utility as their one feature, [R, 1].
        measured: the policy, [contexts, actions] for each decision.
        rationality: b, either sign or infinite, in 1 / units of the utility.
        restarts: half as many as there are random starts.
        rng: of the starts.
    """
    value = table.features[:, 0]
    spread = float(np.ptp(value))
    if rationality == 0.0 or spread == 0.0:
        return 0.0
    # A power of two, so that no digit of the rationality changes.
    unit = 2.0 ** float(np.ceil(np.log2(spread)))
    value = (value - 0.5 * (value.min() + value.max())) / unit
    task = Task(table, value, measured, [v / v.sum() for v in table.visits(measured)])
    starts = [random_policies(table, 2 * restarts, rng), near_measured(table, measured)]
    (plans,) = maximisers(task, [rationality * unit], [stacked(starts)])
    return plans.best[0].evidence
