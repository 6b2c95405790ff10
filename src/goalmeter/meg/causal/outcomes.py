"""Joint outcomes of all decisions, and policies that are optimal given each other.

Policies are found by block-coordinate ascent on b E[U] + H and finished by Newton's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
# The search works on the joint outcomes of the decisions: for each joint value x of all families (a
# decision and what it observes) the weight w(x) that the world gives it, and what is then expected
# of the utility. Under policies pi its probability is w(x) * prod_i pi_i(d_i | pa_i).

# Joint values of all families; the search passes over them many thousand times.
MAX_ROWS = 2**17
MAX_ENTRIES = 2**25  # of a table of features
_DENSE = 2**12  # entries up to which a matrix product is cheaper than finding out what is zero


@dataclass(frozen=True, eq=False)
class JointOutcomes:
    """The joint outcomes of decisions; R of them are possible."""

    # Policies are one array [K] or [K, B]: K are the contexts and actions of all decisions, B are
    # policies that are worked on side by side.
    decisions: tuple[str, ...]  # names, causes first
    contexts: tuple[int, ...]  # how many contexts each has, in the order of its CPD's rows
    actions: tuple[int, ...]  # the size of each domain
    weight: FloatArray  # w(x), [R], positive
    place: tuple[IntArray, ...]  # for each decision, where in K each row is, [R]
    # What is expected given x, [R, D]: of a known utility (D = 1, units of the utility), or the
    # probability of each joint state of targets (the first one slowest).
    features: FloatArray
    later: tuple[tuple[int, ...], ...]  # for each decision, those whose contexts it influences
    # Whose joint states the features stand for; None for those of a known utility.
    targets: tuple[str, ...] | None = None

    @property
    def maximum(self) -> float:
        """Sum of log|dom D|, nats: no policy has more entropy, and no model more evidence."""
        return float(np.log(self.actions).sum())

    @cached_property
    def choices(self) -> FloatArray:
        """The number of actions beside each context and action, [K]."""
        counts = [c * a for c, a in zip(self.contexts, self.actions, strict=True)]
        return np.repeat(np.array(self.actions, dtype=np.float64), counts)

    @cached_property
    def slices(self) -> list[slice]:
        """Where the contexts and actions of each decision are among all K."""
        ends = np.cumsum(np.multiply(self.contexts, self.actions)).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def split(self, values: FloatArray) -> list[FloatArray]:
        """Return numbers [K(, B)] as [C, A(, B)] for each decision."""
        shapes = zip(self.slices, self.contexts, self.actions, strict=True)
        return [values[at].reshape(c, a, *values.shape[1:]) for at, c, a in shapes]

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of numbers [K(, B)] over the actions of each context, beside each."""
        sums = [np.repeat(part.sum(axis=1), part.shape[1], axis=0) for part in self.split(values)]
        return np.concatenate(sums)

    def policies(self, network: CausalBayesianNetwork) -> FloatArray:
        """Return the CPDs of the decisions, [K]."""
        return np.concatenate([network.cpd(d).reshape(-1) for d in self.decisions])

    def totals(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return numbers of each row, [R(, B)] for each decision, added up: [K(, B)]."""
        pairs = zip(self.adders, values, strict=True)
        return np.concatenate([np.asarray(adder @ rows) for adder, rows in pairs])

    @cached_property
    def adders(self) -> list[Any]:
        """For each decision the matrix that adds rows up by context and action, [C * A, R]."""
        out: list[Any] = []
        for at, place in zip(self.slices, self.place, strict=True):
            where = (np.ones(len(place)), (place - at.start, np.arange(len(place))))
            shape = (at.stop - at.start, len(place))
            matrix = sp.csr_matrix(where, shape=shape)
            out.append(matrix.toarray() if prod(shape) <= _DENSE else matrix)
        return out

    def probability(self, policies: FloatArray, *, without: int | None = None) -> FloatArray:
        """Return the probability of every row, [R(, B)]; `without` leaves one policy out."""
        out = self.weight.reshape(-1, *[1] * (policies.ndim - 1))
        for i, place in enumerate(self.place):
            if i != without:
                out = out * policies[place]
        return out

    def expected(self, policies: FloatArray) -> FloatArray:
        """E[features], [D] or [D, B]."""
        return np.asarray(self.features.T @ self.probability(policies))

    def score(self, utility: FloatArray, policies: FloatArray) -> tuple[FloatArray, FloatArray]:
        """E[U] and causal entropy H (nats) of policies, [B] each; the utility is [R, 1 or B]."""
        probability, surprise = self.probability(policies), -safe_log(policies)
        surprises = sum(surprise[place] for place in self.place)
        return (probability * utility).sum(axis=0), (probability * surprises).sum(axis=0)

    def visits(self, policies: FloatArray) -> FloatArray:
        """Return the probability of each context and action of each decision, [K]."""
        return self.totals([self.probability(policies)] * len(self.decisions))

    def frequencies(self, visits: FloatArray) -> FloatArray:
        """Return visits [K] divided by their sum for each decision."""
        return np.concatenate([visits[at] / visits[at].sum() for at in self.slices])

    def shares(self, visits: FloatArray, model: FloatArray) -> list[FloatArray]:
        """Return the evidence of models by context of each decision, nats: [C(, B)] each."""
        shape = (-1, *[1] * (model.ndim - 1))
        weight = visits.reshape(shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = weight * (np.log(model) + np.log(self.choices).reshape(shape))
        return [part.sum(axis=1) for part in self.split(np.where(weight > 0, terms, 0.0))]

    def evidence(self, visits: FloatArray, model: FloatArray) -> FloatArray:
        """E[sum_i log model_i(D_i | Pa_i) + log|dom D_i|] over visits [K], nats: [] or [B]."""
        return np.asarray(sum(share.sum(axis=0) for share in self.shares(visits, model)))


def safe_log(policy: FloatArray) -> FloatArray:
    """Return the logarithm, with 0 for what never happens."""
    return np.log(policy, out=np.zeros_like(policy), where=policy > 0)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the policy [C, A(, B)] with these logits."""
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


def joint_outcomes(
    network: CausalBayesianNetwork, decisions: Sequence[str], goal: Utility | Sequence[str]
) -> JointOutcomes:
    """Return the joint outcomes of decisions (causes first) for a utility or for targets."""
    decisions = tuple(decisions)
    families = [(*network.parents(d), d) for d in decisions]
    joint = tuple(dict.fromkeys(x for family in families for x in family))
    sizes = {x: network.size(x) for x in network.variables}
    neutral = neutral_network(network, decisions)

    def check(entries: int, limit: int, kind: str = "") -> None:
        if entries > limit:
            raise InvalidModelError(
                f"the decisions {listed(decisions)} rely on each other (insufficient recall), so "
                f"their policies are searched for over the joint values of all that they see and "
                f"do ({listed(joint)}): {entries:.3g} {kind}values, expected at most {limit:.3g}; "
                f"ask about fewer decisions or targets at a time, merge states of what they "
                f"observe, or let later decisions observe what earlier ones saw and did"
            )

    check(prod(sizes[x] for x in joint), MAX_ENTRIES)
    # The policies are uniform in this network, so P(x) times the number of choices is w(x).
    chances = neutral.elimination.conditional(joint, ())
    # Outcomes that the world rules out, whatever is chosen, would only cost time.
    at = np.nonzero(chances)
    where = dict(zip(joint, at, strict=True))
    weight = chances[chances > 0] * prod(sizes[d] for d in decisions)
    check(len(weight), MAX_ROWS, "possible ")

    def conditional(names: Sequence[str]) -> tuple[tuple[str, ...], FloatArray]:
        """Return those of some variables that no decision sees or is, and P(them | families)."""
        unseen = tuple(x for x in names if x not in joint)
        check(prod(sizes[x] for x in (*joint, *unseen)), MAX_ENTRIES)
        return unseen, neutral.elimination.conditional(unseen, joint)

    if isinstance(goal, Utility):
        features = np.zeros((len(weight), 1))
        for factor in goal.factors:
            unseen, kernel = conditional(factor.variables)
            expected = sum_of_product([Factor((*joint, *unseen), kernel), factor], joint)
            features[:, 0] += expected.arranged(joint)[at]
    else:
        states = prod(sizes[x] for x in goal)
        check(len(weight) * states, MAX_ENTRIES, f"times {listed(goal)} ")
        unseen, kernel = conditional(goal)
        given = kernel[at].reshape(len(weight), -1)
        # Joint state of the targets that are not in a family, and the part that the row fixes.
        grid = dict(zip(unseen, np.indices([sizes[x] for x in unseen]), strict=True))
        column = np.zeros(given.shape, dtype=np.int64)
        for x in goal:
            state = grid[x].reshape(1, -1) if x in grid else where[x][:, None]
            column = column * sizes[x] + state
        features = np.zeros((len(weight), states))
        np.put_along_axis(features, column, given, axis=1)
    places, start = [], 0
    for family in families:
        shape = [sizes[x] for x in family]
        places.append(start + np.ravel_multi_index(tuple(where[x] for x in family), shape))
        start += prod(shape)
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
# With the policies of the others fixed, the best policy of decision i is the softmax
#
#     pi_i(d | c)  proportional to  exp( b E[U | c, d] + sum_{later j} E[-log pi_j | c, d] ),
#
# written as b times the gap to the best action, so that it is exact for every b: at infinity the
# best actions share the probability, weighted by the entropy that they leave to the others.
#
# With a fixed E[U] = u, H is maximised by the augmented Lagrangian H + m (E[U] - u) - (r / 2)
# (E[U] - u)^2. Its step is the same softmax at the b with b = m - r (E[U] - u), which m becomes.
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
    table: JointOutcomes, utility: FloatArray, policies: FloatArray, i: int
) -> Prospects:
    """Return what decision `i` faces; utility [R, 1] or [R, B], policies [K, B]."""
    adder, shape = table.adders[i], (table.contexts[i], table.actions[i], -1)
    chance = table.probability(policies, without=i)
    mass = np.asarray(adder @ chance).reshape(shape)
    # Sums over a context become expectations in it; a context without mass keeps its zeros.
    known = np.where(mass > 0, mass, 1.0)
    paid = np.asarray(adder @ (chance * utility)).reshape(shape) / known
    spare = np.zeros_like(paid)
    if table.later[i]:
        surprise = -safe_log(policies)
        surprises = sum(surprise[table.place[j]] for j in table.later[i])
        spare = np.asarray(adder @ (chance * surprises)).reshape(shape) / known
    return Prospects(mass, paid, spare)


def respond(prospects: Prospects, rationality: FloatArray, old: FloatArray) -> FloatArray:
    """Return the best policy of a decision, [C, A, B]; unchanged where a context has no mass."""
    value = np.where(rationality < 0, -prospects.paid, prospects.paid)
    gap = value.max(axis=1, keepdims=True) - value
    gap[gap <= np.where(np.isinf(rationality), TIE_AT_INFINITY, TIE)] = 0.0
    with np.errstate(invalid="ignore"):
        penalty = np.where(gap > 0, np.abs(rationality) * gap, 0.0)
    policy = softmax(prospects.spare - penalty)
    # A context that is never reached may be avoided because of what would be done there.
    return np.where(prospects.mass.max(axis=1, keepdims=True) > 0, policy, old)


def ascend(
    table: JointOutcomes,
    utility: FloatArray,
    rationality: FloatArray,
    policies: FloatArray,
    *,
    sweeps: int,
    tolerance: float,
    fixed: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Let every decision answer the others until no probability moves by more than a tolerance."""
    # The utility, [R, 1] or [R, B], is in a unit in which it varies by about 1. Each of B ascents
    # has its rationality b of either sign or infinite, and initial policies [K, B]; with a fixed
    # E[U], [B], b is the initial multiplier. Policies and rationalities or multipliers come back.
    out, multipliers = policies.copy(), rationality.copy()
    running = np.arange(len(rationality))
    now, b, u, value = policies.copy(), rationality, fixed, utility
    for sweep in range(sweeps):
        moved = np.zeros(len(running))
        stiffness = max(_STIFFEST * _RELAXED**sweep, _STIFFNESS)
        at = b
        for i, old in enumerate(table.split(now)):
            prospects = prospects_of(table, value, now, i)
            if u is not None:
                at = _multiplier(prospects, old, at, b, u, stiffness)
            new = respond(prospects, at, old)
            moved = np.maximum(moved, np.abs(new - old).max(axis=(0, 1)))
            now[table.slices[i]] = new.reshape(-1, new.shape[2])
        if u is not None:
            moved += np.abs(at - b) / stiffness
            b = np.clip(at, -_LARGEST_MULTIPLIER, _LARGEST_MULTIPLIER)
        settled = moved <= tolerance
        last = sweep == sweeps - 1
        # Taking columns out copies all of them, which pays once a tenth has settled; now and then
        # it is done all the same, so that a few slow columns do not keep the others.
        if last or (settled.any() and (settled.mean() > 0.1 or sweep % 16 == 0)):
            out[:, running] = now
            multipliers[running] = b
            keep = ~settled
            if not keep.any():
                break
            running, now, b = running[keep], now[:, keep], b[keep]
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


# --- Stationary points ----------------------------------------------------------------------------
# Policies that are best answers to each other, log pi = A(log pi) up to a constant in each context:
# Newton's method finishes what ascent has begun, and the derivative of the equations says how the
# policies move with the utility. With a fixed E[U] = u, b is one more unknown.

# Equations of more unknowns than this are not formed; ascent alone has to do.
MAX_UNKNOWNS = 600
_STEPS = 30
_LONGEST = 4.0


class Linearised:
    """The equations at policies [K] for a utility [R] and rationality, and their derivatives."""

    def __init__(
        self, table: JointOutcomes, utility: FloatArray, rationality: float, policies: FloatArray
    ) -> None:
        self.table, self.policies, self.rationality = table, policies, rationality
        self.log = log = safe_log(policies)
        # The probability of each row without one decision's choice, [R] for each decision.
        self.chances = [table.probability(policies, without=i) for i in range(len(table.place))]
        surprises, nothing = [-log[place] for place in table.place], np.zeros(len(utility))
        spares = [sum((surprises[j] for j in later), nothing) for later in table.later]
        self.mass = table.totals(self.chances)  # of each context, seen from each action
        known = np.where(self.mass > 0, self.mass, 1.0)
        self.gains = table.totals([chance * utility for chance in self.chances])
        paid = self.gains / known
        pairs = zip(self.chances, spares, strict=True)
        spared = table.totals([chance * spare for chance, spare in pairs]) / known
        value = np.where(self.mass > 0, rationality * paid + spared, log)
        self._excess = [
            rationality * utility + spare - value[place]
            for spare, place in zip(spares, table.place, strict=True)
        ]
        answers = [part - part.max(axis=1, keepdims=True) for part in table.split(value)]
        value = np.concatenate([part.reshape(-1) for part in answers])
        self.answers = value - np.log(table.sums(np.exp(value)))  # the logs of the best answers
        self.error = self.answers - log
        self.pull = self.centred(paid[:, None])[:, 0]  # d(answers) / db

    @cached_property
    def matrix(self) -> FloatArray:
        """d(logs of policies - answers) / d(logs of policies), [K, K]."""
        table, slices = self.table, self.table.slices
        policies = table.split(self.policies)
        cross = np.zeros((len(self.mass), len(self.mass)))
        # Where nothing can come up derivatives are 0: divided by infinity.
        known = np.where(self.mass > 0, self.mass, np.inf)
        for i, mine in enumerate(slices):
            for k, theirs in enumerate(slices):
                if k == i:
                    continue
                # A later decision's surprise is -log pi_k, whose own derivative is -1.
                excess = self._excess[i] - 1.0 if k in table.later[i] else self._excess[i]
                shape = (mine.stop - mine.start, theirs.stop - theirs.start)
                pairs = (table.place[i] - mine.start) * shape[1] + table.place[k] - theirs.start
                sums = np.bincount(pairs, self.chances[i] * excess, minlength=prod(shape))
                block = sums.reshape(shape) / known[mine, None]
                # Logs move so that each context's probabilities still sum to 1.
                summed = block.reshape(-1, *policies[k].shape).sum(axis=2)
                cross[mine, theirs] = block - (summed[:, :, None] * policies[k]).reshape(shape)
        return np.asarray(np.eye(len(cross)) - self.centred(cross))

    def paid_features(self) -> FloatArray:
        """E[features | context, action] of all decisions, centred: [K, D]."""
        features, mass = self.table.features, self.mass[:, None]
        total = self.table.totals([chance[:, None] * features for chance in self.chances])
        return self.centred(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))

    def bordered(self) -> FloatArray:
        """`matrix` with b as one more unknown and E[U] as one more equation, [K + 1, K + 1]."""
        top = np.hstack([self.matrix, -self.pull[:, None]])
        return np.vstack([top, np.append(self._slopes(self.gains * self.policies), 0.0)])

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """How a function moves with the weights of features, [D], by its `slopes` in the logs."""
        # Solved backwards: one system for all weights, however many there are. Then the adjoint of
        # centring, and of the features that each context and action can expect.
        part = np.asarray(np.linalg.solve(self.matrix.T, self._slopes(slopes)))
        part = part - self.policies * self.table.sums(part)
        share = np.divide(part, self.mass, out=np.zeros_like(part), where=self.mass > 0)
        out = np.zeros(self.table.features.shape[1])
        for chance, place in zip(self.chances, self.table.place, strict=True):
            out = out + self.rationality * ((chance * share[place]) @ self.table.features)
        return out

    def _slopes(self, slopes: FloatArray) -> FloatArray:
        """Derivatives in the logs of policies where those stay normalised, [K]."""
        return slopes - self.policies * self.table.sums(slopes)

    def centred(self, values: FloatArray) -> FloatArray:
        """Return numbers [K, n] less their mean under the policy of their context."""
        return values - self.table.sums(self.policies[:, None] * values)

    def moved(self, step: FloatArray) -> FloatArray:
        """Return the policies after their logs are moved by [K], and normalised."""
        out = []
        moves = zip(self.table.split(self.policies), self.table.split(self.log + step), strict=True)
        for policy, logits in moves:
            new = np.where(policy > 0, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
            out.append((new / new.sum(axis=1, keepdims=True)).reshape(-1))
        return np.concatenate(out)


def finish(
    table: JointOutcomes,
    utility: FloatArray,
    rationality: float,
    policies: FloatArray,
    fixed: float | None = None,
) -> tuple[FloatArray, float, float]:
    """Newton's method from policies that are nearly stationary, at b or at a fixed E[U]."""
    # The best point on the way, perhaps the initial one: its policies, its b, how far it is off.
    best = policies, rationality, np.inf
    if len(policies) > MAX_UNKNOWNS:
        return best
    b, now = rationality, policies
    for _ in range(_STEPS):
        at = Linearised(table, utility, b, now)
        error = np.where(now > 0, at.error, 0.0)
        attained = float((at.chances[0] * now[table.place[0]]) @ utility)
        missing = 0.0 if fixed is None else fixed - attained
        # An answer that leaves a probability where it is to 1e-16 is as good as can be seen.
        residual = float(np.abs(now * error).max(initial=0.0)) + abs(missing)
        # Newton's method either shrinks the residual fast or, at rounding or where two branches
        # meet, not at all: going on would only wander.
        if not residual < 0.8 * best[2]:
            return (now, b, residual) if residual < best[2] else best
        best = now, b, residual
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
