"""MEG towards targets where decisions rely on each other in a circle, by search.

All utilities over the joint states of the targets are linear in their weights. The search climbs
from many utilities to those whose maximum entropy policies predict best (`climb`), and looks for
utilities without measure, under which only what is best happens (`limits`). The caution of `known`
holds for it, too.

Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.candidates import (
    PREFERENCE,
    Candidate,
    SearchResult,
    column,
    evidence_of,
    near_measured,
    random_policies,
    stacked,
    unaffected,
)
from goalmeter.meg.causal.search.climb import (
    Trial,
    Verdict,
    along_the_ridge,
    check,
    trial_of,
    uphill,
)
from goalmeter.meg.causal.search.limits import Limit, confirmed_limit, limits
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies
from goalmeter.meg.causal.search.population import Population, apart, evaluated, evolved
from goalmeter.meg.causal.search.stationary import MAX_UNKNOWNS, Linearised
from goalmeter.meg.causal.search.supported import maximisers
from goalmeter.meg.causal.search.utilities import UtilityClass, starting_weights, utility_class_of

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
