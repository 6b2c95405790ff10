"""Measure decisions without sufficient recall by a search for maximum entropy policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._names import listed
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import Recall
from goalmeter.causal.diagram import Utility
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import reconciled
from goalmeter.meg.causal.outcomes import JointOutcomes, Policies, joint_outcomes
from goalmeter.meg.causal.result import (
    CausalMeg,
    CausalQuery,
    TableMeg,
    columns_of,
    goal_table,
    in_model,
    target_name,
    utility_name,
)
from goalmeter.meg.causal.search import SearchResult, search_known
from goalmeter.meg.causal.target_search import search_targets
from goalmeter.meg.result import FLOORED, PESSIMISES
from goalmeter.meg.trajectories import check_options
from goalmeter.statistics import percentile_interval, resample_weights, widened_for_few
from goalmeter.statistics.intervals import FEWEST


def search(
    table: JointOutcomes,
    measured: Policies,
    *,
    visits: Policies | None = None,
    restarts: int = 24,
    rng: np.random.Generator,
) -> SearchResult:
    """Find the maximum entropy policies that predict a policy best.

    For the utility of the table or, if the table is one of targets, for the best of all utilities
    over their joint states.

    Args:
        table: the joint outcomes of the decisions (`joint_outcomes`).
        measured: the policy, [contexts, actions] for each decision.
        visits: the frequency of each context and action, [contexts, actions] for each decision,
            each with sum 1; default those of the policy in the table.
        restarts: random starts of each round and of the final comparison, at least 1.
        rng: of the starts; the same seed gives the same numbers.
    """
    visits = [v / v.sum() for v in (table.visits(measured) if visits is None else visits)]
    if table.targets is not None:
        return search_targets(table, measured, visits, restarts, rng)
    return search_known(table, measured, visits, restarts, rng)


# --- Tables of observations -----------------------------------------------------------------------
# The frequencies of contexts and actions in the rows take the place of those of the model's policy,
# and the conditional frequencies that of the policy.

# The searches for the held-out value use this fraction of the restarts, and at least so many.
_PART, _SEARCHED_FEW = 3, 4
# Rows whose evidence differs by less, in nats, give the same.
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class _ObservedRows:
    """What decisions saw and did in some rows: context * actions + action of each, [N, decisions].

    As the places of an `JointOutcomes`.
    """

    table: JointOutcomes
    places: IntArray

    def __len__(self) -> int:
        return len(self.places)

    def visits(self) -> Policies:
        """The share of the rows with each context and action, [C, A] for each decision."""
        table, n = self.table, len(self)
        return [
            np.bincount(place, minlength=c * a).reshape(c, a) / n
            for place, c, a in zip(self.places.T, table.contexts, table.actions, strict=True)
        ]

    def policies(self) -> Policies:
        """The conditional frequencies, [C, A] for each decision; uniform where nothing was seen."""
        out = []
        for visits in self.visits():
            total = visits.sum(axis=1, keepdims=True)
            out.append(
                np.where(total > 0, visits, 1.0) / np.where(total > 0, total, visits.shape[1])
            )
        return out

    def evidence(self, model: Policies, *, mix: float = 0.0) -> FloatArray:
        """sum_i log(model_i / uniform) of each row, nats: [N].

        With `mix` the model is mixed with that share of the uniform one, decision by decision.
        """
        out = np.zeros(len(self))
        for place, policy, a in zip(self.places.T, model, self.table.actions, strict=True):
            with np.errstate(divide="ignore"):
                out += np.log((1.0 - mix) * policy.reshape(-1)[place] * a + mix)
        return out


_Fitter = Callable[[_ObservedRows, int], SearchResult]


def searched_table(
    question: CausalQuery,
    recall: Recall,
    goal: Utility | tuple[str, ...],
    data: Any,
    restarts: int,
    options: Mapping[str, Any],
) -> TableMeg:
    """MEG of the policy behind observed outcomes, by search.

    With e_i the evidence of row i for the model found and k fitted coordinates, the maximised
    average exceeds the truth by k / (2 n) to first order: the well-specified case of what
    `from_trajectories` takes off.

    `options` are confidence, resamples, folds and rng, as in `from_table`.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages).
    """
    confidence, resamples, folds = options["confidence"], options["resamples"], options["folds"]
    rng = check_options(folds, resamples, options["rng"])
    table = joint_outcomes(question.network, recall.decisions, goal)

    def fit(rows: _ObservedRows, restarts: int) -> SearchResult:
        return search(table, rows.policies(), visits=rows.visits(), restarts=restarts, rng=rng)

    seen = _observed_rows(table, question.network, data)
    n = len(seen)
    result = fit(seen, restarts)
    fields = fields_of(question, recall, table, seen.visits(), seen.policies(), result)
    fields |= names_of(question, goal, result)
    inference = _infer(seen, result, confidence, resamples, rng, float(fields["maximum"]))
    notes = [
        *fields.pop("notes"),
        f"the interval holds the model that was found fixed, and takes k / (2 n) for its bias, as "
        f"the test takes k degrees of freedom, with k = {result.rank} for what was fitted",
    ]
    if n == 1:
        notes.append("one row supports no interval and no held-out value")
    elif n < FEWEST:
        notes.append(f"fewer than {FEWEST} rows support no interval: it is 0 to the maximum")
    elif result.value > 0 and np.ptp(seen.evidence(result.policies)) <= _ALIKE:
        notes.append(
            "every row gives the same evidence, so there is no spread to judge by; kinds of "
            "behaviour not seen in n rows may still make up 3 / n of them, and the interval says "
            "how far that many could mislead"
        )
    if inference["unfloored"] < 0:
        notes.append(FLOORED)
    outside = _held_out(seen, fit, min(folds, n), max(restarts // _PART, _SEARCHED_FEW), rng)
    return TableMeg(**fields, **inference, n=n, held_out=outside, notes=tuple(notes))


def _infer(
    seen: _ObservedRows,
    result: SearchResult,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    maximum: float,
) -> dict[str, Any]:
    """Correct, bound and test a fit: fields of a `TrajectoryMeg`."""
    from scipy.stats import chi2

    n, k = len(seen), result.rank
    bias = k / (2 * n)
    unfloored = result.value - bias
    corrected = max(unfloored, 0.0)
    evidence = seen.evidence(result.policies)
    # A model fitted anew would gain as much in each sample, on average, as this one has gained.
    replicates = resample_weights(n, resamples, rng) @ evidence + bias
    ends = percentile_interval(replicates, bias, n, confidence)
    bounds = (0.0, max(maximum, result.value))
    low, high = widened_for_few(ends, evidence, corrected, bounds, confidence)
    statistic = 2 * n * result.value
    p_value = float(chi2.sf(statistic, k)) if k else 1.0
    # Indistinguishable from the reference at this level, so 0 is among the credible values.
    low = 0.0 if p_value > 1.0 - confidence else low
    return {
        "corrected": corrected,
        "unfloored": unfloored,
        "standard_error": float(evidence.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        "interval": (low, max(high, corrected)),
        "confidence": confidence,
        "likelihood_ratio": statistic,
        "degrees_of_freedom": float(k),
        "p_value": p_value,
    }


def _held_out(
    seen: _ObservedRows, fit: _Fitter, folds: int, restarts: int, rng: np.random.Generator
) -> float:
    """Cross-fitted evidence, nats a row; NaN if there are too few to split."""
    n, decisions = len(seen), len(seen.table.decisions)
    if n < 2:
        return float("nan")
    fold = rng.permutation(n) % folds
    total = 0.0
    for k in range(folds):
        train, test = (_ObservedRows(seen.table, seen.places[at]) for at in (fold != k, fold == k))
        # Mixed with a little of the uniform model, so that a row which the fit rules out costs
        # something finite: the less, the more rows the fit has seen.
        mix = 1.0 / (len(train) * decisions + 1)
        total += float(test.evidence(fit(train, restarts).policies, mix=mix).sum())
    return total / float(n)


def _observed_rows(
    table: JointOutcomes, network: CausalBayesianNetwork, data: Any
) -> _ObservedRows:
    """The rows as contexts and actions of each decision, checked against the model."""
    families = [(*network.parents(d), d) for d in table.decisions]
    columns = columns_of(network, [x for family in families for x in family], data)
    places = np.stack([_place(network, family, columns) for family in families], axis=1)
    possible = set(map(tuple, np.stack(table.place, axis=1).tolist()))
    known = np.array([place in possible for place in map(tuple, places.tolist())])
    if not known.all():
        row = int(np.argmin(known))
        values = ", ".join(f"{x} = {network.domain(x)[at[row]]}" for x, at in columns.items())
        raise InvalidTrajectoryError(
            f"row {row} of the table has {values}, which has probability 0 in the model whatever "
            f"the decisions {listed(table.decisions)} are; mend the row, or the model's CPDs"
        )
    return _ObservedRows(table, places)


def _place(
    network: CausalBayesianNetwork, family: Sequence[str], columns: dict[str, IntArray]
) -> IntArray:
    """The joint value of a family in each row, as a number, the last variable fastest."""
    sizes = [network.size(x) for x in family]
    return np.asarray(np.ravel_multi_index([columns[x] for x in family], sizes))


TOLERANCE = 1e-6


def searched(
    question: CausalQuery,
    recall: Recall,
    goal: Utility | tuple[str, ...],
    *,
    restarts: int,
    rng: np.random.Generator | None,
) -> CausalMeg:
    """MEG by search: with respect to a known utility, or towards targets (Definitions 3.2, 4.4)."""
    table = joint_outcomes(question.network, recall.decisions, goal)
    measured = table.policies(question.network)
    rng = np.random.default_rng(0) if rng is None else rng
    result = search(table, measured, restarts=restarts, rng=rng)
    fields = fields_of(question, recall, table, table.visits(measured), measured, result)
    return CausalMeg(**fields, **names_of(question, goal, result))


def names_of(
    question: CausalQuery, goal: Utility | tuple[str, ...], result: SearchResult
) -> dict[str, Any]:
    """The fields of a `CausalMeg` that say what it was measured against."""
    if isinstance(goal, Utility):
        return {"target": utility_name(goal), "targets": goal.variables}
    assert result.weights is not None
    best = goal_table(question.network, goal, result.weights)
    return {"target": target_name(goal), "targets": goal, "goal": best}


def fields_of(
    question: CausalQuery,
    recall: Recall,
    table: JointOutcomes,
    visits: Policies,
    measured: Policies,
    result: SearchResult,
) -> dict[str, Any]:
    """The fields of a `CausalMeg`, less the target and the goal.

    `visits` says how often each context and action comes about, `measured` is the policy that
    predicts these best, [C, A] for each decision.
    """
    # The measured policy predicts itself best, so no model of any goal scores more.
    ceiling = float(sum(share.sum() for share in table.shares(visits, measured)))
    shares = table.shares(visits, result.policies)
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
        "upper_bound": reconciled(ceiling, result.value, table.maximum),
        "maximum": table.maximum,
        "ceiling": ceiling,
        "rationality": result.rationality,
        "method": f"numerical search for maximum entropy policies, {result.starts} random restarts",
        "tolerance": TOLERANCE,
        "by_step": np.array(list(by_decision.values())),
        "by_state": np.concatenate(shares),
        "notes": tuple(notes),
        **in_model(question, recall, by_decision),
    }
