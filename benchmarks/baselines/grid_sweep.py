"""P(target | given) in a grid of rails, by the sweep that whoever knows the grid writes by hand.

Variables are taken up in an order that goes along the rails; one is summed out as soon as no later
CPD needs it. So the table at hand never holds more than one variable a rail, besides what is asked
about. No order is searched for, nothing is checked, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def conditional(
    cpds: Mapping[str, tuple[tuple[str, ...], Array]],
    order: Sequence[str],
    evidence: Sequence[str],
    target: str,
) -> Array:
    """[*sizes of given, size of target]; `cpds[x]` is over (*parents, x)."""
    last = {v: x for x in order for v in cpds[x][0]}
    kept = {*evidence, target}
    scope: list[str] = []
    table = np.ones(())
    for x in order:
        names, cpd = cpds[x]
        after = [v for v in (*scope, x) if v in kept or last[v] != x or v == x]
        label = {v: i for i, v in enumerate((*scope, x))}
        table = np.einsum(
            table,
            [label[v] for v in scope],
            cpd,
            [label[v] for v in names],
            [label[v] for v in after],
        )
        scope = after
    # Whoever is left has no children: summed out last.
    joint = np.einsum(table, list(range(len(scope))), [scope.index(v) for v in (*evidence, target)])
    return np.asarray(joint / joint.sum(axis=-1, keepdims=True))
