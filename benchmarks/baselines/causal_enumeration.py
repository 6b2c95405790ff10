"""Definitions 3.2 and 4.4 from the table of all joint outcomes, in NumPy: the only way so far.

For decisions in a line with sufficient recall, none of which sees what an earlier one saw: a single
decision, or an MDP written as a diagram. It is meant to be as strong as an enumeration gets:

* The joint table is made once, with uniform decisions, one variable at a time; the products cost
  little more than writing the table.
* Each decision takes one pass over the table: the marginal of what it sees, does, leads to and is
  paid for. Every conditional expectation comes from these small tables, so soft backward induction
  never touches the joint table again, whatever the rationality.
* The known utility is a root of the derivative by Brent's method; utilities over targets are a
  concave maximum by BFGS with exact gradients. Both take milliseconds.

Neither knows optima at infinity, nor proves a bound. Nothing of goalmeter is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

Array = NDArray[np.float64]
# Variables and a table over them, [*sizes].
Table = tuple[tuple[str, ...], Array]


class Step(NamedTuple):
    """A decision, as the joint table tells it."""

    moves: Array | None  # P(next context | context, action), [C, A, C']
    paid: Array  # E[features | context, action], [C, A, D]
    policy: Array  # the measured one, [C, A]


def outcomes(cpds: Mapping[str, Table], order: Sequence[str]) -> Array:
    """The joint table, an axis for each variable, causes first.

    ``cpds[x]`` is over (*parents, x).
    """
    joint = np.ones(())
    for i, x in enumerate(order):
        scope, cpd = cpds[x]
        joint = np.einsum(
            joint, list(range(i)), cpd, [order.index(v) for v in scope], list(range(i + 1))
        )
    return joint


def entries(cpds: Mapping[str, Table]) -> int:
    """How many joint outcomes there are."""
    out = 1
    for _, cpd in cpds.values():
        out *= cpd.shape[-1]
    return out


def known_utility(
    cpds: Mapping[str, Table],
    order: Sequence[str],
    decisions: Sequence[str],
    utility: Sequence[Table],
) -> float:
    """MEG for a sum of utilities, nats; the optimum is at a finite rationality."""
    features = [(scope, values[..., None]) for scope, values in utility]
    start, steps = _steps(cpds, order, decisions, features)

    def slope(b: float) -> float:
        return float(_evidence(start, steps, np.array([b]))[1][0])

    sign = 1.0 if slope(0.0) > 0 else -1.0
    edge = sign
    while sign * slope(edge) > 0:
        edge *= 2.0
    low, high = sorted((0.0, edge))
    best = brentq(slope, low, high, xtol=1e-12, rtol=1e-13)
    return _evidence(start, steps, np.array([best]))[0]


def targets(
    cpds: Mapping[str, Table],
    order: Sequence[str],
    decisions: Sequence[str],
    targets: Sequence[str],
) -> float:
    """MEG towards targets, nats; the optimum is at finite utilities."""
    sizes = [cpds[t][1].shape[-1] for t in targets]
    n = int(np.prod(sizes))
    features = [(tuple(targets), np.eye(n).reshape(*sizes, n))]
    start, steps = _steps(cpds, order, decisions, features)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = _evidence(start, steps, theta)
        return -value, -gradient

    optimum = minimize(loss, np.zeros(n), jac=True, method="BFGS", options={"gtol": 1e-9})
    return -float(optimum.fun)


def _steps(
    cpds: Mapping[str, Table],
    order: Sequence[str],
    decisions: Sequence[str],
    features: Sequence[Table],
) -> tuple[Array, list[Step]]:
    """The first contexts' probabilities [C], and the decisions, causes first."""
    uniform = {d: np.full_like(cpds[d][1], 1.0 / cpds[d][1].shape[-1]) for d in decisions}
    joint = outcomes({x: (s, uniform.get(x, cpd)) for x, (s, cpd) in cpds.items()}, order)
    size = {x: cpd.shape[-1] for x, (_, cpd) in cpds.items()}
    paid_by = _payers(cpds, order, decisions, [scope for scope, _ in features])
    steps = []
    for k, d in enumerate(decisions):
        family = cpds[d][0]
        after = cpds[decisions[k + 1]][0][:-1] if k + 1 < len(decisions) else ()
        assert not set(after) & set(family)
        paying = [features[i] for i in np.flatnonzero(np.array(paid_by) == k)]
        scope = tuple(dict.fromkeys([*family, *after, *(x for s, _ in paying for x in s)]))
        table = np.einsum(joint, list(range(len(order))), [order.index(x) for x in scope])
        shape = (-1, size[d])
        total = _over(scope, table, family).reshape(shape)
        if k == 0:
            start = total.sum(axis=1)
        moves = _over(scope, table, (*family, *after)).reshape(*total.shape, -1)
        paid = np.zeros((*total.shape, features[0][1].shape[-1]))
        for names, values in paying:
            paid += _over(scope, table, family, names, values).reshape(paid.shape)
        # Contexts that never come about are never asked for.
        each = np.where(total > 0, total, 1.0)[..., None]
        steps.append(Step(moves / each if after else None, paid / each, cpds[d][1].reshape(shape)))
    return start, steps


def _payers(
    cpds: Mapping[str, Table],
    order: Sequence[str],
    decisions: Sequence[str],
    scopes: Sequence[Sequence[str]],
) -> list[int]:
    """For each factor the last decision that influences it; -1 for none."""
    above: dict[str, set[str]] = {}
    for x in order:
        above[x] = {x}.union(*(above[p] for p in cpds[x][0][:-1]))
    causes = [set().union(*(above[x] for x in scope)) for scope in scopes]
    return [max((k for k, d in enumerate(decisions) if d in c), default=-1) for c in causes]


def _over(
    scope: tuple[str, ...],
    table: Array,
    keep: tuple[str, ...],
    names: tuple[str, ...] = (),
    values: Array | None = None,
) -> Array:
    """The table, times values if there are any, summed over all but `keep` (and D)."""
    label = {x: i for i, x in enumerate(scope)}
    labels, kept = list(label.values()), [label[x] for x in keep]
    if values is None:
        return np.asarray(np.einsum(table, labels, kept))
    named = [*(label[x] for x in names), len(label)]
    return np.asarray(np.einsum(table, labels, values, named, [*kept, len(label)]))


def _evidence(start: Array, steps: Sequence[Step], theta: Array) -> tuple[float, Array]:
    """Evidence of the soft policies for utility theta . features, and its gradient [D]."""
    later = np.zeros(1)
    logs: list[Array] = []
    for step in reversed(steps):
        q = step.paid @ theta
        if step.moves is not None:
            q = q + step.moves @ later
        later = logsumexp(q, axis=1)
        logs.insert(0, q - later[:, None])
    value = 0.0
    gradient = np.zeros(len(theta))
    measured, model = start, start
    for step, log in zip(steps, logs, strict=True):
        visits = measured[:, None] * step.policy
        expected = model[:, None] * np.exp(log)
        value += float((visits * (log + np.log(log.shape[1]))).sum())
        gradient += np.tensordot(visits - expected, step.paid, axes=2)
        if step.moves is not None:
            measured = np.tensordot(visits, step.moves, axes=2)
            model = np.tensordot(expected, step.moves, axes=2)
    return value, gradient
