"""Decisions without sufficient recall: the search's result as a result of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility
from goalmeter.meg.causal.question import Question
from goalmeter.meg.causal.result import CausalMeg, Goal, domains_of
from goalmeter.meg.causal.search.known import Search, search_known
from goalmeter.meg.causal.search.outcomes import (
    OutcomeTable,
    Policies,
    target_outcomes,
    utility_outcomes,
)
from goalmeter.meg.causal.search.targets import search_targets
from goalmeter.meg.causal.targets import target_name
from goalmeter.meg.result import PESSIMISES

TOLERANCE = 1e-6


def searched_utility(
    question: Question,
    recall: Recall,
    utility: Utility,
    name: str,
    *,
    restarts: int,
    rng: np.random.Generator | None,
) -> CausalMeg:
    """MEG with respect to a known utility, by search (Definition 3.2)."""
    table = utility_outcomes(question.network, recall.decisions, utility)
    measured = table.policies(question.network)
    found = search_known(table, measured, restarts=restarts, rng=_generator(rng))
    fields = fields_of(question, recall, table, table.visits(measured), measured, found)
    return CausalMeg(**fields, target=name, targets=utility.variables)


def searched_targets(
    question: Question,
    recall: Recall,
    names: tuple[str, ...],
    *,
    restarts: int,
    rng: np.random.Generator | None,
) -> CausalMeg:
    """MEG towards targets, by search (Definition 4.4)."""
    table = target_outcomes(question.network, recall.decisions, names)
    measured = table.policies(question.network)
    found = search_targets(table, measured, restarts=restarts, rng=_generator(rng))
    fields = fields_of(question, recall, table, table.visits(measured), measured, found)
    goal = goal_found(question, names, found)
    return CausalMeg(**fields, target=target_name(names), targets=names, goal=goal)


def goal_found(question: Question, names: tuple[str, ...], found: Search) -> Goal:
    """The utility over targets that a search found."""
    assert found.weights is not None
    sizes = [question.network.size(x) for x in names]
    values: FloatArray = found.weights.reshape(sizes)
    return Goal(names, domains_of(question.network, names), values)


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    return np.random.default_rng(0) if rng is None else rng


def fields_of(
    question: Question,
    recall: Recall,
    table: OutcomeTable,
    visits: Policies,
    measured: Policies,
    found: Search,
) -> dict[str, Any]:
    """The fields of a `CausalMeg`, less the target and the goal.

    Args:
        question: what was asked.
        recall: what the graph says.
        table: the outcomes.
        visits: how often each context and action comes about, [C, A] for each decision.
        measured: the policy that predicts these best, [C, A] for each decision.
        found: the search's result.
    """
    ceiling = float(sum(share.sum() for share in table.shares_of(visits, measured)))
    shares = table.shares_of(visits, found.policies)
    by_decision = {d: float(s.sum()) for d, s in zip(recall.decisions, shares, strict=True)}
    notes = [
        f"a lower bound, provided that the maximum entropy policies found are the true ones: "
        f"{listed(recall.circle)} rely on each other in a circle (insufficient recall), so no "
        f"order of planning is exact and these policies were searched for numerically",
        f"{found.agreed} of {found.starts} fresh random starts ended in the model that is "
        f"reported, none in a better one; {found.note}",
    ]
    if found.rationality < 0:
        notes.append(PESSIMISES)
    return {
        "value": found.value,
        "upper_bound": max(ceiling, found.value),
        "maximum": table.maximum,
        "ceiling": ceiling,
        "rationality": found.rationality,
        "method": f"numerical search for maximum entropy policies, {found.starts} random restarts",
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
