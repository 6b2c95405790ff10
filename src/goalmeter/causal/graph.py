"""Parts of causal models: d-separation, domains, parents, conditional distributions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidModelError
from goalmeter._names import listed, unknown_name
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.arrays import as_floats, check_finite, normalised_rows, read_only, shape_text

# --- Separation -----------------------------------------------------------------------------------
# The Bayes ball bounces from the targets through the graph, blocked by the given variables.
# Variables left at the bottom are d-connected with the targets; the conditional distribution
# depends on the CPDs of variables left at the top.
#
# Source: Shachter, Bayes-Ball: The Rational Pastime (UAI 1998), section 3.


class Ball(NamedTuple):
    """Variables that are relevant to a query P(targets | given)."""

    connected: frozenset[str]  # targets and variables d-connected with them, without given ones
    requisite: frozenset[str]  # variables whose CPDs may affect the query


def bayes_ball(
    parents: Mapping[str, Sequence[str]],
    children: Mapping[str, Sequence[str]],
    targets: Iterable[str],
    given: Iterable[str],
) -> Ball:
    """Run the Bayes ball from the targets; cost O(variables + edges)."""
    observed = frozenset(given)
    top: set[str] = set()
    bottom: set[str] = set()
    # (variable, whether the ball comes from a child)
    visits = [(target, True) for target in targets]
    while visits:
        x, from_child = visits.pop()
        # From a child the ball passes up unless x is observed; from a parent it is reflected only
        # if x is observed, because an observed effect makes its causes dependent.
        up = x not in observed if from_child else x in observed
        if up and x not in top:
            top.add(x)
            visits += [(p, True) for p in parents[x]]
        if x not in observed and x not in bottom:
            bottom.add(x)
            visits += [(c, False) for c in children[x]]
    return Ball(frozenset(bottom), frozenset(top))


# --- Mechanism ------------------------------------------------------------------------------------
Value = str | int | float | bool
Mechanism = ArrayLike | Callable[..., Any]

SUM_TOLERANCE = 1e-9
MAX_ENTRIES = 2**26  # maximum entries of one CPD: half a gigabyte of doubles


def conditional(
    name: str,
    domain: Sequence[Value],
    parents: Sequence[tuple[str, Sequence[Value]]],
    cpd: Mechanism,
) -> FloatArray:
    """Return the CPD of a variable, [*sizes of parents, own size]; parents come with domains."""
    shape = (*(len(states) for _, states in parents), len(domain))
    entries = prod(shape)
    if entries > MAX_ENTRIES:
        raise InvalidModelError(
            f"the CPD of {name!r} would have {entries:.3g} entries, expected at most "
            f"{MAX_ENTRIES:.3g}; use fewer parents, or parents with fewer states"
        )

    def where(values: Iterable[Value]) -> str:
        """Return the name of the CPD and the parents' values for a message."""
        pairs = zip(parents, values, strict=False)
        given = ", ".join(f"{parent} = {value}" for (parent, _), value in pairs)
        return f"the CPD of {name!r}{f' given {given}' if given else ''}"

    def error(row: int, problem: str) -> InvalidModelError:
        places = np.unravel_index(row, shape[:-1]) if parents else ()
        values = [states[int(i)] for (_, states), i in zip(parents, places, strict=True)]
        return InvalidModelError(f"{where(values)} {problem}")

    if callable(cpd):
        array = np.zeros(shape)
        contexts = product(*(states for _, states in parents))
        for row, values in zip(array.reshape(-1, len(domain)), contexts, strict=True):
            _fill(row, domain, cpd(*values), where(values))
        check_finite(array, where(()), InvalidModelError)
    else:
        array = as_floats(cpd, f"cpds[{name!r}]", InvalidModelError)
        if array.shape != shape:
            axes = listed([*(parent for parent, _ in parents), name])
            raise InvalidModelError(
                f"the CPD of {name!r} has shape {shape_text(array.shape)}, expected "
                f"{shape_text(shape)}: one axis for each of {axes}, its own last"
            )
    check_rows(array.reshape(-1, len(domain)), SUM_TOLERANCE, error)
    # Copy the array, so that later changes by the caller have no effect.
    return read_only(normalised_rows(np.array(array)))


def _fill(row: FloatArray, domain: Sequence[Value], answer: Any, where: str) -> None:
    """Fill a row with a state, a {state: probability} or probabilities that a function returns."""
    if isinstance(answer, (list, tuple, np.ndarray)):
        if np.shape(answer) != row.shape:
            raise InvalidModelError(
                f"{where} returns {answer!r}, expected {len(row)} probabilities, one for "
                f"each state ({listed(domain)})"
            )
        row[:] = answer
        return
    place = {value: i for i, value in enumerate(domain)}
    for state, probability in (answer if isinstance(answer, Mapping) else {answer: 1.0}).items():
        # Convert NumPy scalars to Python values.
        value = state.item() if isinstance(state, np.generic) else state
        if value not in place:
            raise unknown_name(value, domain, f"{where}: the returned state", InvalidModelError)
        row[place[value]] = probability


def check_rows(
    rows: FloatArray, tolerance: float, error: Callable[[int, str], GoalmeterError]
) -> None:
    """Require that rows, [n, states], are distributions; raise `error` of the first that is not."""
    sums = rows.sum(axis=1)
    for bad, values, problem in (
        ((rows < 0).any(axis=1), rows.min(axis=1), "has the negative probability"),
        # This form also refuses NaN.
        (~(np.abs(sums - 1.0) <= tolerance), sums, "sums to"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            raise error(
                first,
                f"{problem} {values[first]:.10g}, expected probabilities that sum to 1 (tolerance "
                f"{tolerance:g}); divide each row by its sum if it has counts or rounded numbers",
            )


def check_domain(name: str, domain: Sequence[Value]) -> tuple[Value, ...]:
    """Validate and return a variable's states: at least one, all different, all hashable."""
    if isinstance(domain, (str, bytes)) or not hasattr(domain, "__iter__"):
        raise InvalidModelError(
            f"the domain of {name!r} is {domain!r}, expected a list of its states, such as "
            f"['yes', 'no']"
        )
    states = tuple(v.item() if isinstance(v, np.generic) else v for v in domain)
    for value in states:
        if not isinstance(value, (str, int, float, bool)) or value != value:
            raise InvalidModelError(
                f"the domain of {name!r} has the state {value!r}, expected strings, numbers or "
                f"booleans"
            )
    # Files and command lines contain only text, so states must also differ as text.
    texts = [str(value) for value in states]
    if not states or len(set(texts)) < len(states) or len(set(states)) < len(states):
        twice = next((text for text in texts if texts.count(text) > 1), None)
        problem = "no states" if not states else f"two states with the text {twice or states[0]!r}"
        raise InvalidModelError(
            f"the domain of {name!r} has {problem}, expected one or more with different texts"
        )
    return states


def causes_first(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the variables in topological order, causes before effects."""
    try:
        return tuple(TopologicalSorter(parents).static_order())
    except CycleError as error:
        # graphlib lists the cycle from each variable to one that it precedes: cause to effect.
        cycle = " -> ".join(error.args[1])
        raise InvalidModelError(
            f"the edges form a cycle ({cycle}), expected a directed acyclic graph; remove one of "
            f"them, or use one copy of the later variable for each time step"
        ) from None


def checked_parents(x: str, parents: Sequence[str], variables: Collection[str]) -> tuple[str, ...]:
    """Validate the parents of a variable and return them as a tuple."""
    if isinstance(parents, str):
        raise InvalidModelError(
            f"the parents of {x!r} are {parents!r}, expected a list of names such as [{parents!r}]"
        )
    names = tuple(parents)
    for parent in names:
        if parent not in variables:
            raise unknown_name(
                parent, tuple(variables), f"parents of {x!r}: the variable", InvalidModelError
            )
    if len(set(names)) < len(names):
        raise InvalidModelError(f"the parents of {x!r} are {names}, expected each one once")
    return names


def reached(starts: Iterable[str], links: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return all nodes that are reachable from the starts by at least one link."""
    found: set[str] = set()
    pending = [y for x in starts for y in links[x]]
    while pending:
        x = pending.pop()
        if x not in found:
            found.add(x)
            pending += links[x]
    return frozenset(found)
