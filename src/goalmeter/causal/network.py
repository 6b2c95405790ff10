"""`CausalBayesianNetwork`: named variables, a DAG, a CPD each; validated once, then immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray
from goalmeter.causal.elimination import Elimination
from goalmeter.causal.mechanism import Mechanism, Value, check_domain, conditional
from goalmeter.causal.separation import bayes_ball

if TYPE_CHECKING:
    from goalmeter.report.diagram.routes import Kind


class CausalBayesianNetwork:
    """A causal Bayesian network over variables with finite, named domains.

    Args:
        domains: the states of each variable; variables are shown in this order.
        parents: the direct causes of each variable; roots may be left out.
        cpds: of each variable an array [*sizes of its parents in order, own size] with rows
            that sum to 1 within 1e-9, or a function of the parents' values (in order) that
            returns a value of the variable, a {value: probability}, or a row of probabilities.
        name: what the model is called in tables and pictures.

    Attributes:
        variables: names, in the order given.
        order: names, causes before effects.

    Raises:
        InvalidModelError: a cycle, an unknown parent, a missing CPD, a CPD of the wrong shape,
            or one that is not a distribution; the message names the parents' values.

    Source: MEG paper (NeurIPS 2024), Definition 2.1.

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
        >>> side = ["left", "right"]
        >>> mouse = CausalBayesianNetwork(
        ...     {"S": side, "D": side, "T": ["cheese", "none"]},
        ...     {"D": ["S"], "T": ["S", "D"]},
        ...     {
        ...         "S": [0.5, 0.5],
        ...         "D": [[0.8, 0.2], [0.2, 0.8]],
        ...         "T": lambda s, d: "cheese" if s == d else "none",
        ...     },
        ... )
        >>> mouse.marginal("T").round(2)
        array([0.8, 0.2])
        >>> mouse.do(D="left").marginal("S", "T").tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """

    def __init__(
        self,
        domains: Mapping[str, Sequence[Value]],
        parents: Mapping[str, Sequence[str]],
        cpds: Mapping[str, Mechanism],
        *,
        name: str = "",
    ) -> None:
        put = self.__dict__.__setitem__
        if not domains:
            raise InvalidModelError("the model has no variables, expected at least one")
        for variable in domains:
            if not isinstance(variable, str) or not variable.strip():
                raise InvalidModelError(f"a variable is named {variable!r}, expected a text")
        put("name", str(name))
        put("variables", tuple(domains))
        put("_domains", {x: check_domain(x, states) for x, states in domains.items()})
        put("_parents", {x: self._checked_parents(x, parents.get(x, ())) for x in domains})
        for x in [*parents, *cpds]:
            if x not in domains:
                where = "parents" if x in parents else "cpds"
                raise unknown_name(x, self.variables, f"{where}: variable", InvalidModelError)
        try:
            put("order", tuple(TopologicalSorter(self._parents).static_order()))
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise InvalidModelError(
                f"the arrows form a cycle ({circle}), expected a directed acyclic graph; "
                f"leave one of them out, or give the later variable a copy for each time step"
            ) from None
        missing = [x for x in domains if x not in cpds]
        if missing:
            raise InvalidModelError(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no CPD, expected one "
                f"for each variable; a decision whose policy is not known belongs in an "
                f"InfluenceDiagram"
            )
        put("_cpds", {x: self._array(x, cpds[x]) for x in domains})

    def _topological(self) -> tuple[str, ...]:
        """The variables, causes first; an error if they form a cycle."""
        try:
            return tuple(TopologicalSorter(self._parents).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise InvalidModelError(
                f"the arrows form a cycle ({circle}), expected a directed acyclic graph; "
                f"leave one of them out, or give the later variable a copy for each time step"
            ) from None

    def _checked_parents(self, x: str, given: Sequence[str]) -> tuple[str, ...]:
        if isinstance(given, str):
            raise InvalidModelError(
                f"the parents of {x!r} are {given!r}, expected a list of names such as [{given!r}]"
            )
        names = tuple(given)
        for parent in names:
            if parent not in self._domains:
                what = f"parents of {x!r}: the variable"
                raise unknown_name(parent, self.variables, what, InvalidModelError)
        if len(set(names)) < len(names):
            raise InvalidModelError(f"the parents of {x!r} are {names}, expected each one once")
        return names

    def _array(self, x: str, given: Mechanism) -> FloatArray:
        return conditional(
            x, self._domains[x], [(p, self._domains[p]) for p in self._parents[x]], given
        )

    # Set once in __init__; declared here for type checkers.
    name: str
    variables: tuple[str, ...]
    order: tuple[str, ...]
    _domains: dict[str, tuple[Value, ...]]
    _parents: dict[str, tuple[str, ...]]
    _cpds: dict[str, FloatArray]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"a CausalBayesianNetwork is immutable, so {name!r} cannot be set; make a changed "
            f"copy with do(...) or with_mechanism(...)"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CausalBayesianNetwork is not pickled; write it with to_bif(path)")

    def __repr__(self) -> str:
        arrows = len(self.edges())
        title = f"{self.name}: " if self.name else ""
        return f"CausalBayesianNetwork({title}{len(self.variables)} variables, {arrows} arrows)"

    def check_names(self, names: Iterable[str], what: str = "variable") -> tuple[str, ...]:
        """The names as a tuple.

        Raises:
            InvalidParameterError: one that is not in the model, or a text instead of a list.
        """
        if isinstance(names, str):
            raise InvalidParameterError(
                f"{what}s are {names!r}, expected a list of names such as [{names!r}]"
            )
        if not isinstance(names, Iterable):
            raise InvalidParameterError(f"{what}s are {names!r}, expected a list of names")
        out = tuple(names)
        for x in out:
            if not isinstance(x, str):
                raise InvalidParameterError(f"{what} {x!r} is {type(x).__name__}, expected a name")
            if x not in self._domains:
                raise unknown_name(x, self.variables, what)
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
        """The position of a state in a variable's domain; text may stand for a number.

        Raises:
            InvalidParameterError: the variable has no such state.
        """
        states = self.domain(x)
        value = value.item() if isinstance(value, np.generic) else value
        for i, state in enumerate(states):
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

    def cpd(self, x: str) -> FloatArray:
        """P(x | parents), [*sizes of parents, own size], read-only."""
        return self._cpds[self._known(x)]

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

    def do(
        self, values: Mapping[str, object] | None = None, /, **named: object
    ) -> CausalBayesianNetwork:
        """Intervene by truncated factorisation: X has no causes any more and is x for certain.

        Args:
            values: the state of each variable to set; or
            named: the same as keywords.

        Raises:
            InvalidParameterError: an unknown variable or state.

        Source: MEG paper (NeurIPS 2024), Definition 2.1 (truncated factorisation).
        """
        wanted = {**(values or {}), **named}
        self.check_names(wanted, "do: variable")
        points = {x: np.eye(self.size(x))[self.index(x, value)] for x, value in wanted.items()}
        return self._changed({x: (point, ()) for x, point in points.items()})

    def with_mechanism(
        self, x: str, cpd: Mechanism, parents: Sequence[str] | None = None
    ) -> CausalBayesianNetwork:
        """The network with another CPD for one variable, and other parents if they are given.

        Raises:
            InvalidModelError: the CPD does not fit, or the new arrows form a cycle.
        """
        causes = self._parents[self._known(x)] if parents is None else tuple(parents)
        return self._changed({x: (cpd, causes)})

    def with_mechanisms(self, cpds: Mapping[str, Mechanism]) -> CausalBayesianNetwork:
        """The network with other CPDs for several variables, parents as they are."""
        self.check_names(cpds)
        return self._changed({x: (cpd, self._parents[x]) for x, cpd in cpds.items()})

    def _changed(self, changes: Mapping[str, tuple[Any, tuple[str, ...]]]) -> CausalBayesianNetwork:
        """A copy with other CPDs and parents for some variables; only these are checked."""
        changed = type(self).__new__(type(self))
        put = changed.__dict__.__setitem__
        put("name", self.name)
        put("variables", self.variables)
        put("_domains", self._domains)
        put("_parents", dict(self._parents))
        for x, (_, causes) in changes.items():
            changed._parents[x] = self._checked_parents(x, causes)
        same = changed._parents == self._parents
        put("order", self.order if same else changed._topological())
        put("_cpds", dict(self._cpds))
        for x, (cpd, _) in changes.items():
            changed._cpds[x] = changed._array(x, cpd)
        return changed

    @cached_property
    def elimination(self) -> Elimination:
        """Answers queries, and remembers what they have in common."""
        return Elimination(self.order, self._parents, self._children, self._cpds)

    def marginal(self, *xs: str, given: Mapping[str, object] | None = None) -> FloatArray:
        """P(xs | given), [*sizes of xs], by variable elimination.

        Args:
            xs: variables, each once.
            given: observed states of other variables.

        Raises:
            InvalidParameterError: an unknown name or state, a variable asked for twice or both
                asked for and given, or observations of probability 0.
            InvalidModelError: the tables needed are too large.
        """
        names = self.check_names(xs)
        evidence = {x: self.index(x, value) for x, value in (given or {}).items()}
        if not names or len({*names, *evidence}) < len(names) + len(evidence):
            raise InvalidParameterError(
                f"marginal of {listed(names) or 'nothing'} given {listed(evidence) or 'nothing'}, "
                f"expected at least one variable, and each of them once"
            )
        weights = self.elimination.weights(names, evidence)
        total = float(weights.sum())
        if total <= 0.0:
            shown = ", ".join(f"{x} = {value}" for x, value in (given or {}).items())
            raise InvalidParameterError(
                f"the observation {shown} has probability 0, expected one that can happen"
            )
        return np.asarray(weights / total)

    def sample(self, n: int, rng: np.random.Generator) -> dict[str, list[Value]]:
        """Draw n independent joint outcomes: a list of n states for each variable.

        Args:
            n: how many, at least 1.
            rng: the source of randomness.
        """
        if not isinstance(n, int) or n < 1:
            raise InvalidParameterError(f"n is {n!r}, expected a whole number of at least 1")
        drawn: dict[str, Any] = {}
        for x in self.order:
            rows = self._cpds[x][tuple(drawn[p] for p in self._parents[x])]
            edges = np.cumsum(np.broadcast_to(rows, (n, rows.shape[-1])), axis=1)
            # The last state that can happen has no upper edge: 1, up to rounding.
            edges[edges >= edges[:, -1:]] = np.inf
            drawn[x] = (rng.random((n, 1)) >= edges).sum(axis=1)
        return {x: [self._domains[x][i] for i in drawn[x]] for x in self.variables}

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
        """What a notebook shows."""
        return self.svg()

    @classmethod
    def from_bif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read a BIF file, .bif or .bif.gz (format: `goalmeter.causal.bif`)."""
        from goalmeter.causal.bif import read_bif

        return read_bif(path)

    def to_bif(self, path: str | Path) -> None:
        """Write a BIF file."""
        from goalmeter.causal.bif import write_bif

        write_bif(self, path)

    @classmethod
    def from_xmlbif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read an XMLBIF file (format: `goalmeter.causal.xmlbif`)."""
        from goalmeter.causal.xmlbif import read_xmlbif

        return read_xmlbif(path)

    def to_xmlbif(self, path: str | Path) -> None:
        """Write an XMLBIF file."""
        from goalmeter.causal.xmlbif import write_xmlbif

        write_xmlbif(self, path)

    @classmethod
    def from_pgmpy(cls, model: Any) -> CausalBayesianNetwork:
        """The same network from a pgmpy `DiscreteBayesianNetwork`."""
        from goalmeter.causal.pgmpy_models import from_pgmpy

        return from_pgmpy(model)

    def to_pgmpy(self) -> Any:
        """The same network as a pgmpy `DiscreteBayesianNetwork`."""
        from goalmeter.causal.pgmpy_models import to_pgmpy

        return to_pgmpy(self)


def _reached(starts: Iterable[str], links: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Everything that links lead to from the starts."""
    found: set[str] = set()
    ahead = [y for x in starts for y in links[x]]
    while ahead:
        x = ahead.pop()
        if x not in found:
            found.add(x)
            ahead += links[x]
    return frozenset(found)
