"""Everything that decisions can see and do together, one row each: what policies are tried on.

Without sufficient recall there is no order in which decisions can be planned, so the search
works on their joint outcomes: for each joint value x of all families (a decision and what it
observes) the weight w(x) that the world gives it, and what is then expected of the utility.
Under policies pi its probability is w(x) * prod_i pi_i(d_i | pa_i); neither w nor the expected
utility depends on the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import neutral_network
from goalmeter.causal.factors import Factor, sum_of_product
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.utility import Utility

# Joint values of all families that are worked with; the search passes over them many thousand
# times.
MAX_ROWS = 2**17
# Entries of a table of features.
MAX_ENTRIES = 2**25
_DENSE = 2**12

# One array for each decision: [contexts, actions] or [contexts, actions, B].
Policies = list[FloatArray]


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """The joint outcomes of decisions; R of them are possible."""

    decisions: tuple[str, ...]  # names, causes first
    contexts: tuple[int, ...]  # how many contexts each has, in the order of its CPD's rows
    actions: tuple[int, ...]  # the size of each domain
    weight: FloatArray  # w(x), [R], positive
    place: tuple[IntArray, ...]  # for each decision, context * actions + action of every row, [R]
    # What is expected given x, [R, D]: of a known utility (D = 1, units of the utility), or the
    # probability of each joint state of targets (the first one slowest).
    features: FloatArray
    # For each decision, those (as positions) whose contexts it influences.
    later: tuple[tuple[int, ...], ...]
    # Whose joint states the features stand for; None for those of a known utility.
    targets: tuple[str, ...] | None = None

    @property
    def n_rows(self) -> int:
        """R."""
        return len(self.weight)

    @property
    def maximum(self) -> float:
        """Sum of log|dom D|, nats: no policy has more entropy, and no model more evidence."""
        return float(np.log(self.actions).sum())

    def with_features(self, features: FloatArray) -> OutcomeTable:
        """The table with other features, [R, D]; they stand for no joint states of targets."""
        return replace(self, features=features, targets=None)

    def policies(self, network: CausalBayesianNetwork) -> Policies:
        """The CPDs of the decisions, [contexts, actions] each."""
        return [
            network.cpd(d).reshape(-1, a) for d, a in zip(self.decisions, self.actions, strict=True)
        ]

    def uniform(self) -> Policies:
        """Every decision uniform, [contexts, actions] each."""
        sizes = zip(self.contexts, self.actions, strict=True)
        return [np.full((c, a), 1.0 / a) for c, a in sizes]

    def rows(self, decision: int, values: FloatArray) -> FloatArray:
        """Numbers of each context and action of a decision, [C, A(, B)], at every row [R(, B)]."""
        return np.asarray(values.reshape(-1, *values.shape[2:])[self.place[decision]])

    def total(self, decision: int, values: FloatArray) -> FloatArray:
        """Numbers of each row, [R] or [R, B], added up by context and action: [C, A(, B)]."""
        shape = (self.contexts[decision], self.actions[decision], *values.shape[1:])
        return np.asarray(self._sums[decision] @ values).reshape(shape)

    @cached_property
    def pairs(self) -> dict[tuple[int, int], IntArray]:
        """For two decisions, the places of both in one number, [R]."""
        sizes = [c * a for c, a in zip(self.contexts, self.actions, strict=True)]
        n = len(sizes)
        return {
            (i, k): self.place[i] * sizes[k] + self.place[k]
            for i in range(n)
            for k in range(n)
            if i != k
        }

    @cached_property
    def _sums(self) -> list[Any]:
        """For each decision the matrix that adds rows up, [C * A, R]."""
        out: list[Any] = []
        for c, a, place in zip(self.contexts, self.actions, self.place, strict=True):
            where = (np.ones(len(place)), (place, np.arange(len(place))))
            matrix = sp.csr_matrix(where, shape=(c * a, len(place)))
            # For small tables the product itself is cheaper than finding out what is zero.
            out.append(matrix.toarray() if c * a * len(place) <= _DENSE else matrix)
        return out

    def probability(self, policies: Policies, *, without: int | None = None) -> FloatArray:
        """The probability of every row, [R] or [R, B]; `without` leaves one policy out."""
        out = self.weight.reshape(-1, *[1] * (policies[0].ndim - 2))
        for i, policy in enumerate(policies):
            if i != without:
                out = out * self.rows(i, policy)
        return np.asarray(out)

    def expected(self, policies: Policies) -> FloatArray:
        """E[features], [D] or [D, B]."""
        return np.asarray(self.features.T @ self.probability(policies))

    def entropy(self, policies: Policies) -> FloatArray:
        """Causal entropy: the sum of E[-log pi_i(D_i | Pa_i)], nats, [] or [B]."""
        probability = self.probability(policies)
        surprise = sum(self.rows(i, -safe_log(p)) for i, p in enumerate(policies))
        return np.asarray((probability * surprise).sum(axis=0))

    def visits(self, policies: Policies) -> Policies:
        """The probability of each context and action of each decision, [C, A(, B)] each."""
        probability = self.probability(policies)
        return [self.total(i, probability) for i in range(len(policies))]

    def evidence(self, measured: Policies, model: Policies) -> FloatArray:
        """E_measured[sum_i log model_i(D_i | Pa_i) + log|dom D_i|], nats, [] or [B].

        Args:
            measured: [C, A] each.
            model: [C, A] or [C, A, B] each; -inf where it rules out what was measured.
        """
        shares = self.shares(self.visits(measured), model)
        return np.asarray(sum(share.sum(axis=0) for share in shares))

    def shares(self, visits: Policies, model: Policies) -> Policies:
        """The evidence by context of each decision, nats: a list of [C] or [C, B].

        Args:
            visits: how often each context and action comes about, [C, A] for each decision.
            model: [C, A] or [C, A, B] each.
        """
        return [np.asarray(terms.sum(axis=1)) for terms in self.log_ratios(visits, model)]

    def log_ratios(self, visits: Policies, model: Policies) -> Policies:
        """The same by context and action: lists of [C, A] or [C, A, B]."""
        out = []
        for counts, policy, a in zip(visits, model, self.actions, strict=True):
            weight = counts.reshape(*counts.shape, *[1] * (policy.ndim - 2))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = weight * (np.log(policy) + np.log(a))
            out.append(np.where(weight > 0, terms, 0.0))
        return out


def safe_log(policy: FloatArray) -> FloatArray:
    """log, with 0 for what never happens and so is never asked for."""
    return np.log(policy, out=np.zeros_like(policy), where=policy > 0)


def joint_outcomes(
    network: CausalBayesianNetwork,
    decisions: Sequence[str],
    goal: Utility | Sequence[str],
) -> OutcomeTable:
    """The joint outcomes of decisions, with what is expected of each of them.

    Args:
        network: the model; the policies in it are not used.
        decisions: those that influence the goal, causes first.
        goal: a known utility, whose expectation given each outcome is the only feature, [R, 1]; or
            targets, whose joint states (the first target slowest) have a probability given each
            outcome, [R, D].
    """
    outcomes = _Outcomes(network, decisions)
    if not isinstance(goal, Utility):
        return replace(outcomes.table(outcomes.chances(goal)), targets=tuple(goal))
    expected = np.zeros((len(outcomes.weight), 1))
    for factor in goal.factors:
        expected[:, 0] += outcomes.mean(Factor(factor.variables, factor.values))
    return outcomes.table(expected)


class _Outcomes:
    """The possible joint values of all families, and queries given them."""

    def __init__(self, network: CausalBayesianNetwork, decisions: Sequence[str]) -> None:
        self.network = neutral_network(network, decisions)
        self.decisions = tuple(decisions)
        observed = (x for d in decisions for x in (*network.parents(d), d))
        self.family = tuple(dict.fromkeys(observed))
        self.sizes = [network.size(x) for x in self.family]
        entries = prod(self.sizes)
        if entries > MAX_ENTRIES:
            raise self._too_large(entries, MAX_ENTRIES, "")
        # The policies are uniform in this network, so that P(x) times the number of choices is
        # w(x).
        joint = self.network.elimination.conditional(self.family, ())
        # Outcomes that the world rules out, whatever is chosen, would only cost time.
        self.where = np.nonzero(joint)
        choices = prod([network.size(d) for d in decisions])
        self.weight = joint[self.where] * choices
        if len(self.weight) > MAX_ROWS:
            raise self._too_large(len(self.weight), MAX_ROWS, "possible ")

    def _too_large(self, entries: int, limit: int, kind: str) -> InvalidModelError:
        return InvalidModelError(
            f"the decisions {listed(self.decisions)} rely on each other (insufficient recall), so "
            f"their policies are searched for over the joint values of all that they see and do "
            f"({listed(self.family)}): {entries:.3g} {kind}values, expected at most {limit:.3g}; "
            f"ask about fewer decisions at a time, merge states of what they observe, or let later "
            f"decisions observe what earlier ones saw and did"
        )

    def mean(self, factor: Factor) -> FloatArray:
        """E[factor | row], [R]."""
        unseen = tuple(x for x in factor.variables if x not in self.family)
        self._check(unseen)
        kernel = Factor((*self.family, *unseen), self._conditional(unseen))
        expected = sum_of_product([kernel, factor], self.family)
        return np.asarray(expected.arranged(self.family)[self.where])

    def chances(self, targets: Sequence[str]) -> FloatArray:
        """P(targets | row), [R, joint states of the targets]."""
        unseen = tuple(x for x in targets if x not in self.family)
        self._check(unseen)
        sizes = [self.network.size(x) for x in targets]
        entries = len(self.weight) * prod(sizes)
        if entries > MAX_ENTRIES:
            raise InvalidModelError(
                f"{len(self.weight)} joint outcomes of the decisions {listed(self.decisions)} and "
                f"{prod(sizes)} joint states of the targets {listed(targets)} need a table of "
                f"{entries:.3g} entries, expected at most {MAX_ENTRIES:.3g}; ask about fewer "
                f"targets, or merge states of targets or of what decisions observe"
            )
        chances = self._conditional(unseen)[self.where].reshape(len(self.weight), -1)
        # Joint state of the targets that are not in a family, and the part that the row fixes.
        grid = np.indices([self.network.size(x) for x in unseen]).reshape(len(unseen), -1)
        column = np.zeros((len(self.weight), grid.shape[1] if unseen else 1), dtype=np.int64)
        for x, size in zip(targets, sizes, strict=True):
            state = (
                self.where[self.family.index(x)][:, None]
                if x in self.family
                else grid[unseen.index(x)][None]
            )
            column = column * size + state
        out = np.zeros((len(self.weight), prod(sizes)))
        np.put_along_axis(out, column, chances, axis=1)
        return out

    def _check(self, unseen: Sequence[str]) -> None:
        entries = prod(self.sizes) * prod([self.network.size(x) for x in unseen])
        if entries > MAX_ENTRIES:
            raise self._too_large(entries, MAX_ENTRIES, "")

    def _conditional(self, unseen: Sequence[str]) -> FloatArray:
        """P(variables that no decision sees or is | families), [*sizes of both]."""
        if not unseen:
            return np.ones(self.sizes)
        return self.network.elimination.conditional(unseen, self.family)

    def table(self, features: FloatArray) -> OutcomeTable:
        """The table with these features, [R, D]."""
        network = self.network
        place = []
        for d in self.decisions:
            axes = [self.family.index(x) for x in (*network.parents(d), d)]
            where = tuple(self.where[i] for i in axes)
            place.append(np.ravel_multi_index(where, [self.sizes[i] for i in axes]))
        later = tuple(
            tuple(j for j, below in enumerate(self.decisions) if d in network.ancestors(below))
            for d in self.decisions
        )
        return OutcomeTable(
            decisions=self.decisions,
            contexts=tuple(
                prod([network.size(x) for x in network.parents(d)]) for d in self.decisions
            ),
            actions=tuple(network.size(d) for d in self.decisions),
            weight=self.weight,
            place=tuple(p.astype(np.int64) for p in place),
            features=features,
            later=later,
        )
