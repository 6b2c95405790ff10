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
MAX_ENTRIES = 2**26  # maximum entries of a stored table: half a gigabyte of doubles


class Factor(NamedTuple):
    """Function of discrete variables: `values` are [*sizes of the variables in order]."""

    variables: tuple[str, ...]
    values: FloatArray

    def arranged(self, variables: Sequence[str]) -> FloatArray:
        """Return the values with axes in another order of the variables."""
        return self.values.transpose([self.variables.index(v) for v in variables])

    def at(self, evidence: dict[str, int]) -> Factor:
        """Return the function of the free variables, given state indices of the others."""
        free = tuple(v for v in self.variables if v not in evidence)
        if len(free) == len(self.variables):
            return self
        where = tuple(evidence.get(v, slice(None)) for v in self.variables)
        return Factor(free, np.asarray(self.values[where]))


def sum_of_product(factors: Sequence[Factor], keep: Sequence[str]) -> Factor:
    """Return the product of one or more factors, summed over all variables except `keep`."""
    # Factors are multiplied in pairs, the smallest first, and variables that no other factor needs
    # are summed out at once. A product too large to store is summed in one call, which is slower.
    rest = sorted(factors, key=lambda factor: factor.values.size)
    retained = set(keep)
    sizes = {v: n for f in factors for v, n in zip(f.variables, f.values.shape, strict=True)}
    if len(rest) > 2 and prod(sizes.values()) > MAX_ENTRIES:
        return _einsum(rest, tuple(v for v in sizes if v in retained))
    first, *rest = rest
    while rest:
        second, *rest = rest
        needed = retained.union(*(f.variables for f in rest))
        both = dict.fromkeys(first.variables + second.variables)
        first = _einsum([first, second], tuple(v for v in both if v in needed))
    return _einsum([first], tuple(v for v in first.variables if v in retained))


def _einsum(factors: Sequence[Factor], out: tuple[str, ...]) -> Factor:
    """Call einsum with variables numbered as labels."""
    label: dict[str, int] = {}
    operands: list[object] = []
    for factor in factors:
        operands += [factor.values, [label.setdefault(v, len(label)) for v in factor.variables]]
    values = np.einsum(*operands, [label[v] for v in out])  # type: ignore[call-overload]
    return Factor(out, np.asarray(values))


# --- Ordering -------------------------------------------------------------------------------------
# opt_einsum's greedy contraction is fast and usually good. If its tables are large, three orders
# from the graphical-model literature are tried as well. All of them use integers, so that ties are
# resolved in the same way in every process.
#
# Source: Kjaerulff, Triangulation of graphs (1990): minimum weight, and minimum fill by size.

Scopes = Sequence[tuple[str, ...]]


class EliminationPlan(NamedTuple):
    """Elimination order with its cost."""

    order: list[str]  # variables in the order of elimination
    stored: int  # entries of the largest stored table
    product: int  # entries of the largest summed product
    table: frozenset[str]  # variables of that product


def best_plan(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> EliminationPlan:
    """Return the best order found; the search stops as soon as tables are small."""
    plans = []
    for find in (contraction_order, backward_order, smallest_table_order, least_fill_order):
        plans.append(cost_of(scopes, find(scopes, sizes, keep), sizes, keep))
        # A search for a better order would take longer than the sums with this one.
        if plans[-1].product <= _SMALL_ENTRIES:
            break
    return min(plans, key=lambda plan: plan.product)


def cost_of(
    scopes: Scopes, order: Sequence[str], sizes: Mapping[str, int], keep: Sequence[str]
) -> EliminationPlan:
    """Return the cost of an order by symbolic elimination."""
    rest = {i: set(scope) for i, scope in enumerate(scopes)}
    containing: dict[str, set[int]] = {}  # numbers of the factors that contain each variable
    for i, scope in rest.items():
        for x in scope:
            containing.setdefault(x, set()).add(i)
    stored = product = 1
    table: frozenset[str] = frozenset()
    for number, x in enumerate(order, start=len(scopes)):
        # Multiply the factors that contain x and sum x out.
        bucket = containing.pop(x, set())
        joined = {x}.union(*(rest.pop(i) for i in bucket))
        rest[number] = joined - {x}
        for v in rest[number]:
            containing[v] -= bucket
            containing[v].add(number)
        entries = prod(sizes[v] for v in joined)
        if entries > product:
            product, table = entries, frozenset(joined)
        stored = max(stored, entries // sizes[x])
    last = set(keep).union(*rest.values())
    entries = prod(sizes[v] for v in last)
    if entries > product:
        product, table = entries, frozenset(last)
    return EliminationPlan(list(order), max(stored, entries), product, table)


def _free(scopes: Scopes, keep: Sequence[str]) -> list[str]:
    """Return the variables to be summed out in the order of appearance."""
    retained = set(keep)
    return [x for x in dict.fromkeys(v for scope in scopes for v in scope) if x not in retained]


def contraction_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """Return the order in which opt_einsum's greedy contraction sums variables."""
    from opt_einsum.paths import ssa_greedy_optimize

    number = {x: i for i, x in enumerate(dict.fromkeys([*keep, *(v for s in scopes for v in s)]))}
    names = list(number)
    sets = [frozenset(number[v] for v in scope) for scope in scopes]
    retained = frozenset(number[v] for v in keep)
    # The heuristic gets sizes of at least 2, so that constants still have edges.
    weights = {i: max(sizes[x], 2) for x, i in number.items()}
    holders = Counter(v for s in sets for v in s)
    active: dict[int, frozenset[int]] = dict(enumerate(sets))
    order: list[str] = []
    for step, pair in enumerate(ssa_greedy_optimize(sets, retained, weights)):
        pair_scopes = [active.pop(i) for i in pair]
        product = frozenset().union(*pair_scopes)
        holders.subtract(v for s in pair_scopes for v in s)
        summed = sorted(v for v in product if not holders[v] and v not in retained)
        order += [names[v] for v in summed]
        active[len(sets) + step] = product.difference(summed)
        holders.update(active[len(sets) + step])
    # A single factor is never contracted with another.
    return [*order, *(x for x in _free(scopes, keep) if x not in set(order))]


def backward_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """Return the order along the edges, causes first, which suits long, narrow processes."""
    # Scopes are in the order of their own variables, effects after causes; the scope of an observed
    # variable ends in a cause, which occurred before.
    retained = set(keep)
    return list(dict.fromkeys(s[-1] for s in scopes if s and s[-1] not in retained))


def smallest_table_order(
    scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]
) -> list[str]:
    """Return the order that always picks the smallest product (minimum weight)."""
    return _one_by_one(scopes, keep, lambda x, near: sum(log(sizes[v]) for v in near[x]))


def least_fill_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """Return the order that always joins the fewest new pairs (weighted minimum fill)."""

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
    """Return the order that always picks the cheapest variable, the first one among ties."""
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for x in scope:
            near.setdefault(x, set()).update(scope)
    place = {x: i for i, x in enumerate(_free(scopes, keep))}
    costs = {x: (round(cost(x, near), 9), i) for x, i in place.items()}
    order: list[str] = []
    while costs:
        x = min(costs, key=costs.__getitem__)
        del costs[x]
        order.append(x)
        around = near.pop(x) - {x}
        for v in around:
            near[v] = (near[v] | around) - {x}
        # The costs of variables up to two steps away may have changed.
        for v in around.union(*(near[u] for u in around)):
            if v in costs:
                costs[v] = (round(cost(v, near), 9), place[v])
    return order


# --- Elimination ----------------------------------------------------------------------------------
# A query uses only the CPDs on which it depends. Intermediate products are cached with the names of
# their factors as keys. Sizes are computed before any allocation.
#
# Source: Zhang and Poole, A simple approach to Bayesian network computations (1994); Dechter,
# Bucket elimination (1999).

MAX_PRODUCT = 2**31  # maximum entries of a summed product, which takes seconds
_SMALL_ENTRIES = 2**14  # an order whose products are not larger is not improved further
_CACHED_ENTRIES = 2**25  # maximum total entries of cached tables

# Key of a factor's origin, and the factor.
_Keyed = tuple[int, Factor]


class Elimination:
    """Variable elimination on a network's CPDs; variables are in topological order."""

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
        self._cache: dict[int, Factor] = {}
        self._cached_entries = 0

    def prepare(self, xs: Iterable[str]) -> None:
        """Find one order for many queries about subsets of these variables."""
        scopes = [self._factors[x].variables for x in self._ancestral(xs)]
        plan = best_plan(scopes, self._sizes, ())
        self._common = {x: i for i, x in enumerate(plan.order)}

    def conditional(self, xs: Sequence[str], given: Sequence[str]) -> FloatArray:
        """Return P(xs | given), [*sizes of given, *sizes of xs]; impossible rows may be 0."""
        # Irrelevant CPDs are omitted: for most queries, most of a large network.
        needed = bayes_ball(self._parents, self._children, xs, given).requisite
        joint = self._sum(self._sorted(needed), {}, (*given, *xs))
        total = joint.sum(axis=tuple(range(len(given), joint.ndim)), keepdims=True)
        return np.asarray(np.divide(joint, total, out=np.zeros_like(joint), where=total > 0))

    def weights(self, xs: Sequence[str], evidence: Mapping[str, int]) -> FloatArray:
        """Return P(xs, evidence), [*sizes of xs]; evidence maps variables to state indices."""
        return self._sum(self._ancestral([*xs, *evidence]), dict(evidence), xs)

    def _ancestral(self, xs: Iterable[str]) -> list[str]:
        """Return variables with all their ancestors."""
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
        rest = dict(enumerate(factors))
        containing: dict[str, list[int]] = {}
        for i, (_, factor) in rest.items():
            for v in factor.variables:
                containing.setdefault(v, []).append(i)
        # Bucket elimination: the product of the factors that contain x, summed over x, replaces
        # them.
        for number, x in enumerate(order, start=len(factors)):
            rest[number] = self._without(x, [rest.pop(i) for i in containing.pop(x) if i in rest])
            for v in rest[number][1].variables:
                containing[v].append(number)
        # Variables without remaining factors get their axis from a constant factor.
        last = [factor for _, factor in rest.values()]
        absent = set(keep).difference(*(factor.variables for factor in last))
        last += [Factor((v,), np.ones(self._sizes[v])) for v in keep if v in absent]
        return sum_of_product(last or [Factor((), np.ones(()))], keep).arranged(keep)

    def _key(self, name: object) -> int:
        return self._keys.setdefault(name, len(self._keys))

    def _without(self, x: str, bucket: list[_Keyed]) -> _Keyed:
        """Return the product of a bucket summed over x, from the cache if possible."""
        key = self._key((x, frozenset(key for key, _ in bucket)))
        summed = self._cache.get(key)
        if summed is None:
            factors = [factor for _, factor in bucket]
            keep = dict.fromkeys(v for f in factors for v in f.variables if v != x)
            summed = sum_of_product(factors, tuple(keep))
            self._cached_entries += summed.values.size
            # Clearing the whole cache is simple and rarely necessary.
            if self._cached_entries > _CACHED_ENTRIES:
                self._cache.clear()
                self._cached_entries = summed.values.size
            self._cache[key] = summed
        return key, summed

    def _plan(self, scopes: Scopes, keep: Sequence[str]) -> EliminationPlan:
        """Return an elimination order whose tables fit."""
        plan = None
        free = set().union(*scopes).difference(keep)
        if free <= self._common.keys():
            order = sorted(free, key=self._common.__getitem__)
            plan = cost_of(scopes, order, self._sizes, keep)
        # The common order costs nothing; a new search is worthwhile only for large tables.
        if plan is None or plan.product > _SMALL_ENTRIES:
            fresh = best_plan(scopes, self._sizes, keep)
            plan = fresh if plan is None or fresh.product < plan.product else plan
        if plan.stored > MAX_ENTRIES or plan.product > MAX_PRODUCT:
            raise InvalidModelError(
                f"the model is too large for variable elimination: the best order found needs a "
                f"table over {len(plan.table)} variables ({listed(sorted(plan.table))}) with "
                f"{plan.product:.3g} entries, expected at most {MAX_ENTRIES:.3g} to store and "
                f"{MAX_PRODUCT:.3g} to sum; merge states of these variables, fix some of them "
                f"with do, or query fewer targets at a time"
            )
        return plan
