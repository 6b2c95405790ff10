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
from goalmeter._types import FloatArray, IntArray
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
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class JointOutcomes:
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

    def with_features(self, features: FloatArray) -> JointOutcomes:
        """The table with other features, [R, D]; they stand for no joint states of targets."""
        return replace(self, features=features, targets=None)

    def policies(self, network: CausalBayesianNetwork) -> Policies:
        """Return the CPDs of the decisions, [contexts, actions] each."""
        return [
            network.cpd(d).reshape(-1, a) for d, a in zip(self.decisions, self.actions, strict=True)
        ]

    def uniform(self) -> Policies:
        """Return every decision uniform, [contexts, actions] each."""
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
        """Return the probability of every row, [R] or [R, B]; `without` leaves one policy out."""
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
        """Return the probability of each context and action of each decision, [C, A(, B)] each."""
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
        """Return the evidence by context of each decision, nats: a list of [C] or [C, B].

        Args:
            visits: how often each context and action comes about, [C, A] for each decision.
            model: [C, A] or [C, A, B] each.
        """
        out = []
        for counts, policy, a in zip(visits, model, self.actions, strict=True):
            weight = counts.reshape(*counts.shape, *[1] * (policy.ndim - 2))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = weight * (np.log(policy) + np.log(a))
            out.append(np.where(weight > 0, terms, 0.0).sum(axis=1))
        return out


def safe_log(policy: FloatArray) -> FloatArray:
    """Return the logarithm, with 0 for what never happens."""
    return np.log(policy, out=np.zeros_like(policy), where=policy > 0)


def joint_outcomes(
    network: CausalBayesianNetwork,
    decisions: Sequence[str],
    goal: Utility | Sequence[str],
) -> JointOutcomes:
    """Return the joint outcomes of decisions, with what is expected of each of them.

    Args:
        network: the model; the policies in it are not used.
        decisions: those that influence the goal, causes first.
        goal: a known utility, whose expectation given each outcome is the only feature, [R, 1]; or
            targets, whose joint states (the first target slowest) have a probability given each
            outcome, [R, D].
    """
    decisions = tuple(decisions)
    family = tuple(dict.fromkeys(x for d in decisions for x in (*network.parents(d), d)))
    sizes = {x: network.size(x) for x in network.variables}
    neutral = neutral_network(network, decisions)

    def check(entries: int, limit: int, kind: str = "") -> None:
        if entries > limit:
            raise InvalidModelError(
                f"the decisions {listed(decisions)} rely on each other (insufficient recall), so "
                f"their policies are searched for over the joint values of all that they see and "
                f"do ({listed(family)}): {entries:.3g} {kind}values, expected at most {limit:.3g}; "
                f"ask about fewer decisions at a time, merge states of what they observe, or let "
                f"later decisions observe what earlier ones saw and did"
            )

    check(prod(sizes[x] for x in family), MAX_ENTRIES)
    # The policies are uniform in this network, so P(x) times the number of choices is w(x).
    joint = neutral.elimination.conditional(family, ())
    # Outcomes that the world rules out, whatever is chosen, would only cost time.
    where = dict(zip(family, np.nonzero(joint), strict=True))
    weight = joint[joint > 0] * prod(sizes[d] for d in decisions)
    check(len(weight), MAX_ROWS, "possible ")

    def conditional(names: Sequence[str]) -> tuple[Names, FloatArray]:
        """Return those of some variables that no decision sees or is, and P(them | families)."""
        unseen = tuple(x for x in names if x not in family)
        check(prod(sizes[x] for x in (*family, *unseen)), MAX_ENTRIES)
        if not unseen:
            return unseen, np.ones([sizes[x] for x in family])
        return unseen, neutral.elimination.conditional(unseen, family)

    at = tuple(where.values())
    if isinstance(goal, Utility):
        features = np.zeros((len(weight), 1))
        for factor in goal.factors:
            unseen, kernel = conditional(factor.variables)
            expected = sum_of_product([Factor((*family, *unseen), kernel), factor], family)
            features[:, 0] += expected.arranged(family)[at]
    else:
        states = prod(sizes[x] for x in goal)
        if len(weight) * states > MAX_ENTRIES:
            raise InvalidModelError(
                f"{len(weight)} joint outcomes of the decisions {listed(decisions)} and {states} "
                f"joint states of the targets {listed(goal)} need a table of "
                f"{len(weight) * states:.3g} entries, expected at most {MAX_ENTRIES:.3g}; ask "
                f"about fewer targets, or merge states of targets or of what decisions observe"
            )
        unseen, kernel = conditional(goal)
        chances = kernel[at].reshape(len(weight), -1)
        # Joint state of the targets that are not in a family, and the part that the row fixes.
        grid = dict(zip(unseen, np.indices([sizes[x] for x in unseen]), strict=True))
        column = np.zeros(chances.shape, dtype=np.int64)
        for x in goal:
            state = grid[x].reshape(1, -1) if x in grid else where[x][:, None]
            column = column * sizes[x] + state
        features = np.zeros((len(weight), states))
        np.put_along_axis(features, column, chances, axis=1)
    families = [(*network.parents(d), d) for d in decisions]
    places = [
        np.ravel_multi_index(tuple(where[x] for x in names), [sizes[x] for x in names])
        for names in families
    ]
    return JointOutcomes(
        decisions=decisions,
        contexts=tuple(prod(sizes[x] for x in network.parents(d)) for d in decisions),
        actions=tuple(sizes[d] for d in decisions),
        weight=weight,
        place=tuple(place.astype(np.int64) for place in places),
        features=features,
        later=tuple(
            tuple(j for j, below in enumerate(decisions) if d in network.ancestors(below))
            for d in decisions
        ),
        targets=None if isinstance(goal, Utility) else tuple(goal),
    )


# --- Ascent ---------------------------------------------------------------------------------------
# With the policies of the others fixed, b E[U] + H is concave in the policy of decision i and its
# maximum is the softmax
#
#     pi_i(d | c)  proportional to  exp( b E[U | c, d] + sum_{later j} E[-log pi_j | c, d] ),
#
# where only decisions j whose contexts D_i influences can differ with d. A step therefore never
# decreases the objective. It is written as b times the gap to the best action, so it is exact for
# every b: at infinity the best actions share the probability, weighted by the entropy that they
# leave to the others. A negative b is a positive one for -U.
#
# With a fixed E[U] = u, H is maximised by the augmented Lagrangian H + m (E[U] - u) - (r / 2)
# (E[U] - u)^2. Its step is the same softmax at the b that satisfies b = m - r (E[U] - u), and m
# becomes b after each sweep.
#
# Source: MEG paper (NeurIPS 2024), Definition 3.1; Hestenes and Powell (1969), multipliers.

# Differences in expected utility below this, in a unit in which utilities differ by at most 1, are
# rounding; at b = infinity they decide between a best and another action.
TIE = 1e-13
TIE_AT_INFINITY = 1e-9
# r, nats per squared unit of utility: at first, its factor per sweep, and at least.
_STIFFEST, _RELAXED, _STIFFNESS = 2e4, 0.9, 80.0
_LARGEST_MULTIPLIER = 1e9
_ROOT_STEPS = 20


class Prospects(NamedTuple):
    """What a decision faces, given the policies of the others; [C, A, B] each."""

    mass: FloatArray  # probability of the context, seen from each of its actions
    paid: FloatArray  # E[U | context, action]
    spare: FloatArray  # sum over later decisions of E[-log pi | context, action], nats


def prospects_of(
    table: JointOutcomes, utility: FloatArray, policies: Policies, i: int
) -> Prospects:
    """Return what decision `i` faces; utility [R, 1] or [R, B], policies [C, A, B] each."""
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
    """Return the best policy of a decision, [C, A, B]; unchanged where a context has no mass.

    A context that is never reached may be avoided because of what would be done there.
    """
    value = np.where(rationality < 0, -prospects.paid, prospects.paid)
    gap = value.max(axis=1, keepdims=True) - value
    gap[gap <= np.where(np.isinf(rationality), TIE_AT_INFINITY, TIE)] = 0.0
    with np.errstate(invalid="ignore"):
        penalty = np.where(gap > 0, np.abs(rationality) * gap, 0.0)
    logits = prospects.spare - penalty
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    return np.where(prospects.mass.max(axis=1, keepdims=True) > 0, policy, old)


def ascend(
    table: JointOutcomes,
    utility: FloatArray,
    rationality: FloatArray,
    policies: Policies,
    *,
    sweeps: int,
    tolerance: float,
    fixed: FloatArray | None = None,
) -> tuple[Policies, FloatArray]:
    """Let every decision answer the others until no probability moves by more than a tolerance.

    The utility, [R, 1] or [R, B], is in a unit in which it varies by about 1. Each of B ascents has
    its rationality b of either sign or infinite, [B], and initial policies [C, A, B]; with a fixed
    E[U], [B], b is the initial multiplier.

    Returns:
        policies, and the rationalities or multipliers [B].
    """
    out, multipliers = [p.copy() for p in policies], rationality.copy()
    running = np.arange(len(rationality))
    now, b, u, value = list(out), rationality, fixed, utility
    for sweep in range(sweeps):
        moved, now = np.zeros(len(running)), list(now)
        stiffness = max(_STIFFEST * _RELAXED**sweep, _STIFFNESS)
        at = b
        for i in range(len(now)):
            prospects = prospects_of(table, value, now, i)
            if u is not None:
                at = _multiplier(prospects, now[i], at, b, u, stiffness)
            new = respond(prospects, at, now[i])
            moved = np.maximum(moved, np.abs(new - now[i]).max(axis=(0, 1)))
            now[i] = new
        if u is not None:
            moved += np.abs(at - b) / stiffness
            b = np.clip(at, -_LARGEST_MULTIPLIER, _LARGEST_MULTIPLIER)
        settled = moved <= tolerance
        last = sweep == sweeps - 1
        # Taking columns out copies all of them, which pays once a tenth has settled; now and then
        # it is done all the same, so that a few slow columns do not keep the others.
        if last or (settled.any() and (settled.mean() > 0.1 or sweep % 16 == 0)):
            for whole, part in zip(out, now, strict=True):
                whole[..., running] = part
            multipliers[running] = b
            keep = ~settled
            if not keep.any():
                break
            running, now, b = running[keep], [p[..., keep] for p in now], b[keep]
            u = None if u is None else u[keep]
            value = value if value.shape[1] == 1 else value[:, keep]
    return out, multipliers


def _multiplier(
    prospects: Prospects,
    old: FloatArray,
    guess: FloatArray,
    multiplier: FloatArray,
    utility: FloatArray,
    stiffness: float,
) -> FloatArray:
    """The b with b + r (E[U] at b - u) = m, [B], by Newton's method inside a shrinking bracket."""
    mass = prospects.mass.max(axis=1)
    low = multiplier - stiffness * ((mass * prospects.paid.max(axis=1)).sum(axis=0) - utility)
    high = multiplier - stiffness * ((mass * prospects.paid.min(axis=1)).sum(axis=0) - utility)
    # The left side rises with b and E[U] lies between its extremes, so the root is in the bracket.
    b = np.clip(guess, low, high)
    for _ in range(_ROOT_STEPS):
        policy = respond(prospects, b, old)
        mean = (policy * prospects.paid).sum(axis=1)
        attained = (mass * mean).sum(axis=0)
        spread = (mass * (policy * (prospects.paid - mean[:, None]) ** 2).sum(axis=1)).sum(axis=0)
        excess = b - multiplier + stiffness * (attained - utility)
        low = np.where(excess < 0, b, low)
        high = np.where(excess > 0, b, high)
        step = b - excess / (1.0 + stiffness * spread)
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if (np.abs(new - b) <= 1e-8 * (1.0 + np.abs(b))).all():
            return new
        b = new
    return b


def score(
    table: JointOutcomes, utility: FloatArray, policies: Policies
) -> tuple[FloatArray, FloatArray]:
    """E[U] and H (nats) of policies, [B] each; the utility is [R, 1] or [R, B]."""
    probability = table.probability(policies)
    surprise = sum(table.rows(j, -safe_log(p)) for j, p in enumerate(policies))
    return (probability * utility).sum(axis=0), (probability * surprise).sum(axis=0)


# --- Stationary points ----------------------------------------------------------------------------
# At a stationary point of b E[U] + H each policy is the best answer to the others: log pi =
# A(log pi), up to a constant in each context. Ascent approaches it at a linear rate; Newton's
# method on the same equations finishes in a few steps, and their derivative says how the policies
# move with the utility (the implicit function theorem). With a fixed E[U] = u, b is one more
# unknown. K is the number of contexts and actions of all decisions together.

# Equations of more unknowns than this are not formed; ascent alone has to do.
MAX_UNKNOWNS = 600
_STEPS = 30
_LONGEST = 4.0


class Linearised:
    """The equations at policies [C, A] for a utility [R] and rationality, and their derivatives.

    Attributes:
        chances: the probability of each row without one decision's choice, [R] for each.
        masses: probability of each context, seen from each action, [C, A] each.
        answers: the logs of the best answers, [K].
        error: the answers less the logs of the policies, [K].
        pull: d(answers) / db, [K].
    """

    def __init__(
        self, table: JointOutcomes, utility: FloatArray, rationality: float, policies: Policies
    ) -> None:
        self.table, self.utility, self.policies = table, utility, policies
        self.logs = [safe_log(p) for p in policies]
        self.chances = [table.probability(policies, without=i) for i in range(len(policies))]
        surprises = [table.rows(i, -log) for i, log in enumerate(self.logs)]
        self.masses, paid, answers, self._excess = [], [], [], []
        for i, chance in enumerate(self.chances):
            mass = table.total(i, chance)
            known = np.where(mass > 0, mass, 1.0)
            worth = table.total(i, chance * utility) / known
            surprise = sum((surprises[j] for j in table.later[i]), np.zeros(len(chance)))
            value = rationality * worth + table.total(i, chance * surprise) / known
            value = np.where(mass > 0, value, self.logs[i])
            self._excess.append(rationality * utility + surprise - table.rows(i, value))
            self.masses.append(mass)
            paid.append(worth)
            value = value - value.max(axis=1, keepdims=True)
            answers.append(value - np.log(np.exp(value).sum(axis=1, keepdims=True)))
        self.answers = _flat(answers)
        self.error = self.answers - _flat(self.logs)
        self.pull = self.centred(_flat(paid)[:, None])[:, 0]

    @cached_property
    def matrix(self) -> FloatArray:
        """d(logs of policies - answers) / d(logs of policies), [K, K]."""
        table, sizes = self.table, [p.size for p in self.policies]
        ends = np.cumsum(sizes)
        cross = np.zeros((ends[-1], ends[-1]))
        for i, mine in enumerate(sizes):
            mass = self.masses[i].reshape(-1, 1)
            # Where nothing can come up derivatives are 0: divided by infinity.
            known = np.where(mass > 0, mass, np.inf)
            for k, theirs in enumerate(sizes):
                if k == i:
                    continue
                # A later decision's surprise is -log pi_k, whose own derivative is -1.
                excess = self._excess[i] - 1.0 if k in table.later[i] else self._excess[i]
                pairs = table.place[i] * theirs + table.place[k]
                sums = np.bincount(pairs, self.chances[i] * excess, minlength=mine * theirs)
                block = sums.reshape(mine, theirs) / known
                # Logs move so that each context's probabilities still sum to 1.
                policy = self.policies[k]
                summed = block.reshape(mine, *policy.shape).sum(axis=2)
                moved = block - (summed[:, :, None] * policy).reshape(block.shape)
                cross[ends[i] - mine : ends[i], ends[k] - theirs : ends[k]] = moved
        return np.asarray(np.eye(len(cross)) - self.centred(cross))

    def paid_features(self) -> FloatArray:
        """E[features | context, action] of all decisions, [K, D]."""
        features, parts = self.table.features, []
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
        gains = [
            self.table.total(i, chance * self.utility) * p
            for (i, chance), p in zip(enumerate(self.chances), self.policies, strict=True)
        ]
        top = np.hstack([self.matrix, -self.pull[:, None]])
        return np.vstack([top, np.append(_flat(self.centred_slopes(gains)), 0.0)])

    def centred_slopes(self, slopes: Policies) -> Policies:
        """Derivatives in the logs of policies where those stay normalised, [C, A] each."""
        return [
            d - p * d.sum(axis=1, keepdims=True) for d, p in zip(slopes, self.policies, strict=True)
        ]

    def centred(self, values: FloatArray) -> FloatArray:
        """Return numbers [K, n] less their mean under the policy of their context."""
        out, start = np.empty_like(values), 0
        for policy in self.policies:
            part = values[start : start + policy.size].reshape(*policy.shape, -1)
            part = part - (policy[..., None] * part).sum(axis=1, keepdims=True)
            out[start : start + policy.size] = part.reshape(policy.size, -1)
            start += policy.size
        return out

    def moved(self, step: FloatArray) -> Policies:
        """Return the policies after their logs are moved by [K], and normalised."""
        out, start = [], 0
        for policy, log in zip(self.policies, self.logs, strict=True):
            logits = log + step[start : start + policy.size].reshape(policy.shape)
            new = np.where(policy > 0, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
            out.append(new / new.sum(axis=1, keepdims=True))
            start += policy.size
        return out


class StationaryPoint(NamedTuple):
    """Policies [C, A] each, the b at which they are stationary, and how far they are from it."""

    policies: Policies
    rationality: float
    residual: float


def finish(
    table: JointOutcomes,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    fixed: float | None = None,
) -> StationaryPoint:
    """Newton's method from policies that are nearly stationary, at b or at a fixed E[U].

    Returns the best point on the way, which may be the initial one.
    """
    best = StationaryPoint(policies, rationality, np.inf)
    if sum(p.size for p in policies) > MAX_UNKNOWNS:
        return best
    b, now = rationality, policies
    for _ in range(_STEPS):
        at = Linearised(table, utility, b, now)
        flat = _flat(now)
        error = np.where(flat > 0, at.error, 0.0)
        attained = float((at.chances[0] * table.rows(0, now[0])) @ utility)
        missing = 0.0 if fixed is None else fixed - attained
        # An answer that leaves a probability where it is to 1e-16 is as good as can be seen.
        residual = float(np.abs(flat * error).max(initial=0.0)) + abs(missing)
        # Newton's method either shrinks the residual fast or, at rounding or where two branches
        # meet, not at all: going on would only wander.
        if not residual < 0.8 * best.residual:
            return StationaryPoint(now, b, residual) if residual < best.residual else best
        best = StationaryPoint(now, b, residual)
        try:
            if fixed is None:
                step, change = np.linalg.solve(at.matrix, error), 0.0
            else:
                solution = np.linalg.solve(at.bordered(), np.append(error, missing))
                step, change = solution[:-1], float(solution[-1])
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(step).all() or not np.isfinite(change):
            break
        step = at.centred(np.asarray(step)[:, None])[:, 0]
        # A factor e^4 in a probability is the most that a linear step is trusted with.
        scale = min(1.0, _LONGEST / max(float(np.abs(step).max(initial=0.0)), 1e-300))
        now, b = at.moved(scale * step), b + scale * change
    return best


def implicit_gradient(
    table: JointOutcomes,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    slopes: Policies,
) -> FloatArray:
    """How a function of policies that are stationary at b moves with the weights of features, [D].

    `slopes` are its derivatives in the logs of the policies, [C, A] each; the utility is that of
    each row, features @ weights up to a constant, [R].
    """
    at = Linearised(table, utility, rationality, policies)
    # Solved backwards: one system for all weights, however many there are.
    backwards = np.linalg.solve(at.matrix.T, _flat(at.centred_slopes(slopes)))
    out, start = np.zeros(table.features.shape[1]), 0
    # The adjoint of centring, then of the features that each context and action can expect.
    for i, policy in enumerate(policies):
        part = backwards[start : start + policy.size].reshape(policy.shape)
        start += policy.size
        part = part - policy * part.sum(axis=1, keepdims=True)
        share = np.divide(part, at.masses[i], out=np.zeros_like(part), where=at.masses[i] > 0)
        out = out + rationality * ((at.chances[i] * table.rows(i, share)) @ table.features)
    return out


def _flat(parts: Policies) -> FloatArray:
    return np.concatenate([part.reshape(-1) for part in parts])
