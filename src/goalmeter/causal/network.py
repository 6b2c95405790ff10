"""`CausalBayesianNetwork`: named variables, a DAG, a CPD each; validated once, then immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

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
    CausalGraph,
    Mechanism,
    Value,
    causes_first,
    check_domain,
    checked_parents,
    conditional,
)


class CausalBayesianNetwork(CausalGraph):
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
        causes = {x: checked_parents(x, parents.get(x, ()), domains) for x in domains}
        put("_parents", causes)
        for x in [*parents, *cpds]:
            if x not in domains:
                where = "parents" if x in parents else "cpds"
                raise unknown_name(x, self.variables, f"{where}: variable", InvalidModelError)
        put("order", causes_first(self._parents))
        missing = [x for x in domains if x not in cpds]
        if missing:
            raise InvalidModelError(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no CPD, expected one "
                f"for each variable; a decision whose policy is not known belongs in an "
                f"InfluenceDiagram"
            )
        put("_cpds", {x: self._array(x, cpds[x]) for x in domains})

    def _array(self, x: str, cpd: Mechanism) -> FloatArray:
        causes = [(p, self._domains[p]) for p in self._parents[x]]
        return conditional(x, self._domains[x], causes, cpd)

    # Set once in __init__; declared here for type checkers.
    name: str
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

    def cpd(self, x: str) -> FloatArray:
        """P(x | parents), [*sizes of parents, own size], read-only."""
        return self._cpds[self._known(x)]

    def do(
        self, values: Mapping[str, object] | None = None, /, **named: object
    ) -> CausalBayesianNetwork:
        """Intervene by truncated factorisation: X has no causes any more and is x for certain.

        Args:
            values: the state of each variable to set; or
            named: the same as keywords.

        Source: MEG paper (NeurIPS 2024), Definition 2.1 (truncated factorisation).
        """
        wanted = {**(values or {}), **named}
        self.check_names(wanted, "do: variable")
        points = {x: np.eye(self.size(x))[self.index(x, value)] for x, value in wanted.items()}
        return self._changed({x: (point, ()) for x, point in points.items()})

    def with_mechanism(
        self, x: str, cpd: Mechanism, parents: Sequence[str] | None = None
    ) -> CausalBayesianNetwork:
        """The network with another CPD for one variable, and other parents if they are given."""
        causes = self._parents[self._known(x)] if parents is None else tuple(parents)
        return self._changed({x: (cpd, causes)})

    def with_mechanisms(self, cpds: Mapping[str, Mechanism]) -> CausalBayesianNetwork:
        """Return the network with other CPDs for several variables, parents as they are."""
        self.check_names(cpds)
        return self._changed({x: (cpd, self._parents[x]) for x, cpd in cpds.items()})

    def _changed(self, changes: Mapping[str, tuple[Any, tuple[str, ...]]]) -> CausalBayesianNetwork:
        """Return a copy with other CPDs and parents for some variables; only these are checked."""
        changed = type(self).__new__(type(self))
        put = changed.__dict__.__setitem__
        put("name", self.name)
        put("variables", self.variables)
        put("_domains", self._domains)
        put("_parents", dict(self._parents))
        for x, (_, causes) in changes.items():
            changed._parents[x] = checked_parents(x, causes, self._domains)
        same = changed._parents == self._parents
        put("order", self.order if same else causes_first(changed._parents))
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

    @classmethod
    def of(cls, parts: NetworkParts) -> CausalBayesianNetwork:
        """Return the network that a file or another library's model describes.

        Raises:
            InvalidFileError: the parts came from a file and do not make a network.
            InvalidModelError: the same of parts that came from elsewhere.
        """
        domains, parents, cpds, name, source = parts
        try:
            return cls(domains, parents, cpds, name=name)
        except GoalmeterError as error:
            if source is None:
                raise
            raise InvalidFileError(f"{source}: {error}") from error

    @classmethod
    def from_bif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read a BIF file, .bif or .bif.gz (format, errors: `goalmeter.causal.bif.read_bif`)."""
        return cls.of(read_bif(path))

    def to_bif(self, path: str | Path) -> None:
        """Write a BIF file."""
        write_bif(self, path)

    @classmethod
    def from_xmlbif(cls, path: str | Path) -> CausalBayesianNetwork:
        """Read an XMLBIF file (format, errors: `goalmeter.causal.formats.read_xmlbif`)."""
        return cls.of(read_xmlbif(path))

    def to_xmlbif(self, path: str | Path) -> None:
        """Write an XMLBIF file."""
        write_xmlbif(self, path)

    @classmethod
    def from_pgmpy(cls, model: Any) -> CausalBayesianNetwork:
        """Return the same network from a pgmpy `DiscreteBayesianNetwork`."""
        return cls.of(read_pgmpy(model))

    def to_pgmpy(self) -> Any:
        """Return the same network as a pgmpy `DiscreteBayesianNetwork`.

        Raises:
            MissingExtraError: pgmpy is not installed.
        """
        return to_pgmpy(self)
