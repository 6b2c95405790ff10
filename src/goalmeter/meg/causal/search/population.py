"""Many utilities at once: what each of them predicts, and generations of better ones.

What the best maximiser of E[G y] + H predicts jumps with y where one branch overtakes another, and
the best y is often at the edge of such a jump, where no gradient leads. So the search keeps a few
parents and tries many utilities near each of them, all in one ascent; which one is a maximiser is
decided among starts that include every kind of policy that was a maximiser nearby.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.meg.causal.search.ascent import ascend, score
from goalmeter.meg.causal.search.candidates import (
    evidence_of,
    near_measured,
    random_policies,
    repeated,
    stacked,
)
from goalmeter.meg.causal.search.outcomes import Policies
from goalmeter.meg.causal.search.utilities import UtilityClass

_SWEEPS = 150
_NEAR = 1e-7
# Objectives this close, in nats, are equal: ascents are not finished here.
_TIE = 1e-7
_PARENTS = 4
_CHILDREN = 24
_GENERATIONS = 40
_FRESH = 2
_KINDS = 8
# Share of its size by which a child differs from its parent: at first, and how that goes on.
_FIRST = 0.5
_SHRINK, _GROW = 0.7, 1.2
# What is left is for the ridge.
_SMALLEST = 1e-4
# Policies that differ by more than this somewhere are of different kinds.
_KIND = 0.1
# Parents differ by at least this, in decisions of the measured policy.
_APART = 0.05
# Numbers in one pass, and the columns there are at least.
_PASS = 2**18
_LEAST_COLUMNS = 96


class Population(NamedTuple):
    """Utilities with the best maximiser of each."""

    y: FloatArray  # weights of the coordinates, [K, M]
    policies: Policies  # the maximisers, [C, A, M] each
    evidence: FloatArray  # of the measured policy for each of them, nats, [M]

    def take(self, chosen: Sequence[int] | IntArray) -> Population:
        """Some of them."""
        where = np.asarray(chosen, dtype=np.int64)
        policies = [p[..., where] for p in self.policies]
        return Population(self.y[:, where], policies, self.evidence[where])

    def with_more(self, more: Sequence[tuple[FloatArray, Policies, float]]) -> Population:
        """These and others."""
        out = self
        for y, policies, evidence in more:
            out = Population(
                np.concatenate([out.y, y[:, None]], axis=1),
                stacked([out.policies, policies]),
                np.append(out.evidence, evidence),
            )
        return out


def evaluated(
    utilities: UtilityClass, y: FloatArray, shared: Policies, parents: Policies | None = None
) -> Population:
    """What utilities predict.

    Utilities y are [K, M]; each has the shared starts, [C, A, n] each, and one of its parents, if
    there are any, [C, A, M] each.
    """
    table = utilities.table
    m = y.shape[1]
    begin = repeated(shared, m)
    if parents is not None:
        n = shared[0].shape[2]
        begin = [
            np.concatenate([p.reshape(*p.shape[:2], m, n), q[..., None]], axis=3).reshape(
                *p.shape[:2], -1
            )
            for p, q in zip(begin, parents, strict=True)
        ]
    n = begin[0].shape[2] // m
    value = table.features @ y
    unit = np.maximum(np.ptp(value, axis=0), 1e-300)
    value = np.repeat(value / unit, n, axis=1)
    b = np.repeat(unit, n)
    for start in range(0, m * n, most_columns(utilities)):
        part = slice(start, start + most_columns(utilities))
        climbed, _ = ascend(
            table,
            value[:, part],
            b[part],
            [p[..., part] for p in begin],
            sweeps=_SWEEPS,
            tolerance=_NEAR,
        )
        for p, new in zip(begin, climbed, strict=True):
            p[..., part] = new
    attained = score(table, value, begin)
    objective = (b * attained.utility + attained.entropy).reshape(m, n)
    evidence = evidence_of(table, utilities.visits, begin)
    tie = _TIE + 1e-14 * unit[:, None]
    equal = objective >= objective.max(axis=1, keepdims=True) - tie
    best = np.where(equal, evidence.reshape(m, n), -np.inf).argmax(axis=1) + n * np.arange(m)
    return Population(y, [p[..., best] for p in begin], evidence[best])


def most_columns(utilities: UtilityClass) -> int:
    """How many ascents to run side by side."""
    return max(_LEAST_COLUMNS, _PASS // utilities.table.n_rows)


def evolved(utilities: UtilityClass, first: Population, rng: np.random.Generator) -> Population:
    """Better utilities, from the best of the first ones and what is near them.

    Returns:
        A few parents of the last generation, the best first.
    """
    near = [p[..., :1] for p in near_measured(utilities.table, utilities.measured)]
    order = np.argsort(-first.evidence, kind="stable")
    parents = first.take(apart(utilities, first, _PARENTS))
    kinds = _kinds(first.take(order[: 4 * _KINDS]).policies)
    sizes = np.full(len(parents.evidence), _FIRST)
    columns = _KINDS + _FRESH + near[0].shape[2] + 1
    children = min(_CHILDREN, max(3, most_columns(utilities) // (columns * len(sizes)) - 1))
    for _ in range(_GENERATIONS):
        fresh = random_policies(utilities.table, _FRESH, rng)
        family = np.repeat(np.arange(len(sizes)), children + 1)
        y = parents.y[:, family] + _changes(parents.y, sizes, children, rng)
        inherited = [p[..., family] for p in parents.policies]
        now = evaluated(utilities, y, stacked([near, fresh, kinds]), inherited)
        # Each parent competes with its own children only: so the parents stay apart, and one that
        # is ambiguous now may still lead further than today's best.
        chosen = []
        for parent in range(len(sizes)):
            mine = np.flatnonzero(family == parent)
            best = mine[int(now.evidence[mine].argmax())]
            better = now.evidence[best] > now.evidence[mine[0]] + 1e-10
            sizes[parent] = min(sizes[parent] * (_GROW if better else _SHRINK), _FIRST)
            chosen.append(int(best))
        parents = now.take(chosen)
        recent = [*np.argsort(-now.evidence, kind="stable"), *range(len(now.evidence))]
        kinds = _kinds(stacked([now.take(recent).policies, kinds]))
        if sizes[int(parents.evidence.argmax())] < _SMALLEST:
            break
    return parents.take(np.argsort(-parents.evidence, kind="stable"))


def _changes(
    y: FloatArray, sizes: FloatArray, children: int, rng: np.random.Generator
) -> FloatArray:
    """What to add to each parent, [K, parents * (children + 1)]; nothing first."""
    k, n = y.shape
    length = np.linalg.norm(y, axis=0)
    noise = rng.standard_normal((k, n, children + 1)) / np.sqrt(k)
    out = noise * (sizes * length)[:, None]
    # A quarter of the children are their parents in another size.
    scaled = y[:, :, None] * np.expm1(sizes[:, None] * rng.standard_normal((n, children + 1)))
    out[:, :, 1::4] = scaled[:, :, 1::4]
    out[:, :, 0] = 0.0
    return np.asarray(out.reshape(k, -1))


def apart(utilities: UtilityClass, population: Population, n: int) -> list[int]:
    """The n best that do not predict nearly the same as a better one."""
    weights = [v.sum(axis=1) for v in utilities.visits]
    kept: list[int] = []
    for i in np.argsort(-population.evidence, kind="stable"):
        distances = [
            sum(
                float(w @ np.abs(p[..., i] - p[..., j]).sum(axis=1)) / 2
                for w, p in zip(weights, population.policies, strict=True)
            )
            for j in kept
        ]
        if min(distances, default=np.inf) > _APART:
            kept.append(int(i))
        if len(kept) == n:
            break
    return kept


def _kinds(policies: Policies) -> Policies:
    """One of each kind of policies, the first ones first, [C, A, n] each."""
    flat = np.concatenate([p.reshape(-1, p.shape[-1]) for p in policies])
    kept: list[int] = []
    for i in range(flat.shape[1]):
        if not kept or np.abs(flat[:, kept] - flat[:, [i]]).max(axis=0).min() > _KIND:
            kept.append(i)
        if len(kept) == _KINDS:
            break
    return [p[..., kept] for p in policies]
