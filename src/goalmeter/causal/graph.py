"""Causal graphs and conditional probability distributions; d-separation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidModelError, InvalidParameterError
from goalmeter._names import listed, unknown_name
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.arrays import as_floats, check_finite, normalised_rows, read_only, shape_text

if TYPE_CHECKING:
    from goalmeter.report.diagram import Kind


# --- Separation -----------------------------------------------------------------------------------
# The Bayes ball: it starts at the targets, bounces through the graph as the given variables let
# it, and marks what it meets. Variables that it leaves at the bottom are d-connected with the
# targets; variables that it leaves at the top have CPDs that the conditional distribution depends
# on.
#
# Source: Shachter, Bayes-Ball: The Rational Pastime (UAI 1998), section 3.


class Ball(NamedTuple):
    """What a query P(targets | given) is about."""

    # Variables that are d-connected with some target, the targets included and the given ones left
    # out.
    connected: frozenset[str]
    requisite: frozenset[str]  # variables whose CPDs the query may depend on


def bayes_ball(
    parents: Mapping[str, Sequence[str]],
    children: Mapping[str, Sequence[str]],
    targets: Iterable[str],
    given: Iterable[str],
) -> Ball:
    """Bounce the ball from the targets; cost O(variables + edges)."""
    observed = frozenset(given)
    top: set[str] = set()
    bottom: set[str] = set()
    # (variable, whether the ball comes from a child)
    visits = [(target, True) for target in targets]
    while visits:
        x, from_child = visits.pop()
        # From a child the ball passes up unless x is known; from a parent it is reflected up only
        # if x is known, because a known effect makes its causes dependent.
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
# Entries of one CPD: half a gigabyte of doubles.
MAX_ENTRIES = 2**26


def conditional(
    name: str,
    domain: Sequence[Value],
    parents: Sequence[tuple[str, Sequence[Value]]],
    cpd: Mechanism,
) -> FloatArray:
    """Return the CPD of a variable, [*sizes of parents, own size], read-only.

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

    def error(row: int, problem: str) -> InvalidModelError:
        places = np.unravel_index(row, shape[:-1]) if parents else ()
        values = [states[int(i)] for (_, states), i in zip(parents, places, strict=True)]
        return InvalidModelError(f"the CPD of {name!r}{_context(parents, values)} {problem}")

    check_rows(array.reshape(-1, shape[-1]), SUM_TOLERANCE, error)
    # A copy: what the caller does to the array later is of no account here.
    return read_only(normalised_rows(np.array(array)))


def _tabulated(
    name: str,
    domain: Sequence[Value],
    parents: Sequence[tuple[str, Sequence[Value]]],
    function: Callable[..., Any],
    shape: tuple[int, ...],
) -> FloatArray:
    """Return the rows that a function gives for all values of the parents."""
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


def check_rows(
    rows: FloatArray, tolerance: float, error: Callable[[int, str], GoalmeterError]
) -> None:
    """Refuse rows, [n, states], that are not distributions.

    `error` makes the error for a row: of its number, and what is wrong with it.
    """
    sums = rows.sum(axis=1)
    for bad, values, problem in (
        ((rows < 0).any(axis=1), rows.min(axis=1), "has the negative probability"),
        # Written so that a sum that is not a number is refused too.
        (~(np.abs(sums - 1.0) <= tolerance), sums, "sums to"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            raise error(
                first,
                f"{problem} {values[first]:.10g}, expected probabilities that sum to 1 (tolerance "
                f"{tolerance:g}); divide each row by its sum if it holds counts or rounded numbers",
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


# --- Graph ----------------------------------------------------------------------------------------
class CausalGraph:
    """The directed acyclic graph of a causal model: everything that does not need probabilities.

    A model fills in the attributes once; afterwards nothing changes them.

    Attributes:
        variables: names, in the order given.
        order: names, causes before effects.
    """

    variables: tuple[str, ...]
    order: tuple[str, ...]
    _domains: dict[str, tuple[Value, ...]]
    _parents: dict[str, tuple[str, ...]]

    def check_names(self, names: Iterable[str], noun: str = "variable") -> tuple[str, ...]:
        """Return the names as a tuple."""
        if isinstance(names, str):
            raise InvalidParameterError(
                f"{noun}s are {names!r}, expected a list of names such as [{names!r}]"
            )
        if not isinstance(names, Iterable):
            raise InvalidParameterError(f"{noun}s are {names!r}, expected a list of names")
        out = tuple(names)
        for x in out:
            if not isinstance(x, str):
                raise InvalidParameterError(f"{noun} {x!r} is {type(x).__name__}, expected a name")
            if x not in self._domains:
                raise unknown_name(x, self.variables, noun)
        return out

    def _known(self, x: str) -> str:
        if x not in self._domains:
            raise unknown_name(x, self.variables, "variable")
        return x

    def domain(self, x: str) -> tuple[Value, ...]:
        """Return the states of a variable."""
        return self._domains[self._known(x)]

    def size(self, x: str) -> int:
        """Return how many states a variable has."""
        return len(self._domains[self._known(x)])

    def index(self, x: str, value: object) -> int:
        """Return the position of a state in a variable's domain; text may stand for a number."""
        states = self.domain(x)
        value = value.item() if isinstance(value, np.generic) else value
        for i, state in enumerate(states):
            # True == 1 in Python, but these are different states.
            if state == value and isinstance(state, bool) == isinstance(value, bool):
                return i
        # Files and command lines hold text only.
        texts = [str(state) for state in states]
        if str(value) in texts:
            return texts.index(str(value))
        raise unknown_name(value, states, f"state of {x!r}:")

    def parents(self, x: str) -> tuple[str, ...]:
        """Return the direct causes of a variable, in the order of its CPD's axes."""
        return self._parents[self._known(x)]

    def children(self, x: str) -> tuple[str, ...]:
        """Return the direct effects of a variable."""
        return self._children[self._known(x)]

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        out: dict[str, list[str]] = {x: [] for x in self.variables}
        for x in self.variables:
            for parent in self._parents[x]:
                out[parent].append(x)
        return {x: tuple(below) for x, below in out.items()}

    def edges(self) -> list[tuple[str, str]]:
        """(cause, effect) of every arrow."""
        return [(parent, x) for x in self.variables for parent in self._parents[x]]

    def ancestors(self, *xs: str) -> frozenset[str]:
        """Return everything that influences some of the variables."""
        return _reached(self.check_names(xs), self._parents)

    def descendants(self, *xs: str) -> frozenset[str]:
        """Return everything that some of the variables influence."""
        return _reached(self.check_names(xs), self._children)

    def is_d_separated(
        self, xs: Iterable[str], ys: Iterable[str], given: Iterable[str] = ()
    ) -> bool:
        """Return whether the graph implies that xs and ys are independent given a set of variables.

        Variables in `given` are known, so they never count as connected.

        Source: Pearl, Causality (2009), section 1.2.3.

        Example: the cheese does not tell where it was, unless one knows which way the mouse went.
            >>> from goalmeter.causal import CausalBayesianNetwork
            >>> mouse = CausalBayesianNetwork(
            ...     {"S": [0, 1], "D": [0, 1], "T": [0, 1]},
            ...     {"T": ["S", "D"]},
            ...     {"S": [0.5, 0.5], "D": [0.5, 0.5], "T": lambda s, d: int(s == d)},
            ... )
            >>> mouse.is_d_separated(["S"], ["D"]), mouse.is_d_separated(["S"], ["D"], ["T"])
            (True, False)
        """
        known = frozenset(self.check_names(given))
        left = frozenset(self.check_names(xs)) - known
        right = frozenset(self.check_names(ys)) - known
        ball = bayes_ball(self._parents, self._children, left, known)
        return not ball.connected & right

    def svg(
        self,
        *,
        decisions: Iterable[str] = (),
        targets: Iterable[str] = (),
        observed: Iterable[str] = (),
        name: str = "diagram",
    ) -> str:
        """A picture as an <svg> element: decisions square, chance round, targets doubly framed.

        Args:
            decisions: variables to draw as decisions.
            targets: variables to frame twice.
            observed: variables on a grey ground.
            name: unique on the page; the picture's ids begin with it.
        """
        from goalmeter.report.diagram import svg_text

        return svg_text(
            self._nodes(decisions),
            self.edges(),
            targets=self.check_names(targets, "target"),
            observed=self.check_names(observed),
            name=name,
        )

    def text(self, *, decisions: Iterable[str] = ()) -> str:
        """Return a line for each variable: [decision] or (chance), its states, its causes."""
        from goalmeter.report.diagram import text_form

        return text_form(self._nodes(decisions), self.edges(), self._domains)

    def _nodes(self, decisions: Iterable[str]) -> list[tuple[str, Kind]]:
        chosen = self.check_names(decisions, "decision")
        return [(x, "decision" if x in chosen else "chance") for x in self.variables]

    def _repr_svg_(self) -> str:
        return self.svg()


def causes_first(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the variables in an order in which causes come before effects."""
    try:
        return tuple(TopologicalSorter(parents).static_order())
    except CycleError as error:
        # graphlib lists the cycle from each variable to one that it precedes: cause to effect.
        circle = " -> ".join(error.args[1])
        raise InvalidModelError(
            f"the arrows form a cycle ({circle}), expected a directed acyclic graph; "
            f"leave one of them out, or give the later variable a copy for each time step"
        ) from None


def checked_parents(x: str, parents: Sequence[str], variables: Collection[str]) -> tuple[str, ...]:
    """Return the parents of a variable as a tuple."""
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


def _reached(starts: Iterable[str], links: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return everything that links lead to from the starts."""
    reached: set[str] = set()
    ahead = [y for x in starts for y in links[x]]
    while ahead:
        x = ahead.pop()
        if x not in reached:
            reached.add(x)
            ahead += links[x]
    return frozenset(reached)
