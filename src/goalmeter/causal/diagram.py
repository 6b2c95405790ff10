"""Influence diagrams, utilities over their variables, and MDPs unrolled into diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import (
    InvalidModelError,
    InvalidParameterError,
    InvalidPolicyError,
    InvalidUtilityError,
)
from goalmeter._names import listed, unknown_name
from goalmeter._types import ArrayLike
from goalmeter.causal.elimination import Factor
from goalmeter.causal.graph import Mechanism, Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular.arrays import Immutable, as_floats, read_only, shape_text
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy, rewards_of, uniform_policy

if TYPE_CHECKING:
    from goalmeter.report.diagram import Kind


# --- Utility --------------------------------------------------------------------------------------
_LARGEST = 1e300  # sums of larger numbers overflow


@dataclass(frozen=True)
class Utility:
    """Utility in its own units: the sum of its factors, each [*sizes of its variables]."""

    factors: tuple[Factor, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables of all factors in the order of first appearance."""
        return tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables))

    def expected(self, network: CausalBayesianNetwork) -> float:
        """Return E[U] in a network."""
        return sum(
            float((network.marginal(*f.variables) * f.values).sum())
            if f.variables
            else float(f.values)
            for f in self.factors
        )


def utility_of(network: CausalBayesianNetwork, utility: Any) -> Utility:
    """Convert a utility in any supported form, and validate it for a network.

    The forms are: a `Utility`; a mapping {variable: {state: number}} or {(variables): array or
    function of their values}, whose entries are added; a pair (variables, array or function); a
    mapping {"variables": [...], "values": nested lists in the order of the model's states}; and a
    list of such pairs and mappings, which are added.
    """
    factors = tuple(_factor(network, *pair) for pair in _pairs(utility))
    if not factors:
        raise InvalidUtilityError("the utility has no factors, expected at least one")
    return Utility(factors)


def _pairs(utility: Any) -> list[tuple[Any, Any]]:
    """Return the variables and the values of each factor in the given form."""
    if isinstance(utility, Utility):
        return list(utility.factors)
    if isinstance(utility, Mapping) and set(utility) != {"variables", "values"}:
        return [(x if isinstance(x, tuple) else [x], table) for x, table in utility.items()]
    if isinstance(utility, Mapping) or _is_pair(utility):
        utility = [utility]
    if isinstance(utility, str) or not isinstance(utility, Iterable):
        raise InvalidUtilityError(
            f"the utility is {utility!r}, expected {{variable: {{state: number}}}}, a pair "
            f"(variables, array), or a list of {{'variables': [...], 'values': [...]}}"
        )
    out = []
    for part in utility:
        if isinstance(part, Mapping) and set(part) == {"variables", "values"}:
            out.append((part["variables"], part["values"]))
        elif _is_pair(part) or isinstance(part, Factor):
            out.append((part[0], part[1]))
        else:
            raise InvalidUtilityError(
                f"a factor of the utility is {part!r}, expected {{'variables': [...], 'values': "
                f"[...]}}"
            )
    return out


def _is_pair(utility: Any) -> bool:
    if not isinstance(utility, (tuple, list)) or len(utility) != 2:
        return False
    head = utility[0]
    return isinstance(head, (tuple, list)) and all(isinstance(x, str) for x in head)


def _factor(network: CausalBayesianNetwork, variables: Any, values: Any) -> Factor:
    """Validate a factor; values are an array, a function, or {state: number} of one variable."""
    if isinstance(variables, str) or not isinstance(variables, Sequence):
        raise InvalidUtilityError(
            f"the variables of a utility factor are {variables!r}, expected a list of names"
        )
    names = tuple(variables)
    for x in names:
        if x not in network.variables:
            raise unknown_name(x, network.variables, "utility: variable", InvalidUtilityError)
    if len(set(names)) < len(names):
        raise InvalidUtilityError(f"a utility factor reads {listed(names)}, expected each once")
    shape = tuple(network.size(x) for x in names)
    domains = [network.domain(x) for x in names]
    if isinstance(values, Mapping) and len(names) == 1:
        try:
            given = {network.index(names[0], state): number for state, number in values.items()}
        except ValueError as error:
            raise InvalidUtilityError(f"utility: {error}") from None
        missing = [state for i, state in enumerate(domains[0]) if i not in given]
        if missing:
            raise InvalidUtilityError(
                f"the utility of {names[0]!r} lacks {listed(missing)}, expected a number for each "
                f"state"
            )
        values = [given[i] for i in range(shape[0])]
    elif callable(values):
        try:
            values = np.array([values(*states) for states in product(*domains)], dtype=object)
        except TypeError as error:
            raise InvalidUtilityError(
                f"the utility's function cannot be called with {len(names)} values: {error}"
            ) from None
        # A function that returns sequences has another size, which is refused below.
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
            f"{np.abs(array).max():.3g}, expected at most {_LARGEST:g}; use a larger unit"
        )
    # Copy the array, so that later changes by the caller have no effect.
    return Factor(names, read_only(np.array(array)))


# --- Diagram --------------------------------------------------------------------------------------
class InfluenceDiagram(Immutable):
    """Causal influence diagram with chance, decision and utility nodes.

    Domains, parents and CPDs are those of `CausalBayesianNetwork` for chance variables and
    decisions. The parents of a decision are its observations; its CPD is in `policy`, by default
    uniform. `utilities` is {name: (variables, array or function of their values)}; their sum is the
    utility function. Utility nodes have no children.

    Source: MEG paper (NeurIPS 2024), Definition 2.2.
    """

    _copies = "with_policy(...) or do(...)"
    network: CausalBayesianNetwork  # network of the diagram with its policy
    decisions: tuple[str, ...]  # names in the given order
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
                    f"the decision {x!r} has a CPD in cpds, expected it in policy"
                )
        _check_policy(policies, decisions)
        for x in decisions:
            if x in domains:
                uniform = np.full(len(domains[x]), 1.0 / len(domains[x]))
                policies.setdefault(x, lambda *_, row=uniform: row)
        network = CausalBayesianNetwork(domains, parents, {**cpds, **policies}, name=name)
        self._fill(network, decisions, utilities)

    @classmethod
    def of(
        cls,
        network: CausalBayesianNetwork,
        *,
        decisions: Sequence[str],
        utilities: Mapping[str, Any] | Utility,
    ) -> InfluenceDiagram:
        """Return a diagram from a network, whose CPDs of the decisions become the policy.

        The factors of a `Utility` without names are called U, or U1, U2 and so on.
        """
        if isinstance(utilities, Utility):
            factors, named = utilities.factors, dict[str, Any]()
            for number, factor in enumerate(factors, start=1):
                name = "U" if len(factors) == 1 else f"U{number}"
                # A variable of the model may have that name already.
                while name in network.variables:
                    name += "′"
                named[name] = factor
            utilities = named
        diagram = cls.__new__(cls)
        diagram._fill(network, decisions, utilities)
        return diagram

    def _fill(
        self, network: CausalBayesianNetwork, decisions: Sequence[str], utilities: Mapping[str, Any]
    ) -> None:
        names = network.check_names(decisions, "decision")
        if len(set(names)) < len(names):
            raise InvalidModelError(f"decisions are {listed(names)}, expected each one once")
        for name in utilities:
            if name in network.variables:
                raise InvalidModelError(
                    f"the utility {name!r} has the name of a variable, expected another one; "
                    f"utility nodes belong in utilities, as {{{name!r}: (variables, array or "
                    f"function of their values)}}, not in domains and cpds"
                )
        factors = {name: utility_of(network, [form]).factors[0] for name, form in utilities.items()}
        self.__dict__.update(network=network, decisions=names, utilities=factors)

    def __repr__(self) -> str:
        return (
            f"InfluenceDiagram({len(self.network.variables)} variables, "
            f"decisions {listed(self.decisions)}, utilities {listed(self.utilities) or 'none'})"
        )

    @property
    def utility(self) -> Utility:
        """Utility function, the sum of the utility nodes."""
        return Utility(tuple(self.utilities.values()))

    def with_policy(self, policy: Mapping[str, Mechanism]) -> InfluenceDiagram:
        """Return the diagram with other CPDs for some of its decisions."""
        _check_policy(policy, self.decisions)
        try:
            network = self.network.with_mechanisms(policy)
        except InvalidModelError as error:
            raise InvalidPolicyError(str(error)) from None
        return self.of(network, decisions=self.decisions, utilities=self.utilities)

    def with_mechanism(
        self, x: str, cpd: Mechanism, parents: Sequence[str] | None = None
    ) -> InfluenceDiagram:
        """Return the diagram with another CPD for one variable; see `CausalBayesianNetwork`."""
        network = self.network.with_mechanism(x, cpd, parents)
        return self.of(network, decisions=self.decisions, utilities=self.utilities)

    def do(
        self, values: Mapping[str, object] | None = None, /, **named: object
    ) -> InfluenceDiagram:
        """Set variables by intervention; decisions that are set become chance variables."""
        targets = {**(values or {}), **named}
        others = [x for x in self.decisions if x not in targets]
        return self.of(self.network.do(targets), decisions=others, utilities=self.utilities)

    def expected_utility(self, policy: Mapping[str, Mechanism] | None = None) -> float:
        """Return the expected utility under the diagram's policy or another one."""
        diagram = self if policy is None else self.with_policy(policy)
        return diagram.utility.expected(diagram.network)

    def svg(
        self, *, targets: Sequence[str] = (), observed: Iterable[str] = (), name: str = "diagram"
    ) -> str:
        """Draw an <svg> element: decisions square, utilities diamond, chance round."""
        from goalmeter.report.diagram import svg_text

        framed, grey = self.network.check_names(targets), self.network.check_names(observed)
        return svg_text(*self._graph(), targets=framed, observed=grey, name=name)

    def text(self) -> str:
        """Return one line per node: [decision], <utility> or (chance), its states, its causes."""
        from goalmeter.report.diagram import text_form

        domains = {x: self.network.domain(x) for x in self.network.variables}
        return text_form(*self._graph(), domains)

    def _graph(self) -> tuple[list[tuple[str, Kind]], list[tuple[str, str]]]:
        """Return nodes with their kinds, and edges, utilities last."""
        nodes = self.network.nodes(self.decisions)
        nodes += [(name, "utility") for name in self.utilities]
        paid = [(x, name) for name, f in self.utilities.items() for x in f.variables]
        return nodes, [*self.network.edges(), *paid]

    def _repr_svg_(self) -> str:
        return self.svg()


def _check_policy(policy: Mapping[str, object], decisions: Sequence[str]) -> None:
    for x in policy:
        if x not in decisions:
            raise InvalidPolicyError(
                f"policy has a CPD for {x!r}, expected decisions only: {listed(decisions)}"
            )


# --- Unroll ---------------------------------------------------------------------------------------
MAX_ENTRIES = 2**24  # maximum entries of the transition tables, one per step


def unroll(mdp: TabularMDP, policy: ArrayLike | None = None) -> InfluenceDiagram:
    """Return the influence diagram of an MDP with a finite horizon.

    It has variables S1, D1, S2, ..., DH, whose states are numbers from 0, and a utility node Ut for
    each decision: the reward, discounted to the first step. The policy, [S, A] or [H, S, A], is
    uniform by default.

    Source: MEG paper (NeurIPS 2024), Definition 5.1.
    """
    if mdp.horizon is None:
        raise InvalidParameterError(
            "the MDP has no horizon, expected a finite one; use mdp.replace(horizon=H)"
        )
    s, a = mdp.n_states, mdp.n_actions
    if s * a * s * mdp.horizon > MAX_ENTRIES:
        raise InvalidParameterError(
            f"{mdp.horizon} steps of {s} states and {a} actions need "
            f"{s * a * s * mdp.horizon:.3g} probabilities, expected at most {MAX_ENTRIES:.3g}; "
            f"measure the MDP itself, which gives the same result"
        )
    # Action-major, [T, A, S].
    chosen = check_policy(mdp, uniform_policy(mdp) if policy is None else policy)
    moves, rewards = mdp.transition.to_dense(), rewards_of(mdp)
    domains: dict[str, Any] = {}
    parents: dict[str, list[str]] = {}
    cpds: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    utilities: dict[str, Any] = {}
    for t in range(mdp.horizon):
        state, decision = f"S{t + 1}", f"D{t + 1}"
        domains |= {state: range(s), decision: range(a)}
        parents[state] = [f"S{t}", f"D{t}"] if t else []
        parents[decision] = [state]
        cpds[state] = moves if t else mdp.initial
        # A stationary policy has one step.
        policies[decision] = chosen[min(t, len(chosen) - 1)].T
        paid = mdp.discount**t * rewards.at(t, slice(None))[..., 0]
        on_actions = len(paid) > 1
        utilities[f"U{t + 1}"] = ([state, decision], paid.T) if on_actions else ([state], paid[0])
    return InfluenceDiagram(
        domains, parents, cpds, decisions=list(policies), utilities=utilities, policy=policies
    )
