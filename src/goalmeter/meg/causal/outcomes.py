"""Joint outcomes of all decisions, and policies that are optimal given each other.

Policies are found by block-coordinate ascent on b E[U] + H and finished by Newton's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidModelError
from goalmeter._names import listed
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.causal.contexts import neutral_network
from goalmeter.causal.diagram import Utility
from goalmeter.causal.elimination import Factor, sum_of_product
from goalmeter.causal.network import CausalBayesianNetwork

# --- Outcomes -------------------------------------------------------------------------------------
# Without sufficient recall there is no order in which decisions can be planned, so the search
# works on their joint outcomes: for each joint value x of all families (a decision and what it
# observes) the weight w(x) that the world gives it, and what is then expected of the utility.
# Under policies pi its probability is w(x) * prod_i pi_i(d_i | pa_i); neither w nor the expected
# utility depends on the policies.

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


# --- Ascent ---------------------------------------------------------------------------------------
# With the policies of the others held fixed, b E[U] + H is concave in the policy of decision i and
# its maximum is the softmax
#
#     pi_i(d | c)  proportional to  exp( b E[U | c, d] + sum_{later j} E[-log pi_j | c, d] ),
#
# where only decisions j whose contexts D_i influences can differ with d. A step therefore never
# decreases the objective. In the form of `goalmeter.tabular.backup`, b times the gap to the best
# action, it is exact for every b: at b = infinity the best actions alone share the probability,
# weighted by the entropy that they leave to the others. A negative b is a positive one for -U.
#
# Where the ascent ends depends on where it began: b E[U] + H is not concave in all policies
# together. B ascents run side by side.
#
# Source: MEG paper (NeurIPS 2024), Definition 3.1, by its Lagrangian.

# Differences in expected utility below this, in a unit in which utilities differ by at most 1, are
# rounding; at b = infinity they decide between a best and another action.
TIE = 1e-13
TIE_AT_INFINITY = 1e-9


class Prospects(NamedTuple):
    """What a decision has to go by, given the policies of the others; [C, A, B] each."""

    mass: FloatArray  # probability of the context, seen from each of its actions
    paid: FloatArray  # E[U | context, action]
    spare: FloatArray  # sum over later decisions of E[-log pi | context, action], nats


def prospects_of(table: OutcomeTable, utility: FloatArray, policies: Policies, i: int) -> Prospects:
    """What decision `i` has to go by.

    `utility` of each row is [R, 1], or [R, B] where each column has its own; policies [C, A, B].
    """
    chance = table.probability(policies, without=i)
    mass = table.total(i, chance)
    # Sums over a context become expectations in it; a context without mass keeps its zeros.
    known = np.where(mass > 0, mass, 1.0)
    paid = table.total(i, chance * utility) / known
    spare = np.zeros_like(paid)
    if table.later[i]:
        surprise = sum(table.rows(j, -safe_log(policies[j])) for j in table.later[i])
        spare = table.total(i, chance * surprise) / known
    return Prospects(mass, paid, spare)


def respond(prospects: Prospects, rationality: FloatArray, old: FloatArray) -> FloatArray:
    """The best policy of a decision, [C, A, B]; where no context can come up, as it was.

    A context that a policy never brings about may still be one that it stays away from because of
    what would be done there, so that must not be forgotten.
    """
    value = np.where(rationality < 0, -prospects.paid, prospects.paid)
    gap = value.max(axis=1, keepdims=True) - value
    endless = np.isinf(rationality)
    gap[gap <= np.where(endless, TIE_AT_INFINITY, TIE)] = 0.0
    with np.errstate(invalid="ignore"):
        penalty = np.where(gap > 0, np.abs(rationality) * gap, 0.0)
    return normalised(prospects.spare - penalty, prospects.mass, old)


def normalised(logits: FloatArray, mass: FloatArray, old: FloatArray) -> FloatArray:
    """Softmax over actions [C, A, B]; the old policy where the context has no mass."""
    # Less the largest one, so that exp cannot overflow.
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    return np.where(mass.max(axis=1, keepdims=True) > 0, policy, old)


def ascend(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: FloatArray,
    policies: Policies,
    *,
    sweeps: int,
    tolerance: float,
) -> tuple[Policies, BoolArray]:
    """Let every decision answer the others until no probability moves by more than a tolerance.

    The utility, [R, 1] or [R, B], is in a unit in which it varies by about 1. Each column has its
    rationality b, [B], of either sign or infinite, and policies to begin with, [C, A, B] each. It
    drops out after as many `sweeps`, or earlier once it has settled.

    Returns:
        policies, and which columns have settled, [B].
    """
    out = [p.copy() for p in policies]
    running = np.arange(len(rationality))
    now = [p.copy() for p in policies]
    # The utility of the columns that still run; one for all of them stays as it is.
    running_utility = utility
    for sweep in range(sweeps):
        moved = np.zeros(len(running))
        for i in range(len(now)):
            new = respond(
                prospects_of(table, running_utility, now, i), rationality[running], now[i]
            )
            moved = np.maximum(moved, np.abs(new - now[i]).max(axis=(0, 1)))
            now[i] = new
        settled = moved <= tolerance
        # Taking columns out copies all of them, which pays once a tenth has settled; now and then
        # it is done all the same, so that a few slow columns do not drag the others along to the
        # end.
        if settled.any() and (settled.all() or settled.mean() > 0.1 or sweep % 16 == 0):
            for whole, part in zip(out, now, strict=True):
                whole[..., running] = part
            keep = ~settled
            running = running[keep]
            now = [p[..., keep] for p in now]
            running_utility = utility if utility.shape[1] == 1 else utility[:, running]
        if not len(running):
            break
    for whole, part in zip(out, now, strict=True):
        whole[..., running] = part
    done = np.ones(len(rationality), dtype=bool)
    done[running] = False
    return out, done


class Score(NamedTuple):
    """What policies attain, [B] each."""

    utility: FloatArray
    entropy: FloatArray

    def objective(self, rationality: FloatArray) -> FloatArray:
        """B E[U] + H, nats; b finite."""
        return np.asarray(rationality * self.utility + self.entropy)


def score(table: OutcomeTable, utility: FloatArray, policies: Policies) -> Score:
    """E[U] and H of policies, with the utility of each row [R, 1] or [R, B]."""
    probability = table.probability(policies)
    surprise = sum(table.rows(j, -safe_log(p)) for j, p in enumerate(policies))
    return Score((probability * utility).sum(axis=0), (probability * surprise).sum(axis=0))


# --- Stationary -----------------------------------------------------------------------------------
# A stationary point of b E[U] + H is a set of policies each of which is the best answer to the
# others (`search.ascent`):  log pi = A(log pi), up to a constant in each context. Block
# ascent gets near at a linear rate; Newton's method on the same equations finishes in a few steps,
# and their derivative says how the policies move with the utility (the implicit function theorem).
#
# With a held utility, E[U] = u is one more equation and b one more unknown: stationary points of
# the entropy on the set of policies that attain u.
#
# K is the number of contexts and actions of all decisions together.

# Equations of more unknowns than this are not formed; ascent alone has to do.
MAX_UNKNOWNS = 600
_STEPS = 30
_LONGEST = 4.0


class Point(NamedTuple):
    """Policies [C, A] each and the b at which they are stationary."""

    policies: Policies
    rationality: float
    residual: float


class Linearised:
    """The equations at one set of policies, and their derivatives.

    Args:
        utility: of each row, [R].
        rationality: b.
        policies: [C, A] each.

    Attributes:
        chances: the probability of each row but for one decision's choice, [R] for each.
        masses: probability of each context, seen from each action, [C, A] each.
        answers: the logs of the best answers, [K].
        error: what the answers differ by from the policies, in logs, [K].
        pull: d(answers) / db, [K].
    """

    def __init__(
        self, table: OutcomeTable, utility: FloatArray, rationality: float, policies: Policies
    ) -> None:
        self.table, self.utility, self.policies = table, utility, policies
        self.logs = [safe_log(p) for p in policies]
        self.chances = _without_each(
            table.weight, [table.rows(i, p) for i, p in enumerate(policies)]
        )
        surprises = [table.rows(i, -log) for i, log in enumerate(self.logs)]
        self.masses, paid, logits, self._excess = [], [], [], []
        for i, chance in enumerate(self.chances):
            mass = table.total(i, chance)
            known = np.where(mass > 0, mass, 1.0)
            worth = table.total(i, chance * utility) / known
            surprise = sum((surprises[j] for j in table.later[i]), np.zeros(len(chance)))
            value = rationality * worth + table.total(i, chance * surprise) / known
            # Where nothing can come up nothing is asked.
            value = np.where(mass > 0, value, self.logs[i])
            self._excess.append(rationality * utility + surprise - table.rows(i, value))
            self.masses.append(mass)
            paid.append(worth)
            logits.append(value)
        answers = [x - x.max(axis=1, keepdims=True) for x in logits]
        answers = [x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in answers]
        self.answers = _flat(answers)
        self.error = self.answers - _flat(self.logs)
        self.pull = self.centred(_flat(paid)[:, None])[:, 0]

    @cached_property
    def matrix(self) -> FloatArray:
        """d(policies - answers) / d(logs of policies), [K, K]."""
        return np.asarray(np.eye(self.error.size) - self.centred(self._cross()))

    def _cross(self) -> FloatArray:
        """d(answers, before they are normalised) / d(logs of policies), [K, K]."""
        table = self.table
        sizes = [p.size for p in self.policies]
        ends = np.cumsum(sizes)
        out = np.zeros((ends[-1], ends[-1]))
        for i, mine in enumerate(sizes):
            mass = self.masses[i].reshape(-1, 1)
            # What can never come up answers nothing: by infinity, its derivatives are 0.
            known = np.where(mass > 0, mass, np.inf)
            for k, theirs in enumerate(sizes):
                if k == i:
                    continue
                # A later decision's surprise is -log pi_k, so its own derivative adds -1 to the
                # others.
                excess = self._excess[i] - 1.0 if k in table.later[i] else self._excess[i]
                sums = np.bincount(
                    table.pairs[i, k], weights=self.chances[i] * excess, minlength=mine * theirs
                )
                block: FloatArray = sums.reshape(mine, theirs) / known
                # Logs move so that each context's probabilities still sum to 1.
                moved = block - self._mean_rows(block, k)
                out[ends[i] - mine : ends[i], ends[k] - theirs : ends[k]] = moved
        return out

    def paid_features(self) -> FloatArray:
        """E[features | context, action] of all decisions, [K, D]."""
        features = self.table.features
        parts = []
        for i, chance in enumerate(self.chances):
            mass = self.masses[i][..., None]
            total = self.table.total(i, chance[:, None] * features)
            paid = np.divide(total, mass, out=np.zeros_like(total), where=mass > 0)
            parts.append(paid.reshape(-1, features.shape[1]))
        return np.concatenate(parts)

    def moves(self) -> FloatArray:
        """d(logs of stationary policies) / d(weights of the features, times b), [K, D]."""
        moved = np.linalg.solve(self.matrix, self.centred(self.paid_features()))
        return self.centred(np.asarray(moved))

    def bordered(self) -> FloatArray:
        """`matrix` with b as one more unknown and E[U] as one more equation, [K + 1, K + 1]."""
        gain = _flat(self.centred_slopes(self.gains()))
        top = np.hstack([self.matrix, -self.pull[:, None]])
        return np.vstack([top, np.append(gain, 0.0)])

    def gains(self) -> Policies:
        """D E[U] / d(logs of policies), [C, A] each."""
        return [
            self.table.total(i, chance * self.utility) * p
            for (i, chance), p in zip(enumerate(self.chances), self.policies, strict=True)
        ]

    def centred_slopes(self, slopes: Policies) -> Policies:
        """Derivatives in the logs of policies where those stay normalised, [C, A] each."""
        return [
            d - p * d.sum(axis=1, keepdims=True) for d, p in zip(slopes, self.policies, strict=True)
        ]

    def _mean_rows(self, block: FloatArray, k: int) -> FloatArray:
        """(sum over the actions of a context of block) times their probabilities."""
        policy = self.policies[k]
        summed = block.reshape(len(block), *policy.shape).sum(axis=2)
        return np.asarray(summed[:, :, None] * policy).reshape(block.shape)

    def centred(self, values: FloatArray) -> FloatArray:
        """Numbers [K, n] less their mean under the policy of their context."""
        out, start = np.empty_like(values), 0
        for policy in self.policies:
            part = values[start : start + policy.size].reshape(*policy.shape, -1)
            part = part - (policy[..., None] * part).sum(axis=1, keepdims=True)
            out[start : start + policy.size] = part.reshape(policy.size, -1)
            start += policy.size
        return out

    def moved(self, step: FloatArray) -> Policies:
        """The policies after their logs are moved by [K], and normalised."""
        out, start = [], 0
        for policy, log in zip(self.policies, self.logs, strict=True):
            logits = log + step[start : start + policy.size].reshape(policy.shape)
            new = np.where(policy > 0, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
            out.append(new / new.sum(axis=1, keepdims=True))
            start += policy.size
        return out


def finish(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    held: float | None = None,
) -> Point:
    """Newton's method from policies that are nearly stationary.

    The utility is that of each row, [R], b finite, and `held` the E[U] that is to be attained, by
    whatever b; None keeps b.

    Returns:
        The point; the one that came in if no step brought the equations nearer.
    """
    best = Point(policies, rationality, np.inf)
    if sum(p.size for p in policies) > MAX_UNKNOWNS:
        return best
    b, now = rationality, policies
    for _ in range(_STEPS):
        at = Linearised(table, utility, b, now)
        flat = _flat(now)
        error = np.where(flat > 0, at.error, 0.0)
        attained = float((at.chances[0] * table.rows(0, now[0])) @ utility)
        missing = 0.0 if held is None else held - attained
        # An answer that leaves a probability where it is to 1e-16 is as good as can be seen.
        residual = float(np.abs(flat * error).max(initial=0.0)) + abs(missing)
        # Newton's method either shrinks the residual fast or, at rounding or where two branches
        # meet, not at all: going on would only wander.
        if not residual < 0.8 * best.residual:
            return Point(now, b, residual) if residual < best.residual else best
        best = Point(now, b, residual)
        step, change = _newton(at, error, missing, held is not None)
        if step is None:
            break
        now, b = at.moved(step), b + change
    return best


def _newton(
    at: Linearised, error: FloatArray, missing: float, bordered: bool
) -> tuple[FloatArray | None, float]:
    """The step in the logs [K], and in b."""
    matrix = at.bordered() if bordered else at.matrix
    right = np.append(error, missing) if bordered else error
    try:
        solution = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return None, 0.0
    if not np.isfinite(solution).all():
        return None, 0.0
    step, change = (solution[:-1], float(solution[-1])) if bordered else (solution, 0.0)
    step = at.centred(step[:, None])[:, 0]
    # Far from the solution the linearised step can be absurd; a factor e^4 in a probability is the
    # most that is believed.
    longest = float(np.abs(step).max(initial=0.0))
    scale = min(1.0, _LONGEST / longest) if longest > 0 else 1.0
    return scale * step, scale * change


def implicit_gradient(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    slopes: Policies,
    *,
    held: bool,
) -> tuple[FloatArray, float]:
    """How what depends on stationary policies moves with the utility.

    Args:
        table: the outcomes, with features [R, D].
        utility: of each row, features @ weights up to a constant, [R].
        rationality: b.
        policies: stationary at b, [C, A] each.
        slopes: derivative of what is asked about in the logs of the policies, [C, A] each.
        held: whether E[U] is kept, by whatever b, as the weights move; if not, b is.

    Returns:
        The derivative in the weights [D], and that in the E[U] to be kept (0 if it is not).
    """
    at = Linearised(table, utility, rationality, policies)
    # Solved backwards: one system for all weights, however many there are.
    right = _flat(at.centred_slopes(slopes))
    if held:
        backwards = np.linalg.solve(at.bordered().T, np.append(right, 0.0))
        backwards, by_utility = backwards[:-1], float(backwards[-1])
    else:
        backwards, by_utility = np.linalg.solve(at.matrix.T, right), 0.0
    chance = at.chances[0] * table.rows(0, policies[0])
    out, start = -by_utility * (chance @ table.features), 0
    # The adjoint of centring, then of the features that each context and action can expect.
    for i, policy in enumerate(policies):
        part = backwards[start : start + policy.size].reshape(policy.shape)
        start += policy.size
        part = part - policy * part.sum(axis=1, keepdims=True)
        share = np.divide(part, at.masses[i], out=np.zeros_like(part), where=at.masses[i] > 0)
        out = out + rationality * ((at.chances[i] * table.rows(i, share)) @ table.features)
    return out, by_utility


def _without_each(weight: FloatArray, rows: list[FloatArray]) -> list[FloatArray]:
    """The product of the weight and all rows but one, for each one."""
    before = [weight]
    for row in rows[:-1]:
        before.append(before[-1] * row)
    out, after = [], np.ones_like(weight)
    for first, row in zip(reversed(before), reversed(rows), strict=True):
        out.append(first * after)
        after = after * row
    return out[::-1]


def _flat(parts: Policies) -> FloatArray:
    return np.concatenate([part.reshape(-1) for part in parts])
