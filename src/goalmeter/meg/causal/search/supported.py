"""Maximisers of b E[U] + H for given b: the maximum entropy policies that a rationality supports.

A maximiser at b has the most entropy of all policies with its expected utility. The converse fails
where the greatest entropy, as a function of the utility attained, is not concave: those utilities
are reached in `goalmeter.meg.causal.search.held`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.ascent import TIE_AT_INFINITY, ascend, score
from goalmeter.meg.causal.search.candidates import (
    TIE_NATS,
    Candidate,
    Task,
    best_of,
    column,
    distinct,
    stacked,
)
from goalmeter.meg.causal.search.outcomes import Policies
from goalmeter.meg.causal.search.stationary import finish

_SWEEPS = 80
_MORE_SWEEPS = 400
_FEW_SWEEPS = 6
# Nats by which what the measured policy always does is better than what it never does.
_LEAN = 0.2
_LEANING_SWEEPS = 40
_SOME_SWEEPS = 40
# Probabilities that move by less in a sweep are left to Newton's method, and by less than the
# second they have settled.
_NEAR = 1e-4
_SETTLED = 1e-12
# Ascents that end this close to the best one, in nats, are finished before they are compared.
_CLOSE = 1e-3
_FINISHED = 4


class Maximisers(NamedTuple):
    """The best of some starts: equally good maximisers, and how many starts ended there."""

    best: list[Candidate]
    agreed: int


def objectives(rationality: float, utility: FloatArray, entropy: FloatArray) -> FloatArray:
    """B E[U] + H less b times the largest E[U], nats, [n]; at infinite b utility comes first."""
    signed = np.sign(rationality) * utility
    short = signed.max(initial=-np.inf) - signed
    if np.isinf(rationality):
        return np.where(short <= TIE_AT_INFINITY, entropy, -np.inf)
    return np.asarray(entropy - abs(rationality) * short)


def objectives_of(rationality: float, *candidates: Candidate) -> FloatArray:
    """The objectives of what competes at a rationality, nats, [n]."""
    utility = np.array([c.utility for c in candidates])
    return objectives(rationality, utility, np.array([c.entropy for c in candidates]))


def slack(rationality: float) -> float:
    """Nats within which objectives are equal: what rounding leaves of b E[U] is not compared."""
    # b E[U] of a large b has few digits left behind the point.
    return TIE_NATS + (0.0 if np.isinf(rationality) else 1e-15 * abs(rationality))


def maximisers(
    task: Task, rationalities: Sequence[float], starts: Sequence[Policies]
) -> list[Maximisers]:
    """The best that ascents from some starts reach, at each of several rationalities.

    Rationalities b have either sign or are infinite, in the task's unit; each has its starts,
    [C, A, n] each, where n may differ.
    """
    # All starts of all rationalities climb side by side: one pass over the rows serves many.
    ends = np.cumsum([s[0].shape[2] for s in starts])
    whole = stacked(list(starts))
    owner = np.repeat(np.asarray(rationalities, dtype=np.float64), np.diff(ends, prepend=0))
    for begin in range(0, len(owner), task.batch()):
        part = slice(begin, begin + task.batch())
        climbed = _ascended(task, owner[part], [p[..., part] for p in whole], _SWEEPS)
        for p, new in zip(whole, climbed, strict=True):
            p[..., part] = new
    return [
        _compared(task, float(b), [p[..., begin:end] for p in whole])
        for b, begin, end in zip(rationalities, [0, *ends], ends, strict=False)
    ]


def _ascended(
    task: Task, b: FloatArray, policies: Policies, sweeps: int, tolerance: float = _NEAR
) -> Policies:
    return ascend(task.table, task.value[:, None], b, policies, sweeps=sweeps, tolerance=tolerance)[
        0
    ]


def leaning(task: Task, rationalities: Sequence[float]) -> Policies:
    """A start for each rationality, [C, A, n] each, that leans towards the measured policy.

    Where several sets of policies are equally good (members that have to agree, on whatever), a
    little additional utility for what the measured policy does decides between them: what is best
    with it is a start without it.
    """
    b = np.asarray(rationalities, dtype=np.float64)
    size = np.where(np.isfinite(b) & (b != 0), b, 1.0)
    taken = sum(task.table.rows(i, p) for i, p in enumerate(task.measured))
    value = task.value[:, None] + _LEAN * np.asarray(taken)[:, None] / size
    uniform = [np.repeat(p[..., None], len(b), axis=2) for p in task.table.uniform()]
    ends, _ = ascend(task.table, value, size, uniform, sweeps=_LEANING_SWEEPS, tolerance=_NEAR)
    return ends


def _compared(task: Task, b: float, climbed: Policies) -> Maximisers:
    attained = score(task.table, task.value[:, None], climbed)
    rough = objectives(b, attained.utility, attained.entropy)
    order = [int(i) for i in np.argsort(-rough, kind="stable") if rough[i] >= rough.max() - _CLOSE]
    # Among equals the best predictors go first, so that none of them is left out.
    evidence = task.evidence(climbed)
    order.sort(key=lambda i: (-round(float(rough[i]), 6), -evidence[i]))
    kept = distinct(climbed, order)[: 2 * _FINISHED]
    done = polished(task, b, [p[..., kept] for p in climbed])
    best = best_of(done, list(objectives_of(b, *done)), slack(b))
    return Maximisers(best, int((rough >= rough.max() - 10 * _CLOSE**2).sum()))


def followed(task: Task, b: float, policies: Policies) -> list[Candidate]:
    """What maximisers [C, A, n] each at other rationalities become at b."""
    columns = np.full(policies[0].shape[2], b)
    return polished(task, b, _ascended(task, columns, policies, _FEW_SWEEPS))


def near(task: Task, b: float, policies: Policies) -> Candidate | None:
    """The local maximum that policies [C, A] each are near; None if they are near none."""
    finished = _exact(task, b, policies)
    if finished is None:
        climbed = _ascended(task, np.array([b]), stacked([policies]), _SOME_SWEEPS)
        finished = _exact(task, b, column(climbed, 0))
    return finished


def polished(task: Task, b: float, policies: Policies) -> list[Candidate]:
    """Stationary policies near others, [C, A, n] each, that are not worse than those."""
    columns = range(policies[0].shape[2])
    out: list[Candidate | None] = [_exact(task, b, column(policies, i)) for i in columns]
    left = [i for i, finished in enumerate(out) if finished is None]
    if left:
        # Where two branches meet Newton's method has nothing to go by, nor has it at infinity.
        slow = [p[..., left] for p in policies]
        more = _ascended(task, np.full(len(left), b), slow, _MORE_SWEEPS, _SETTLED)
        for k, i in enumerate(left):
            climbed = column(more, k)
            out[i] = _exact(task, b, climbed) or candidate(task, b, climbed)
    return [finished for finished in out if finished is not None]


def _exact(task: Task, b: float, policies: Policies) -> Candidate | None:
    """What Newton's method makes of policies [C, A] each; None if it fails or goes downhill."""
    if np.isinf(b):
        return None
    point = finish(task.table, task.value, b, policies)
    if point.residual > _SETTLED:
        return None
    start, end = candidate(task, b, policies), candidate(task, b, point.policies)
    # Newton's method finds saddles as readily as maxima; a point below its start is one.
    before, after = objectives_of(b, start, end)
    return end if after >= before - slack(b) else None


def candidate(task: Task, b: float, policies: Policies) -> Candidate:
    """Policies [C, A] each with what they attain."""
    attained = score(task.table, task.value[:, None], [p[..., None] for p in policies])
    return Candidate(
        policies,
        b,
        float(attained.utility[0]),
        float(attained.entropy[0]),
        float(task.evidence(policies)),
    )
