"""Measure decisions without sufficient recall by a search for maximum entropy policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.diagram import Utility
from goalmeter.meg.behaviour import reconciled
from goalmeter.meg.causal.outcomes import JointOutcomes, joint_outcomes
from goalmeter.meg.causal.result import CausalMeg, DecisionQuery, goal_table, in_model
from goalmeter.meg.causal.search import SearchResult, search_known
from goalmeter.meg.causal.target_search import search_targets
from goalmeter.meg.result import PESSIMISES


def search(
    table: JointOutcomes,
    measured: FloatArray,
    *,
    visits: FloatArray | None = None,
    restarts: int = 24,
    rng: np.random.Generator,
) -> SearchResult:
    """Find the maximum entropy policies that predict a policy [K] best, by default its own visits.

    For the utility of the table, or for the best of all utilities over the targets of the table.
    """
    frequencies = table.frequencies(table.visits(measured) if visits is None else visits)
    find = search_known if table.targets is None else search_targets
    return find(table, measured, frequencies, restarts, rng)


def searched(query: DecisionQuery, *, restarts: int, rng: np.random.Generator | None) -> CausalMeg:
    """Return MEG by search: of a known utility or towards targets (Definitions 3.2, 4.4)."""
    assert query.goal is not None
    table = joint_outcomes(query.network, query.recall.decisions, query.goal)
    measured = table.policies(query.network)
    rng = np.random.default_rng(0) if rng is None else rng
    result = search(table, measured, restarts=restarts, rng=rng)
    return CausalMeg(**fields_of(query, table, table.visits(measured), measured, result))


def fields_of(
    query: DecisionQuery,
    table: JointOutcomes,
    visits: FloatArray,
    measured: FloatArray,
    result: SearchResult,
) -> dict[str, Any]:
    """Return the fields of a `CausalMeg`; `measured` is the policy that predicts visits best."""
    # The measured policy predicts itself best, so no model of any goal scores more.
    ceiling = float(table.evidence(visits, measured))
    shares = table.shares(visits, result.policies)
    by_decision = {d: float(s.sum()) for d, s in zip(query.recall.decisions, shares, strict=True)}
    notes = [
        f"a lower bound, provided that the maximum entropy policies found are the true ones: "
        f"{listed(query.recall.circle)} rely on each other in a circle (insufficient recall), so "
        f"no order of planning is exact and these policies were searched for numerically",
        f"{result.agreed} of {result.starts} fresh random starts ended in the model that is "
        f"reported, none in a better one; {result.note}",
    ]
    if result.rationality < 0:
        notes.append(PESSIMISES)
    goal = None
    if not isinstance(query.goal, Utility):
        assert result.weights is not None
        goal = goal_table(query.network, query.targets, result.weights)
    return {
        "value": result.value,
        "upper_bound": reconciled(ceiling, result.value, table.maximum),
        "maximum": table.maximum,
        "ceiling": ceiling,
        "rationality": result.rationality,
        "target": query.name,
        "goal": goal,
        "method": f"numerical search for maximum entropy policies, {result.starts} random restarts",
        "tolerance": 1e-6,
        "by_step": np.array(list(by_decision.values())),
        "by_state": np.concatenate(shares),
        "notes": tuple(notes),
        **in_model(query, by_decision),
    }
