"""Search for the maximum entropy policies that predict a policy best, without sufficient recall.

E[U] is then multilinear in the policies, b E[U] + H is not concave in them, and maximum entropy
policies are found by exact block ascent from many starts. A policy that is only a *local* maximum
of the entropy at its expected utility is none, and may predict the measured policy better than the
true one: in the extreme, it is the measured policy itself. So candidates with the same rationality,
or the same expected utility, compete by objective first; the evidence decides among equals; and the
result is compared with fresh random starts. Its value is a lower bound of MEG provided that the
optima that were found are global.

Source: MEG paper (NeurIPS 2024), Definitions 3.1, 3.2 and 4.2 to 4.4.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from goalmeter._types import FloatArray
from goalmeter.meg.causal.outcomes import (
    TIE_AT_INFINITY,
    JointOutcomes,
    Policies,
    ascend,
    finish,
    prospects_of,
    score,
)

# Policies whose probabilities are all this close are the same.
_SAME = 1e-5
# Evidence that differs by less, nats, is equal; infinite rationalities and rationalities as such
# are preferred to finite ones and gaps that are better by less.
EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A utility in a unit in which it varies by about 1, and the policy to be predicted."""

    table: JointOutcomes
    value: FloatArray  # the utility of each row, [R]
    measured: Policies  # the policy, [C, A] each
    visits: Policies  # the frequency of each context and action, [C, A] each

    def evidence(self, policies: Policies) -> FloatArray:
        """Evidence for models [C, A(, B)] each, nats, [] or [B]."""
        shares = self.table.shares(self.visits, policies)
        return np.asarray(sum(share.sum(axis=0) for share in shares))

    @property
    def ceiling(self) -> float:
        """The evidence of the measured policy for itself, nats: no model has more."""
        return float(self.evidence(self.measured))

    def distance(self, first: Policies, second: Policies) -> float:
        """Return the difference of two models where the measured policy goes, in decisions."""
        return sum(
            float(visits.sum(axis=1) @ np.abs(p - q).sum(axis=1)) / 2
            for visits, p, q in zip(self.visits, first, second, strict=True)
        )

    def candidate(self, b: float, policies: Policies) -> PolicyCandidate:
        """Return policies [C, A] each with what they attain."""
        utility, entropy = score(self.table, self.value[:, None], [p[..., None] for p in policies])
        return PolicyCandidate(
            policies, b, float(utility[0]), float(entropy[0]), float(self.evidence(policies))
        )


class PolicyCandidate(NamedTuple):
    """Policies [C, A] each that maximise an objective, as far as the search can tell."""

    policies: Policies
    rationality: float  # b at which they are stationary; in the task's unit
    utility: float  # E[U], in the task's unit
    entropy: float  # H, nats
    evidence: float  # nats


class SearchResult(NamedTuple):
    """The best model that a search found."""

    value: float  # its evidence, nats, at least 0 (that of the uniform model)
    # Its b in 1 / units of the utility; infinite where it only maximises or minimises; NaN where
    # its expected utility is in a gap, one that no rationality attains.
    rationality: float
    utility: float  # its E[U], in units of the utility
    entropy: float  # its causal entropy, nats
    policies: Policies  # [C, A] for each decision
    agreed: int  # how many of the final random starts ended in it or in one as good
    starts: int  # the number of these starts
    note: str
    # For targets, the utility of each joint state, from -1 to 1; NaN where decisions have no say.
    weights: FloatArray | None = None
    # The number of fitted coordinates that choices can tell apart, the rationality included.
    rank: int = 1


def random_policies(table: JointOutcomes, n: int, rng: np.random.Generator) -> Policies:
    """Starts [C, A, n] each: logits of all sizes, from nearly uniform to nearly deterministic."""
    size = np.exp(rng.uniform(np.log(0.1), np.log(10.0), size=n))
    out = []
    for c, a in zip(table.contexts, table.actions, strict=True):
        logits = size * rng.standard_normal((c, a, n))
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        out.append(policy / policy.sum(axis=1, keepdims=True))
    return out


def near_measured(table: JointOutcomes, measured: Policies) -> Policies:
    """Return starts [C, A, 4] on the way from the measured policy to the uniform one.

    Where several policies are equally good (agents that must agree, on whatever), the one that
    predicts the measured policy best counts.
    """
    shares = np.array([0.02, 0.2, 0.6, 0.95])
    return [
        (1 - shares) * p[..., None] + shares / a
        for p, a in zip(measured, table.actions, strict=True)
    ]


def stacked(parts: Sequence[Policies]) -> Policies:
    """Return policies [C, A] or [C, A, n] each, side by side: [C, A, total]."""
    return [
        np.concatenate([p if p.ndim == 3 else p[..., None] for p in column], axis=2)
        for column in zip(*parts, strict=True)
    ]


def column(policies: Policies, i: int) -> Policies:
    """Return one column, [C, A] each."""
    return [np.ascontiguousarray(p[..., i]) for p in policies]


# --- Maximisers -----------------------------------------------------------------------------------
# Maximum entropy policies come in families with one parameter: the rationality b, or the expected
# utility u. What maximises b E[U] + H has the most entropy at its expected utility. The converse
# fails where the greatest entropy, as a function of u, is not concave: there is a gap of expected
# utilities that no b attains, and the entropy is maximised at each fixed u.

_SWEEPS, _MORE_SWEEPS, _FIXED_SWEEPS, _FEW_SWEEPS = 80, 400, 320, 6
# Probabilities that move by less in a sweep are left to Newton's method; by less than the second
# they have settled.
_NEAR, _SETTLED = 1e-4, 1e-12
# A finished point attains a fixed utility, and is its own best answer, this well.
_EXACT = 1e-9
# Ascents that end this close to the best one, nats, are finished before they are compared.
_CLOSE, _CLOSE_FIXED = 1e-3, 3e-3
_FINISHED = 8
# Nats between a rough end and its fixed utility at most.
_AHEAD = 0.02
# Equal maximisers to keep; of more, the best predictors.
_KEPT = 8
# Additional nats for what the measured policy does, in starts that lean towards it.
_LEAN = 0.2
# Numbers in one pass over a batch of ascents.
_BATCH = 2**21


class Maximisers(NamedTuple):
    """The best of some starts: equally good maximisers, and how many starts ended there."""

    best: list[PolicyCandidate]
    agreed: int


class Family:
    """Maximum entropy policies of a task by rationality, or in a gap by expected utility.

    `scale` is a typical rationality; in a gap, the initial multiplier.
    """

    def __init__(
        self, task: SearchTask, rng: np.random.Generator, scale: float, *, fixed: bool
    ) -> None:
        self.task, self.rng, self.scale, self.fixed = task, rng, scale, fixed

    def slack(self, at: float) -> float:
        """Nats within which objectives are equal; b E[U] of a large b has few decimals."""
        return 1e-8 if self.fixed else 1e-9 + (0.0 if np.isinf(at) else 1e-15 * abs(at))

    def objectives(self, at: float, utility: FloatArray, entropy: FloatArray) -> FloatArray:
        """H, or b E[U] + H less b times the largest E[U], nats, [n]; at infinite b by utility."""
        if self.fixed:
            return entropy
        signed = np.sign(at) * utility
        short = signed.max(initial=-np.inf) - signed
        if np.isinf(at):
            return np.where(short <= TIE_AT_INFINITY, entropy, -np.inf)
        return np.asarray(entropy - abs(at) * short)

    def objectives_of(self, at: float, candidates: Sequence[PolicyCandidate]) -> FloatArray:
        """Return the objectives of candidates at a parameter, [n]."""
        utility = np.array([c.utility for c in candidates])
        return self.objectives(at, utility, np.array([c.entropy for c in candidates]))

    def merge(self, at: float, candidates: Sequence[PolicyCandidate]) -> list[PolicyCandidate]:
        """Return those that maximise the objective, the best predictor first (Definition 3.2)."""
        if not candidates:
            return []
        value = self.objectives_of(at, candidates)
        top = value.max() - self.slack(at)
        equal = [c for c, v in zip(candidates, value, strict=True) if v >= top]
        equal.sort(key=lambda c: -c.evidence)
        pool = stacked([c.policies for c in equal])
        return [equal[i] for i in _distinct(pool, range(len(equal)))][:_KEPT]

    def maximise(self, at: Sequence[float], starts: Sequence[Policies]) -> list[Maximisers]:
        """Return the best that ascents reach at each parameter from its starts, [C, A, n] each."""
        # All ascents of all parameters run side by side: one pass over the rows serves many.
        ends = np.cumsum([s[0].shape[2] for s in starts])
        owner = np.repeat(np.asarray(at, dtype=np.float64), np.diff(ends, prepend=0))
        policies, b = stacked(list(starts)), np.zeros(len(owner))
        batch = max(1, _BATCH // self.task.table.n_rows)
        for begin in range(0, len(owner), batch):
            part = slice(begin, begin + batch)
            climbed, b[part] = self._ascended(owner[part], [p[..., part] for p in policies])
            for p, new in zip(policies, climbed, strict=True):
                p[..., part] = new
        return [
            self._compared(x, [p[..., begin:end] for p in policies], b[begin:end])
            for x, begin, end in zip(at, [0, *ends], ends, strict=False)
        ]

    def _ascended(
        self, at: FloatArray, policies: Policies, sweeps: int = 0, tolerance: float = _NEAR
    ) -> tuple[Policies, FloatArray]:
        table, value = self.task.table, self.task.value[:, None]
        if not self.fixed:
            sweeps = sweeps or _SWEEPS
            return ascend(table, value, at, policies, sweeps=sweeps, tolerance=tolerance)
        b = np.full(len(at), self.scale)
        return ascend(table, value, b, policies, sweeps=_FIXED_SWEEPS, tolerance=1e-5, fixed=at)

    def _compared(self, at: float, climbed: Policies, b: FloatArray) -> Maximisers:
        utility, entropy = score(self.task.table, self.task.value[:, None], climbed)
        close = _CLOSE
        if self.fixed:
            # What a rough end would have, were it to move along its multiplier to u.
            ahead, close = b * (utility - at), _CLOSE_FIXED
            entropy = np.where(np.abs(ahead) <= _AHEAD, entropy + ahead, -np.inf)
        rough = self.objectives(at, utility, entropy)
        if not np.isfinite(rough.max()):
            return Maximisers([], 0)
        evidence = self.task.evidence(climbed)
        order = [int(i) for i in np.flatnonzero(rough >= rough.max() - close)]
        # Among equals the best predictors go first, so that none of them is left out.
        digits = 4 if self.fixed else 6
        order.sort(key=lambda i: (-round(float(rough[i]), digits), -evidence[i]))
        chosen = _distinct(climbed, order)[:_FINISHED]
        best = self.merge(at, self.polished(at, [p[..., chosen] for p in climbed], b[chosen]))
        if not best:
            return Maximisers([], 0)
        if self.fixed:
            return Maximisers(best, int((rough >= best[0].entropy - close).sum()))
        return Maximisers(best, int((rough >= rough.max() - 10 * close**2).sum()))

    def polished(self, at: float, policies: Policies, b: FloatArray) -> list[PolicyCandidate]:
        """Stationary policies near others, [C, A, n] each, that are not worse than those."""
        found = [self._exact(at, column(policies, i), float(b[i])) for i in range(len(b))]
        left = [i for i, exact in enumerate(found) if exact is None]
        if left and not self.fixed:
            # Newton's method fails where two branches meet, and at infinity.
            slow = [p[..., left] for p in policies]
            more, _ = self._ascended(np.full(len(left), at), slow, _MORE_SWEEPS, _SETTLED)
            for k, i in enumerate(left):
                climbed = column(more, k)
                found[i] = self._exact(at, climbed, at) or self.task.candidate(at, climbed)
        return [exact for exact in found if exact is not None]

    def _exact(self, at: float, policies: Policies, b: float) -> PolicyCandidate | None:
        """Return the result of Newton's method; None if it fails or goes downhill, to a saddle."""
        if not np.isfinite(b):
            return None
        task = self.task
        point = finish(task.table, task.value, b, policies, at if self.fixed else None)
        if point.residual > (_EXACT if self.fixed else _SETTLED):
            return None
        end = task.candidate(point.rationality, point.policies)
        if self.fixed:
            return end
        before, after = self.objectives_of(at, [task.candidate(at, policies), end])
        return end if after >= before - self.slack(at) else None

    def follow(self, at: float, nearby: Sequence[PolicyCandidate]) -> list[PolicyCandidate]:
        """Return what maximisers at nearby parameters become here; cheap, and may lose the best."""
        if not nearby:
            return []
        policies = stacked([c.policies for c in nearby])
        b = np.array([c.rationality if np.isfinite(c.rationality) else self.scale for c in nearby])
        if not self.fixed:
            b = np.full(len(nearby), at)
            policies, _ = self._ascended(b, policies, _FEW_SWEEPS)
        return self.merge(at, self.polished(at, policies, b))

    def starts(self, at: Sequence[float], n: int) -> list[Policies]:
        """For each parameter, starts near the measured policy and n random ones."""
        table = self.task.table
        parts = [near_measured(table, self.task.measured)]
        out = [[*parts, random_policies(table, n, self.rng)] if n else parts for _ in at]
        if not self.fixed:
            # Where several policies are equally good, a little additional utility for what the
            # measured policy does decides between them.
            b = np.asarray(at)
            size = np.where(np.isfinite(b) & (b != 0), b, 1.0)
            taken = sum(table.rows(i, p) for i, p in enumerate(self.task.measured))
            value = self.task.value[:, None] + _LEAN * np.asarray(taken)[:, None] / size
            uniform = [np.repeat(p[..., None], len(b), axis=2) for p in table.uniform()]
            lean, _ = ascend(table, value, size, uniform, sweeps=_SWEEPS // 2, tolerance=_NEAR)
            out = [[column(lean, i), *own] for i, own in enumerate(out)]
        return [stacked(own) for own in out]


def _distinct(policies: Policies, order: Sequence[int]) -> list[int]:
    """Return the columns in an order, without those that repeat an earlier one."""
    flat = np.concatenate([p.reshape(-1, p.shape[-1]) for p in policies])
    kept: list[int] = []
    for i in order:
        if not kept or np.abs(flat[:, kept] - flat[:, [i]]).max(axis=0).min() > _SAME:
            kept.append(i)
    return kept


# --- Curves ---------------------------------------------------------------------------------------
# A family is followed along its parameter. It may jump, where one branch of maximisers overtakes
# another, and its evidence jumps too. So values are inserted between neighbours that differ, until
# they are linked or the jump is located.

# Neighbours whose best policies differ by less, in decisions of the measured policy, are linked.
_LINKED = 0.12
_ROUNDS, _NODES, _PEAKS, _CONFIRMATIONS = 24, 240, 3, 6
# Nats by which the evidence of a node is at most improved between its neighbours.
_HOPE = 0.3
# Jumps of expected utility below this, in the task's unit, are not gaps.
_JUMP = 1e-6
# Rationalities in 1 / (largest difference that a decision makes). In games with round numbers
# branches meet at round numbers, where nothing converges: those are avoided.
_GRID = 1.0877 * 2.0 ** np.arange(-3, 13)
_FAR = 2.0**60
_FIRST_PASS = 2**18
_GAP_NODES = 7


class Node(NamedTuple):
    """A parameter with its maximisers, the best predictor first; there may be none."""

    at: float
    best: list[PolicyCandidate]

    @property
    def evidence(self) -> float:
        """Of the best predictor, nats."""
        return self.best[0].evidence if self.best else -np.inf


class FamilyCurve:
    """Nodes of a family in the order of its parameter."""

    def __init__(self, family: Family, nodes: Sequence[Node] = ()) -> None:
        self.family, self.nodes = family, list(nodes)

    def add(self, at: Sequence[float], fresh: int) -> None:
        """Solve at new parameters, from n random starts and the maximisers of their neighbours."""
        values = sorted(set(at).difference(node.at for node in self.nodes))
        if not values:
            return
        warm = [self._neighbours(x) for x in values]
        starts = [
            stacked([own, *(c.policies for c in near)])
            for own, near in zip(self.family.starts(values, fresh), warm, strict=True)
        ]
        for x, ends in zip(values, self.family.maximise(values, starts), strict=True):
            insort(self.nodes, Node(x, ends.best), key=lambda node: node.at)

    def _neighbours(self, x: float) -> list[PolicyCandidate]:
        left = [node for node in self.nodes if node.at < x][-1:]
        right = [node for node in self.nodes if node.at > x][:1]
        return [c for node in (*left, *right) for c in node.best]

    def put(self, at: float, candidates: Sequence[PolicyCandidate]) -> None:
        """Add candidates that other starts led to."""
        node = next((n for n in self.nodes if n.at == at), Node(at, []))
        merged = Node(at, self.family.merge(at, [*node.best, *candidates]))
        self.nodes = sorted([*(n for n in self.nodes if n.at != at), merged], key=lambda n: n.at)

    def linked(self, left: Node, right: Node) -> bool:
        """Return whether some maximisers of two nodes are nearly the same."""
        distance = self.family.task.distance
        return any(
            distance(p.policies, q.policies) <= _LINKED for p in left.best for q in right.best
        )

    def refine(self) -> None:
        """Insert parameters between neighbours that are not linked."""
        closed: set[tuple[float, float]] = set()
        for _ in range(_ROUNDS):
            wanted = []
            for left, right in pairwise(self.nodes):
                if (left.at, right.at) in closed or self.linked(left, right):
                    continue
                x = self._between(left, right)
                if x is None or not left.at < x < right.at:
                    closed.add((left.at, right.at))
                else:
                    wanted.append(x)
            if not wanted or len(self.nodes) > _NODES:
                return
            self.add(wanted, 2 if self.family.fixed else 0)

    def _between(self, left: Node, right: Node) -> float | None:
        """A parameter between two nodes, where their tangents meet; None if they are adjacent."""
        a, b, scale = left.at, right.at, self.family.scale
        if self.family.fixed:
            least = 1e-6 if left.best and right.best else 0.02
            return 0.5 * (a + b) if b - a > least else None
        if max(abs(x) for x in (a, b) if np.isfinite(x)) > _FAR:
            return None
        if np.isinf(b):
            return max(4 * a, scale)
        if np.isinf(a):
            return min(4 * b, -scale)
        if b - a <= 1e-13 * max(abs(a), abs(b)):
            return None
        below = max(left.best, key=lambda c: c.utility)
        above = min(right.best, key=lambda c: c.utility)
        # The lines b -> b u + H(u) of both neighbours cross where one overtakes the other.
        rise = above.utility - below.utility
        return (below.entropy - above.entropy) / rise if rise > _JUMP else 0.5 * (a + b)

    def sharpen(self, enough: float) -> None:
        """Maximise the evidence between the neighbours of the best nodes that have not enough."""
        top = self.best().evidence
        peaks = []
        for i, node in enumerate(self.nodes):
            near = [n.evidence for n in self.nodes[max(i - 1, 0) : i + 2]]
            flat = max(abs(x) for x in near) <= 1e-10
            if node.evidence >= max(near) and top - _HOPE < node.evidence < enough and not flat:
                peaks.append(i)
        peaks.sort(key=lambda i: -self.nodes[i].evidence)
        # All of them first: a node that is put in moves the others.
        for best in [self._sharpened(i) for i in peaks[:_PEAKS]]:
            self.put(*best)

    def _sharpened(self, i: int) -> Node:
        near = self.nodes[max(i - 1, 0) : i + 2]
        warm: list[PolicyCandidate] = []  # one of each branch; the node's own first
        for c in (c for node in (self.nodes[i], *near) for c in node.best[:3]):
            distances = [self.family.task.distance(c.policies, w.policies) for w in warm]
            if min(distances, default=np.inf) > 2 * _LINKED:
                warm.append(c)
        best, scale = self.nodes[i], self.family.scale

        # A rationality, which may be infinite, is searched for on a scale from -1 to 1.
        def coordinate(at: float) -> float:
            if self.family.fixed:
                return at
            return float(np.sign(at)) if np.isinf(at) else at / (scale + abs(at))

        def loss(x: float) -> float:
            nonlocal best
            at = x if self.family.fixed else scale * x / (1.0 - abs(x))
            node = Node(at, self.family.follow(at, warm))
            if node.evidence > best.evidence:
                best = node
            return -max(node.evidence, -1e6)

        low, high = coordinate(near[0].at), coordinate(near[-1].at)
        if high - low > 1e-10:
            options = {"xatol": 1e-8 * (high - low)}
            minimize_scalar(loss, bounds=(low, high), method="bounded", options=options)
        return best

    def best(self) -> Node:
        """Return the node with the most evidence; an infinite rationality if it is as good."""
        best = max(self.nodes, key=lambda node: node.evidence)
        for end in () if self.family.fixed else (self.nodes[0], self.nodes[-1]):
            if end.evidence >= best.evidence - EQUAL:
                return end
        return best

    def confirmed(self, restarts: int) -> tuple[PolicyCandidate | None, int]:
        """Return the best candidate that fresh random starts do not improve on, and how many agree.

        None in a gap where its ends are the best.
        """
        family, task = self.family, self.family.task
        for _ in range(_CONFIRMATIONS):
            node = self.best()
            if family.fixed and node.at in (self.nodes[0].at, self.nodes[-1].at):
                return None, 0
            fresh = random_policies(task.table, restarts, family.rng)
            (ends,) = family.maximise([node.at], [fresh])
            slack = family.slack(node.at)
            reached, *others = family.objectives_of(node.at, [node.best[0], *ends.best])
            if max(others, default=-np.inf) <= reached + slack:
                agree = max(others, default=-np.inf) >= reached - 10 * slack
                return node.best[0], ends.agreed if agree else 0
            self.put(node.at, ends.best)
            self.refine()
            self.sharpen(task.ceiling - EQUAL)
        return (None if family.fixed else self.best().best[0]), 0


def curve_of_rationalities(family: Family, restarts: int) -> FamilyCurve:
    """Return all rationalities of both signs, on a grid that random starts are tried on."""
    curve = FamilyCurve(family)
    columns = len(_GRID) * 2 * restarts * family.task.table.n_rows
    grid = family.scale * _GRID[:: max(1, min(4, round(columns / _FIRST_PASS)))]
    curve.add([-np.inf, *(-grid), 0.0, *grid, np.inf], restarts)
    curve.refine()
    return curve


def gaps_of(curve: FamilyCurve) -> list[tuple[Node, Node]]:
    """Expected utilities that are left out between nodes, or between maximisers of one.

    The ends of each gap are nodes by expected utility.
    """
    groups: list[tuple[int, list[PolicyCandidate]]] = []
    for i, node in enumerate(curve.nodes):
        for c in sorted(node.best, key=lambda c: c.utility):
            if groups and groups[-1][0] == i and c.utility - groups[-1][1][-1].utility <= _JUMP:
                groups[-1][1].append(c)
            else:
                groups.append((i, [c]))
    return [
        (Node(left[-1].utility, left), Node(right[0].utility, right))
        for (i, left), (k, right) in pairwise(groups)
        if right[0].utility - left[-1].utility > _JUMP
        and (i == k or not curve.linked(curve.nodes[i], curve.nodes[k]))
    ]


def curve_of_gap(
    task: SearchTask, low: Node, high: Node, restarts: int, family: Family
) -> FamilyCurve:
    """Return the expected utilities inside a gap."""
    slope = (low.best[-1].entropy - high.best[0].entropy) / (high.at - low.at)
    curve = FamilyCurve(Family(task, family.rng, slope, fixed=True), [low, high])
    # Denser towards the ends, where the entropy bends most.
    shares = 0.5 - 0.5 * np.cos(np.pi * np.arange(1, _GAP_NODES + 1) / (_GAP_NODES + 1))
    curve.add(list(low.at + (high.at - low.at) * shares), restarts)
    curve.refine()
    return curve


# --- Known utilities ------------------------------------------------------------------------------
# Decisions that can move less than this share of a utility do not influence it.
_NO_SAY = 1e-12


def search_known(
    table: JointOutcomes,
    measured: Policies,
    visits: Policies,
    restarts: int,
    rng: np.random.Generator,
) -> SearchResult:
    """Find the best model for the utility of the table, over all rationalities and gaps."""
    made = _scaled_task(table, measured, visits, rng)
    if made is None:
        return no_say(table)
    task, unit, origin, scale = made
    curve = curve_of_rationalities(Family(task, rng, scale, fixed=False), restarts)
    enough = task.ceiling - EQUAL
    curve.sharpen(enough)
    best, agreed = curve.confirmed(restarts)
    assert best is not None
    rationality, note = best.rationality / unit, "a rationality supports it"
    # No model predicts better than the measured policy itself.
    for low, high in gaps_of(curve) if best.evidence < enough else []:
        inside = curve_of_gap(task, low, high, restarts, curve.family)
        inside.sharpen(enough)
        found, agreeing = inside.confirmed(restarts)
        if found is not None and found.evidence > best.evidence + EQUAL:
            best, agreed, rationality = found, agreeing, float("nan")
            ends = [unit * u + origin for u in (low.at, high.at)]
            note = (
                f"the best model's expected utility is in a gap, {ends[0]:.6g} to {ends[1]:.6g}, "
                f"that no rationality attains"
            )
    value = max(best.evidence, 0.0)
    return SearchResult(
        value=value,
        rationality=rationality if value > 0.0 else 0.0,
        utility=unit * best.utility + origin,
        entropy=best.entropy,
        policies=best.policies,
        agreed=agreed,
        starts=restarts,
        note=note,
    )


def _scaled_task(
    table: JointOutcomes, measured: Policies, visits: Policies, rng: np.random.Generator
) -> tuple[SearchTask, float, float, float] | None:
    """The task, its unit and origin of utility, and a typical rationality; None if no say."""
    # Units are powers of two, so that a change of the utility's unit by one changes no digit.
    utility = table.features[:, 0]
    origin = 0.5 * float(utility.min() + utility.max())
    spread = float(np.ptp(utility))
    if spread == 0.0:
        return None
    unit = 2.0 ** np.ceil(np.log2(spread))
    task = SearchTask(table, (utility - origin) / unit, measured, visits)
    tries = random_policies(table, 32, rng)
    starts = stacked([tries, near_measured(table, measured)])
    ends = Family(task, rng, 1.0, fixed=False).maximise([np.inf, -np.inf], [starts, starts])
    say = ends[0].best[0].utility - ends[1].best[0].utility
    if say <= _NO_SAY:
        return None
    factor = 2.0 ** np.ceil(np.log2(say))
    value, largest = task.value / factor, 0.0
    for i in range(len(tries)):
        prospects = prospects_of(table, value[:, None], tries, i)
        seen = prospects.mass.min(axis=1) > 0
        largest = max(largest, float((np.ptp(prospects.paid, axis=1) * seen).max()))
    scaled = replace(task, value=value)
    return scaled, float(unit * factor), origin, float(2.0 ** -np.ceil(np.log2(largest)))


def no_say(table: JointOutcomes) -> SearchResult:
    """Return the result where decisions have no say: the uniform model."""
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


def planned_evidence(
    table: JointOutcomes,
    measured: Policies,
    rationality: float,
    *,
    restarts: int,
    rng: np.random.Generator,
) -> float:
    """How well the policies of a known utility at a known rationality predict a policy, nats.

    Of equally good plans the best predictor counts. The rationality is in 1 / units of the utility,
    of either sign or infinite; there are twice as many random starts as `restarts`.
    """
    value = table.features[:, 0]
    spread = float(np.ptp(value))
    if rationality == 0.0 or spread == 0.0:
        return 0.0
    # A power of two, so that no digit of the rationality changes.
    unit = 2.0 ** float(np.ceil(np.log2(spread)))
    value = (value - 0.5 * (value.min() + value.max())) / unit
    task = SearchTask(table, value, measured, [v / v.sum() for v in table.visits(measured)])
    starts = [random_policies(table, 2 * restarts, rng), near_measured(table, measured)]
    family = Family(task, rng, 1.0, fixed=False)
    return family.maximise([rationality * unit], [stacked(starts)])[0].best[0].evidence
