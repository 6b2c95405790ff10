"""MEG towards targets where decisions rely on each other in a circle, by search.

All utilities over the joint states of the targets (Definition 4.4) are linear in their weights. The
search climbs, from many utilities, to those whose maximum entropy policies predict best
(`goalmeter.meg.causal.climb`), and looks for utilities without measure, under which only what is
best happens (`goalmeter.meg.causal.limits`).

The caution of `goalmeter.meg.causal.search` holds here, too.

Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.branch import Class
from goalmeter.meg.causal.candidates import near_measured, random_policies, stacked
from goalmeter.meg.causal.climb import Trial, Verdict, check, climb, trial_at, trial_of
from goalmeter.meg.causal.limits import Limit, confirmed_limit, limits
from goalmeter.meg.causal.outcomes import OutcomeTable, Policies
from goalmeter.meg.causal.search import PREFERENCE, Search, unaffected
from goalmeter.meg.causal.starts import starting_weights
from goalmeter.meg.causal.supported import maximisers

# Coordinates in which expected utility varies by less than this share of the most are rounding.
_NULL_SHARE = 1e-9
_FEW = 12
_CLIMBS = 10
# Climbs in a row that find no more than this, in nats, after which no other is begun.
_PATIENCE = 5
_GAIN = 1e-7
# Decisions of the measured policy in which two starts differ at least.
_NEARLY = 0.05
_SETTLED = 1e-11
_DOUBLINGS = 30


def search_targets(
    table: OutcomeTable,
    measured: Policies,
    *,
    restarts: int = 24,
    rng: np.random.Generator,
    starts: Sequence[FloatArray] = (),
) -> Search:
    """MEG towards targets, by search: the best of all utilities over their joint states.

    Args:
        table: the outcomes, with the chance of each joint state of the targets, [R, D].
        measured: the policy, [C, A] for each decision.
        restarts: random starts of the last test; about as many utilities are tried at first.
        rng: of the starts; the same seed gives the same numbers.
        starts: more utilities to begin from, b times the utility of each joint state, [D] each.

    Returns:
        A `Search` with `weights`.
    """
    utilities = class_of(table, measured, rng)
    if utilities is None:
        return replace(unaffected(table), weights=np.full(table.features.shape[1], np.nan))
    ceiling = float(table.evidence(measured, measured))
    if ceiling <= PREFERENCE:
        return _indifferent(utilities, "no model predicts better than the uniform one")
    tries = [
        trial_at(utilities, y, _FEW, rng)
        for y in starting_weights(utilities, restarts, rng, starts)
    ]
    tries.sort(key=lambda trial: -trial.found.evidence)
    endless = limits(utilities, [trial.y for trial in tries], _FEW, ceiling, rng)
    if endless is not None and endless.found.evidence >= ceiling - PREFERENCE:
        endless = confirmed_limit(utilities, endless, restarts, rng)
        if endless is not None and endless.found.evidence >= ceiling - PREFERENCE:
            return _of_limit(utilities, endless, restarts)
    best, verdict = _climbed(utilities, tries, ceiling, restarts, rng)
    best, verdict = _scaled(utilities, best, verdict, restarts, rng)
    last = limits(utilities, [best.y], restarts, ceiling, rng)
    for limit in (endless, last):
        if limit is not None and limit.found.evidence >= best.found.evidence - PREFERENCE:
            sure = confirmed_limit(utilities, limit, restarts, rng)
            if sure is not None and sure.found.evidence >= best.found.evidence - PREFERENCE:
                return _of_limit(utilities, sure, restarts)
    if best.found.evidence <= PREFERENCE:
        return _indifferent(utilities, "no utility was found that predicts better than uniform")
    return _of_trial(utilities, best, verdict, restarts)


def class_of(table: OutcomeTable, measured: Policies, rng: np.random.Generator) -> Class | None:
    """The class in coordinates that policies can tell apart; None if there are none.

    What no policy can change the expectation of says nothing. In the coordinates that remain,
    the expectation varies by about 1 over random policies.
    """
    n = 2 * min(table.features.shape[1], table.n_rows) + 32
    tries = stacked([random_policies(table, n, rng), near_measured(table, measured)])
    expected = table.expected(tries)
    expected = expected - expected.mean(axis=1, keepdims=True)
    vectors, sizes, _ = np.linalg.svd(expected / np.sqrt(n), full_matrices=False)
    keep = sizes > max(_NULL_SHARE * sizes[0], 1e-14)
    if not keep.any():
        return None
    basis = vectors[:, keep] / sizes[keep]
    visits = [v / v.sum() for v in table.visits(measured)]
    features = table.features @ basis
    features = features - 0.5 * (features.min(axis=0) + features.max(axis=0))
    return Class(table.with_features(features), basis, measured, visits)


def _climbed(
    utilities: Class,
    tries: list[Trial],
    ceiling: float,
    restarts: int,
    rng: np.random.Generator,
) -> tuple[Trial, Verdict]:
    """The best that climbs from the most promising, and different, starts lead to."""
    queue = _different(utilities, tries)[:_CLIMBS]
    done: list[tuple[Trial, Verdict | None]] = []
    best, idle = -np.inf, 0
    for _ in range(2 * _CLIMBS):
        if not queue or best >= ceiling - PREFERENCE or idle >= _PATIENCE:
            break
        at, verdict, met = climb(utilities, queue.pop(0), restarts, rng)
        idle += 1
        if verdict.rival is None:
            done.append((at, verdict))
            if at.found.evidence > best + _GAIN:
                best, idle = at.found.evidence, 0
        queue += [trial for trial in met if trial.found.evidence > best]
    # The first ones are maximum entropy policies, too, as far as it was looked for.
    done += [(trial, None) for trial in tries]
    done.sort(key=lambda pair: -pair[0].found.evidence)
    for trial, known in done:
        found = known or check(utilities, trial, restarts, rng)
        if found.rival is None:
            return trial, found
    raise AssertionError("the smallest of the utilities tried has one maximiser only")


def _different(utilities: Class, tries: list[Trial]) -> list[Trial]:
    """Trials in their order, less those whose policies are nearly those of an earlier one."""
    out: list[Trial] = []
    task, _ = utilities.task(tries[0].y)
    for trial in tries:
        if all(task.distance(trial.found, other.found) > _NEARLY for other in out):
            out.append(trial)
    return out


def _scaled(
    utilities: Class, trial: Trial, verdict: Verdict, restarts: int, rng: np.random.Generator
) -> tuple[Trial, Verdict]:
    """Larger utilities in the same direction, as long as that helps."""
    for _ in range(_DOUBLINGS):
        if verdict.kind != "supported":
            break
        y = 2.0 * trial.y
        task, b = utilities.task(y)
        found = maximisers(task, [b], [stacked([trial.found.policies])])[0].best[0]
        if found.evidence <= trial.found.evidence + _SETTLED:
            break
        larger = trial_of(utilities, y, found)
        checked = check(utilities, larger, restarts, rng)
        if checked.kind != "supported":
            break
        trial, verdict = larger, checked
    return trial, verdict


def _shown(utilities: Class, y: FloatArray) -> tuple[FloatArray, float]:
    """Weights of the joint states from -1 to 1, NaN where there is no say, and their scale."""
    weights = utilities.basis @ y
    size = float(np.abs(weights).max())
    reach = np.abs(utilities.basis).max(axis=1)
    shown = weights / size if size > 0 else weights
    return np.where(reach > 1e-9 * reach.max(), shown, np.nan), size


def _indifferent(utilities: Class, note: str) -> Search:
    table = utilities.table
    weights, _ = _shown(utilities, np.zeros(table.features.shape[1]))
    return replace(unaffected(table), utility=0.0, note=note, weights=weights)


def _of_limit(utilities: Class, limit: Limit, restarts: int) -> Search:
    weights, _ = _shown(utilities, limit.y)
    return Search(
        value=max(limit.found.evidence, 0.0),
        rationality=float("inf"),
        utility=_attained(utilities, limit.found.policies, weights),
        entropy=limit.found.entropy,
        policies=limit.found.policies,
        agreed=limit.agreed,
        starts=restarts,
        note="it maximises the utility and, among policies that do, the entropy",
        weights=weights,
    )


def _of_trial(utilities: Class, trial: Trial, verdict: Verdict, restarts: int) -> Search:
    weights, size = _shown(utilities, trial.y)
    supported = verdict.kind == "supported"
    return Search(
        value=trial.found.evidence,
        rationality=size if supported else float("nan"),
        utility=_attained(utilities, trial.found.policies, weights),
        entropy=trial.found.entropy,
        policies=trial.found.policies,
        agreed=verdict.agreed,
        starts=restarts,
        note="supported by a utility of finite size"
        if supported
        else "the best model's expected utility is in a gap, one that no rationality attains",
        weights=weights,
    )


def _attained(utilities: Class, policies: Policies, weights: FloatArray) -> float:
    """E[U] of the utility that is shown, less what no policy can change."""
    expected = utilities.table.expected(policies)
    return float(expected @ np.linalg.pinv(utilities.basis) @ np.nan_to_num(weights))
