"""`CausalGraph`: named variables with finite domains, and arrows from causes to effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._names import unknown_name
from goalmeter.causal.mechanism import Value
from goalmeter.causal.separation import bayes_ball

if TYPE_CHECKING:
    from goalmeter.report.diagram.routes import Kind


class CausalGraph:
    """The directed acyclic graph of a causal model: what can be asked without its probabilities.

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
        """The names as a tuple."""
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
        """The states of a variable."""
        return self._domains[self._known(x)]

    def size(self, x: str) -> int:
        """How many states a variable has."""
        return len(self._domains[self._known(x)])

    def index(self, x: str, value: object) -> int:
        """The position of a state in a variable's domain; text may stand for a number."""
        states = self.domain(x)
        value = value.item() if isinstance(value, np.generic) else value
        for i, state in enumerate(states):
            # True == 1 to Python, but nobody who says one means the other.
            if state == value and isinstance(state, bool) == isinstance(value, bool):
                return i
        # Files and command lines hold text only.
        texts = [str(state) for state in states]
        if str(value) in texts:
            return texts.index(str(value))
        raise unknown_name(value, states, f"state of {x!r}:")

    def parents(self, x: str) -> tuple[str, ...]:
        """The direct causes of a variable, in the order of its CPD's axes."""
        return self._parents[self._known(x)]

    def children(self, x: str) -> tuple[str, ...]:
        """The direct effects of a variable."""
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
        """Everything that influences some of the variables."""
        return _reached(self.check_names(xs), self._parents)

    def descendants(self, *xs: str) -> frozenset[str]:
        """Everything that some of the variables influence."""
        return _reached(self.check_names(xs), self._children)

    def is_d_separated(
        self, xs: Iterable[str], ys: Iterable[str], given: Iterable[str] = ()
    ) -> bool:
        """Whether the graph implies that xs and ys are independent given a set of variables.

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
        from goalmeter.report.diagram.drawing import svg_text

        return svg_text(
            self._nodes(decisions),
            self.edges(),
            targets=self.check_names(targets, "target"),
            observed=self.check_names(observed),
            name=name,
        )

    def text(self, *, decisions: Iterable[str] = ()) -> str:
        """A line for each variable: [decision] or (chance), its states, its causes."""
        from goalmeter.report.diagram.drawing import text_form

        return text_form(self._nodes(decisions), self.edges(), self._domains)

    def _nodes(self, decisions: Iterable[str]) -> list[tuple[str, Kind]]:
        chosen = self.check_names(decisions, "decision")
        return [(x, "decision" if x in chosen else "chance") for x in self.variables]

    def _repr_svg_(self) -> str:
        return self.svg()


def causes_first(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The variables in an order in which causes come before effects."""
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
    """The parents of a variable as a tuple."""
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
    """Everything that links lead to from the starts."""
    reached: set[str] = set()
    ahead = [y for x in starts for y in links[x]]
    while ahead:
        x = ahead.pop()
        if x not in reached:
            reached.add(x)
            ahead += links[x]
    return frozenset(reached)
