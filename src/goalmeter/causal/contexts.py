"""Sufficient recall, and an influence diagram with it as a decision process of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.elimination import MAX_ENTRIES, Factor, sum_of_product
from goalmeter.causal.graph import Value, bayes_ball
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.transition import Transition

# --- Recall ---------------------------------------------------------------------------------------
# DecisionNode D relies on decision D' if the best policy of D may depend on the policy of D': if a
# cause of D' alone, a dummy parent, is not d-separated from the utility that D can influence,
# given D and what D observes. If no decisions rely on each other in a circle (sufficient recall),
# the decisions can be planned one after the other. MDPs have sufficient recall, and so has every
# agent that remembers what it saw and did; an agent that forgets, or a team whose members do not
# see each other, has not.
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
    """Read off the graph how decisions can be planned.

    `scopes` are the variables that each additive factor of the utility reads.
    """
    below = {d: network.descendants(d) | {d} for d in decisions}
    acting = tuple(
        d
        for d in sorted(decisions, key=network.order.index)
        if any(below[d].intersection(scope) for scope in scopes)
    )
    parents = {x: network.parents(x) for x in network.variables}
    children = {x: network.children(x) for x in network.variables}
    reliance: dict[str, tuple[str, ...]] = {}
    for d in acting:
        # A factor that the decision cannot influence is a constant to it, whatever others do.
        influenced = {x for scope in scopes if below[d].intersection(scope) for x in scope}
        # A decision whose policy the query may depend on is one that this decision relies on.
        ball = bayes_ball(parents, children, influenced, (d, *parents[d]))
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
# The states of the process are the contexts of the decisions, the joint values of what each
# decision
# observes. With sufficient recall (`goalmeter.causal.contexts`)
#
# * each decision follows at most one other, so that the decisions form a forest;
# * P(context of a next decision | decision, context) is the same whatever the policies are;
# * each factor of the utility is paid by the last decision that influences it.
#
# So everything that policies and utilities are tried out on is worked out once, by elimination, and
# what remains is an MDP whose decisions may lead to several next ones at once: the planner and the
# measures of MDPs do the rest. A derivation is in docs/mathematics.md.

# Differences below this share of the largest number are rounding.
_ROUNDING = 1e-13
# The name of the axis of weights in a table of features.
_WEIGHT = "\0weight"


@dataclass(frozen=True)
class DecisionNode:
    """One decision of the process."""

    name: str  # of the variable
    observed: tuple[str, ...]  # its parents, in the order of its CPD
    states: slice  # the process's states that are its contexts, in the order of its CPD's rows
    n_actions: int  # size of its domain
    level: int  # how many decisions come before it on its branch
    following: tuple[str, ...]  # the decisions whose contexts it leads to


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

    def contexts(self, decision: DecisionNode) -> list[tuple[Value, ...]]:
        """Return the observed values of each context of a decision, in the order of its states."""
        return list(product(*(self.network.domain(x) for x in decision.observed)))

    def payoff(self, values: Sequence[FloatArray], *, centred: bool = False) -> FloatArray:
        """Return what each decision can expect of the factors that it is the last to influence.

        Args:
            values: for each scope, numbers [*sizes of its variables, D].
            centred: whether to take out of each factor what its decision gets of it in any case.

        Returns:
            [S, A, D], in units of the values.
        """
        width = values[0].shape[-1]
        out = self._room(width)
        for scope, table in zip(self.scopes, values, strict=True):
            payer = self._payer(scope)
            if payer is not None:
                expected = self._expected(payer, Factor((*scope, _WEIGHT), table))
                if centred:
                    low, high = expected.min(axis=(0, 1)), expected.max(axis=(0, 1))
                    expected = expected - (0.5 * low + 0.5 * high)
                self._add(out, payer, expected)
        return self._padded(out)

    def indicators(self) -> FloatArray:
        """Return the chance of each joint value of a single scope, as its last decision sees it.

        Returns:
            [S, A, D] with D the joint states of the scope, the first variable slowest.
        """
        (scope,) = self.scopes
        network = self.neutral
        sizes = [network.size(x) for x in scope]
        out = self._room(int(np.prod(sizes, dtype=float)))
        payer = self._payer(scope)
        if payer is not None:
            family = (*payer.observed, payer.name)
            unseen = tuple(x for x in scope if x not in family)
            check_size([network.size(x) for x in (*family, *scope)], (*family, *scope))
            parts = [Factor((*family, *unseen), network.elimination.conditional(unseen, family))]
            # Targets that the decision sees itself: certain, and equal to what it sees.
            seen = {x: f"\0{x}" for x in scope if x in family}
            parts += [Factor((x, new), np.eye(network.size(x))) for x, new in seen.items()]
            order = (*family, *(seen.get(x, x) for x in scope))
            table = sum_of_product(parts, order).arranged(order)
            self._add(out, payer, table.reshape(-1, payer.n_actions, out.shape[-1]))
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

    def _payer(self, scope: tuple[str, ...]) -> DecisionNode | None:
        """Return the last decision that influences a factor, or None."""
        last = None
        for d in self.decisions:
            if not self.below[d.name].isdisjoint(scope):
                last = d
        return last

    def _expected(self, payer: DecisionNode, factor: Factor) -> FloatArray:
        """E[factor | context, action] of one decision: [contexts, actions, D]."""
        family = (*payer.observed, payer.name)
        unseen = tuple(x for x in factor.variables if x not in family and x != _WEIGHT)
        kernel = Factor((*family, *unseen), self.neutral.elimination.conditional(unseen, family))
        order = (*family, _WEIGHT)
        table = sum_of_product([kernel, factor], order).arranged(order)
        return table.reshape(-1, payer.n_actions, factor.values.shape[-1])

    @staticmethod
    def _add(out: FloatArray, payer: DecisionNode, table: FloatArray) -> None:
        out[payer.states, : payer.n_actions] += table

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
    decisions: Sequence[str],
    scopes: Sequence[Sequence[str]],
    neutral: CausalBayesianNetwork | None = None,
    recall: Recall | None = None,
) -> DecisionProcess:
    """Work out the process; needs at least one decision that influences the utility.

    Args:
        network: the model, with a policy for each decision.
        decisions: the decisions, with sufficient recall (or one alone) for these scopes.
        scopes: the variables that each additive factor of the utility reads.
        neutral: `neutral_network` of the same, whose eliminations are then shared.
        recall: `recall_of` the same, if it is known already.
    """
    recall = recall_of(network, decisions, scopes) if recall is None else recall
    assert recall.kind in ("single", "sufficient"), recall.kind
    neutral = neutral_network(network, decisions) if neutral is None else neutral
    before = _forest(network, recall.decisions)
    nodes = _nodes(network, recall.decisions, before)
    n_states, n_actions = nodes[-1].states.stop, max(d.n_actions for d in nodes)
    initial = np.zeros(n_states)
    by_name = {d.name: d for d in nodes}
    rows: list[FloatArray] = []
    for d in nodes:
        # A first decision of a branch meets its contexts with certainty; the others are led to.
        if before[d.name] is None:
            start = neutral.elimination.conditional(d.observed, ())
            initial[d.states] = start.reshape(-1)
        rows.append(_moves(neutral, d, [by_name[x] for x in d.following], n_actions, n_states))
    log_uniform = np.full((1, n_actions, n_states), -np.inf)
    for d in nodes:
        log_uniform[0, : d.n_actions, d.states] = -np.log(d.n_actions)
    transition = Transition.from_rows(sp.vstack(rows, format="csr"), n_states, n_actions)
    mdp = TabularMDP.branching(transition, initial, horizon=1 + max(d.level for d in nodes))
    fixed = tuple(tuple(scope) for scope in scopes)
    below = {d.name: network.descendants(d.name) | {d.name} for d in nodes}
    return DecisionProcess(network, fixed, tuple(nodes), mdp, log_uniform, neutral, below)


def _forest(network: CausalBayesianNetwork, decisions: Sequence[str]) -> dict[str, str | None]:
    """The decision that each one follows: the last of those that influence it, if there are any."""
    # With sufficient recall the decisions that influence one are a chain, so the last is one.
    before: dict[str, str | None] = {}
    for i, d in enumerate(decisions):
        earlier = network.ancestors(d)
        before[d] = next((e for e in reversed(decisions[:i]) if e in earlier), None)
    return before


def _nodes(
    network: CausalBayesianNetwork, decisions: Sequence[str], before: dict[str, str | None]
) -> list[DecisionNode]:
    """Return the decisions with their places among the states of the process."""
    nodes: list[DecisionNode] = []
    levels: dict[str, int] = {}
    start = 0
    for d in decisions:
        previous = before[d]
        levels[d] = 0 if previous is None else levels[previous] + 1
        observed = network.parents(d)
        contexts = check_size([network.size(x) for x in observed], observed)
        following = tuple(x for x in decisions if before[x] == d)
        states = slice(start, start + contexts)
        nodes.append(DecisionNode(d, observed, states, network.size(d), levels[d], following))
        start += contexts
    return nodes


def _moves(
    neutral: CausalBayesianNetwork,
    decision: DecisionNode,
    following: Sequence[DecisionNode],
    n_actions: int,
    n_states: int,
) -> sp.csr_matrix:
    """Where a decision leads: rows [contexts * A, S], context-major."""
    contexts = decision.states.stop - decision.states.start
    width = decision.n_actions
    # Actions that the decision lacks repeat its first one.
    repeat = np.r_[np.arange(width), np.zeros(n_actions - width, dtype=int)]
    pieces = [sp.csr_matrix((contexts * n_actions, n_states))]
    family = (*decision.observed, decision.name)
    for after in following:
        # A context may hold variables that the earlier decision sees, too.
        unseen = tuple(x for x in after.observed if x not in family)
        sizes = [neutral.size(x) for x in (*family, *unseen)]
        check_size(sizes, (*family, *unseen))
        kernel = neutral.elimination.conditional(unseen, family)
        grid = np.indices(kernel.shape).reshape(kernel.ndim, -1)
        place = dict(zip((*family, *unseen), grid, strict=True))
        row, column = np.zeros((2, kernel.size), dtype=int)
        for x in decision.observed:
            row = row * neutral.size(x) + place[x]
        for x in after.observed:
            column = column * neutral.size(x) + place[x]
        flat = kernel.reshape(-1)
        used = flat > 0
        entries = (flat[used], (row[used] * width + place[decision.name][used], column[used]))
        size = (contexts * width, after.states.stop - after.states.start)
        block = sp.csr_matrix(entries, shape=size)
        # Where elimination knows a context to be impossible it leads nowhere; what it is worth is
        # never asked, but sums of rows must be alike for constants to stay constants.
        impossible = np.flatnonzero(np.diff(block.indptr) == 0)
        if impossible.size:
            ones = np.ones(impossible.size)
            block = block + sp.csr_matrix(
                (ones, (impossible, np.zeros(impossible.size, dtype=int))), shape=block.shape
            )
        full = block[(np.arange(contexts)[:, None] * width + repeat).reshape(-1)].tocoo()
        moved = (full.data, (full.row, full.col + after.states.start))
        pieces.append(sp.csr_matrix(moved, shape=(contexts * n_actions, n_states)))
    return sum(pieces[1:], pieces[0])


def check_size(sizes: Sequence[int], names: Sequence[str]) -> int:
    """Return the number of joint states of variables."""
    entries = prod(sizes)
    if entries > MAX_ENTRIES:
        raise InvalidModelError(
            f"the joint states of {listed(names)} ({len(names)} variables) number {entries:.3g}, "
            f"expected at most {MAX_ENTRIES:.3g}; merge states of what decisions observe or of the "
            f"targets, or ask about fewer targets at a time"
        )
    return entries
