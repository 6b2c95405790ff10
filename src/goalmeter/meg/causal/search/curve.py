"""The best policies along a parameter, followed from both sides until nothing improves.

Maximum entropy policies come in families with one parameter, a rationality or an expected utility.
What a random start finds at one value is a start at the next; a family may jump, where one branch
of maximisers overtakes another, and what the policies predict jumps with it. So values are put
in wherever neighbours differ, until they are linked or the jump is pinned down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from goalmeter.meg.causal.search.candidates import Candidate, Task

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
        for x, maximisers in zip(values, self.family.solve(values, warm, fresh), strict=True):
            insort(self.nodes, Node(x, maximisers), key=lambda node: node.at)

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
