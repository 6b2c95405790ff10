"""In which order to sum variables out: several heuristics, of which the best is taken.

opt_einsum's greedy contraction is fast and mostly good. Where the tables it leads to are large,
three orders of the graphical-model literature are tried as well: each wins on some networks by
orders of magnitude, and trying them costs milliseconds.

All of them work on whole numbers, so that ties fall the same way in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log, prod
from typing import NamedTuple

Scopes = Sequence[tuple[str, ...]]


class Plan(NamedTuple):
    """An order, and what it costs."""

    order: list[str]  # variables, the first to be summed out first
    stored: int  # entries of the largest table that is kept
    product: int  # entries of the largest product that is summed
    table: frozenset[str]  # the variables of that product


def best_plan(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str], small: int) -> Plan:
    """The best order found; more are tried only while tables have more than `small` entries."""
    best: Plan | None = None
    for find in (contraction_order, backward_order, smallest_table_order, least_fill_order):
        plan = cost_of(scopes, find(scopes, sizes, keep), sizes, keep)
        if best is None or plan.product < best.product:
            best = plan
        # Finding a better order would take longer than summing with this one.
        if best.product <= small:
            break
    assert best is not None
    return best


def cost_of(
    scopes: Scopes, order: Sequence[str], sizes: Mapping[str, int], keep: Sequence[str]
) -> Plan:
    """What an order costs, by going through it without the numbers."""
    buckets = _Buckets(scopes)
    stored = product = 1
    table: frozenset[str] = frozenset()
    for x in order:
        joined = buckets.join(x)
        entries = prod(sizes[v] for v in joined)
        if entries > product:
            product, table = entries, frozenset(joined)
        stored = max(stored, entries // sizes[x])
    last = set(keep).union(*buckets.scopes.values())
    entries = prod(sizes[v] for v in last)
    if entries > product:
        product, table = entries, frozenset(last)
    return Plan(list(order), max(stored, entries), product, table)


class _Buckets:
    """Scopes of factors, by number, with the numbers of those that hold each variable."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = {i: set(scope) for i, scope in enumerate(scopes)}
        self._holding: dict[str, set[int]] = {}
        for i, scope in self.scopes.items():
            for x in scope:
                self._holding.setdefault(x, set()).add(i)
        self._next = len(self.scopes)

    def join(self, x: str) -> set[str]:
        """Multiply what holds x and sum x out; the variables of the product, x included."""
        taken = self._holding.pop(x, set())
        product = {x}.union(*(self.scopes.pop(i) for i in taken))
        summed = product - {x}
        self.scopes[self._next] = summed
        for v in summed:
            self._holding[v] -= taken
            self._holding[v].add(self._next)
        self._next += 1
        return product


def _free(scopes: Scopes, keep: Sequence[str]) -> list[str]:
    """The variables to be summed out, in the order in which they appear."""
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
    holders = dict.fromkeys(number.values(), 0)
    for s in sets:
        for v in s:
            holders[v] += 1
    alive: dict[int, frozenset[int]] = dict(enumerate(sets))
    order: list[str] = []
    for step, pair in enumerate(ssa_greedy_optimize(sets, kept, weights)):
        taken = [alive.pop(i) for i in pair]
        product = frozenset().union(*taken)
        for s in taken:
            for v in s:
                holders[v] -= 1
        gone = sorted(v for v in product if not holders[v] and v not in kept)
        order += [names[v] for v in gone]
        summed = product.difference(gone)
        for v in summed:
            holders[v] += 1
        alive[len(sets) + step] = summed
    # A product of one factor is never contracted with another.
    return [*order, *(x for x in _free(scopes, keep) if x not in set(order))]


def backward_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """Causes first, a sweep along the arrows: what long, narrow processes want.

    Scopes come in the order of their own variables, effects after causes; one whose own variable
    is observed ends in a cause, which came before.
    """
    kept = set(keep)
    return list(dict.fromkeys(s[-1] for s in scopes if s and s[-1] not in kept))


def smallest_table_order(
    scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]
) -> list[str]:
    """At each turn the variable whose product is the smallest table.

    Source: Kjaerulff, Triangulation of graphs (1990): minimum weight.
    """

    def weight(x: str, near: dict[str, set[str]]) -> float:
        return sum(log(sizes[v]) for v in near[x])

    return _one_by_one(scopes, keep, weight)


def least_fill_order(scopes: Scopes, sizes: Mapping[str, int], keep: Sequence[str]) -> list[str]:
    """At each turn the variable whose product brings the fewest new pairs together, by size.

    Source: Kjaerulff, Triangulation of graphs (1990): minimum fill, weighted.
    """

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
