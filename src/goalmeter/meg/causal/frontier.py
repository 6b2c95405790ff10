"""Search for the maximum entropy policies of a known utility without sufficient recall.

Both families of policies are followed as curves: by rationality, and by expected utility in a gap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from goalmeter.meg.causal.maximisers import (
    ENTROPY_TIE,
    PREFERENCE,
    Candidate,
    SearchResult,
    Task,
    best_of,
    column,
    exact,
    followed,
    greatest_entropies,
    leaning,
    maximisers,
    near_measured,
    objectives_of,
    random_policies,
    slack,
    stacked,
    unaffected,
)
from goalmeter.meg.causal.outcomes import OutcomeTable, Policies, prospects_of

# --- Curve ----------------------------------------------------------------------------------------
# Maximum entropy policies come in families with one parameter, a rationality or an expected
# utility. What a random start finds at one value is a start at the next; a family may jump, where
# one branch of maximisers overtakes another, and what the policies predict jumps with it. So
# values are put in wherever neighbours differ, until they are linked or the jump is pinned down.

# Neighbours whose best policies differ by less, in decisions of the measured policy, are linked.
LINKED = 0.12
_ROUNDS = 24
_NODES = 240
# Evidence below which nothing is told apart, nats.
_FLOOR = -1e6
_FINE = 1e-10
# The uniform model's evidence is 0, and so is that of its neighbours where they are uniform, too.
_NOTHING = 1e-10
_PEAKS = 3
# Nats by which a node is at most improved between its neighbours: they are linked.
_HOPE = 0.3


class Node(NamedTuple):
    """A value of the parameter with its maximisers, the best predictor first; may be empty."""

    at: float
    maximisers: list[Candidate]

    @property
    def evidence(self) -> float:
        """Of the best predictor, nats."""
        return self.maximisers[0].evidence if self.maximisers else -np.inf


class Family(ABC):
    """Policies with one parameter, each maximising an objective of its own."""

    task: Task

    @abstractmethod
    def solve(
        self, at: Sequence[float], warm: Sequence[Sequence[Candidate]], fresh: int
    ) -> list[list[Candidate]]:
        """The maximisers at each value, from given starts and some random ones."""

    @abstractmethod
    def follow(self, at: float, warm: Sequence[Candidate]) -> list[Candidate]:
        """What maximisers at nearby values become at a value; cheaper, and may lose the best."""

    @abstractmethod
    def merge(self, at: float, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The best of some candidates at a value."""

    @abstractmethod
    def between(self, left: Node, right: Node) -> float | None:
        """A value between two nodes that tells more, or None if they are as near as can be."""

    def coordinate(self, at: float) -> float:
        """The parameter on a bounded scale: itself, unless it is unbounded."""
        return at

    def value_of(self, coordinate: float) -> float:
        """The inverse of `coordinate`."""
        return coordinate

    def linked(self, left: Node, right: Node) -> bool:
        """Whether some maximisers of two nodes are nearly the same."""
        return any(
            self.task.distance(below, above) <= LINKED
            for below in left.maximisers
            for above in right.maximisers
        )


class Curve:
    """Nodes of a family in the order of its parameter."""

    def __init__(self, family: Family, nodes: Sequence[Node] = ()) -> None:
        self.family = family
        self.nodes = sorted(nodes, key=lambda node: node.at)

    def add(self, at: Sequence[float], fresh: int) -> None:
        """Solve at new values, from random starts and from the maximisers of their neighbours."""
        # A value that is there already has had its starts.
        values = sorted(set(at).difference(node.at for node in self.nodes))
        if not values:
            return
        warm = [[c for node in self._around(x) for c in node.maximisers] for x in values]
        for x, policies in zip(values, self.family.solve(values, warm, fresh), strict=True):
            insort(self.nodes, Node(x, policies), key=lambda node: node.at)

    def put(self, at: float, candidates: Sequence[Candidate]) -> None:
        """Add candidates that other starts led to."""
        node = next((n for n in self.nodes if n.at == at), Node(at, []))
        merged = Node(at, self.family.merge(at, [*node.maximisers, *candidates]))
        self.nodes = sorted([*(n for n in self.nodes if n.at != at), merged], key=lambda n: n.at)

    def _around(self, x: float) -> list[Node]:
        left = [node for node in self.nodes if node.at < x][-1:]
        return left + [node for node in self.nodes if node.at > x][:1]

    def refine(self, fresh: int) -> None:
        """Put values in between neighbours that are not linked."""
        closed: set[tuple[float, float]] = set()
        for _ in range(_ROUNDS):
            wanted = []
            for left, right in zip(self.nodes, self.nodes[1:], strict=False):
                if (left.at, right.at) in closed or self.family.linked(left, right):
                    continue
                x = self.family.between(left, right)
                if x is None or not left.at < x < right.at:
                    closed.add((left.at, right.at))
                else:
                    wanted.append(x)
            if not wanted or len(self.nodes) > _NODES:
                return
            # All gaps of a round at once: their ascents share a pass.
            self.add(wanted, fresh)

    def sharpen(self, enough: float) -> None:
        """Find the greatest evidence between the neighbours of the best nodes.

        Args:
            enough: evidence that no model exceeds; a node that has it is not improved on.
        """
        top = self.best().evidence
        peaks = []
        for i, node in enumerate(self.nodes):
            near = [n.evidence for n in self.nodes[max(i - 1, 0) : i + 2]]
            flat = max(abs(x) for x in near) <= _NOTHING
            if node.evidence >= max(near) and top - _HOPE < node.evidence < enough and not flat:
                peaks.append(i)
        peaks.sort(key=lambda i: -self.nodes[i].evidence)
        # All of them first: a node that is put in moves the others.
        for at, best in [self._sharpened(i) for i in peaks[:_PEAKS]]:
            self.put(at, best)

    def _sharpened(self, i: int) -> tuple[float, list[Candidate]]:
        """The value between the neighbours of a node where the evidence is greatest."""
        near = self.nodes[max(i - 1, 0) : i + 2]
        # One of each branch; the node's own first.
        warm: list[Candidate] = []
        for c in (c for node in (self.nodes[i], *near) for c in node.maximisers[:3]):
            if all(self.task.distance(c, kept) > 2 * LINKED for kept in warm):
                warm.append(c)
        best: tuple[float, float, list[Candidate]] = (self.nodes[i].evidence, *self.nodes[i])

        def loss(x: float) -> float:
            nonlocal best
            at = self.family.value_of(x)
            followed = self.family.follow(at, warm)
            if followed and followed[0].evidence > best[0]:
                best = (followed[0].evidence, at, followed)
            return -max(followed[0].evidence, _FLOOR) if followed else -_FLOOR

        low, high = (self.family.coordinate(n.at) for n in (near[0], near[-1]))
        width = high - low
        if width > _FINE:
            minimize_scalar(
                loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8 * width}
            )
        return best[1], best[2]

    @property
    def task(self) -> Task:
        """What is measured."""
        return self.family.task

    def best(self) -> Node:
        """The node with the greatest evidence."""
        return max(self.nodes, key=lambda node: node.evidence)


# --- Frontier -------------------------------------------------------------------------------------
# Values of the rationality per unit of 1 / (largest difference that a decision makes). In games
# with round numbers branches meet at round numbers, where nothing converges: those are avoided.
_GRID = 1.0877 * 2.0 ** np.arange(-3, 13)
# A rationality this far out is infinite for all that can be told.
_FAR = 2.0**60
# Numbers in one pass over the first grid.
_FIRST_PASS = 2**18
_GAP_NODES = 7
# Jumps of expected utility below this, in the task's unit, are not gaps.
_JUMP = 1e-6


class Supported(Family):
    """Maximisers of b E[U] + H by b, which may be infinite."""

    def __init__(self, task: Task, rng: np.random.Generator, scale: float) -> None:
        self.task, self.rng = task, rng
        self.scale = scale  # a typical b, in the task's unit

    def solve(
        self, at: Sequence[float], warm: Sequence[Sequence[Candidate]], fresh: int
    ) -> list[list[Candidate]]:
        """The maximisers at each b."""
        starts = []
        lean = leaning(self.task, at)
        for i, neighbours in enumerate(warm):
            parts = [column(lean, i), *(c.policies for c in neighbours)]
            parts.append(near_measured(self.task.table, self.task.measured))
            if fresh:
                parts.append(random_policies(self.task.table, fresh, self.rng))
            starts.append(stacked(parts))
        return [ends.best for ends in maximisers(self.task, at, starts)]

    def follow(self, at: float, warm: Sequence[Candidate]) -> list[Candidate]:
        """The best of what nearby maximisers become at b."""
        return self.merge(at, followed(self.task, at, stacked([c.policies for c in warm])))

    def merge(self, at: float, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those with the greatest objective."""
        return best_of(list(candidates), list(objectives_of(at, *candidates)), slack(at))

    def between(self, left: Node, right: Node) -> float | None:
        """Where the objectives' tangents meet: at a jump, that is where it jumps."""
        a, b = left.at, right.at
        if max(abs(x) for x in (a, b) if np.isfinite(x)) > _FAR:
            return None
        if np.isinf(b):
            return max(4 * a, self.scale)
        if np.isinf(a):
            return min(4 * b, -self.scale)
        if b - a <= 1e-13 * max(abs(a), abs(b)):
            return None
        below = max(left.maximisers, key=lambda c: c.utility)
        above = min(right.maximisers, key=lambda c: c.utility)
        # The lines b -> b u + H(u) of both neighbours cross where one overtakes the other.
        rise = above.utility - below.utility
        if rise > _JUMP:
            return float((below.entropy - above.entropy) / rise)
        return 0.5 * (a + b)

    def coordinate(self, at: float) -> float:
        """B on a scale from -1 to 1."""
        return float(np.sign(at)) if np.isinf(at) else at / (self.scale + abs(at))

    def value_of(self, coordinate: float) -> float:
        """The inverse."""
        return self.scale * coordinate / (1.0 - abs(coordinate))


class Gap(NamedTuple):
    """Utilities between those of neighbouring rationalities, in the task's unit."""

    low: Candidate
    high: Candidate
    left: list[Candidate]
    right: list[Candidate]


def supported_curve(family: Supported, restarts: int) -> Curve:
    """All rationalities of both signs, at first on a grid that random starts are tried on."""
    curve = Curve(family)
    columns = len(_GRID) * 2 * restarts * family.task.table.n_rows
    stride = max(1, min(4, round(columns / _FIRST_PASS)))
    grid = family.scale * _GRID[::stride]
    curve.add([-np.inf, *(-grid), 0.0, *grid, np.inf], restarts)
    curve.refine(0)
    return curve


def gaps(curve: Curve) -> list[Gap]:
    """Where the utility attained jumps from one node to the next, or between maximisers of one."""
    out = []
    pieces: list[list[list[Candidate]]] = []
    for node in curve.nodes:
        utilities = sorted(node.maximisers, key=lambda c: c.utility)
        groups: list[list[Candidate]] = [[utilities[0]]]
        for c in utilities[1:]:
            if c.utility - groups[-1][-1].utility > _JUMP:
                groups.append([])
            groups[-1].append(c)
        pieces.append(groups)
    for i, groups in enumerate(pieces):
        for left, right in pairwise(groups):
            out.append(Gap(left[-1], right[0], left, right))
        if i + 1 < len(pieces) and not curve.family.linked(curve.nodes[i], curve.nodes[i + 1]):
            left, right = groups[-1], pieces[i + 1][0]
            if right[0].utility - left[-1].utility > _JUMP:
                out.append(Gap(left[-1], right[0], left, right))
    return out


class Held(Family):
    """The greatest entropy at an expected utility inside a gap, by that utility."""

    def __init__(self, task: Task, rng: np.random.Generator, rationality: float) -> None:
        self.task, self.rng = task, rng
        self.rationality = rationality  # a multiplier to begin with

    def solve(
        self, at: Sequence[float], warm: Sequence[Sequence[Candidate]], fresh: int
    ) -> list[list[Candidate]]:
        """The maximisers at each utility."""
        followed = [self.follow(u, near) for u, near in zip(at, warm, strict=True)]
        if not fresh and all(followed):
            return followed
        starts = []
        for near in warm:
            parts = [c.policies for c in near]
            parts.append(near_measured(self.task.table, self.task.measured))
            if fresh:
                parts.append(random_policies(self.task.table, fresh, self.rng))
            policies = stacked(parts)
            multipliers = np.full(policies[0].shape[2], self.rationality)
            multipliers[: len(near)] = [self._finite(c.rationality) for c in near]
            starts.append((policies, multipliers))
        return [ends.best for ends in greatest_entropies(self.task, at, starts)]

    def _finite(self, rationality: float) -> float:
        return rationality if np.isfinite(rationality) else self.rationality

    def follow(self, at: float, warm: Sequence[Candidate]) -> list[Candidate]:
        """The best of what nearby maximisers become at a utility."""
        ends = [exact(self.task, at, c.policies, self._finite(c.rationality)) for c in warm]
        return self.merge(at, [end for end in ends if end is not None])

    def merge(self, at: float, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those with the greatest entropy."""
        if not candidates:
            return []
        return best_of(list(candidates), [c.entropy for c in candidates], ENTROPY_TIE)

    def between(self, left: Node, right: Node) -> float | None:
        """Where the tangents of the greatest entropy meet, if they do in between."""
        if right.at - left.at <= 1e-8:
            return None
        middle = 0.5 * (left.at + right.at)
        if not left.maximisers or not right.maximisers:
            return middle if right.at - left.at > 0.02 else None
        below, above = left.maximisers[0], right.maximisers[0]
        turn = above.rationality - below.rationality
        if not np.isfinite(turn) or turn == 0:
            return middle
        rise = above.entropy - below.entropy
        x = (rise - below.rationality * left.at + above.rationality * right.at) / turn
        width = right.at - left.at
        return float(x) if left.at + 1e-9 < x < right.at - 1e-9 and width < 0.05 else middle


def gap_curve(task: Task, gap: Gap, rng: np.random.Generator, restarts: int) -> Curve:
    """The utilities inside a gap."""
    low, high = gap.low.utility, gap.high.utility
    rationality = (gap.low.entropy - gap.high.entropy) / (high - low)
    curve = Curve(Held(task, rng, rationality), [Node(low, gap.left), Node(high, gap.right)])
    # Denser towards the ends, where the entropy bends most.
    shares = 0.5 - 0.5 * np.cos(np.pi * np.arange(1, _GAP_NODES + 1) / (_GAP_NODES + 1))
    curve.add(list(low + (high - low) * shares), restarts)
    curve.refine(2)
    return curve


# --- Known ----------------------------------------------------------------------------------------
# E[U] is then multilinear in the policies, b E[U] + H is not concave in them, and the maximum
# entropy policies of Definition 3.1 are found numerically: by ascent from many starts and
# continuation along the rationality (`supported`, `curve`), and, for utilities that no
# rationality supports, by holding the utility (`held`).
#
# A caution. A policy that is a *local* maximum of the entropy at its expected utility is not a
# maximum entropy policy, and may predict the measured policy better than the true one does: in
# the extreme, the measured policy itself. So candidates for the same rationality, or the same
# utility, compete by objective first; only the winner's evidence counts, among equals the best;
# and the final one is tried against fresh random starts. The value is a lower bound on MEG
# provided that the optima that were found are global; `agreed` says how many random starts ended
# in the final one.
#
# Source: MEG paper (NeurIPS 2024), Definitions 3.1, 3.2 and 4.4.

# A utility of which decisions can move less than this share is one that they do not influence.
_NO_SAY = 1e-12
_KNOWN_ROUNDS = 6


def search_known(
    table: OutcomeTable,
    measured: Policies,
    visits: Policies | None,
    restarts: int,
    rng: np.random.Generator,
) -> SearchResult:
    """`search` with respect to a known utility, whatever its unit and origin (Definition 3.2)."""
    assert table.features.shape[1] == 1, table.features.shape
    made = _task(table, measured, table.visits(measured) if visits is None else visits, rng)
    if made is None:
        return unaffected(table)
    task, unit, origin, scale = made
    family = Supported(task, rng, scale)
    curve = supported_curve(family, restarts)
    ceiling = float(task.evidence(measured))
    curve.sharpen(ceiling - PREFERENCE)
    best, agreed = _confirmed(family, curve, restarts)
    in_gap: Gap | None = None
    note = "a rationality supports it"
    # No model predicts better than the measured policy itself, so at the ceiling gaps are not
    # searched.
    if best.evidence < ceiling - PREFERENCE:
        for gap in gaps(curve):
            inside = gap_curve(task, gap, rng, restarts)
            inside.sharpen(ceiling - PREFERENCE)
            held, agreeing = _confirmed_inside(inside, restarts)
            if held is not None and held.evidence > best.evidence + PREFERENCE:
                best, agreed, in_gap = held, agreeing, gap
    rationality = best.rationality / unit
    if in_gap is not None:
        rationality = float("nan")
        low, high = (unit * c.utility + origin for c in (in_gap.low, in_gap.high))
        note = (
            f"the best model's expected utility is in a gap, {low:.6g} to {high:.6g}, that no "
            f"rationality attains"
        )
    value = max(best.evidence, 0.0)
    if value == 0.0:
        rationality = 0.0
    return SearchResult(
        value=value,
        rationality=rationality,
        utility=unit * best.utility + origin,
        entropy=best.entropy,
        policies=best.policies,
        agreed=agreed,
        starts=restarts,
        note=note,
    )


def _task(
    table: OutcomeTable, measured: Policies, visits: Policies, rng: np.random.Generator
) -> tuple[Task, float, float, float] | None:
    """The task, with its unit and origin of utility and a typical rationality; None if no say."""
    # Units are powers of two, so that a change of the utility's unit by one changes no digit.
    utility = table.features[:, 0]
    origin = 0.5 * float(utility.min() + utility.max())
    spread = float(np.ptp(utility))
    if spread == 0.0:
        return None
    unit = 2.0 ** np.ceil(np.log2(spread))
    visits = [v / v.sum() for v in visits]
    task = Task(table, (utility - origin) / unit, measured, visits)
    tries = random_policies(table, 32, rng)
    starts = stacked([tries, near_measured(table, measured)])
    ends = maximisers(task, [np.inf, -np.inf], [starts, starts])
    attained = [end.best[0].utility for end in ends]
    say = attained[0] - attained[1]
    if say <= _NO_SAY:
        return None
    factor = 2.0 ** np.ceil(np.log2(say))
    value = task.value / factor
    largest = 0.0
    for i in range(len(tries)):
        prospects = prospects_of(table, value[:, None], tries, i)
        seen = prospects.mass.min(axis=1) > 0
        largest = max(largest, float((np.ptp(prospects.paid, axis=1) * seen).max()))
    scaled = Task(table, value, measured, visits)
    # Powers of two for the same reason.
    return scaled, float(unit * factor), origin, float(2.0 ** -np.ceil(np.log2(largest)))


def _confirmed(family: Supported, curve: Curve, restarts: int) -> tuple[Candidate, int]:
    """The best candidate that fresh random starts do not better, and how many ended in it."""
    task = family.task
    enough = float(task.evidence(task.measured)) - PREFERENCE
    for _ in range(_KNOWN_ROUNDS):
        node = _preferred(curve)
        best = node.maximisers[0]
        fresh = random_policies(task.table, restarts, family.rng)
        (ends,) = maximisers(task, [node.at], [fresh])
        reached, fresh_reached = objectives_of(node.at, best, ends.best[0])
        if fresh_reached <= reached + slack(node.at):
            return best, ends.agreed if fresh_reached >= reached - 10 * slack(node.at) else 0
        curve.put(node.at, ends.best)
        curve.refine(0)
        curve.sharpen(enough)
    return _preferred(curve).maximisers[0], 0


def _preferred(curve: Curve) -> Node:
    """The best node; an end of the curve where it is as good."""
    best = curve.best()
    for end in (curve.nodes[0], curve.nodes[-1]):
        if end.evidence >= best.evidence - PREFERENCE:
            return end
    return best


def _confirmed_inside(curve: Curve, restarts: int) -> tuple[Candidate | None, int]:
    """The same inside a gap; None where nothing is better than its ends."""
    family = curve.family
    assert isinstance(family, Held)
    task = family.task
    enough = float(task.evidence(task.measured)) - PREFERENCE
    for _ in range(_KNOWN_ROUNDS):
        node = curve.best()
        if not node.maximisers or node.at in (curve.nodes[0].at, curve.nodes[-1].at):
            return None, 0
        best = node.maximisers[0]
        fresh = random_policies(task.table, restarts, family.rng)
        multipliers = np.full(restarts, family.rationality)
        (ends,) = greatest_entropies(task, [node.at], [(fresh, multipliers)])
        entropy = ends.best[0].entropy if ends.best else -np.inf
        if entropy <= best.entropy + ENTROPY_TIE:
            return best, ends.agreed if entropy >= best.entropy - 10 * ENTROPY_TIE else 0
        curve.put(node.at, ends.best)
        curve.refine(2)
        curve.sharpen(enough)
    return None, 0
