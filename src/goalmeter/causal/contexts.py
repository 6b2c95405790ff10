"""Sufficient recall, and an influence diagram with it as a decision process of contexts."""

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
# A decision D relies on D' if a cause of D' alone, a dummy parent, is not d-separated from the
# utility that D can influence, given D and what D observes. If no decisions rely on each other in a
# circle (sufficient recall), they can be planned one after the other.
#
# Source: Koller and Milch, Multi-agent influence diagrams (2003), s-reachability; Lauritzen and
# Nilsson, Representing and solving decision problems with limited information (2001). That soft
# planning needs no more than hard planning: see docs/mathematics.md.

Kind = Literal["none", "single", "sufficient", "insufficient"]


class Recall(NamedTuple):
    """What the graph says about planning a set of decisions for a utility."""

    # "none" if no decision influences the utility, "single" if one does, "sufficient" or
    # "insufficient" recall if several do.
    kind: Kind
    decisions: tuple[str, ...]  # those that influence the utility, causes first
    reliance: dict[str, tuple[str, ...]]  # decision -> the others that it relies on
    # Decisions that rely on each other in a circle, each once; empty but for "insufficient".
    circle: tuple[str, ...]


def recall_of(
    network: CausalBayesianNetwork, decisions: Sequence[str], scopes: Sequence[Sequence[str]]
) -> Recall:
    """Read off the graph how decisions can be planned; `scopes` are what each factor reads."""
    below = {d: network.descendants(d) | {d} for d in decisions}
    acting = tuple(
        d
        for d in sorted(decisions, key=network.order.index)
        if any(below[d].intersection(scope) for scope in scopes)
    )
    reliance: dict[str, tuple[str, ...]] = {}
    for d in acting:
        # A factor that the decision cannot influence is a constant to it, whatever others do.
        influenced = {x for scope in scopes if below[d].intersection(scope) for x in scope}
        # A decision whose policy the query may depend on is one that this decision relies on.
        ball = network.ball(influenced, (d, *network.parents(d)))
        reliance[d] = tuple(e for e in acting if e != d and e in ball.requisite)
    if len(acting) < 2:
        return Recall("single" if acting else "none", acting, reliance, ())
    try:
        TopologicalSorter(reliance).prepare()
    except CycleError as error:
        # The first of the circle is its last again.
        circle = tuple(reversed(error.args[1]))[:-1]
        return Recall("insufficient", acting, reliance, circle)
    return Recall("sufficient", acting, reliance, ())


# --- Contexts -------------------------------------------------------------------------------------
# The states of the process are the contexts of the decisions, the joint values of what they see.
# With sufficient recall each decision follows at most one other, P(context of the next | decision,
# context) is the same whatever the policies are, and each factor of the utility is paid by the last
# decision that influences it (docs/mathematics.md). So all of it is worked out once, by
# elimination, and what remains is an MDP whose decisions may lead to several next ones at once.

_ROUNDING = 1e-13  # differences below this share of the largest number are rounding
_WEIGHT = "\0weight"  # the name of the axis of weights in a table of features


@dataclass(frozen=True)
class DecisionNode:
    """One decision of the process."""

    name: str  # of the variable
    observed: tuple[str, ...]  # its parents, in the order of its CPD
    states: slice  # the process's states that are its contexts, in the order of its CPD's rows
    n_actions: int  # size of its domain
    level: int  # how many decisions come before it on its branch
    previous: str | None  # the decision that leads to its contexts, if there is one


@dataclass(frozen=True)
class DecisionProcess:
    """The decisions of a diagram with sufficient recall as a (branching) MDP."""

    network: CausalBayesianNetwork  # the model; its CPDs of the decisions are the policy
    scopes: tuple[tuple[str, ...], ...]  # the variables that each factor of the utility reads
    decisions: tuple[DecisionNode, ...]  # those that influence the utility, causes first
    # Contexts are states; A is the largest domain, and actions that a decision lacks repeat its
    # first one. Its reward is 0.
    mdp: TabularMDP
    # Log of uniform choice among the actions there are, -inf elsewhere: [1, A, S].
    log_uniform: FloatArray
    # The network with every decision uniform, which queries are put to.
    neutral: CausalBayesianNetwork
    below: dict[str, frozenset[str]]  # each decision with everything that it influences

    def policy(self) -> FloatArray:
        """Return the policy of the model, [S, A]."""
        out = np.zeros((self.mdp.n_states, self.mdp.n_actions))
        for d in self.decisions:
            out[d.states, : d.n_actions] = self.network.cpd(d.name).reshape(-1, d.n_actions)
        return out

    def payoff(self, values: Sequence[FloatArray], *, centred: bool = False) -> FloatArray:
        """What each decision can expect of the factors that it influences last, [S, A, D]."""
        # `values` are numbers [*sizes of its variables, D] for each scope; `centred` takes out of
        # each factor what its decision gets of it in any case.
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
        """Return the chance of each joint value of the only scope, [S, A, D], the first slowest."""
        (scope,) = self.scopes
        out = self._room(prod(self.neutral.size(x) for x in scope))
        for d, family, kernel in self._payers(scope):
            # Targets that the decision sees itself: certain, and equal to what it sees.
            seen = {x: f"\0{x}" for x in scope if x in family}
            same = [Factor((x, new), np.eye(self.neutral.size(x))) for x, new in seen.items()]
            order = (*family, *(seen.get(x, x) for x in scope))
            table = sum_of_product([kernel, *same], order).arranged(order)
            out[d.states, : d.n_actions] += table.reshape(-1, d.n_actions, out.shape[-1])
        return self._padded(out)

    def _room(self, width: int) -> FloatArray:
        entries = self.mdp.n_states * self.mdp.n_actions * width
        if entries > MAX_ENTRIES:
            raise InvalidModelError(
                f"{self.mdp.n_states} contexts, {self.mdp.n_actions} actions and {width} weights "
                f"need a table of {entries:.3g} entries, expected at most {MAX_ENTRIES:.3g}; ask "
                f"about fewer targets, or merge states of targets or of what decisions observe"
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
        """Actions that a decision lacks, or that differ by rounding, get what its first one has."""
        for d in self.decisions:
            out[d.states, d.n_actions :] = out[d.states, :1]
        alike = np.ptp(out, axis=1) <= _ROUNDING * np.abs(out).max(initial=0.0)
        return np.where(alike[:, None], out[:, :1], out)


def neutral_network(
    network: CausalBayesianNetwork, decisions: Sequence[str]
) -> CausalBayesianNetwork:
    """The network with uniform decisions: what is possible under some policy is possible here."""
    return network.with_mechanisms(
        {d: np.full(network.cpd(d).shape, 1.0 / network.size(d)) for d in decisions}
    )


def decision_process(
    network: CausalBayesianNetwork,
    recall: Recall,
    scopes: Sequence[Sequence[str]],
    neutral: CausalBayesianNetwork,
) -> DecisionProcess:
    """Work out the process of a network, with its `recall_of` scopes and its `neutral_network`."""
    assert recall.kind in ("single", "sufficient"), recall.kind
    nodes: list[DecisionNode] = []
    start = 0
    for name in recall.decisions:
        # With sufficient recall the decisions that influence one are a chain: it follows the last.
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
        # A first decision of a branch meets its contexts with certainty; the others are led to.
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
    """Where a decision leads: [contexts * A, contexts of the next one], context-major."""
    family = (*decision.observed, decision.name)
    # A context may hold variables that the earlier decision sees, too.
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
    # Where elimination knows a context to be impossible it leads nowhere; what it is worth is
    # never asked, but sums of rows must be alike for constants to stay constants.
    lost = np.setdiff1d(np.arange(contexts * width), row)
    chance = np.concatenate([kernel[used], np.ones(len(lost))])
    where = (np.concatenate([row, lost]), np.concatenate([column, np.zeros_like(lost)]))
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
            f"the joint states of {listed(names)} ({len(names)} variables) number {entries:.3g}, "
            f"expected at most {MAX_ENTRIES:.3g}; merge states of what decisions observe or of the "
            f"targets, or ask about fewer targets at a time"
        )
    return entries
