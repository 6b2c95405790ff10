"""Utility functions over the variables of a model: sums of factors over a few variables each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from goalmeter._errors import InvalidUtilityError
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray
from goalmeter.causal.factors import Factor
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular._validation import as_floats, read_only, shape_text

# Larger numbers overflow when they are added up.
_LARGEST = 1e300


@dataclass(frozen=True)
class Utility:
    """A utility in units of its own: the sum of its factors, [*sizes of their variables] each.

    Example: made by `utility_of` from what users write.
        >>> side = ["left", "right"]
        >>> network = CausalBayesianNetwork({"T": side}, {}, {"T": [0.5, 0.5]})
        >>> utility_of(network, {"T": {"left": 1, "right": -1}}).factors[0].values
        array([ 1., -1.])
    """

    factors: tuple[Factor, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that some factor reads, in the order of their first appearance."""
        return tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables))

    def expected(self, network: CausalBayesianNetwork) -> float:
        """E[U] in a network."""
        return sum(
            float((network.marginal(*f.variables) * f.values).sum())
            if f.variables
            else float(f.values)
            for f in self.factors
        )


def utility_of(network: CausalBayesianNetwork, utility: Any) -> Utility:
    """A utility from any of the forms that users write, checked against a network.

    Args:
        network: the model whose variables it is about.
        utility: a `Utility`; a mapping {variable: {state: number}}, or with several variables
            {(variables): array or function of their values}, its entries added up; a pair
            (variables, array or function); a mapping {"variables": [...], "values": nested
            lists in the order of the model's states}; or a list of pairs and such mappings,
            added up.

    Raises:
        InvalidUtilityError: anything else, unknown names, missing states, numbers that are not
            finite.
    """
    if isinstance(utility, Utility):
        return Utility(tuple(_factor(network, f.variables, f.values) for f in utility.factors))
    if isinstance(utility, Mapping) and utility and set(utility) != {"variables", "values"}:
        return Utility(
            tuple(
                _factor(network, x, table) if isinstance(x, tuple) else _by_state(network, x, table)
                for x, table in utility.items()
            )
        )
    single = (isinstance(utility, Mapping) and bool(utility)) or _is_pair(utility)
    parts = [utility] if single else utility
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InvalidUtilityError(
            f"the utility is {utility!r}, expected {{variable: {{state: number}}}}, a pair "
            f"(variables, array), or a list of {{'variables': [...], 'values': [...]}}"
        )
    factors = tuple(_part(network, part) for part in parts)
    if not factors:
        raise InvalidUtilityError("the utility has no factors, expected at least one")
    return Utility(factors)


def _is_pair(utility: Any) -> bool:
    if not isinstance(utility, (tuple, list)) or len(utility) != 2:
        return False
    head = utility[0]
    return isinstance(head, (tuple, list)) and all(isinstance(x, str) for x in head)


def _part(network: CausalBayesianNetwork, part: Any) -> Factor:
    if isinstance(part, Mapping):
        if set(part) != {"variables", "values"}:
            raise InvalidUtilityError(
                f"a factor of the utility has the keys {listed(map(repr, part)) or 'none'}, "
                f"expected 'variables' and 'values'"
            )
        return _factor(network, part["variables"], part["values"])
    if _is_pair(part) or isinstance(part, Factor):
        return _factor(network, part[0], part[1])
    raise InvalidUtilityError(
        f"a factor of the utility is {part!r}, expected {{'variables': [...], 'values': [...]}}"
    )


def _by_state(network: CausalBayesianNetwork, x: str, table: Any) -> Factor:
    """The factor of one variable from {state: number}."""
    _check_names(network, [x])
    if not isinstance(table, Mapping):
        return _factor(network, [x], table)
    states = network.domain(x)
    values: list[Any] = [None] * len(states)
    for state, number in table.items():
        try:
            values[network.index(x, state)] = number
        except ValueError as error:
            raise InvalidUtilityError(f"utility: {error}") from None
    missing = [state for state, number in zip(states, values, strict=True) if number is None]
    if missing:
        raise InvalidUtilityError(
            f"the utility of {x!r} leaves out {listed(missing)}, expected a number for each state"
        )
    return _factor(network, [x], values)


def _check_names(network: CausalBayesianNetwork, names: Sequence[Any]) -> tuple[str, ...]:
    for x in names:
        if x not in network.variables:
            raise unknown_name(x, network.variables, "utility: variable", InvalidUtilityError)
    if len(set(names)) < len(names):
        raise InvalidUtilityError(f"a utility factor reads {listed(names)}, expected each once")
    return tuple(names)


def _factor(network: CausalBayesianNetwork, variables: Any, values: Any) -> Factor:
    if isinstance(variables, str) or not isinstance(variables, Sequence):
        raise InvalidUtilityError(
            f"the variables of a utility factor are {variables!r}, expected a list of names"
        )
    names = _check_names(network, variables)
    shape = tuple(network.size(x) for x in names)
    if callable(values):
        values = _tabulated([network.domain(x) for x in names], values)
        # A function that returns sequences has another size; the message below says so.
        values = np.reshape(values, shape) if np.size(values) == np.prod(shape) else values
    array = as_floats(values, f"the utility over {listed(names)}", InvalidUtilityError)
    if array.shape != shape:
        raise InvalidUtilityError(
            f"the utility over {listed(names)} has shape {shape_text(array.shape)}, expected "
            f"{shape_text(shape)}: one number for each combination of states, in the order of "
            f"the model"
        )
    if np.abs(array).max(initial=0.0) > _LARGEST:
        raise InvalidUtilityError(
            f"the utility over {listed(names)} has an entry of size "
            f"{np.abs(array).max():.3g}, expected at most {_LARGEST:g}; measure it in a larger unit"
        )
    # A copy, for the same reason as a CPD's.
    return Factor(names, read_only(np.array(array)))


def _tabulated(domains: Sequence[Sequence[Any]], function: Callable[..., Any]) -> FloatArray:
    try:
        return np.array([function(*values) for values in product(*domains)], dtype=object)
    except TypeError as error:
        raise InvalidUtilityError(
            f"the utility's function cannot be called with {len(domains)} values: {error}"
        ) from None
