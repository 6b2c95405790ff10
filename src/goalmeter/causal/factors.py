"""Tables over named variables, and products of them summed over variables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray

# Entries of the largest table that is stored: half a gigabyte of doubles.
MAX_ENTRIES = 2**26


class Factor(NamedTuple):
    """A function of discrete variables: `values` [*sizes of the variables, in order]."""

    variables: tuple[str, ...]
    values: FloatArray

    def arranged(self, variables: Sequence[str]) -> FloatArray:
        """The values with the axes in another order of the same variables."""
        return self.values.transpose([self.variables.index(v) for v in variables])

    def at(self, evidence: dict[str, int]) -> Factor:
        """The function of the other variables where some are fixed to the index of a state."""
        free = tuple(v for v in self.variables if v not in evidence)
        if len(free) == len(self.variables):
            return self
        where = tuple(evidence.get(v, slice(None)) for v in self.variables)
        return Factor(free, np.asarray(self.values[where]))


def sum_of_product(
    factors: Sequence[Factor], keep: Sequence[str], limit: int = MAX_ENTRIES
) -> Factor:
    """The product of one or more factors, summed over every variable that is not in `keep`.

    Multiplied two at a time, the smallest first; what no other factor needs is summed out at
    once. Cost: the entries of the largest product on the way. Where that is more than `limit`
    entries, all factors are multiplied at once, which takes longer but stores nothing.
    """
    left = sorted(factors, key=lambda factor: factor.values.size)
    wanted = set(keep)
    sizes = {v: n for f in factors for v, n in zip(f.variables, f.values.shape, strict=True)}
    if len(left) > 2 and prod(sizes.values()) > limit:
        return _einsum(left, tuple(v for v in sizes if v in wanted))
    while True:
        first = left.pop(0)
        if not left:
            break
        second = left.pop(0)
        needed = wanted.union(*(f.variables for f in left))
        both = dict.fromkeys(first.variables + second.variables)
        left.insert(0, _einsum([first, second], tuple(v for v in both if v in needed)))
    return _einsum([first], tuple(v for v in first.variables if v in wanted))


def _einsum(factors: Sequence[Factor], out: tuple[str, ...]) -> Factor:
    """One call to einsum; its labels are numbers of the variables that take part."""
    label: dict[str, int] = {}
    operands: list[object] = []
    for factor in factors:
        operands += [factor.values, [label.setdefault(v, len(label)) for v in factor.variables]]
    values = np.einsum(*operands, [label[v] for v in out])  # type: ignore[call-overload]
    return Factor(out, np.asarray(values))
