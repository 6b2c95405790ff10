"""Sufficient recall, and influence diagrams with it as decision processes over contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.elimination import MAX_ENTRIES, Factor, sum_of_product
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.transition import Transition

# --- Recall ---------------------------------------------------------------------------------------
# A decision D relies on D' if an added parent of D' alone is not d-separated from the utility that
# D can influence, given D and its observations. If this relation has no cycle (sufficient recall),
# decisions can be planned one after the other.
#
# Source: Koller and Milch, Multi-agent influence diagrams (2003), s-reachability; Lauritzen and
# Nilsson, Representing and solving decision problems with limited information (2001). The condition
# also suffices for soft planning: see docs/notes/mathematics.md.

Kind = Literal["none", "single", "sufficient", "insufficient"]


class Recall(NamedTuple):
    """Recall of a set of decisions for a utility, from the graph."""

    # "none" if no decision influences the utility, "single" if one does, "sufficient" or
    # "insufficient" recall if several do.
    kind: Kind
    decisions: tuple[str, ...]  # decisions that influence the utility, causes first
    reliance: dict[str, tuple[str, ...]]  # decision -> other decisions on which it relies
    # Cycle of decisions that rely on each other; empty unless recall is insufficient.
    circle: tuple[str, ...]


def recall_of(
    network: CausalBayesianNetwork, decisions: Sequence[str], scopes: Sequence[Sequence[str]]
) -> Recall:
    """Determine recall from the graph; `scopes` are the variables of each utility factor."""
    below = {d: network.descendants(d) | {d} for d in decisions}
    acting = tuple(
        d
        for d in sorted(decisions, key=network.order.index)
        if any(below[d].intersection(scope) for scope in scopes)
    )
    reliance: dict[str, tuple[str, ...]] = {}
    for d in acting:
        # A factor that the decision cannot influence is constant for it.
        influenced = {x for scope in scopes if below[d].intersection(scope) for x in scope}
        # This decision relies on decisions whose policies may affect the query.
        ball = network.ball(influenced, (d, *network.parents(d)))
        reliance[d] = tuple(e for e in acting if e != d and e in ball.requisite)
    if len(acting) < 2:
        return Recall("single" if acting else "none", acting, reliance, ())
    try:
        TopologicalSorter(reliance).prepare()
    except CycleError as error:
        # graphlib repeats the first variable of the cycle at its end.
        circle = tuple(reversed(error.args[1]))[:-1]
        return Recall("insufficient", acting, reliance, circle)
    return Recall("sufficient", acting, reliance, ())


# --- Contexts -------------------------------------------------------------------------------------
# The states of the process are the contexts of the decisions, the joint values of their
# observations. With sufficient recall each decision follows at most one other, P(context of the
# next | decision, context) does not depend on policies, and each utility factor is paid by the last
# decision that influences it (docs/notes/mathematics.md). So elimination computes these once,
# and the result is an MDP in which a decision may lead to several next ones at once.

_ROUNDING = 1e-13  # differences below this share of the largest number are rounding errors
_WEIGHT = "\0weight"  # name of the axis of weights in a table of features


@dataclass(frozen=True)
class DecisionNode:
    """Decision of the process."""

    name: str  # name of the variable
    observed: tuple[str, ...]  # its parents in the order of its CPD
    states: slice  # states of the process that are its contexts, in the order of its CPD's rows
    n_actions: int  # size of its domain
    level: int  # number of decisions before it on its branch
    previous: str | None  # decision that leads to its contexts, if any


@dataclass(frozen=True)
class DecisionProcess:
    """Decisions of a diagram with sufficient recall as a (branching) MDP."""

    network: CausalBayesianNetwork  # model; its CPDs of the decisions are the policy
    scopes: tuple[tuple[str, ...], ...]  # variables of each utility factor
    decisions: tuple[DecisionNode, ...]  # decisions that influence the utility, causes first
    # MDP whose states are contexts. A is the largest domain; actions that a decision lacks repeat
    # its first one. The reward is 0.
    mdp: TabularMDP
    # Log of uniform choice among the existing actions, -inf elsewhere, [1, A, S].
    log_uniform: FloatArray
    # Network with uniform decisions, used for queries.
    neutral: CausalBayesianNetwork
    below: dict[str, frozenset[str]]  # each decision with all its descendants

    def policy(self) -> FloatArray:
        """Return the policy of the model, [S, A]."""
        out = np.zeros((self.mdp.n_states, self.mdp.n_actions))
        for d in self.decisions:
            out[d.states, : d.n_actions] = self.network.cpd(d.name).reshape(-1, d.n_actions)
        return out

    def payoff(self, values: Sequence[FloatArray], *, centred: bool = False) -> FloatArray:
        """Return the expected sum of the factors that each decision pays, [S, A, D]."""
        # `values` are numbers [*sizes of its variables, D] for each scope; `centred` subtracts a
        # constant from each factor.
        out = self._room(values[0].shape[-1])
        for scope, table in zip(self.scopes, values, strict=True):
            for d, family, kernel in self._payers(scope):
                order = (*family, _WEIGHT)
                product = sum_of_product([kernel, Factor((*scope, _WEIGHT), table)], order)
                expected = product.arranged(order).reshape(-1, d.n_actions, out.shape[-1])
                if centred:
                    low, high = expected.min(axis=(0, 1)), expected.max(axis=(0, 1))
                    expected = expected - (0.5 * low + 0.5 * high)
                out[d.states, : d.n_actions] += expected
        return self._padded(out)

    def indicators(self) -> FloatArray:
        """Return the probability of each joint value of the only scope, [S, A, D], in C order."""
        (scope,) = self.scopes
        out = self._room(prod(self.neutral.size(x) for x in scope))
        for d, family, kernel in self._payers(scope):
            # Targets that the decision observes are equal to their observed values.
            copies = {x: f"\0{x}" for x in scope if x in family}
            same = [Factor((x, new), np.eye(self.neutral.size(x))) for x, new in copies.items()]
            order = (*family, *(copies.get(x, x) for x in scope))
            table = sum_of_product([kernel, *same], order).arranged(order)
            out[d.states, : d.n_actions] += table.reshape(-1, d.n_actions, out.shape[-1])
        return self._padded(out)

    def _room(self, width: int) -> FloatArray:
        entries = self.mdp.n_states * self.mdp.n_actions * width
        if entries > MAX_ENTRIES:
            raise InvalidModelError(
                f"{self.mdp.n_states} contexts, {self.mdp.n_actions} actions and {width} weights "
                f"need a table of {entries:.3g} entries, expected at most {MAX_ENTRIES:.3g}; "
                f"query fewer targets, or merge states of targets or of observed variables"
            )
        return np.zeros((self.mdp.n_states, self.mdp.n_actions, width))

    def _payers(
        self, scope: tuple[str, ...]
    ) -> Iterator[tuple[DecisionNode, tuple[str, ...], Factor]]:
        """Yield the last decision that influences a factor, its family, and P(rest | family)."""
        for d in reversed(self.decisions):
            if not self.below[d.name].isdisjoint(scope):
                family = (*d.observed, d.name)
                unseen = tuple(x for x in scope if x not in family)
                chances = self.neutral.elimination.conditional(unseen, family)
                yield d, family, Factor((*family, *unseen), chances)
                return

    def _padded(self, out: FloatArray) -> FloatArray:
        """Copy the first action to missing actions, and to all that differ only by rounding."""
        for d in self.decisions:
            out[d.states, d.n_actions :] = out[d.states, :1]
        alike = np.ptp(out, axis=1) <= _ROUNDING * np.abs(out).max(initial=0.0)
        return np.where(alike[:, None], out[:, :1], out)


def neutral_network(
    network: CausalBayesianNetwork, decisions: Sequence[str]
) -> CausalBayesianNetwork:
    """Return the network with uniform decisions, which makes all possible outcomes possible."""
    return network.with_mechanisms(
        {d: np.full(network.cpd(d).shape, 1.0 / network.size(d)) for d in decisions}
    )


def decision_process(
    network: CausalBayesianNetwork,
    recall: Recall,
    scopes: Sequence[Sequence[str]],
    neutral: CausalBayesianNetwork,
) -> DecisionProcess:
    """Return the process of a network, given its `recall_of` scopes and `neutral_network`."""
    assert recall.kind in ("single", "sufficient"), recall.kind
    nodes: list[DecisionNode] = []
    start = 0
    for name in recall.decisions:
        # With sufficient recall the decisions before one form a chain: it follows the last.
        earlier = network.ancestors(name)
        last = next((e for e in reversed(nodes) if e.name in earlier), None)
        level, previous = (0, None) if last is None else (last.level + 1, last.name)
        observed = network.parents(name)
        states = slice(start, start + _joint_size(network, observed))
        nodes.append(DecisionNode(name, observed, states, network.size(name), level, previous))
        start = states.stop
    n_actions = max(d.n_actions for d in nodes)
    initial, log_uniform = np.zeros(start), np.full((1, n_actions, start), -np.inf)
    counts = [d.states.stop - d.states.start for d in nodes]
    blocks: list[list[Any]] = [[None] * len(nodes) for _ in nodes]
    place = {d.name: i for i, d in enumerate(nodes)}
    for i, d in enumerate(nodes):
        log_uniform[0, : d.n_actions, d.states] = -np.log(d.n_actions)
        blocks[i][i] = sp.csr_matrix((counts[i] * n_actions, counts[i]))
        # The first decision of a branch has a fixed distribution of contexts.
        if d.previous is None:
            initial[d.states] = neutral.elimination.conditional(d.observed, ()).reshape(-1)
        else:
            k = place[d.previous]
            blocks[k][i] = _moves(neutral, nodes[k], d, n_actions)
    transition = Transition.from_rows(sp.bmat(blocks, format="csr"), start, n_actions)
    mdp = TabularMDP.branching(transition, initial, horizon=1 + max(d.level for d in nodes))
    fixed = tuple(tuple(scope) for scope in scopes)
    below = {d.name: network.descendants(d.name) | {d.name} for d in nodes}
    return DecisionProcess(network, fixed, tuple(nodes), mdp, log_uniform, neutral, below)


def _moves(
    neutral: CausalBayesianNetwork, decision: DecisionNode, after: DecisionNode, n_actions: int
) -> sp.csr_matrix:
    """Return transitions [contexts * A, contexts of the next decision], context-major."""
    family = (*decision.observed, decision.name)
    # A context may contain variables that the earlier decision also observes.
    unseen = tuple(x for x in after.observed if x not in family)
    _joint_size(neutral, (*family, *unseen))
    kernel = neutral.elimination.conditional(unseen, family)
    used = np.nonzero(kernel)
    place = dict(zip((*family, *unseen), used, strict=True))
    sizes = {x: neutral.size(x) for x in place}
    row = np.ravel_multi_index(tuple(place[x] for x in family), [sizes[x] for x in family])
    column = np.zeros_like(row)
    for x in after.observed:
        column = column * sizes[x] + place[x]
    contexts, width = decision.states.stop - decision.states.start, decision.n_actions
    # Rows of impossible contexts are empty. Their values are irrelevant, but all rows must have the
    # same sum for constants to remain constant.
    empty = np.setdiff1d(np.arange(contexts * width), row)
    chance = np.concatenate([kernel[used], np.ones(len(empty))])
    where = (np.concatenate([row, empty]), np.concatenate([column, np.zeros_like(empty)]))
    shape = (contexts * width, after.states.stop - after.states.start)
    # Actions that the decision lacks repeat its first one.
    repeat = np.r_[np.arange(width), np.zeros(n_actions - width, dtype=int)]
    rows = (np.arange(contexts)[:, None] * width + repeat).reshape(-1)
    return sp.csr_matrix((chance, where), shape=shape)[rows]


def _joint_size(network: CausalBayesianNetwork, names: Sequence[str]) -> int:
    """Return the number of joint states of variables, unless it is too large."""
    entries = prod(network.size(x) for x in names)
    if entries > MAX_ENTRIES:
        raise InvalidModelError(
            f"{listed(names)} ({len(names)} variables) have {entries:.3g} joint states, expected "
            f"at most {MAX_ENTRIES:.3g}; merge states of observed variables or of targets, or "
            f"query fewer targets at a time"
        )
    return entries
