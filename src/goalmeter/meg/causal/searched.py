"""Decisions without sufficient recall: the search's result as a result of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility
from goalmeter.meg.causal.question import Question, target_name, utility_name
from goalmeter.meg.causal.result import CausalMeg, Goal, domains_of
from goalmeter.meg.causal.search import (
    OutcomeTable,
    Policies,
    SearchResult,
    joint_outcomes,
    search,
)
from goalmeter.meg.result import PESSIMISES

TOLERANCE = 1e-6


def searched(
    question: Question,
    recall: Recall,
    goal: Utility | tuple[str, ...],
    *,
    restarts: int,
    rng: np.random.Generator | None,
) -> CausalMeg:
    """MEG by search: with respect to a known utility, or towards targets (Definitions 3.2, 4.4).

    Args:
        question: what is asked.
        recall: insufficient.
        goal: a known utility, or the targets.
        restarts: of the search.
        rng: of the search; default seed 0.
    """
    table = joint_outcomes(question.network, recall.decisions, goal)
    measured = table.policies(question.network)
    rng = np.random.default_rng(0) if rng is None else rng
    result = search(table, measured, restarts=restarts, rng=rng)
    fields = fields_of(question, recall, table, table.visits(measured), measured, result)
    return CausalMeg(**fields, **names_of(question, goal, result))


def names_of(
    question: Question, goal: Utility | tuple[str, ...], result: SearchResult
) -> dict[str, Any]:
    """The fields of a `CausalMeg` that say what it was measured against."""
    if isinstance(goal, Utility):
        return {"target": utility_name(goal), "targets": goal.variables}
    assert result.weights is not None
    sizes = [question.network.size(x) for x in goal]
    values: FloatArray = result.weights.reshape(sizes)
    best = Goal(goal, domains_of(question.network, goal), values)
    return {"target": target_name(goal), "targets": goal, "goal": best}


def fields_of(
    question: Question,
    recall: Recall,
    table: OutcomeTable,
    visits: Policies,
    measured: Policies,
    result: SearchResult,
) -> dict[str, Any]:
    """The fields of a `CausalMeg`, less the target and the goal.

    Args:
        question: what was asked.
        recall: what the graph says.
        table: the outcomes.
        visits: how often each context and action comes about, [C, A] for each decision.
        measured: the policy that predicts these best, [C, A] for each decision.
        result: of the search.
    """
    # The measured policy predicts itself best, so no model of any goal scores more.
    ceiling = float(sum(share.sum() for share in table.shares_of(visits, measured)))
    shares = table.shares_of(visits, result.policies)
    by_decision = {d: float(s.sum()) for d, s in zip(recall.decisions, shares, strict=True)}
    notes = [
        f"a lower bound, provided that the maximum entropy policies found are the true ones: "
        f"{listed(recall.circle)} rely on each other in a circle (insufficient recall), so no "
        f"order of planning is exact and these policies were searched for numerically",
        f"{result.agreed} of {result.starts} fresh random starts ended in the model that is "
        f"reported, none in a better one; {result.note}",
    ]
    if result.rationality < 0:
        notes.append(PESSIMISES)
    return {
        "value": result.value,
        "upper_bound": max(ceiling, result.value),
        "maximum": table.maximum,
        "ceiling": ceiling,
        "rationality": result.rationality,
        "method": f"numerical search for maximum entropy policies, {result.starts} random restarts",
        "tolerance": TOLERANCE,
        "by_step": np.array(list(by_decision.values())),
        "by_state": np.concatenate(shares),
        "notes": tuple(notes),
        "decisions": question.decisions,
        "do": question.do,
        "recall": recall.kind,
        "circle": recall.circle,
        "by_decision": {d: by_decision.get(d, 0.0) for d in question.decisions},
    }
