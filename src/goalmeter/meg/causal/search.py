"""Search for the maximum entropy policies that predict a policy best, without sufficient recall.

A policy that is only a *local* maximum of the entropy at its expected utility is none, and may
predict the measured policy better than the true one. So candidates with the same rationality, or
the same expected utility, compete by objective first; the evidence decides among equals; and the
result is compared with fresh random starts. See docs/notes/mathematics.md.

Source: MEG paper (NeurIPS 2024), Definitions 3.1, 3.2 and 4.2 to 4.4.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize_scalar

from goalmeter._types import FloatArray
from goalmeter.meg.causal.outcomes import (
    TIE_AT_INFINITY,
    JointOutcomes,
    ascend,
    finish,
    prospects_of,
    softmax,
)

_SAME = 1e-5  # policies whose probabilities are all this close are the same
# Evidence that differs by less, nats, is equal; infinite rationalities and rationalities as such
# are preferred to finite ones and gaps that are better by less.
EQUAL = 1e-9


class PolicyCandidate(NamedTuple):
    """Policies that maximise an objective, as far as the search can tell."""

    policies: FloatArray  # [K]
    rationality: float  # b at which they are stationary; in the family's unit
    utility: float  # E[U], in the family's unit
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
    policies: FloatArray  # [K]
    agreed: int  # how many of the final random starts ended in it or in one as good
    starts: int  # the number of these starts
    note: str
    # For targets, the utility of each joint state, from -1 to 1; NaN where decisions have no say.
    weights: FloatArray | None = None
    # The number of fitted coordinates that choices can tell apart, the rationality included.
    rank: int = 1


def random_policies(table: JointOutcomes, n: int, rng: Generator) -> FloatArray:
    """Starts [K, n]: logits of all sizes, from nearly uniform to nearly deterministic."""
    size = np.exp(rng.uniform(np.log(0.1), np.log(10.0), size=n))
    logits = size * rng.standard_normal((len(table.choices), n))
    return np.concatenate([softmax(part).reshape(-1, n) for part in table.split(logits)])


def near_measured(table: JointOutcomes, measured: FloatArray) -> FloatArray:
    """Return starts [K, 4] on the way from the measured policy to the uniform one."""
    # Where several policies are equally good (agents that must agree, on whatever), the one that
    # predicts the measured policy best counts.
    shares = np.array([0.02, 0.2, 0.6, 0.95])
    return (1 - shares) * measured[:, None] + shares / table.choices[:, None]


def stacked(candidates: Sequence[PolicyCandidate], *starts: FloatArray) -> FloatArray:
    """Return starts and then the policies of candidates, side by side: [K, total]."""
    return np.concatenate([*starts, *(c.policies[:, None] for c in candidates)], axis=1)


# --- Maximisers -----------------------------------------------------------------------------------
# Maximum entropy policies come in families by rationality b or, in gaps of expected utilities that
# no b attains because the greatest entropy at u is not concave there, by expected utility u.

_SWEEPS, _MORE_SWEEPS, _FIXED_SWEEPS, _FEW_SWEEPS = 80, 400, 320, 6
# Probabilities that move by less in a sweep are left to Newton's method; by less than the second
# they have settled.
_NEAR, _SETTLED = 1e-4, 1e-12
_EXACT = 1e-9  # how well a finished point attains a fixed utility, and is its own best answer
# Ascents that end this close to the best one, nats, are finished before they are compared.
_CLOSE, _CLOSE_FIXED = 1e-3, 3e-3
_FINISHED = 8
_AHEAD = 0.02  # nats between a rough end and its fixed utility at most
_KEPT = 8  # equal maximisers to keep; of more, the best predictors
_LEAN = 0.2  # nats more for what the measured policy does, in starts that lean towards it
_BATCH = 2**21  # numbers in one pass over a batch of ascents

# Equally good maximisers, and how many starts ended there.
Maximisers = tuple[list[PolicyCandidate], int]


@dataclass(frozen=True, eq=False)
class Family:
    """Maximum entropy policies for a utility by rationality, or in a gap by expected utility."""

    table: JointOutcomes
    value: FloatArray  # the utility of each row, [R], in a unit in which it varies by about 1
    measured: FloatArray  # the policy to be predicted, [K]
    visits: FloatArray  # the frequency of each context and action, [K]
    rng: Generator
    scale: float = 1.0  # a typical rationality; in a gap, the initial multiplier
    fixed: bool = False  # whether the parameter is the expected utility

    def evidence(self, policies: FloatArray) -> FloatArray:
        """Evidence for models [K(, B)], nats, [] or [B]."""
        return self.table.evidence(self.visits, policies)

    @property
    def ceiling(self) -> float:
        """The evidence of the measured policy for itself, nats: no model has more."""
        return float(self.evidence(self.measured))

    def distance(self, first: PolicyCandidate, second: PolicyCandidate) -> float:
        """Return the difference of two models where the measured policy goes, in decisions."""
        visits = self.table.split(self.visits)
        moves = self.table.split(np.abs(first.policies - second.policies))
        pairs = zip(visits, moves, strict=True)
        return sum(float(seen.sum(axis=1) @ moved.sum(axis=1)) / 2 for seen, moved in pairs)

    def candidate(self, b: float, policies: FloatArray) -> PolicyCandidate:
        """Return policies [K] with what they attain."""
        utility, entropy = self.table.score(self.value[:, None], policies[:, None])
        attained = float(utility[0]), float(entropy[0]), float(self.evidence(policies))
        return PolicyCandidate(policies, b, *attained)

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
        return [equal[i] for i in _distinct(stacked(equal), range(len(equal)))][:_KEPT]

    def maximise(self, at: Sequence[float], starts: Sequence[FloatArray]) -> list[Maximisers]:
        """Return the best that ascents reach at each parameter from its starts, [K, n] each."""
        # All ascents of all parameters run side by side: one pass over the rows serves many.
        ends = np.cumsum([s.shape[1] for s in starts])
        owner = np.repeat(np.asarray(at, dtype=np.float64), np.diff(ends, prepend=0))
        policies, b = np.concatenate(starts, axis=1), np.zeros(len(owner))
        batch = max(1, _BATCH // len(self.value))
        for begin in range(0, len(owner), batch):
            part = slice(begin, begin + batch)
            policies[:, part], b[part] = self._ascended(owner[part], policies[:, part])
        return [
            self._compared(x, policies[:, begin:end], b[begin:end])
            for x, begin, end in zip(at, [0, *ends], ends, strict=False)
        ]

    def _ascended(
        self, at: FloatArray, policies: FloatArray, sweeps: int = _SWEEPS, tolerance: float = _NEAR
    ) -> tuple[FloatArray, FloatArray]:
        table, value = self.table, self.value[:, None]
        if not self.fixed:
            return ascend(table, value, at, policies, sweeps=sweeps, tolerance=tolerance)
        b = np.full(len(at), self.scale)
        return ascend(table, value, b, policies, sweeps=_FIXED_SWEEPS, tolerance=1e-5, fixed=at)

    def _compared(self, at: float, climbed: FloatArray, b: FloatArray) -> Maximisers:
        utility, entropy = self.table.score(self.value[:, None], climbed)
        close = _CLOSE
        if self.fixed:
            # What a rough end would have, were it to move along its multiplier to u.
            ahead, close = b * (utility - at), _CLOSE_FIXED
            entropy = np.where(np.abs(ahead) <= _AHEAD, entropy + ahead, -np.inf)
        rough = self.objectives(at, utility, entropy)
        if not np.isfinite(rough.max()):
            return [], 0
        evidence = self.evidence(climbed)
        order = [int(i) for i in np.flatnonzero(rough >= rough.max() - close)]
        # Among equals the best predictors go first, so that none of them is left out.
        digits = 4 if self.fixed else 6
        order.sort(key=lambda i: (-round(float(rough[i]), digits), -evidence[i]))
        chosen = _distinct(climbed, order)[:_FINISHED]
        best = self.merge(at, self.polished(at, climbed[:, chosen], b[chosen]))
        if not best:
            return [], 0
        least = best[0].entropy - close if self.fixed else rough.max() - 10 * close**2
        return best, int((rough >= least).sum())

    def polished(self, at: float, policies: FloatArray, b: FloatArray) -> list[PolicyCandidate]:
        """Stationary policies near others, [K, n], that are not worse than those."""
        found = [self._exact(at, policies[:, i].copy(), float(b[i])) for i in range(len(b))]
        left = [i for i, exact in enumerate(found) if exact is None]
        if left and not self.fixed:
            # Newton's method fails where two branches meet, and at infinity.
            slow, start = policies[:, left], np.full(len(left), at)
            more, _ = self._ascended(start, slow, _MORE_SWEEPS, _SETTLED)
            for k, i in enumerate(left):
                climbed = more[:, k].copy()
                found[i] = self._exact(at, climbed, at) or self.candidate(at, climbed)
        return [exact for exact in found if exact is not None]

    def _exact(self, at: float, policies: FloatArray, b: float) -> PolicyCandidate | None:
        """Return the result of Newton's method; None if it fails or goes downhill, to a saddle."""
        if not np.isfinite(b):
            return None
        fixed = at if self.fixed else None
        point, b, residual = finish(self.table, self.value, b, policies, fixed)
        if residual > (_EXACT if self.fixed else _SETTLED):
            return None
        end = self.candidate(b, point)
        if self.fixed:
            return end
        before, after = self.objectives_of(at, [self.candidate(at, policies), end])
        return end if after >= before - self.slack(at) else None

    def follow(self, at: float, nearby: Sequence[PolicyCandidate]) -> list[PolicyCandidate]:
        """Return what maximisers at nearby parameters become here; cheap, and may lose the best."""
        if not nearby:
            return []
        policies = stacked(nearby)
        b = np.array([c.rationality if np.isfinite(c.rationality) else self.scale for c in nearby])
        if not self.fixed:
            b = np.full(len(nearby), at)
            policies, _ = self._ascended(b, policies, _FEW_SWEEPS)
        return self.merge(at, self.polished(at, policies, b))

    def starts(self, at: Sequence[float], n: int) -> list[FloatArray]:
        """For each parameter, starts near the measured policy and n random ones, [K, starts]."""
        table, measured = self.table, self.measured
        near = near_measured(table, measured)
        out = [[near, random_policies(table, n, self.rng)] if n else [near] for _ in at]
        if not self.fixed:
            # Where several policies are equally good, a little additional utility for what the
            # measured policy does decides between them.
            size = np.where(np.isfinite(at) & (np.asarray(at) != 0), at, 1.0)
            taken = np.sum([measured[place] for place in table.place], axis=0)
            value = self.value[:, None] + _LEAN * taken[:, None] / size
            uniform = np.repeat(1.0 / table.choices[:, None], len(at), axis=1)
            lean, _ = ascend(table, value, size, uniform, sweeps=_SWEEPS // 2, tolerance=_NEAR)
            out = [[lean[:, [i]], *own] for i, own in enumerate(out)]
        return [np.concatenate(own, axis=1) for own in out]


def _distinct(policies: FloatArray, order: Sequence[int]) -> list[int]:
    """Return the columns in an order, without those that repeat an earlier one."""
    kept: list[int] = []
    for i in order:
        if not kept or np.abs(policies[:, kept] - policies[:, [i]]).max(axis=0).min() > _SAME:
            kept.append(i)
    return kept


# --- Curves ---------------------------------------------------------------------------------------
# A family jumps where one branch of maximisers overtakes another. So values are inserted between
# neighbours that differ, until they are linked or the jump is located.

# Neighbours whose best policies differ by less, in decisions of the measured policy, are linked.
_LINKED = 0.12
_ROUNDS, _NODES, _PEAKS, _CONFIRMATIONS = 24, 240, 3, 6
_HOPE = 0.3  # nats by which the evidence of a node is at most improved between its neighbours
_JUMP = 1e-6  # jumps of expected utility below this, in the family's unit, are not gaps
# Rationalities in 1 / (largest difference that a decision makes). In games with round numbers
# branches meet at round numbers, where nothing converges: those are avoided.
_GRID = 1.0877 * 2.0 ** np.arange(-3, 13)
_FAR = 2.0**60
_FIRST_PASS = 2**18
# Places inside a gap, denser towards the ends, where the entropy bends most.
_IN_GAP = 0.5 - 0.5 * np.cos(np.pi * np.arange(1, 8) / 8)


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
        warm = []
        for x in values:
            i = bisect(self.nodes, x, key=lambda node: node.at)
            warm.append([c for node in self.nodes[max(i - 1, 0) : i + 1] for c in node.best])
        own = self.family.starts(values, fresh)
        starts = [stacked(near, first) for near, first in zip(warm, own, strict=True)]
        for x, (best, _) in zip(values, self.family.maximise(values, starts), strict=True):
            insort(self.nodes, Node(x, best), key=lambda node: node.at)

    def put(self, at: float, candidates: Sequence[PolicyCandidate]) -> None:
        """Add candidates that other starts led to."""
        node = next((n for n in self.nodes if n.at == at), Node(at, []))
        merged = Node(at, self.family.merge(at, [*node.best, *candidates]))
        self.nodes = sorted([*(n for n in self.nodes if n.at != at), merged], key=lambda n: n.at)

    def linked(self, left: Node, right: Node) -> bool:
        """Return whether some maximisers of two nodes are nearly the same."""
        distance = self.family.distance
        return any(distance(p, q) <= _LINKED for p in left.best for q in right.best)

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
            distances = [self.family.distance(c, w) for w in warm]
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
        """Return the best candidate, unless an end of a gap, and how many fresh starts agree."""
        family = self.family
        for left in reversed(range(_CONFIRMATIONS + 1)):
            self.refine()
            self.sharpen(family.ceiling - EQUAL)
            node = self.best()
            if left == 0:
                break
            if family.fixed and node.at in (self.nodes[0].at, self.nodes[-1].at):
                return None, 0
            fresh = random_policies(family.table, restarts, family.rng)
            ((best, agreed),) = family.maximise([node.at], [fresh])
            slack = family.slack(node.at)
            reached, *others = family.objectives_of(node.at, [node.best[0], *best])
            if max(others, default=-np.inf) <= reached + slack:
                agree = max(others, default=-np.inf) >= reached - 10 * slack
                return node.best[0], agreed if agree else 0
            self.put(node.at, best)
        return (None if family.fixed else node.best[0]), 0


def gaps_of(curve: FamilyCurve) -> list[tuple[Node, Node]]:
    """Expected utilities left out between nodes, or maximisers of one; nodes by utility as ends."""
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


# --- Known utilities ------------------------------------------------------------------------------
_NO_SAY = 1e-12  # decisions that can move less than this share of a utility do not influence it


def search_known(
    table: JointOutcomes, measured: FloatArray, visits: FloatArray, restarts: int, rng: Generator
) -> SearchResult:
    """Find the best model for the utility of the table, over all rationalities and gaps."""
    family, unit, origin = scaled_family(table, measured, visits, rng)
    if unit == 0.0:
        return no_say(table)
    tries = random_policies(table, 32, rng)
    starts = np.concatenate([tries, near_measured(table, measured)], axis=1)
    most, least = family.maximise([np.inf, -np.inf], [starts, starts])
    say = most[0][0].utility - least[0][0].utility
    if say <= _NO_SAY:
        return no_say(table)
    factor = 2.0 ** np.ceil(np.log2(say))
    value, unit = family.value / factor, float(unit * factor)
    largest = 0.0  # the largest difference that a decision makes
    for i in range(len(table.decisions)):
        prospects = prospects_of(table, value[:, None], tries, i)
        seen = prospects.mass.min(axis=1) > 0
        largest = max(largest, float((np.ptp(prospects.paid, axis=1) * seen).max()))
    family = replace(family, value=value, scale=float(2.0 ** -np.ceil(np.log2(largest))))
    curve = FamilyCurve(family)
    columns = len(_GRID) * 2 * restarts * len(value)
    grid = family.scale * _GRID[:: max(1, min(4, round(columns / _FIRST_PASS)))]
    curve.add([-np.inf, *(-grid), 0.0, *grid, np.inf], restarts)
    best, agreed = curve.confirmed(restarts)
    assert best is not None
    rationality, note = best.rationality / unit, "a rationality supports it"
    # No model predicts better than the measured policy itself.
    for low, high in gaps_of(curve) if best.evidence < family.ceiling - EQUAL else []:
        slope = (low.best[-1].entropy - high.best[0].entropy) / (high.at - low.at)
        inside = FamilyCurve(replace(family, scale=slope, fixed=True), [low, high])
        inside.add(list(low.at + (high.at - low.at) * _IN_GAP), restarts)
        found, agreeing = inside.confirmed(restarts)
        if found is not None and found.evidence > best.evidence + EQUAL:
            best, agreed, rationality = found, agreeing, float("nan")
            ends = [unit * u + origin for u in (low.at, high.at)]
            note = (
                f"the best model's expected utility is in a gap, {ends[0]:.6g} to {ends[1]:.6g}, "
                f"that no rationality attains"
            )
    evidence, utility = max(best.evidence, 0.0), unit * best.utility + origin
    rationality = rationality if evidence > 0.0 else 0.0
    attained = (evidence, rationality, utility, best.entropy, best.policies)
    return SearchResult(*attained, agreed, restarts, note)


def scaled_family(
    table: JointOutcomes, measured: FloatArray, visits: FloatArray, rng: Generator
) -> tuple[Family, float, float]:
    """The family of a table's utility, its unit (0 for a constant utility) and its origin."""
    # Units are powers of two, so that a change of the utility's unit by one changes no digit.
    utility = table.features[:, 0]
    origin, spread = 0.5 * float(utility.min() + utility.max()), float(np.ptp(utility))
    unit = float(2.0 ** np.ceil(np.log2(spread))) if spread > 0 else 0.0
    return Family(table, (utility - origin) / (unit or 1.0), measured, visits, rng), unit, origin


def no_say(table: JointOutcomes) -> SearchResult:
    """Return the result where decisions have no say: the uniform model."""
    uniform, note = 1.0 / table.choices, "the decisions have no say in the utility"
    utility = float(table.expected(uniform)[0])
    return SearchResult(0.0, 0.0, utility, table.maximum, uniform, 0, 0, note, rank=0)


def planned_evidence(
    table: JointOutcomes, measured: FloatArray, rationality: float, restarts: int, rng: Generator
) -> float:
    """How well policies of a known utility at a rationality (1 / its units) predict one, nats."""
    visits = table.frequencies(table.visits(measured))
    family, unit, _ = scaled_family(table, measured, visits, rng)
    if rationality == 0.0 or unit == 0.0:
        return 0.0
    # Of equally good plans the best predictor counts.
    random = random_policies(table, 2 * restarts, rng)
    starts = np.concatenate([random, near_measured(table, measured)], axis=1)
    ((best, _),) = family.maximise([rationality * unit], [starts])
    return best[0].evidence
