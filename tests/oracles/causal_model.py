"""Causal Bayesian networks and influence diagrams, one outcome at a time (Definitions 2.1 and 2.2).

A model is plain data; everything follows from the list of all joint outcomes.  States are indices.
``probability_table`` is the same joint distribution by one product of the CPDs.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Factor = tuple[tuple[str, ...], Array]  # variables, values [*their sizes]
Outcome = dict[str, int]


class Model(NamedTuple):
    """An influence diagram with a policy; without decisions and factors, a Bayesian network.

    ``cpds[x]`` is ``[*sizes of parents in their order, size of x]``; those of the decisions are the
    policy that is measured.  The utility is the sum of the factors.
    """

    sizes: dict[str, int]
    parents: dict[str, tuple[str, ...]]
    cpds: dict[str, Array]
    decisions: tuple[str, ...] = ()
    factors: tuple[Factor, ...] = ()


def with_policy(model: Model, policy: Mapping[str, Array]) -> Model:
    """The model with these decisions' CPDs replaced."""
    return model._replace(cpds={**model.cpds, **policy})


def uniform_policy(model: Model) -> dict[str, Array]:
    """Every decision uniform whatever it sees."""
    return {
        d: np.full(
            [*(model.sizes[p] for p in model.parents[d]), model.sizes[d]], 1 / model.sizes[d]
        )
        for d in model.decisions
    }


# Definition 2.1


def outcomes(model: Model) -> Iterator[Outcome]:
    """Every joint outcome of all variables."""
    for values in itertools.product(*(range(n) for n in model.sizes.values())):
        yield dict(zip(model.sizes, values, strict=True))


def conditional(model: Model, x: str, outcome: Outcome) -> float:
    """``P(x | pa_x)`` at this outcome."""
    return float(model.cpds[x][(*(outcome[p] for p in model.parents[x]), outcome[x])])


def joint(model: Model) -> Array:
    """The joint distribution, axes in the order of ``sizes``."""
    return truncated(model, {})


def truncated(model: Model, do: Mapping[str, int]) -> Array:
    """``P(v | do(X = x))``: the factors of X are left out, outcomes that contradict x have 0."""
    table = np.zeros(tuple(model.sizes.values()))
    for outcome in outcomes(model):
        if all(outcome[x] == value for x, value in do.items()):
            table[tuple(outcome.values())] = math.prod(
                conditional(model, x, outcome) for x in model.sizes if x not in do
            )
    return table


def marginal(
    model: Model, table: Array, xs: Sequence[str], known: Mapping[str, int] | None = None
) -> Array:
    """``P(xs | given)`` from a joint table, ``[*sizes of xs]``; the evidence must be possible."""
    terms: dict[tuple[int, ...], list[float]] = {}
    mass = []
    for outcome in outcomes(model):
        if all(outcome[x] == value for x, value in (known or {}).items()):
            p = float(table[tuple(outcome.values())])
            mass.append(p)
            terms.setdefault(tuple(outcome[x] for x in xs), []).append(p)
    total = math.fsum(mass)
    if total == 0.0:
        raise ValueError(f"the evidence {dict(known or {})} has probability zero")
    out = np.zeros([model.sizes[x] for x in xs])
    for index, ps in terms.items():
        out[index] = math.fsum(ps) / total
    return out


def utility_at(factors: Iterable[Factor], outcome: Outcome) -> float:
    """The utility of one outcome."""
    return math.fsum(float(values[tuple(outcome[x] for x in xs)]) for xs, values in factors)


def expected_utility(model: Model, table: Array | None = None) -> float:
    """``E[U]`` under the model's policy, or under another joint table (of an intervention)."""
    table = joint(model) if table is None else table
    return math.fsum(
        float(table[tuple(v.values())]) * utility_at(model.factors, v) for v in outcomes(model)
    )


# The same by whole arrays


def spread(model: Model, xs: Sequence[str], values: Array) -> Array:
    """An array over ``xs`` (each once) given one axis per variable of the model, for broadcasts."""
    names = list(model.sizes)
    positions = [names.index(x) for x in xs]
    moved = np.transpose(values, np.argsort(positions))
    return moved.reshape([model.sizes[x] if x in xs else 1 for x in names])


def probability_table(model: Model, leave_out: str | None = None) -> Array:
    """The joint distribution as one product; ``leave_out`` drops the factor of one variable."""
    table = np.ones(tuple(model.sizes.values()))
    for x in model.sizes:
        if x != leave_out:
            table = table * spread(model, (*model.parents[x], x), model.cpds[x])
    return table


def sum_to(model: Model, xs: Sequence[str], table: Array) -> Array:
    """A full table summed to the variables ``xs``, axes in their order."""
    names = list(model.sizes)
    kept = sorted(xs, key=names.index)
    summed = table.sum(axis=tuple(i for i, x in enumerate(names) if x not in xs))
    return np.transpose(summed, [kept.index(x) for x in xs])


def utility_table(model: Model, factors: Iterable[Factor]) -> Array:
    """The utility of every outcome."""
    table = np.zeros(tuple(model.sizes.values()))
    for xs, values in factors:
        table = table + spread(model, xs, values)
    return table


# Graphs: {variable: its parents}

Graph = Mapping[str, Sequence[str]]


def descendants(graph: Graph, x: str) -> set[str]:
    """Everything that a directed path from ``x`` leads to, without ``x``."""
    result: set[str] = set()
    frontier = [x]
    while frontier:
        y = frontier.pop()
        for child in graph:
            if y in graph[child] and child not in result:
                result.add(child)
                frontier.append(child)
    return result


def undirected_paths(graph: Graph, x: str, y: str) -> Iterator[list[str]]:
    """Every path from ``x`` to ``y``, whatever the direction of its edges, without repetition."""

    def extend(path: list[str]) -> Iterator[list[str]]:
        if path[-1] == y:
            yield path
            return
        for z in graph:
            if z not in path and (z in graph[path[-1]] or path[-1] in graph[z]):
                yield from extend([*path, z])

    yield from extend([x])


def is_blocked(graph: Graph, path: Sequence[str], known: set[str]) -> bool:
    """Does some inner node block the path: a collider that is not, and has no descendant, in
    ``given``, or any other node that is in ``given``?"""
    for before, node, after in zip(path, path[1:], path[2:], strict=False):
        if before in graph[node] and after in graph[node]:
            if node not in known and not descendants(graph, node) & known:
                return True
        elif node in known:
            return True
    return False


def d_separated(graph: Graph, xs: Iterable[str], ys: Iterable[str], known: Iterable[str]) -> bool:
    """Is every path from ``xs`` to ``ys`` blocked?  Variables that are given are constants, and
    separated from everything; a variable that is not given is not separated from itself."""
    z = set(known)
    return all(
        is_blocked(graph, path, z)
        for x in set(xs) - z
        for y in set(ys) - z
        for path in undirected_paths(graph, x, y)
    )


def relies_on(graph: Graph, d: str, e: str, groups: Sequence[Sequence[str]]) -> bool:
    """Koller and Milch's s-reachability: can ``other``'s policy matter to the best choice at ``d``?

    The graph gets one utility node per group of variables and a dummy parent of ``other``.
    """
    augmented: dict[str, Sequence[str]] = dict(graph)
    for k, group in enumerate(groups):
        augmented[f"utility {k}"] = tuple(group)
    augmented["dummy"] = ()
    augmented[e] = (*graph[e], "dummy")
    below = descendants(augmented, d)
    influenced = [f"utility {k}" for k in range(len(groups)) if f"utility {k}" in below]
    return not d_separated(augmented, ["dummy"], influenced, [d, *graph[d]])


def solving_order(
    graph: Graph, decisions: Sequence[str], groups: Sequence[Sequence[str]]
) -> list[str] | None:
    """The decisions, each after all those it relies on; None if they rely on each other in a ring.

    Among decisions that could come next the one given last is taken.
    """
    relies = {
        d: {e for e in decisions if e != d and relies_on(graph, d, e, groups)} for d in decisions
    }
    order: list[str] = []
    while len(order) < len(decisions):
        ready = [d for d in decisions if d not in order and relies[d] <= set(order)]
        if not ready:
            return None
        order.append(ready[-1])
    return order


def has_sufficient_recall(
    graph: Graph, decisions: Sequence[str], groups: Sequence[Sequence[str]]
) -> bool:
    """Is the relevance graph acyclic?  ``groups``: the variables of each utility factor."""
    return solving_order(graph, decisions, groups) is not None
