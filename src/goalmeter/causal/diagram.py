"""`InfluenceDiagram`: a network whose decisions and utilities are marked, with a policy put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidPolicyError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.factors import Factor
from goalmeter.causal.mechanism import Mechanism, Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.utility import Utility, utility_of

if TYPE_CHECKING:
    from goalmeter.report.diagram.routes import Kind


class InfluenceDiagram:
    """A causal influence diagram: chance, decision and utility nodes.

    Args:
        domains: the states of each chance and decision variable.
        parents: their direct causes; those of a decision are what it observes.
        cpds: of each chance variable, as in `CausalBayesianNetwork`.
        decisions: which variables are decisions.
        utilities: {name: (variables, array or function of their values)}; their sum is the
            utility function. Utility nodes have no children.
        policy: the CPD of each decision; a decision that is left out chooses uniformly.
        name: what the model is called in tables and pictures.

    Attributes:
        network: the causal Bayesian network that diagram and policy make.
        decisions: names, in the order given.
        utilities: name -> factor.
        utility: the sum of the utilities.

    Raises:
        InvalidModelError: as in `CausalBayesianNetwork`.
        InvalidPolicyError: a policy for what is not a decision.
        InvalidUtilityError: a utility of something that is not in the diagram.

    Source: MEG paper (NeurIPS 2024), Definition 2.2.

    Example: the mouse as a diagram, whose policy goes for the cheese with probability 0.8.
        >>> side = ["left", "right"]
        >>> mouse = InfluenceDiagram(
        ...     {"S": side, "D": side},
        ...     {"D": ["S"]},
        ...     {"S": [0.5, 0.5]},
        ...     decisions=["D"],
        ...     utilities={"U": (["S", "D"], lambda s, d: 1 if s == d else -1)},
        ...     policy={"D": [[0.8, 0.2], [0.2, 0.8]]},
        ... )
        >>> round(mouse.expected_utility(), 3)
        0.6
    """

    network: CausalBayesianNetwork
    decisions: tuple[str, ...]
    utilities: dict[str, Factor]

    def __init__(
        self,
        domains: Mapping[str, Sequence[Value]],
        parents: Mapping[str, Sequence[str]],
        cpds: Mapping[str, Mechanism],
        *,
        decisions: Sequence[str],
        utilities: Mapping[str, tuple[Sequence[str], Any]],
        policy: Mapping[str, Mechanism] | None = None,
        name: str = "",
    ) -> None:
        policies = dict(policy or {})
        for x in cpds:
            if x in decisions:
                raise InvalidModelError(
                    f"the decision {x!r} has a CPD among cpds, expected it in policy"
                )
        _check_policy(policies, decisions)

        # A policy that is given goes before the uniform one.
        filled = {x: _uniform(len(domains[x])) for x in decisions if x in domains}
        network = CausalBayesianNetwork(
            domains, parents, {**cpds, **{**filled, **policies}}, name=name
        )
        _fill(self, network, decisions, utilities)

    @classmethod
    def of(
        cls,
        network: CausalBayesianNetwork,
        *,
        decisions: Sequence[str],
        utilities: Mapping[str, Any],
    ) -> InfluenceDiagram:
        """A diagram from a network, whose CPDs of the decisions become the policy."""
        diagram = cls.__new__(cls)
        _fill(diagram, network, decisions, utilities)
        return diagram

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"an InfluenceDiagram is immutable, so {name!r} cannot be set; make a changed copy "
            f"with with_policy(...) or do(...)"
        )

    def __repr__(self) -> str:
        return (
            f"InfluenceDiagram({len(self.network.variables)} variables, "
            f"decisions {listed(self.decisions)}, utilities {listed(self.utilities) or 'none'})"
        )

    @property
    def utility(self) -> Utility:
        """The utility function: the sum of the utility nodes."""
        return Utility(tuple(self.utilities.values()))

    def with_policy(self, policy: Mapping[str, Mechanism]) -> InfluenceDiagram:
        """The diagram with other CPDs for some of its decisions.

        Raises:
            InvalidPolicyError: a policy for what is not a decision, or not a distribution.
        """
        _check_policy(policy, self.decisions)
        try:
            network = self.network.with_mechanisms(policy)
        except InvalidModelError as error:
            raise InvalidPolicyError(str(error)) from None
        return self.of(network, decisions=self.decisions, utilities=self.utilities)

    def with_mechanism(
        self, x: str, cpd: Mechanism, parents: Sequence[str] | None = None
    ) -> InfluenceDiagram:
        """The diagram with another CPD for one variable; see `CausalBayesianNetwork`."""
        network = self.network.with_mechanism(x, cpd, parents)
        return self.of(network, decisions=self.decisions, utilities=self.utilities)

    def do(
        self, values: Mapping[str, object] | None = None, /, **named: object
    ) -> InfluenceDiagram:
        """Set variables by intervention; a decision that is set is a decision no longer."""
        network = self.network.do({**(values or {}), **named})
        # What is set from outside is nobody's choice.
        left = [x for x in self.decisions if x not in {**(values or {}), **named}]
        return self.of(network, decisions=left, utilities=self.utilities)

    def expected_utility(self, policy: Mapping[str, Mechanism] | None = None) -> float:
        """Expected utility under the diagram's policy or another one, in units of the utilities."""
        diagram = self if policy is None else self.with_policy(policy)
        return diagram.utility.expected(diagram.network)

    def svg(self, *, targets: Sequence[str] = (), name: str = "diagram") -> str:
        """A picture as an <svg> element: decisions square, utilities diamond, chance round.

        Args:
            targets: variables to frame twice.
            name: unique on the page; the picture's ids begin with it.
        """
        from goalmeter.report.diagram.drawing import svg_text

        return svg_text(*self._graph(), targets=self.network.check_names(targets), name=name)

    def text(self) -> str:
        """A line for each node: [decision], <utility> or (chance), its states, its causes."""
        from goalmeter.report.diagram.drawing import text_form

        domains = {x: self.network.domain(x) for x in self.network.variables}
        return text_form(*self._graph(), domains)

    def _graph(self) -> tuple[list[tuple[str, Kind]], list[tuple[str, str]]]:
        """Nodes with their kinds, and arrows, utilities last."""
        nodes: list[tuple[str, Kind]] = [
            (x, "decision" if x in self.decisions else "chance") for x in self.network.variables
        ]
        nodes += [(name, "utility") for name in self.utilities]
        paid = [(x, name) for name, f in self.utilities.items() for x in f.variables]
        return nodes, [*self.network.edges(), *paid]

    def _repr_svg_(self) -> str:
        return self.svg()


def _uniform(size: int) -> Callable[..., FloatArray]:
    """A mechanism that takes no notice of what it is given."""
    return lambda *_: np.full(size, 1.0 / size)


def _fill(
    diagram: InfluenceDiagram,
    network: CausalBayesianNetwork,
    decisions: Sequence[str],
    utilities: Mapping[str, Any],
) -> None:
    names = network.check_names(decisions, "decision")
    if len(set(names)) < len(names):
        raise InvalidModelError(f"decisions are {listed(names)}, expected each one once")
    for name in utilities:
        if name in network.variables:
            raise InvalidModelError(
                f"the utility {name!r} has the name of a variable, expected another; a utility "
                f"node is not among domains and cpds, but {{{name!r}: (variables, array or "
                f"function of their values)}} in utilities"
            )
    made = {name: utility_of(network, [form]).factors[0] for name, form in utilities.items()}
    diagram.__dict__.update(network=network, decisions=names, utilities=made)


def _check_policy(policy: Mapping[str, object], decisions: Sequence[str]) -> None:
    for x in policy:
        if x not in decisions:
            raise InvalidPolicyError(
                f"policy has a CPD for {x!r}, expected decisions only: {listed(decisions)}"
            )
