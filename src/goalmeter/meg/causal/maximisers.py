"""Maximum entropy policies and classes of utilities over targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.outcomes import (
    TIE_AT_INFINITY,
    Linearised,
    OutcomeTable,
    Policies,
    Prospects,
    ascend,
    finish,
    prospects_of,
    respond,
    safe_log,
    score,
)

# --- Candidates -----------------------------------------------------------------------------------
# Policies whose probabilities are all this close are the same ones.
SAME = 1e-5
# Objectives that differ by less than this, in nats, are equally good.
TIE_NATS = 1e-9
# Maximisers kept of one objective; with more than this many equal ones, the best predictors stay.
_KEPT = 8
# Numbers in one pass over a batch; beyond, it is done in pieces.
_BATCH = 2**21


@dataclass(frozen=True, eq=False)
class Candidate:
    """Policies that maximise an objective, as far as the search can tell."""

    policies: Policies  # [C, A] each
    rationality: float  # b at which they are stationary; in the task's unit
    utility: float  # E[U], in the task's unit
    entropy: float  # H, nats
    evidence: float  # of the measured policy for them, nats


@dataclass(frozen=True, eq=False)
class Task:
    """A utility in a unit in which it varies by about 1, and the policy that is to be predicted."""

    table: OutcomeTable
    value: FloatArray  # the utility of each row, [R]
    measured: Policies  # the policy, [C, A] each
    visits: Policies  # how often it comes by each context and action, [C, A] each

    def evidence(self, policies: Policies) -> FloatArray:
        """Of the measured policy for models [C, A(, B)] each, nats, [] or [B]."""
        return evidence_of(self.table, self.visits, policies)

    def distance(self, first: Candidate, second: Candidate) -> float:
        """By how much two models differ where the measured policy goes, in decisions."""
        total = 0.0
        for visits, p, q in zip(self.visits, first.policies, second.policies, strict=True):
            total += float(visits.sum(axis=1) @ np.abs(p - q).sum(axis=1)) / 2
        return total

    def batch(self) -> int:
        """How many columns to work on at once."""
        return max(1, _BATCH // self.table.n_rows)


def evidence_of(table: OutcomeTable, visits: Policies, policies: Policies) -> FloatArray:
    """E[sum_i log model_i + log|dom D_i|] over visits [C, A], for models [C, A(, B)]; nats."""
    total = np.zeros(policies[0].shape[2:])
    for terms in table.log_ratios(visits, policies):
        total = total + terms.sum(axis=(0, 1))
    return total


def random_policies(table: OutcomeTable, n: int, rng: np.random.Generator) -> Policies:
    """N starts, [C, A, n] each: logits of all sizes, from nearly uniform to nearly certain."""
    # Maximisers range from nearly uniform (small b) to nearly certain, and so do starts.
    size = np.exp(rng.uniform(np.log(0.1), np.log(10.0), size=n))
    out = []
    for c, a in zip(table.contexts, table.actions, strict=True):
        logits = size * rng.standard_normal((c, a, n))
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        out.append(policy / policy.sum(axis=1, keepdims=True))
    return out


def near_measured(table: OutcomeTable, measured: Policies) -> Policies:
    """Starts [C, A, 4] on the way from the measured policy to the uniform one.

    Where several sets of policies are equally good (agents that must agree, on whatever), the one
    that predicts the measured policy best is the one that is looked for.
    """
    shares = np.array([0.02, 0.2, 0.6, 0.95])
    return [
        (1 - shares) * p[..., None] + shares / a
        for p, a in zip(measured, table.actions, strict=True)
    ]


def stacked(parts: Sequence[Policies]) -> Policies:
    """Policies [C, A] or [C, A, n] each, side by side: [C, A, total]."""
    return [
        np.concatenate([p if p.ndim == 3 else p[..., None] for p in column], axis=2)
        for column in zip(*parts, strict=True)
    ]


def repeated(policies: Policies, times: int) -> Policies:
    """Columns repeated as a whole: [C, A, n] to [C, A, times * n]."""
    return [np.tile(p, (1, 1, times)) for p in policies]


def column(policies: Policies, i: int) -> Policies:
    """One column, [C, A] each."""
    return [np.ascontiguousarray(p[..., i]) for p in policies]


def distinct(policies: Policies, order: Sequence[int]) -> list[int]:
    """The columns, in an order, less those that repeat an earlier one."""
    flat = np.concatenate([p.reshape(-1, p.shape[-1]) for p in policies])
    kept: list[int] = []
    for i in order:
        if not kept or np.abs(flat[:, kept] - flat[:, [i]]).max(axis=0).min() > SAME:
            kept.append(i)
    return kept


def best_of(
    candidates: list[Candidate], objective: Sequence[float], slack: float
) -> list[Candidate]:
    """Those that maximise an objective up to slack, the best predictor first, no two the same."""
    top = max(objective)
    ties = [c for c, value in zip(candidates, objective, strict=True) if value >= top - slack]
    # Definition 3.2 takes the best predictor among equally good policies.
    ties.sort(key=lambda c: -c.evidence)
    pool = stacked([c.policies for c in ties])
    return [ties[i] for i in distinct(pool, range(len(ties)))][:_KEPT]


# An infinite rationality is preferred to a finite one that is better by less, nats; and a
# rationality to a gap.
PREFERENCE = 1e-9


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found."""

    value: float  # evidence of the best model, nats, never below 0 (the uniform model is one)
    # b of the best model, in 1 / units of the utility; infinite where it only maximises or
    # minimises; NaN where its expected utility is in a gap, one that no rationality attains.
    rationality: float
    utility: float  # E[U] of the best model, in units of the utility
    entropy: float  # its causal entropy, nats
    policies: Policies  # it, [C, A] for each decision
    # Of the random starts that the result was tried on at the end, how many ended in it or in one
    # that is as good.
    agreed: int
    starts: int  # how many there were
    note: str  # what to know of it, in a sentence
    # For targets, the utility of each joint state, from -1 to 1; NaN for those that the decisions
    # have no say in.
    weights: FloatArray | None = None
    # How many coordinates of the utility were fitted: of those that choices can tell apart, the
    # rationality included.
    rank: int = 1


def unaffected(table: OutcomeTable) -> SearchResult:
    """The result where the decisions have no say in the utility: only the uniform model."""
    uniform = table.uniform()
    return SearchResult(
        value=0.0,
        rationality=0.0,
        utility=float(table.expected(uniform)[0]),
        entropy=float(table.entropy(uniform)),
        policies=uniform,
        agreed=0,
        starts=0,
        note="the decisions have no say in the utility",
        rank=0,
    )


# --- Supported ------------------------------------------------------------------------------------
# A maximiser at b has the most entropy of all policies with its expected utility. The converse
# fails where the greatest entropy, as a function of the utility attained, is not concave: those
# utilities are reached in `goalmeter.meg.causal.maximisers`.

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


# --- Held -----------------------------------------------------------------------------------------
# Maximise H subject to E[U] = u by the augmented Lagrangian
#
#     H + m (E[U] - u) - (r / 2) (E[U] - u)^2 ,
#
# whose maxima are constrained maxima of H once r outweighs the curvature of the greatest entropy as
# a function of u. Every decision answers the others exactly here, too: with the softmax of
# `goalmeter.meg.causal.outcomes` at the rationality b that satisfies
#
#     b = m - r (E[U] - u),      E[U] being what the answer at b attains,
#
# one equation whose left side rises and whose right side falls. Then m becomes b. Newton's method
# on the stationary equations and E[U] = u together finishes.
#
# Source: MEG paper (NeurIPS 2024), Definition 3.1; Hestenes and Powell (1969), multipliers.

_LAGRANGIAN_SWEEPS = 320
# r, nats per squared unit of utility: to begin with, and at least.
_STIFFEST = 2e4
_STIFFNESS = 80.0
_LARGEST_PENALTY = 1e9
_RELAX = 0.9
# A multiplier beyond this, nats per unit of utility, and the share of columns that have to be done
# for them to drop out.
_HOPELESS = 1e5
_DROP = 0.1
_AWAY = 1e-3
_LAGRANGIAN_NEAR = 1e-5
_ROOT_STEPS = 20
# A finished point attains u, and answers itself, this well.
_EXACT = 1e-9
_LAGRANGIAN_CLOSE = 3e-3
# Nats that lie between a rough end and u at most.
_AHEAD = 0.02
_LAGRANGIAN_FINISHED = 6
# Entropies this close are equal; Newton's method leaves less.
ENTROPY_TIE = 1e-8


def held(
    task: Task, utility: FloatArray, policies: Policies, rationality: FloatArray
) -> tuple[Policies, FloatArray]:
    """Ascents of the augmented Lagrangian side by side.

    Each column has its u, [B], in the task's unit, its policies to begin with, [C, A, B] each, and
    its multiplier to begin with, [B].

    Returns:
        policies near stationary ones, and their multipliers [B].
    """
    table, value = task.table, task.value[:, None]
    out, multipliers = [p.copy() for p in policies], rationality.copy()
    running = np.arange(len(rationality))
    now, m, u = out, multipliers, utility
    b, before = m.copy(), np.full(len(m), np.inf)
    stiffness, least = np.full(len(m), _STIFFEST), np.full(len(m), _STIFFNESS)
    for sweep in range(_LAGRANGIAN_SWEEPS):
        moved = np.zeros(len(m))
        now = list(now)
        for i in range(len(now)):
            prospects = prospects_of(table, value, now, i)
            b = _root(prospects, now[i], b, m, u, stiffness)
            new = respond(prospects, b, now[i])
            moved = np.maximum(moved, np.abs(new - now[i]).max(axis=(0, 1)))
            now[i] = new
        # b = m - r (E[U] - u), so this is how far the answers still are from u.
        off = np.abs(b - m) / stiffness
        m = np.clip(b, -_LARGEST_PENALTY, _LARGEST_PENALTY)
        # A stiff r keeps u from the first sweep on, and slows what moves along it: it is relaxed,
        # unless it no longer outweighs the curvature and u gets away.
        lost = (off > 1.5 * before) & (off > _AWAY)
        stiffness = np.where(lost, 4.0 * stiffness, np.maximum(_RELAX * stiffness, least))
        stiffness = np.minimum(stiffness, _LARGEST_PENALTY)
        least = np.where(lost, 0.5 * stiffness, np.maximum(_RELAX * least, _STIFFNESS))
        before = off
        # Where the multiplier runs away, u cannot be attained nearby.
        done = (moved + off <= _LAGRANGIAN_NEAR) | ((np.abs(m) > _HOPELESS) & (stiffness <= least))
        if done.mean() > _DROP or sweep == _LAGRANGIAN_SWEEPS - 1:
            for whole, part in zip(out, now, strict=True):
                whole[..., running] = part
            multipliers[running] = m
            keep = ~done
            if not keep.any():
                break
            running, now = running[keep], [p[..., keep] for p in now]
            m, u, b, before = m[keep], u[keep], b[keep], before[keep]
            stiffness, least = stiffness[keep], least[keep]
    return out, multipliers


def _root(
    prospects: Prospects,
    old: FloatArray,
    guess: FloatArray,
    multiplier: FloatArray,
    utility: FloatArray,
    stiffness: FloatArray,
) -> FloatArray:
    """The b with b + r (E[U] at b - u) = m, [B], by Newton's method inside a shrinking bracket."""
    mass = prospects.mass.max(axis=1)
    low = multiplier - stiffness * ((mass * prospects.paid.max(axis=1)).sum(axis=0) - utility)
    high = multiplier - stiffness * ((mass * prospects.paid.min(axis=1)).sum(axis=0) - utility)
    # The left side rises with b and E[U] lies between its extremes, so the root is in the bracket.
    b = np.clip(guess, low, high)
    for _ in range(_ROOT_STEPS):
        policy = respond(prospects, b, old)
        mean = (policy * prospects.paid).sum(axis=1)
        attained = (mass * mean).sum(axis=0)
        spread = (mass * (policy * (prospects.paid - mean[:, None]) ** 2).sum(axis=1)).sum(axis=0)
        excess = b - multiplier + stiffness * (attained - utility)
        low = np.where(excess < 0, b, low)
        high = np.where(excess > 0, b, high)
        step = b - excess / (1.0 + stiffness * spread)
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if (np.abs(new - b) <= 1e-8 * (1.0 + np.abs(b))).all():
            return new
        b = new
    return b


def greatest_entropies(
    task: Task,
    utilities: Sequence[float],
    starts: Sequence[tuple[Policies, FloatArray]],
) -> list[Maximisers]:
    """The greatest entropy that is reached at each of several expected utilities.

    Each u, in the task's unit, has its starts: policies [C, A, n] each, with multipliers [n].

    Returns:
        For each the equally good maximisers, and how many starts ended there; none where no
        ascent came to attain u.
    """
    ends = np.cumsum([len(b) for _, b in starts])
    owner = np.repeat(np.asarray(utilities), np.diff(ends, prepend=0))
    whole = stacked([p for p, _ in starts])
    b = np.concatenate([b for _, b in starts])
    for begin in range(0, len(owner), task.batch()):
        part = slice(begin, begin + task.batch())
        climbed, b[part] = held(task, owner[part], [p[..., part] for p in whole], b[part])
        for p, new in zip(whole, climbed, strict=True):
            p[..., part] = new
    out = []
    for u, begin, end in zip(utilities, [0, *ends], ends, strict=False):
        mine = [p[..., begin:end] for p in whole]
        out.append(_compared_at_utility(task, u, mine, b[begin:end]))
    return out


def _compared_at_utility(task: Task, u: float, climbed: Policies, b: FloatArray) -> Maximisers:
    attained = score(task.table, task.value[:, None], climbed)
    # What a rough end would have, were it to move along its multiplier to u.
    ahead = b * (attained.utility - u)
    rough = np.where(np.abs(ahead) <= _AHEAD, attained.entropy + ahead, -np.inf)
    if not np.isfinite(rough).any():
        return Maximisers([], 0)
    evidence = task.evidence(climbed)
    order = [int(i) for i in np.argsort(-rough, kind="stable") if np.isfinite(rough[i])]
    # Among equals the best predictors go first, so that none of them is left out.
    order.sort(key=lambda i: (-round(float(rough[i]), 4), -evidence[i]))
    done: list[Candidate] = []
    for i in distinct(climbed, order)[: 2 * _LAGRANGIAN_FINISHED]:
        if done and rough[i] < max(c.entropy for c in done) - _LAGRANGIAN_CLOSE:
            break
        finished = exact(task, u, column(climbed, i), float(b[i]))
        if finished is not None:
            done.append(finished)
    if not done:
        return Maximisers([], 0)
    best = best_of(done, [c.entropy for c in done], ENTROPY_TIE)
    return Maximisers(best, int((rough >= best[0].entropy - _LAGRANGIAN_CLOSE).sum()))


def exact(task: Task, u: float, policies: Policies, rationality: float) -> Candidate | None:
    """What Newton's method makes of policies [C, A] each that nearly attain u; None if it fails."""
    point = finish(task.table, task.value, rationality, policies, held=u)
    if point.residual > _EXACT:
        return None
    return candidate(task, point.rationality, point.policies)


# --- Utilities ------------------------------------------------------------------------------------
# Most of what one can add to a utility over targets changes no policy: a constant, a constant for
# each value of something out of reach, anything about outcomes that never come about. And what does
# change policies may do so on very different scales. Both are taken out with the expected features
# of random policies: in the coordinates that remain, expected utility varies by about 1 over them.

# Coordinates in which expected utility varies by less than this share of the most are rounding.
_NULL_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class UtilityClass:
    """All utilities that are linear in features, and the policy that is to be predicted."""

    table: OutcomeTable  # the outcomes, with features G of the coordinates, [R, K]
    basis: FloatArray  # weights of each coordinate, [D, K]
    measured: Policies  # the policy, [C, A] each
    visits: Policies  # how often it comes by each context and action, [C, A] each

    def task(self, y: FloatArray) -> tuple[Task, float]:
        """The utility G y as a task in a unit of its own, and the b that stands for 1."""
        spread = float(np.ptp(self.table.features @ y))
        unit = 2.0 ** np.ceil(np.log2(spread)) if spread > 0 else 1.0
        return self.plain(y / unit), float(unit)

    def shown(self, y: FloatArray) -> tuple[FloatArray, float]:
        """Weights of the joint states from -1 to 1, NaN where there is no say, and their scale."""
        weights = self.basis @ y
        size = float(np.abs(weights).max())
        reach = np.abs(self.basis).max(axis=1)
        shown = weights / size if size > 0 else weights
        return np.where(reach > 1e-9 * reach.max(), shown, np.nan), size

    def attained(self, policies: Policies, weights: FloatArray) -> float:
        """E[U] of weights as `shown`, less what no policy can change, in their unit."""
        y = np.linalg.pinv(self.basis) @ np.nan_to_num(weights)
        return float(self.table.expected(policies) @ y)

    def plain(self, y: FloatArray) -> Task:
        """The utility G y as a task."""
        return Task(self.table, self.table.features @ y, self.measured, self.visits)


def utility_class_of(
    table: OutcomeTable,
    measured: Policies,
    rng: np.random.Generator,
    visits: Policies | None = None,
) -> UtilityClass | None:
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
    # Scaled so that a unit step in any coordinate moves expected utility by about as much.
    basis = vectors[:, keep] / sizes[keep]
    visits = [v / v.sum() for v in (table.visits(measured) if visits is None else visits)]
    features = table.features @ basis
    features = features - 0.5 * (features.min(axis=0) + features.max(axis=0))
    return UtilityClass(table.with_features(features), basis, measured, visits)


_INDICATORS = 12
# Typical differences in expected utility, in nats.
_SMALLEST_SIZE, _LARGEST_SIZE = 0.2, 40.0
_SIZES = 8
_TRIES = 6
# Shares of the uniform policy that the measured one is mixed with, to have logarithms.
_MIXED = (0.02, 0.1, 0.3)


def starting_weights(
    utilities: UtilityClass,
    n: int,
    most: int,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Coordinates y [K], b included, of utilities to begin from.

    Those at which the measured policy is most nearly stationary; some joint states of the targets
    by themselves, wanted or unwanted, and n random ones, each in several sizes: about `most` in
    all.
    """
    inverse = np.linalg.pinv(utilities.basis)
    out = [fitted_weights(utilities, share) for share in _MIXED]
    states = rng.permutation(inverse.shape[1])[:_INDICATORS]
    directions = [sign * inverse[:, t] for t in states for sign in (1.0, -1.0)]
    directions += [np.asarray(z) for z in rng.standard_normal((n, len(inverse)))]
    sizes = min(max(most // len(directions), 1), _SIZES)
    gaps = typical_gaps(utilities, rng)
    for direction in directions[: most // sizes]:
        unit = direction / max(float(np.linalg.norm(gaps @ direction)), 1e-300)
        spread = np.geomspace(_SMALLEST_SIZE, _LARGEST_SIZE, sizes + 1)[:-1]
        # Not the same sizes in every direction.
        spread = spread * (_LARGEST_SIZE / _SMALLEST_SIZE) ** (rng.random() / sizes)
        out += [size * unit for size in spread]
    return [y for y in out if np.isfinite(y).all() and np.abs(y).max(initial=0.0) > 0]


def typical_gaps(utilities: UtilityClass, rng: np.random.Generator) -> FloatArray:
    """A matrix [K, K] that maps y to a vector as long as G y makes actions differ, typically.

    Root mean square, under random policies, over what the measured policy comes by.
    """
    table = utilities.table
    tries = random_policies(table, _TRIES, rng)
    weights = [v.sum(axis=1, keepdims=True) for v in utilities.visits]
    total = np.zeros((table.features.shape[1],) * 2)
    for i in range(_TRIES):
        at = Linearised(table, np.zeros(table.n_rows), 0.0, column(tries, i))
        paid = at.centred(at.paid_features())
        shares = [(w * p).reshape(-1) for w, p in zip(weights, at.policies, strict=True)]
        total += (paid * np.concatenate(shares)[:, None]).T @ paid / _TRIES
    values, vectors = np.linalg.eigh(total)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def fitted_weights(utilities: UtilityClass, share: float) -> FloatArray:
    """The weights y [K] at which the measured policy, mixed with uniform, is nearest to stationary.

    Least squares in the logs of the policy, weighted by how often it comes by and what it does.
    Where the policy is soft-optimal for some utility of the class, it is that one.
    """
    table = utilities.table
    mixed = [
        (1 - share) * p + share / a for p, a in zip(utilities.measured, table.actions, strict=True)
    ]
    at = Linearised(table, np.zeros(table.n_rows), 0.0, mixed)
    # With no utility the answers are what is left to say of later decisions.
    left = np.concatenate([safe_log(p).reshape(-1) for p in mixed]) - at.answers
    weight = np.concatenate(
        [
            np.sqrt(visits.sum(axis=1, keepdims=True) * p).reshape(-1)
            for visits, p in zip(utilities.visits, mixed, strict=True)
        ]
    )
    rows = weight[:, None] * at.centred(at.paid_features())
    wanted = weight * at.centred(left[:, None])[:, 0]
    solution, *_ = np.linalg.lstsq(rows, wanted, rcond=1e-8)
    return np.asarray(solution)
