"""`CausalBayesianNetwork`: named variables, a DAG and CPDs; validated once, then immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidModelError,
    InvalidParameterError,
)
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray
from goalmeter.causal.bif import read_bif, write_bif
from goalmeter.causal.elimination import Elimination
from goalmeter.causal.formats import NetworkParts, read_pgmpy, read_xmlbif, to_pgmpy, write_xmlbif
from goalmeter.causal.graph import (
    Ball,
    Mechanism,
    Value,
    bayes_ball,
    causes_first,
    check_domain,
    checked_parents,
    conditional,
    reached,
)
from goalmeter.tabular.arrays import Immutable

if TYPE_CHECKING:
    from goalmeter.report.diagram import Kind


class CausalBayesianNetwork(Immutable):
    """Causal Bayesian network over variables with finite, named domains.

    `domains` has the states of each variable, in display order, and `parents` the direct causes;
    roots may be omitted. A CPD is an array [*sizes of parents in order, own size] with rows that
    sum to 1 within 1e-9, or a function of the parents' values that returns a value of the variable,
    a {value: probability}, or a row of probabilities.

    Source: MEG paper (NeurIPS 2024), Definition 2.1.
    """

    def __init__(
        self,
        domains: Mapping[str, Sequence[Value]],
        parents: Mapping[str, Sequence[str]],
        cpds: Mapping[str, Mechanism],
        *,
        name: str = "",
    ) -> None:
        if not domains:
            raise InvalidModelError("the model has no variables, expected at least one")
        for variable in domains:
            if not isinstance(variable, str) or not variable.strip():
                raise InvalidModelError(f"a variable is named {variable!r}, expected a string")
        states = {x: check_domain(x, values) for x, values in domains.items()}
        causes = {x: checked_parents(x, parents.get(x, ()), domains) for x in domains}
        for x in [*parents, *cpds]:
            if x not in domains:
                where = "parents" if x in parents else "cpds"
                raise unknown_name(x, tuple(domains), f"{where}: variable", InvalidModelError)
        missing = [x for x in domains if x not in cpds]
        if missing:
            raise InvalidModelError(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no CPD, expected one "
                f"for each variable; use an InfluenceDiagram for decisions without a known policy"
            )
        self._fill(str(name), states, causes, {}, {x: cpds[x] for x in domains})

    def _fill(
        self,
        name: str,
        domains: dict[str, tuple[Value, ...]],
        parents: dict[str, tuple[str, ...]],
        known: dict[str, FloatArray],
        cpds: Mapping[str, Mechanism],
    ) -> None:
        """Set the immutable fields; `cpds` are validated, `known` ones are not."""
        order = causes_first(parents)
        validated = {
            x: conditional(x, domains[x], [(p, domains[p]) for p in parents[x]], cpd)
            for x, cpd in cpds.items()
        }
        self.__dict__.update(name=name, variables=tuple(domains), order=order)
        self.__dict__.update(_domains=domains, _parents=parents, _cpds={**known, **validated})

    _copies = "do(...) or with_mechanism(...)"
    name: str  # name of the model in tables and drawings
    variables: tuple[str, ...]
    order: tuple[str, ...]  # variables in topological order, causes before effects
    _domains: dict[str, tuple[Value, ...]]
    _parents: dict[str, tuple[str, ...]]
    _cpds: dict[str, FloatArray]

    def __repr__(self) -> str:
        arrows = len(self.edges())
        title = f"{self.name}: " if self.name else ""
        return f"CausalBayesianNetwork({title}{len(self.variables)} variables, {arrows} arrows)"

    # --- Graph ------------------------------------------------------------------------------------
    def check_names(self, names: Iterable[str], noun: str = "variable") -> tuple[str, ...]:
        """Validate names of variables and return them as a tuple."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            example = f" such as [{names!r}]" if isinstance(names, str) else ""
            raise InvalidParameterError(f"{noun}s are {names!r}, expected a list of names{example}")
        out = tuple(names)
        for x in out:
            if not isinstance(x, str) or x not in self._domains:
                raise unknown_name(x, self.variables, noun)
        return out

    def _of(self, table: Mapping[str, Any], x: str) -> Any:
        """Return the entry of a table for a variable."""
        if x not in self._domains:
            raise unknown_name(x, self.variables, "variable")
        return table[x]

    def domain(self, x: str) -> tuple[Value, ...]:
        """Return the states of a variable."""
        return tuple(self._of(self._domains, x))

    def size(self, x: str) -> int:
        """Return the number of states of a variable."""
        return len(self._of(self._domains, x))

    def index(self, x: str, value: object) -> int:
        """Return the position of a state in a variable's domain; text may stand for a number."""
        states = self.domain(x)
        value = value.item() if isinstance(value, np.generic) else value
        for i, state in enumerate(states):
            # True == 1 in Python, but they are different states.
            if state == value and isinstance(state, bool) == isinstance(value, bool):
                return i
        # Files and command lines contain only text.
        texts = [str(state) for state in states]
        if str(value) in texts:
            return texts.index(str(value))
        raise unknown_name(value, states, f"state of {x!r}:")

    def parents(self, x: str) -> tuple[str, ...]:
        """Return the direct causes of a variable in the order of its CPD's axes."""
        return tuple(self._of(self._parents, x))

    def children(self, x: str) -> tuple[str, ...]:
        """Return the direct effects of a variable."""
        return tuple(self._of(self._children, x))

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        out: dict[str, list[str]] = {x: [] for x in self.variables}
        for cause, x in self.edges():
            out[cause].append(x)
        return {x: tuple(below) for x, below in out.items()}

    def edges(self) -> list[tuple[str, str]]:
        """Return all edges as (cause, effect)."""
        return [(parent, x) for x in self.variables for parent in self._parents[x]]

    def ancestors(self, *xs: str) -> frozenset[str]:
        """Return all variables that influence any of the given ones."""
        return reached(self.check_names(xs), self._parents)

    def descendants(self, *xs: str) -> frozenset[str]:
        """Return all variables that any of the given ones influences."""
        return reached(self.check_names(xs), self._children)

    def ball(self, targets: Iterable[str], given: Iterable[str]) -> Ball:
        """Return the variables that are relevant to a query P(targets | given)."""
        return bayes_ball(self._parents, self._children, targets, given)

    def is_d_separated(
        self, xs: Iterable[str], ys: Iterable[str], given: Iterable[str] = ()
    ) -> bool:
        """Return whether the graph implies that xs and ys are independent given others."""
        # Source: Pearl, Causality (2009), section 1.2.3. Given variables never count as connected.
        known = frozenset(self.check_names(given))
        left = frozenset(self.check_names(xs)) - known
        right = frozenset(self.check_names(ys)) - known
        return not self.ball(left, known).connected & right

    def svg(
        self,
        *,
        decisions: Iterable[str] = (),
        targets: Iterable[str] = (),
        observed: Iterable[str] = (),
        name: str = "diagram",
    ) -> str:
        """Draw an <svg> element: decisions square, targets with double frames, observed grey."""
        from goalmeter.report.diagram import svg_text

        framed, grey = self.check_names(targets, "target"), self.check_names(observed)
        nodes = self.nodes(decisions)
        return svg_text(nodes, self.edges(), targets=framed, observed=grey, name=name)

    def text(self, *, decisions: Iterable[str] = ()) -> str:
        """Return one line per variable: [decision] or (chance), its states, its causes."""
        from goalmeter.report.diagram import text_form

        return text_form(self.nodes(decisions), self.edges(), self._domains)

    def nodes(self, decisions: Iterable[str]) -> list[tuple[str, Kind]]:
        """Return the variables with their kinds."""
        chosen = self.check_names(decisions, "decision")
        return [(x, "decision" if x in chosen else "chance") for x in self.variables]

    def _repr_svg_(self) -> str:
        return self.svg()

    # --- Probabilities ----------------------------------------------------------------------------
    def cpd(self, x: str) -> FloatArray:
        """Return P(x | parents), [*sizes of parents, own size], read-only."""
        return np.asarray(self._of(self._cpds, x))

    def do(
        self, values: Mapping[str, object] | None = None, /, **named: object
    ) -> CausalBayesianNetwork:
        """Intervene by truncated factorisation: X loses its causes and has the value x."""
        targets = {**(values or {}), **named}
        self.check_names(targets, "do: variable")
        points = {x: np.eye(self.size(x))[self.index(x, value)] for x, value in targets.items()}
        return self._changed({x: (point, ()) for x, point in points.items()})

    def with_mechanism(
        self, x: str, cpd: Mechanism, parents: Sequence[str] | None = None
    ) -> CausalBayesianNetwork:
        """Return the network with another CPD, and optionally other parents, for one variable."""
        self.check_names([x])
        return self._changed({x: (cpd, self._parents[x] if parents is None else tuple(parents))})

    def with_mechanisms(self, cpds: Mapping[str, Mechanism]) -> CausalBayesianNetwork:
        """Return the network with other CPDs and the same parents for several variables."""
        self.check_names(cpds)
        return self._changed({x: (cpd, self._parents[x]) for x, cpd in cpds.items()})

    def _changed(self, changes: Mapping[str, tuple[Any, tuple[str, ...]]]) -> CausalBayesianNetwork:
        """Return a copy with other CPDs and parents for some variables, which are validated."""
        new = {x: checked_parents(x, causes, self._domains) for x, (_, causes) in changes.items()}
        cpds = {x: cpd for x, (cpd, _) in changes.items()}
        changed = type(self).__new__(type(self))
        changed._fill(self.name, self._domains, {**self._parents, **new}, self._cpds, cpds)
        return changed

    @cached_property
    def elimination(self) -> Elimination:
        """Variable elimination with a cache of shared products."""
        return Elimination(self.order, self._parents, self._children, self._cpds)

    def marginal(self, *xs: str, given: Mapping[str, object] | None = None) -> FloatArray:
        """Return P(xs | given states of other variables), [*sizes of xs]."""
        names = self.check_names(xs)
        evidence = {x: self.index(x, value) for x, value in (given or {}).items()}
        if not names or len({*names, *evidence}) < len(names) + len(evidence):
            raise InvalidParameterError(
                f"marginal of {listed(names) or 'nothing'} given {listed(evidence) or 'nothing'}, "
                f"expected at least one variable, each of them once"
            )
        weights = self.elimination.weights(names, evidence)
        total = float(weights.sum())
        if total <= 0.0:
            shown = ", ".join(f"{x} = {value}" for x, value in (given or {}).items())
            raise InvalidParameterError(
                f"the observation {shown} has probability 0, expected a positive probability"
            )
        return np.asarray(weights / total)

    def sample(self, n: int, rng: np.random.Generator) -> dict[str, list[Value]]:
        """Draw n independent joint outcomes; return a list of n states for each variable."""
        if not isinstance(n, int) or n < 1:
            raise InvalidParameterError(f"n is {n!r}, expected an integer of at least 1")
        drawn: dict[str, Any] = {}
        for x in self.order:
            rows = self._cpds[x][tuple(drawn[p] for p in self._parents[x])]
            edges = np.cumsum(np.broadcast_to(rows, (n, rows.shape[-1])), axis=1)
            # The last possible state has no upper edge, since rounding may put it below 1.
            edges[edges >= edges[:, -1:]] = np.inf
            drawn[x] = (rng.random((n, 1)) >= edges).sum(axis=1)
        return {x: [self._domains[x][i] for i in drawn[x]] for x in self.variables}

    @classmethod
    def of(cls, parts: NetworkParts) -> CausalBayesianNetwork:
        """Return the network of a file or another library's model."""
        domains, parents, cpds, name, source = parts
        try:
            return cls(domains, parents, cpds, name=name)
        except GoalmeterError as error:
            if source is None:
                raise
            raise InvalidFileError(f"{source}: {error}") from error

    @classmethod
    def from_bif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read a BIF file, .bif or .bif.gz; see `goalmeter.causal.bif.read_bif`."""
        return cls.of(read_bif(path))

    def to_bif(self, path: str | Path) -> None:
        """Write a BIF file."""
        write_bif(self, path)

    @classmethod
    def from_xmlbif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read an XMLBIF file; see `goalmeter.causal.formats.read_xmlbif`."""
        return cls.of(read_xmlbif(path))

    def to_xmlbif(self, path: str | Path) -> None:
        """Write an XMLBIF file."""
        write_xmlbif(self, path)

    @classmethod
    def from_pgmpy(cls, model: Any) -> CausalBayesianNetwork:
        """Return the same network from a pgmpy `DiscreteBayesianNetwork`."""
        return cls.of(read_pgmpy(model))

    def to_pgmpy(self) -> Any:
        """Return the same network as a pgmpy `DiscreteBayesianNetwork`."""
        return to_pgmpy(self)
