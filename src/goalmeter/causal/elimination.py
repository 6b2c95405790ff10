"""Exact queries by variable elimination: factors, elimination orders, shared queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log, prod
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.graph import bayes_ball, reached

# --- Factors --------------------------------------------------------------------------------------
MAX_ENTRIES = 2**26  # of the largest table that is stored: half a gigabyte of doubles


class Factor(NamedTuple):
    """A function of discrete variables: `values` [*sizes of the variables, in order]."""

    variables: tuple[str, ...]
    values: FloatArray

    def arranged(self, variables: Sequence[str]) -> FloatArray:
        """Return the values with the axes in another order of the same variables."""
        return self.values.transpose([self.variables.index(v) for v in variables])

    def at(self, evidence: dict[str, int]) -> Factor:
        """The function of the other variables where some are fixed to the index of a state."""
        free = tuple(v for v in self.variables if v not in evidence)
        if len(free) == len(self.variables):
            return self
        where = tuple(evidence.get(v, slice(None)) for v in self.variables)
        return Factor(free, np.asarray(self.values[where]))


def sum_of_product(factors: Sequence[Factor], keep: Sequence[str]) -> Factor:
    """Return the product of one or more factors, summed over all variables but those to keep."""
    # Multiplied two at a time, the smallest first; what no other factor needs is summed out at
    # once. A product that is too large to store is summed in one call, which takes longer.
    left = sorted(factors, key=lambda factor: factor.values.size)
    wanted = set(keep)
    sizes = {v: n for f in factors for v, n in zip(f.variables, f.values.shape, strict=True)}
    if len(left) > 2 and prod(sizes.values()) > MAX_ENTRIES:
        return _einsum(left, tuple(v for v in sizes if v in wanted))
    first, *left = left
    while left:
        second, *left = left
        needed = wanted.union(*(f.variables for f in left))
        both = dict.fromkeys(first.variables + second.variables)
        first = _einsum([first, second], tuple(v for v in both if v in needed))
    return _einsum([first], tuple(v for v in first.variables if v in wanted))


def _einsum(factors: Sequence[Factor], out: tuple[str, ...]) -> Factor:
    """Call einsum once; its labels are numbers of the variables that take part."""
    label: dict[str, int] = {}
    operands: list[object] = []
    for factor in factors:
        operands += [factor.values, [label.setdefault(v, len(label)) for v in factor.variables]]
    values = np.einsum(*operands, [label[v] for v in out])  # type: ignore[call-overload]
    return Factor(out, np.asarray(values))


# --- Ordering -------------------------------------------------------------------------------------
# opt_einsum's greedy contraction is fast and mostly good. Where the tables it leads to are large,
# three orders of the graphical-model literature are tried as well. All of them work on whole
# numbers, so that ties fall the same way in every process.
#
# Source: Kjaerulff, Triangulation of graphs (1990): minimum weight, and minimum fill by size.

Scopes = Sequence[tuple[str, ...]]


class EliminationPlan(NamedTuple):
    """An order, and what it costs."""

    order: list[str]  # variables, the first to be summed out first
    stored: int  # entries of the largest table that is kept
    product: int  # entries of the largest product that is summed
    table: frozenset[str]  # the variables of that product


def best_plan(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> EliminationPlan:
    """Return the best order found; more are tried only while tables are not small."""
    plans = []
    for find in (contraction_order, backward_order, smallest_table_order, least_fill_order):
        plans.append(cost_of(scopes, find(scopes, sizes, keep), sizes, keep))
        # Finding a better order would take longer than summing with this one.
        if plans[-1].product <= _SMALL_ENTRIES:
            break
    return min(plans, key=lambda plan: plan.product)


def cost_of(
    scopes: Scopes, order: Sequence[str], sizes: Mapping[str, int], keep: Sequence[str]
) -> EliminationPlan:
    """Return what an order costs, by going through it without the numbers."""
    left = {i: set(scope) for i, scope in enumerate(scopes)}
    holding: dict[str, set[int]] = {}  # the numbers of the factors that hold each variable
    for i, scope in left.items():
        for x in scope:
            holding.setdefault(x, set()).add(i)
    stored = product = 1
    table: frozenset[str] = frozenset()
    for number, x in enumerate(order, start=len(scopes)):
        # Multiply what holds x and sum x out.
        taken = holding.pop(x, set())
        joined = {x}.union(*(left.pop(i) for i in taken))
        left[number] = joined - {x}
        for v in left[number]:
            holding[v] -= taken
            holding[v].add(number)
        entries = prod(sizes[v] for v in joined)
        if entries > product:
            product, table = entries, frozenset(joined)
        stored = max(stored, entries // sizes[x])
    last = set(keep).union(*left.values())
    entries = prod(sizes[v] for v in last)
    if entries > product:
        product, table = entries, frozenset(last)
    return EliminationPlan(list(order), max(stored, entries), product, table)


def _free(scopes: Scopes, keep: Sequence[str]) -> list[str]:
    """Return the variables to be summed out, in the order in which they appear."""
    kept = set(keep)
    return [x for x in dict.fromkeys(v for scope in scopes for v in scope) if x not in kept]


def contraction_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """The order in which opt_einsum's greedy contraction of the same product sums variables."""
    from opt_einsum.paths import ssa_greedy_optimize

    number = {x: i for i, x in enumerate(dict.fromkeys([*keep, *(v for s in scopes for v in s)]))}
    names = list(number)
    sets = [frozenset(number[v] for v in scope) for scope in scopes]
    kept = frozenset(number[v] for v in keep)
    # Every size is at least 2 to the heuristic, so that a constant still leaves its edges.
    weights = {i: max(sizes[x], 2) for x, i in number.items()}
    holders = Counter(v for s in sets for v in s)
    alive: dict[int, frozenset[int]] = dict(enumerate(sets))
    order: list[str] = []
    for step, pair in enumerate(ssa_greedy_optimize(sets, kept, weights)):
        taken = [alive.pop(i) for i in pair]
        product = frozenset().union(*taken)
        holders.subtract(v for s in taken for v in s)
        gone = sorted(v for v in product if not holders[v] and v not in kept)
        order += [names[v] for v in gone]
        alive[len(sets) + step] = product.difference(gone)
        holders.update(alive[len(sets) + step])
    # A product of one factor is never contracted with another.
    return [*order, *(x for x in _free(scopes, keep) if x not in set(order))]


def backward_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """Causes first, a sweep along the arrows: what long, narrow processes want."""
    # Scopes come in the order of their own variables, effects after causes; one whose own variable
    # is observed ends in a cause, which came before.
    kept = set(keep)
    return list(dict.fromkeys(s[-1] for s in scopes if s and s[-1] not in kept))


def smallest_table_order(
    scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]
) -> list[str]:
    """At each turn the variable whose product is the smallest table (minimum weight)."""
    return _one_by_one(scopes, keep, lambda x, near: sum(log(sizes[v]) for v in near[x]))


def least_fill_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """At each turn the variable that brings the fewest new pairs together (minimum fill)."""

    def fill(x: str, near: dict[str, set[str]]) -> float:
        around = [v for v in near[x] if v != x]
        return sum(
            log(sizes[u]) * log(sizes[v])
            for i, u in enumerate(around)
            for v in around[:i]
            if v not in near[u]
        )

    return _one_by_one(scopes, keep, fill)


def _one_by_one(
    scopes: Scopes, keep: Sequence[str], cost: Callable[[str, dict[str, set[str]]], float]
) -> list[str]:
    """Sum out the cheapest variable at each turn; ties fall to the one that appears first."""
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for x in scope:
            near.setdefault(x, set()).update(scope)
    place = {x: i for i, x in enumerate(_free(scopes, keep))}
    left = {x: (round(cost(x, near), 9), i) for x, i in place.items()}
    order: list[str] = []
    while left:
        x = min(left, key=left.__getitem__)
        del left[x]
        order.append(x)
        around = near.pop(x) - {x}
        for v in around:
            near[v] = (near[v] | around) - {x}
        # What is two steps away may have gained or lost a missing pair.
        for v in around.union(*(near[u] for u in around)):
            if v in left:
                left[v] = (round(cost(v, near), 9), place[v])
    return order


# --- Elimination ----------------------------------------------------------------------------------
# Only the CPDs that a query depends on take part. Products that a query forms on the way are kept
# under the names of what went into them. Sizes are worked out before anything is allocated.
#
# Source: Zhang and Poole, A simple approach to Bayesian network computations (1994); Dechter,
# Bucket elimination (1999).

MAX_PRODUCT = 2**31  # entries of the largest product that is summed, which takes seconds
_SMALL_ENTRIES = 2**14  # an order that makes no larger product is not worth improving on
_KEPT_ENTRIES = 2**25  # of all tables that are kept for later queries

# The number of what a factor was made from, and the factor.
_Keyed = tuple[int, Factor]


class Elimination:
    """Answers queries about the product of a network's CPDs; variables come causes first."""

    def __init__(
        self,
        order: Sequence[str],
        parents: Mapping[str, tuple[str, ...]],
        children: Mapping[str, tuple[str, ...]],
        cpds: Mapping[str, FloatArray],
    ) -> None:
        self._parents = parents
        self._children = children
        self._factors = {x: Factor((*parents[x], x), cpds[x]) for x in order}
        self._sizes = {x: cpd.shape[-1] for x, cpd in cpds.items()}
        self._place = {x: i for i, x in enumerate(order)}
        self._common: dict[str, int] = {}
        self._keys: dict[object, int] = {}
        self._kept: dict[int, Factor] = {}
        self._kept_entries = 0

    def prepare(self, xs: Iterable[str]) -> None:
        """Expect many queries about some of these variables: find one order that suits them all."""
        scopes = [self._factors[x].variables for x in self._ancestral(xs)]
        plan = best_plan(scopes, self._sizes, ())
        self._common = {x: i for i, x in enumerate(plan.order)}

    def conditional(self, xs: Sequence[str], given: Sequence[str]) -> FloatArray:
        """P(xs | given), [*sizes of given, *sizes of xs]; rows of impossible values may be 0."""
        # CPDs that cannot matter are left out: most of a large network, for most queries.
        needed = bayes_ball(self._parents, self._children, xs, given).requisite
        joint = self._sum(self._sorted(needed), {}, (*given, *xs))
        total = joint.sum(axis=tuple(range(len(given), joint.ndim)), keepdims=True)
        return np.asarray(np.divide(joint, total, out=np.zeros_like(joint), where=total > 0))

    def weights(self, xs: Sequence[str], evidence: Mapping[str, int]) -> FloatArray:
        """P(xs, evidence), [*sizes of xs]; evidence maps variables to indices of their states."""
        return self._sum(self._ancestral([*xs, *evidence]), dict(evidence), xs)

    def _ancestral(self, xs: Iterable[str]) -> list[str]:
        """Return variables with everything that influences them."""
        return self._sorted(reached(xs, self._parents).union(xs))

    def _sorted(self, xs: Iterable[str]) -> list[str]:
        return sorted(xs, key=self._place.__getitem__)

    def _sum(
        self, needed: Sequence[str], evidence: dict[str, int], keep: Sequence[str]
    ) -> FloatArray:
        """Return the product of CPDs summed over all but `keep`, with axes in that order."""
        factors: list[_Keyed] = []
        for x in needed:
            name = (x, *((v, evidence[v]) for v in (*self._parents[x], x) if v in evidence))
            factors.append((self._key(name), self._factors[x].at(evidence)))
        order = self._plan([factor.variables for _, factor in factors], keep).order
        left = dict(enumerate(factors))
        holding: dict[str, list[int]] = {}
        for i, (_, factor) in left.items():
            for v in factor.variables:
                holding.setdefault(v, []).append(i)
        # Bucket elimination: what holds x is multiplied, x is summed out, and the product goes
        # back.
        for number, x in enumerate(order, start=len(factors)):
            left[number] = self._without(x, [left.pop(i) for i in holding.pop(x) if i in left])
            for v in left[number][1].variables:
                holding[v].append(number)
        # Variables that nothing depends on: a constant factor gives them their axis.
        last = [factor for _, factor in left.values()]
        absent = set(keep).difference(*(factor.variables for factor in last))
        last += [Factor((v,), np.ones(self._sizes[v])) for v in keep if v in absent]
        return sum_of_product(last or [Factor((), np.ones(()))], keep).arranged(keep)

    def _key(self, name: object) -> int:
        return self._keys.setdefault(name, len(self._keys))

    def _without(self, x: str, bucket: list[_Keyed]) -> _Keyed:
        """Return the product of a bucket summed over x, from memory if it was made before."""
        key = self._key((x, frozenset(key for key, _ in bucket)))
        summed = self._kept.get(key)
        if summed is None:
            factors = [factor for _, factor in bucket]
            keep = dict.fromkeys(v for f in factors for v in f.variables if v != x)
            summed = sum_of_product(factors, tuple(keep))
            self._kept_entries += summed.values.size
            # Forgetting everything is crude, but keeps no clock and happens rarely.
            if self._kept_entries > _KEPT_ENTRIES:
                self._kept.clear()
                self._kept_entries = summed.values.size
            self._kept[key] = summed
        return key, summed

    def _plan(self, scopes: Scopes, keep: Sequence[str]) -> EliminationPlan:
        """Return an order to sum variables out in, whose tables fit."""
        plan = None
        free = set().union(*scopes).difference(keep)
        if free <= self._common.keys():
            order = sorted(free, key=self._common.__getitem__)
            plan = cost_of(scopes, order, self._sizes, keep)
        # The common order is free; a search of its own pays only for large tables.
        if plan is None or plan.product > _SMALL_ENTRIES:
            fresh = best_plan(scopes, self._sizes, keep)
            plan = fresh if plan is None or fresh.product < plan.product else plan
        if plan.stored > MAX_ENTRIES or plan.product > MAX_PRODUCT:
            raise InvalidModelError(
                f"the model is too large to eliminate: the best order found needs a table over "
                f"{len(plan.table)} variables at once ({listed(sorted(plan.table))}) with "
                f"{plan.product:.3g} entries, expected at most {MAX_ENTRIES:.3g} to keep and "
                f"{MAX_PRODUCT:.3g} to sum; merge states of these variables, fix some of them "
                f"with do, or ask about fewer targets at a time"
            )
        return plan
