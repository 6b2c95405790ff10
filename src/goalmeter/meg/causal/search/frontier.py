"""The two families of maximum entropy policies: by rationality, and by utility inside a gap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from goalmeter.meg.causal.search.candidates import (
    Candidate,
    Task,
    best_of,
    column,
    near_measured,
    random_policies,
    stacked,
)
from goalmeter.meg.causal.search.curve import Curve, Family, Node
from goalmeter.meg.causal.search.held import ENTROPY_TIE, exact, greatest_entropies
from goalmeter.meg.causal.search.supported import (
    followed,
    leaning,
    maximisers,
    objectives_of,
    slack,
)

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
