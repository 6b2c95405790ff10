"""Measure decisions without sufficient recall by a search for maximum entropy policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._names import listed
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import Recall
from goalmeter.causal.diagram import Utility
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import reconciled
from goalmeter.meg.causal.frontier import search_known
from goalmeter.meg.causal.maximisers import (
    PREFERENCE,
    Candidate,
    SearchResult,
    Task,
    UtilityClass,
    column,
    evidence_of,
    maximisers,
    near_measured,
    random_policies,
    stacked,
    starting_weights,
    unaffected,
    utility_class_of,
)
from goalmeter.meg.causal.outcomes import (
    MAX_UNKNOWNS,
    Linearised,
    OutcomeTable,
    Policies,
    joint_outcomes,
)
from goalmeter.meg.causal.result import (
    CausalMeg,
    Question,
    TableMeg,
    columns_of,
    goal_table,
    in_model,
    target_name,
    utility_name,
)
from goalmeter.meg.causal.utility_search import (
    Limit,
    Population,
    Trial,
    Verdict,
    along_the_ridge,
    apart,
    check,
    confirmed_limit,
    evaluated,
    evolved,
    limits,
    trial_of,
    uphill,
)
from goalmeter.meg.result import FLOORED, PESSIMISES
from goalmeter.meg.trajectories import check_options
from goalmeter.statistics import percentile_interval, resample_weights, widened_for_few
from goalmeter.statistics.intervals import FEWEST

# --- Targets --------------------------------------------------------------------------------------
# All utilities over the joint states of the targets are linear in their weights. The search
# climbs from many utilities to those whose maximum entropy policies predict best (`climb`), and
# looks for utilities without measure, under which only what is best happens (`limits`). The
# caution of `known` holds for it, too.
#
# Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4.

# Random starts for each utility at first; numbers in one pass over all of them, and utilities at
# least; limits.
_FEW = 8
_MOST = 2**20
_LEAST = 48
_LIMITS = 24
_CLIMBS = 6
# Ends that differ by less, in decisions of the measured policy, are the same; it is enough to come
# to known ones this often.
_SAME = 1e-3
_OFTEN = 2
# A gradient below this is none.
_FLAT = 1e-6
# The logs of policies that a unit of weight moves by less stay as they are.
_STILL = 1e-4
_ENDLESS = (
    "what is shown of the utility can be as large as one likes: the supremum is approached, and "
    "other differences in the utility, that are not shown, stay finite"
)


def search_targets(
    table: OutcomeTable,
    measured: Policies,
    visits: Policies | None,
    restarts: int,
    rng: np.random.Generator,
) -> SearchResult:
    """`search` for the best of all utilities over the joint states of targets (Definition 4.4)."""
    utilities = utility_class_of(table, measured, rng, visits)
    if utilities is None:
        return replace(unaffected(table), weights=np.full(table.features.shape[1], np.nan))
    ceiling = float(evidence_of(table, utilities.visits, measured))
    if ceiling <= PREFERENCE:
        return _indifferent(utilities, "no model predicts better than the uniform one")
    fresh = stacked([random_policies(table, _FEW, rng), near_measured(table, measured)])
    most = max(_LEAST, _MOST // (table.n_rows * fresh[0].shape[2]))
    y = np.stack(starting_weights(utilities, restarts, most, rng), axis=1)
    first = evaluated(utilities, y, fresh)
    order = np.argsort(-first.evidence, kind="stable")
    few = [first.y[:, i] for i in order[:_LIMITS]]
    endless = limits(utilities, few, _FEW, ceiling, rng)
    if endless is not None and endless.model.evidence >= ceiling - PREFERENCE:
        endless = confirmed_limit(utilities, endless, restarts, rng)
        if endless is not None and endless.model.evidence >= ceiling - PREFERENCE:
            return _of_limit(utilities, endless, restarts)
    best, verdict = _best(utilities, first, ceiling, restarts, rng)
    last = limits(utilities, [best.y], restarts, ceiling, rng)
    for limit in (endless, last):
        if limit is not None and limit.model.evidence >= best.model.evidence - PREFERENCE:
            sure = confirmed_limit(utilities, limit, restarts, rng)
            if sure is not None and sure.model.evidence >= best.model.evidence - PREFERENCE:
                return _of_limit(utilities, sure, restarts)
    if best.model.evidence <= PREFERENCE:
        return _indifferent(utilities, "no utility was found that predicts better than uniform")
    result = _of_trial(utilities, best, verdict, restarts)
    part = _endless_part(utilities, best) if verdict.kind == "supported" else None
    if part is None:
        return result
    return replace(result, rationality=np.inf, note=_ENDLESS, weights=utilities.shown(part)[0])


def _best(
    utilities: UtilityClass,
    first: Population,
    ceiling: float,
    restarts: int,
    rng: np.random.Generator,
) -> tuple[Trial, Verdict]:
    """The best that gradients lead to, and where they mislead, generations and a ridge."""
    sure: list[tuple[Trial, Verdict]] = []
    misled, ends, again = False, list[Candidate](), 0
    task, _ = utilities.task(first.y[:, 0])
    for i in apart(utilities, first, _CLIMBS):
        start = _trial(utilities, first, i)
        end, slope = uphill(utilities, start)
        # Climbs have begun to end where earlier ones did: more are not worth their time.
        again += any(task.distance(end.model, known) < _SAME for known in ends)
        if again >= _OFTEN:
            break
        ends.append(end.model)
        verdict = check(utilities, end, restarts, rng)
        if verdict.kind != "beaten":
            sure.append((end, verdict))
        misled = misled or verdict.kind == "beaten" or slope > _FLAT
        if sure and _leader(sure).evidence >= ceiling - PREFERENCE:
            break
    if misled and (not sure or _leader(sure).evidence < ceiling - PREFERENCE):
        known = first.with_more([(t.y, t.model.policies, t.model.evidence) for t, _ in sure])
        last = evolved(utilities, known, rng)
        for i in range(len(last.evidence)):
            trial = _trial(utilities, last, i)
            if not sure or trial.model.evidence > _leader(sure).evidence:
                verdict = check(utilities, trial, restarts, rng)
                if verdict.kind != "beaten":
                    sure.append(along_the_ridge(utilities, trial, verdict, restarts, rng))
    for i in np.argsort(-first.evidence, kind="stable"):
        if sure:
            break
        trial = _trial(utilities, first, int(i))
        verdict = check(utilities, trial, restarts, rng)
        if verdict.kind != "beaten":
            sure.append((trial, verdict))
    return max(sure, key=lambda pair: pair[0].model.evidence)


def _leader(sure: list[tuple[Trial, Verdict]]) -> Candidate:
    return max((trial.model for trial, _ in sure), key=lambda model: model.evidence)


def _trial(utilities: UtilityClass, population: Population, i: int) -> Trial:
    y = population.y[:, i]
    task, b = utilities.task(y)
    start = stacked([column(population.policies, i)])
    return trial_of(utilities, y, maximisers(task, [b], [start])[0].best[0])


def _larger(utilities: UtilityClass, trial: Trial, more: FloatArray) -> Trial:
    """The maximiser that a trial's becomes as weights [K] are added to its utility."""
    y = trial.y + more
    task, b = utilities.task(y)
    return trial_of(
        utilities, y, maximisers(task, [b], [stacked([trial.model.policies])])[0].best[0]
    )


def _endless_part(utilities: UtilityClass, trial: Trial) -> FloatArray | None:
    """The part of the weights [K] that could be of any larger size, if there is one."""
    # It no longer moves what the model says of the measured policy, and yet the evidence needs it.
    task, b = utilities.task(trial.y)
    if sum(p.size for p in trial.model.policies) > MAX_UNKNOWNS:
        return None
    try:
        moves = Linearised(task.table, task.value, b, trial.model.policies).moves()
    except np.linalg.LinAlgError:
        return None
    visits = np.concatenate([v.reshape(-1) for v in utilities.visits])
    _, sizes, directions = np.linalg.svd(np.sqrt(visits)[:, None] * moves, full_matrices=True)
    still = np.ones(len(directions), dtype=bool)
    still[: len(sizes)] = sizes <= _STILL
    part = directions[still].T @ (directions[still] @ trial.y)
    if not np.abs(part).max(initial=0.0) > 0:
        return None
    value = trial.model.evidence
    more, less = _larger(utilities, trial, part), _larger(utilities, trial, -0.9 * part)
    needed = less.model.evidence < value - PREFERENCE
    return part if needed and more.model.evidence >= value - PREFERENCE else None


def _indifferent(utilities: UtilityClass, note: str) -> SearchResult:
    table = utilities.table
    weights, _ = utilities.shown(np.zeros(table.features.shape[1]))
    rank = utilities.basis.shape[1]
    return replace(unaffected(table), utility=0.0, note=note, weights=weights, rank=rank)


def _of_limit(utilities: UtilityClass, limit: Limit, restarts: int) -> SearchResult:
    note = "it maximises the utility and, among policies that do, the entropy"
    result = _of(utilities, limit.y, limit.model, limit.agreed, restarts, note)
    return replace(result, value=max(result.value, 0.0), rationality=float("inf"))


def _of_trial(
    utilities: UtilityClass, trial: Trial, verdict: Verdict, restarts: int
) -> SearchResult:
    note = "supported by a utility of finite size"
    result = _of(utilities, trial.y, trial.model, verdict.agreed, restarts, note)
    if verdict.kind == "supported":
        return result
    note = "the best model's expected utility is in a gap, one that no rationality attains"
    return replace(result, rationality=float("nan"), note=note)


def _of(
    utilities: UtilityClass, y: FloatArray, model: Candidate, agreed: int, restarts: int, note: str
) -> SearchResult:
    weights, size = utilities.shown(y)
    return SearchResult(
        value=model.evidence,
        rationality=size,
        utility=utilities.attained(model.policies, weights),
        entropy=model.entropy,
        policies=model.policies,
        agreed=agreed,
        starts=restarts,
        note=note,
        weights=weights,
        rank=utilities.basis.shape[1],
    )


# --- Best model -----------------------------------------------------------------------------------
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


# --- Searched -------------------------------------------------------------------------------------
# The search measures the rows: how often each decision met a context and did something takes the
# place of what the model says of a policy, and the conditional frequencies that of the policy.

# The searches of the held-out value make do with this part of the restarts, and with a few.
_PART, _SEARCHED_FEW = 3, 4
# Rows whose evidence differs by less, in nats, give the same.
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class _SeenRows:
    """What decisions saw and did in some rows: context * actions + action of each, [N, decisions].

    As the places of an `OutcomeTable`.
    """

    table: OutcomeTable
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


_Fitter = Callable[[_SeenRows, int], SearchResult]


def searched_table(
    question: Question,
    recall: Recall,
    goal: Utility | tuple[str, ...],
    data: Any,
    *,
    confidence: float,
    resamples: int,
    folds: int,
    restarts: int,
    rng: np.random.Generator | None,
) -> TableMeg:
    """MEG of the policy behind observed outcomes, by search.

    With e_i the evidence of row i for the model found and k fitted coordinates, the maximised
    average exceeds the truth by k / (2 n) to first order: the well-specified case of what
    `from_trajectories` takes off.

    Args and errors: as in `from_table`; the CPDs of the decisions are not used.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages).
    """
    rng = check_options(folds, resamples, rng)
    table = joint_outcomes(question.network, recall.decisions, goal)

    def fit(rows: _SeenRows, restarts: int) -> SearchResult:
        return search(table, rows.policies(), visits=rows.visits(), restarts=restarts, rng=rng)

    seen = _seen_rows(table, question.network, data)
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
    seen: _SeenRows,
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
    # Not told apart from the reference at this level, so 0 is among the credible values.
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
    seen: _SeenRows, fit: _Fitter, folds: int, restarts: int, rng: np.random.Generator
) -> float:
    """Cross-fitted evidence, nats a row; NaN if there are too few to split."""
    n, decisions = len(seen), len(seen.table.decisions)
    if n < 2:
        return float("nan")
    fold = rng.permutation(n) % folds
    total = 0.0
    for k in range(folds):
        train, test = (_SeenRows(seen.table, seen.places[at]) for at in (fold != k, fold == k))
        # Mixed with a little of the uniform model, so that a row which the fit rules out costs
        # something finite: the less, the more rows the fit has seen.
        mix = 1.0 / (len(train) * decisions + 1)
        total += float(test.evidence(fit(train, restarts).policies, mix=mix).sum())
    return total / float(n)


def _seen_rows(table: OutcomeTable, network: CausalBayesianNetwork, data: Any) -> _SeenRows:
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
    return _SeenRows(table, places)


def _place(
    network: CausalBayesianNetwork, family: Sequence[str], columns: dict[str, IntArray]
) -> IntArray:
    """The joint value of a family in each row, as a number, the last variable fastest."""
    sizes = [network.size(x) for x in family]
    return np.asarray(np.ravel_multi_index([columns[x] for x in family], sizes))


TOLERANCE = 1e-6


def searched(
    question: Question,
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
    question: Question, goal: Utility | tuple[str, ...], result: SearchResult
) -> dict[str, Any]:
    """The fields of a `CausalMeg` that say what it was measured against."""
    if isinstance(goal, Utility):
        return {"target": utility_name(goal), "targets": goal.variables}
    assert result.weights is not None
    best = goal_table(question.network, goal, result.weights)
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
