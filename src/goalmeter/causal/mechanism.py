"""Conditional probability distributions as users write them, checked and made into arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed, unknown_name
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    as_floats,
    check_finite,
    normalised_rows,
    read_only,
    shape_text,
)

Value = str | int | float | bool
Mechanism = ArrayLike | Callable[..., Any]

SUM_TOLERANCE = 1e-9
# Entries of one CPD: half a gigabyte of doubles.
MAX_ENTRIES = 2**26


def conditional(
    name: str,
    domain: Sequence[Value],
    parents: Sequence[tuple[str, Sequence[Value]]],
    cpd: Mechanism,
) -> FloatArray:
    """The CPD of a variable, [*sizes of parents, own size], read-only.

    Args:
        name: of the variable.
        domain: its states.
        parents: names and domains of its parents, in order.
        cpd: an array, or a function of the parents' values that returns a value of the
            variable, a {value: probability}, or a row of probabilities.
    """
    shape = (*(len(states) for _, states in parents), len(domain))
    entries = prod(shape)
    if entries > MAX_ENTRIES:
        raise InvalidModelError(
            f"the CPD of {name!r} would have {entries:.3g} entries, expected at most "
            f"{MAX_ENTRIES:.3g}; give it fewer parents, or its parents fewer states"
        )
    if callable(cpd):
        array = _tabulated(name, domain, parents, cpd, shape)
    else:
        array = as_floats(cpd, f"cpds[{name!r}]", InvalidModelError)
        if array.shape != shape:
            axes = listed([*(parent for parent, _ in parents), name])
            raise InvalidModelError(
                f"the CPD of {name!r} has shape {shape_text(array.shape)}, expected "
                f"{shape_text(shape)}: one axis for each of {axes}, its own last"
            )
    _check(name, parents, array)
    # A copy: what the caller does to the array later is of no account here.
    return read_only(normalised_rows(np.array(array)))


def _tabulated(
    name: str,
    domain: Sequence[Value],
    parents: Sequence[tuple[str, Sequence[Value]]],
    function: Callable[..., Any],
    shape: tuple[int, ...],
) -> FloatArray:
    """The rows that a function gives for all values of the parents."""
    place = {value: i for i, value in enumerate(domain)}
    out = np.zeros((int(np.prod(shape[:-1])), shape[-1]))
    for row, values in zip(out, product(*(states for _, states in parents)), strict=True):
        answer = function(*values)
        where = f"the CPD of {name!r}{_context(parents, values)}"
        if isinstance(answer, Mapping):
            for value, probability in answer.items():
                row[_place(place, value, where)] = probability
        elif isinstance(answer, (list, tuple, np.ndarray)):
            if np.shape(answer) != row.shape:
                raise InvalidModelError(
                    f"{where} returns {answer!r}, expected {len(row)} probabilities, one for "
                    f"each state ({listed(domain)})"
                )
            row[:] = answer
        else:
            row[_place(place, answer, where)] = 1.0
    check_finite(out, f"the CPD of {name!r}", InvalidModelError)
    return out.reshape(shape)


def _place(place: Mapping[Value, int], value: Any, where: str) -> int:
    # A NumPy scalar is the value it holds.
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return place[value]
    except (KeyError, TypeError):
        raise unknown_name(
            value, list(place), f"{where}: the returned state", InvalidModelError
        ) from None


def _check(name: str, parents: Sequence[tuple[str, Sequence[Value]]], array: AnyArray) -> None:
    """Refuse rows that are not distributions, naming the parents' values of the worst one."""
    sums = array.sum(axis=-1)
    for bad, worst, problem in (
        ((array < 0).any(axis=-1), array.min(axis=-1), "has the negative probability"),
        (np.abs(sums - 1.0) > SUM_TOLERANCE, sums, "sums to"),
    ):
        if bad.any():
            where = np.unravel_index(int(np.argmax(bad)), bad.shape)
            values = [states[int(i)] for (_, states), i in zip(parents, where, strict=True)]
            raise InvalidModelError(
                f"the CPD of {name!r}{_context(parents, values)} {problem} "
                f"{worst[where]:.10g}, expected probabilities that sum to 1 (tolerance "
                f"{SUM_TOLERANCE:g}); divide each row by its sum if it holds counts or rounded "
                f"numbers"
            )


def _context(parents: Sequence[tuple[str, Sequence[Value]]], values: Sequence[Value]) -> str:
    """' given A = a, B = b', or nothing for a root."""
    pairs = ", ".join(
        f"{parent} = {value}" for (parent, _), value in zip(parents, values, strict=True)
    )
    return f" given {pairs}" if pairs else ""


def check_domain(name: str, domain: Sequence[Value]) -> tuple[Value, ...]:
    """A variable's states: at least one, all different, all of a kind that can be looked up."""
    if isinstance(domain, (str, bytes)) or not hasattr(domain, "__iter__"):
        raise InvalidModelError(
            f"the domain of {name!r} is {domain!r}, expected a list of its states, such as "
            f"['yes', 'no']"
        )
    states = tuple(v.item() if isinstance(v, np.generic) else v for v in domain)
    for value in states:
        if not isinstance(value, (str, int, float, bool)) or value != value:
            raise InvalidModelError(
                f"the domain of {name!r} has the state {value!r}, expected text, numbers or "
                f"booleans"
            )
    # Files and command lines hold text only, so states must differ as text, too.
    texts = [str(value) for value in states]
    if not states or len(set(texts)) < len(states) or len(set(states)) < len(states):
        twice = next((text for text in texts if texts.count(text) > 1), None)
        problem = "no states" if not states else f"two states that read {twice or states[0]!r}"
        raise InvalidModelError(
            f"the domain of {name!r} has {problem}, expected one or more, all different in print"
        )
    return states
