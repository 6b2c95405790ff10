"""Exact queries by variable elimination, sharing what queries have in common.

Only the CPDs that a query depends on take part (`separation`). Variables are summed out in the
best order found (`ordering`); `prepare` finds one order for many queries. Products that a query
forms on the way are kept under the names of what went into them, so the next query that needs
them finds them. Sizes are worked out before anything is allocated.

Source: Zhang and Poole, A simple approach to Bayesian network computations (1994); Dechter,
Bucket elimination (1999).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.factors import MAX_ENTRIES, Factor, sum_of_product
from goalmeter.causal.ordering import Plan, best_plan, cost_of
from goalmeter.causal.separation import bayes_ball

# Entries of the largest product that is summed, which takes seconds.
MAX_PRODUCT = 2**31
# An order that makes no product larger than this is not worth improving on.
_SMALL_ENTRIES = 2**14
# Entries of all tables that are kept for later queries.
_KEPT_ENTRIES = 2**25


class _Keyed(NamedTuple):
    """A factor and the number of what it was made from."""

    key: int
    factor: Factor


class Elimination:
    """Answers queries about the product of a network's CPDs, [*sizes of parents, own size] each.

    Nothing is computed before the first query; variables come causes first.
    """

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
        needed = self._sorted(self._ancestral(xs))
        scopes = [self._factors[x].variables for x in needed]
        plan = best_plan(scopes, self._sizes, (), _SMALL_ENTRIES)
        self._common = {x: i for i, x in enumerate(plan.order)}

    def conditional(self, xs: Sequence[str], given: Sequence[str]) -> FloatArray:
        """P(xs | given), [*sizes of given, *sizes of xs]; rows of impossible values are 0.

        A value is known to be impossible only where the query depends on what rules it out.

        Args:
            xs: variables, none of them in `given`.
            given: variables to condition on.
        """
        # CPDs that cannot matter are left out: most of a large network, for most queries.
        needed = bayes_ball(self._parents, self._children, xs, given).requisite
        order = (*given, *xs)
        joint = self._sum(needed, {}, order).values
        n_given = len(given)
        total = joint.sum(axis=tuple(range(n_given, joint.ndim)), keepdims=True)
        return np.asarray(np.divide(joint, total, out=np.zeros_like(joint), where=total > 0))

    def weights(self, xs: Sequence[str], evidence: Mapping[str, int]) -> FloatArray:
        """P(xs, evidence), [*sizes of xs]; evidence maps variables to indices of their states."""
        fixed = dict(evidence)
        needed = self._ancestral([*xs, *fixed])
        return self._sum(needed, fixed, tuple(xs)).values

    def _ancestral(self, xs: Iterable[str]) -> frozenset[str]:
        above: set[str] = set()
        ahead = list(xs)
        while ahead:
            x = ahead.pop()
            if x not in above:
                above.add(x)
                ahead += self._parents[x]
        return frozenset(above)

    def _sorted(self, xs: Iterable[str]) -> list[str]:
        return sorted(xs, key=self._place.__getitem__)

    def _sum(self, needed: frozenset[str], evidence: dict[str, int], keep: Sequence[str]) -> Factor:
        """The product of CPDs summed over all but `keep`, with axes in that order."""
        factors = []
        for x in self._sorted(needed):
            key = (x, *((v, evidence[v]) for v in (*self._parents[x], x) if v in evidence))
            factors.append(_Keyed(self._key(key), self._factors[x].at(evidence)))
        scopes = [keyed.factor.variables for keyed in factors]
        left = dict(enumerate(factors))
        holding: dict[str, list[int]] = {}
        for i, keyed in left.items():
            for v in keyed.factor.variables:
                holding.setdefault(v, []).append(i)
        # Bucket elimination: what holds x is multiplied, x is summed out, and the product goes
        # back.
        for x in self._plan(scopes, keep).order:
            bucket = [left.pop(i) for i in holding.pop(x) if i in left]
            made = self._without(x, bucket)
            number = len(factors)
            factors.append(made)
            left[number] = made
            for v in made.factor.variables:
                holding[v].append(number)
        # Variables that nothing depends on: a constant factor gives them their axis.
        last = [keyed.factor for keyed in left.values()]
        absent = set(keep).difference(*(factor.variables for factor in last))
        last += [Factor((v,), np.ones(self._sizes[v])) for v in keep if v in absent]
        product = sum_of_product(last or [Factor((), np.ones(()))], keep)
        return Factor(tuple(keep), product.arranged(keep))

    def _key(self, name: object) -> int:
        return self._keys.setdefault(name, len(self._keys))

    def _without(self, x: str, bucket: list[_Keyed]) -> _Keyed:
        """The product of a bucket summed over x, from memory if it was made before."""
        key = self._key((x, frozenset(keyed.key for keyed in bucket)))
        summed = self._kept.get(key)
        if summed is None:
            factors = [keyed.factor for keyed in bucket]
            keep = dict.fromkeys(v for f in factors for v in f.variables if v != x)
            summed = sum_of_product(factors, tuple(keep))
            self._kept_entries += summed.values.size
            # Forgetting everything is crude, but keeps no clock and happens rarely.
            if self._kept_entries > _KEPT_ENTRIES:
                self._kept.clear()
                self._kept_entries = summed.values.size
            self._kept[key] = summed
        return _Keyed(key, summed)

    def _plan(self, scopes: Sequence[tuple[str, ...]], keep: Sequence[str]) -> Plan:
        """An order to sum variables out in, whose tables fit."""
        plan = self._prepared(scopes, keep)
        # The common order is free; a search of its own pays only for large tables.
        if plan is None or plan.product > _SMALL_ENTRIES:
            fresh = best_plan(scopes, self._sizes, keep, _SMALL_ENTRIES)
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

    def _prepared(self, scopes: Sequence[tuple[str, ...]], keep: Sequence[str]) -> Plan | None:
        """The common order's part in this query; None if it does not have all variables."""
        free = set().union(*scopes).difference(keep)
        if not free <= self._common.keys():
            return None
        order = sorted(free, key=self._common.__getitem__)
        return cost_of(scopes, order, self._sizes, keep)
