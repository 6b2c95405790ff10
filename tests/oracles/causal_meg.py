"""MEG in causal influence diagrams, definition by definition (Definitions 3.1, 3.2, 4.4).

Three cases, none of which shares code with the library:

- sufficient recall: literal backward induction, every expectation a sum over all joint outcomes;
- one decision: the closed form, written separately;
- binary decisions without sufficient recall: Definition 3.1 as it stands, the policy of maximum
  entropy at each attainable expected utility, over all policies on a grid and then refined.

The classes of utilities of Definition 4.4 are given as ``groups``, the variables of each additive
part: ``[("M", "S")]`` is every utility of M and S jointly, ``[("M",), ("S",)]`` the sums of a
utility of M and one of S.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar, root

from .causal_model import (
    Array,
    Factor,
    Model,
    marginal,
    probability_table,
    solving_order,
    spread,
    sum_to,
    uniform_policy,
    utility_table,
    with_policy,
)
from .known_utility import maximise_over_beta

TIE = 1e-9  # expected utilities and entropies that differ by less are equal
# Weights beyond this are not tried: rounding of 1e-16 in E[U | d, pa] becomes evidence of 1e-12.
LARGEST = 1e4
Groups = Sequence[tuple[str, ...]]


def expected_given_choice(model: Model, d: str, quantity: Array) -> tuple[Array, Array]:
    """``E[quantity | d, pa_d]`` and ``P(d, pa_d)``, both ``[*parents of d, d]``; 0 where P is 0."""
    table = probability_table(model)
    family = (*model.parents[d], d)
    probability = sum_to(model, family, table)
    total = sum_to(model, family, table * quantity)
    mean = np.divide(total, probability, out=np.zeros_like(total), where=probability > 0.0)
    return mean, probability


def log_or_zero(p: Array) -> Array:
    """log p, and 0 where p is 0 (there it is always multiplied by a probability of 0)."""
    return np.log(np.where(p > 0.0, p, 1.0))


def log_softmax(q: Array) -> Array:
    top = q.max(axis=-1, keepdims=True)
    log_sum: Array = top + np.log(np.exp(q - top).sum(axis=-1, keepdims=True))
    return q - log_sum


# Sufficient recall


@functools.cache
def remembered_order(
    graph: tuple[tuple[str, tuple[str, ...]], ...],
    decisions: tuple[str, ...],
    groups: tuple[tuple[str, ...], ...],
) -> list[str] | None:
    """``solving_order``, which takes longer than all the rest, once per graph."""
    return solving_order(dict(graph), decisions, groups)


def soft_optimal_policy(
    model: Model,
    beta: float,
    factors: Sequence[Factor] | None = None,
    unsolved: dict[str, Array] | None = None,
) -> dict[str, Array]:
    """The soft-optimal policy, ``{decision: log pi [*parents, own size]}``, with sufficient recall.

    The decisions are solved each after those it relies on.  Those not yet solved are uniform (or
    follow ``unsolved``: any positive policy gives the same result), those solved follow their
    solution, and

        Q(d, pa) = E[ beta U - sum over solved j of log pi_j(D_j | Pa_j) | d, pa ],
        pi(. | pa) = softmax over d of Q(., pa).

    For beta = +-inf: the d of largest (smallest) E[U | d, pa], weighted with the exponential of the
    other term.  In contexts that no policy reaches pi is uniform.
    """
    factors = model.factors if factors is None else factors
    scopes = tuple(xs for xs, _ in factors)
    order = remembered_order(tuple(model.parents.items()), model.decisions, scopes)
    if order is None:
        raise ValueError("no sufficient recall")
    utility = utility_table(model, factors)
    policy = {**uniform_policy(model), **(unsolved or {})}
    solved: dict[str, Array] = {}
    for d in order:
        surprise = np.zeros(utility.shape)
        for j, log_policy in solved.items():
            finite = np.where(log_policy > -math.inf, log_policy, 0.0)
            surprise = surprise - spread(model, (*model.parents[j], j), finite)
        now = with_policy(model, policy)
        if math.isinf(beta):
            worth, reached = expected_given_choice(now, d, math.copysign(1.0, beta) * utility)
            q, _ = expected_given_choice(now, d, surprise)
            best = worth >= worth.max(axis=-1, keepdims=True) - TIE
            q = np.where(best, q, -math.inf)
        else:
            q, reached = expected_given_choice(now, d, beta * utility + surprise)
        solved[d] = log_softmax(np.where(reached > 0.0, q, 0.0))
        policy[d] = np.exp(solved[d])
    return solved


def evidence(model: Model, log_policy: dict[str, Array]) -> float:
    """``E_pi[sum over decisions of log model policy + log |dom D|]``, pi the model's own policy."""
    table = probability_table(model)
    terms = []
    for d in model.decisions:
        p = sum_to(model, (*model.parents[d], d), table)
        if (log_policy[d][p > 0.0] == -math.inf).any():
            return -math.inf
        terms += list(p[p > 0.0] * (log_policy[d][p > 0.0] + math.log(model.sizes[d])))
    return math.fsum(terms)


def known_utility_meg(model: Model, factors: Sequence[Factor] | None = None) -> tuple[float, float]:
    """Definition 3.2 with sufficient recall: ``(value in nats, beta)``.

    About 1e-12 in the value; in beta 1e-7 at best, and nothing where the evidence is flat.
    """
    chosen = model.factors if factors is None else factors
    utility = utility_table(model, chosen)
    return maximise_over_beta(
        lambda beta: evidence(model, soft_optimal_policy(model, beta, chosen)),
        float(utility.max() - utility.min()),
    )


def causal_entropy(model: Model, decisions: Sequence[str] | None = None) -> float:
    """``-sum_D E[log pi(D | Pa_D)]`` of the model's own policy."""
    table = probability_table(model)
    terms = []
    for d in model.decisions if decisions is None else decisions:
        p = sum_to(model, (*model.parents[d], d), table)
        terms += list((p * log_or_zero(model.cpds[d])).ravel())
    return -math.fsum(terms)


# One decision


def soft_optimal_single(
    model: Model, beta: float, factors: Sequence[Factor] | None = None
) -> dict[str, Array]:
    """``pi_beta(d | s)`` proportional to ``exp(beta E[U | d, s])``, from conditionals of the joint.

    The parents are conditioned on and the decision is *set*: E[U | d, s] is read off the model in
    which the decision is uniform.  Finite beta only.
    """
    (d,) = model.decisions
    chosen = model.factors if factors is None else factors
    table = probability_table(with_policy(model, uniform_policy(model)))
    parents = model.parents[d]
    log_policy = np.full(model.cpds[d].shape, -math.log(model.sizes[d]))
    for context in itertools.product(*(range(model.sizes[p]) for p in parents)):
        scores = []
        for choice in range(model.sizes[d]):
            fixed = {**dict(zip(parents, context, strict=True)), d: choice}
            if sum_to(model, (*parents, d), table)[(*context, choice)] == 0.0:
                break  # a context that never happens
            scores.append(
                beta
                * math.fsum(
                    float((marginal(model, table, xs, fixed) * values).sum())
                    for xs, values in chosen
                )
            )
        else:
            top = max(scores)
            log_sum = top + math.log(math.fsum(math.exp(s - top) for s in scores))
            log_policy[context] = [s - log_sum for s in scores]
    return {d: log_policy}


# Definition 4.4 with sufficient recall


class TargetsMeg(NamedTuple):
    """``value``: evidence of the best utility found, a lower bound on the supremum; ``utility``:
    beta times that utility, one table per group; ``policy``: its soft-optimal policy."""

    value: float
    utility: list[Array]
    policy: dict[str, Array]


def group_sizes(model: Model, groups: Groups) -> list[tuple[int, ...]]:
    return [tuple(model.sizes[x] for x in group) for group in groups]


def factors_of(model: Model, groups: Groups, theta: Array) -> list[Factor]:
    """The utility with these weights, one weight per joint state of every group."""
    factors, start = [], 0
    for group, shape in zip(groups, group_sizes(model, groups), strict=True):
        n = math.prod(shape)
        factors.append((group, theta[start : start + n].reshape(shape)))
        start += n
    return factors


def features(model: Model, groups: Groups) -> Array:
    """``P(T = t)`` of every group under the model's policy, in the order of the weights."""
    table = probability_table(model)
    return np.concatenate([sum_to(model, group, table).ravel() for group in groups])


def targets_meg(model: Model, groups: Groups, starts: int = 2, seed: int = 0) -> TargetsMeg:
    """Definition 4.4 with sufficient recall: the supremum over all weights, from below.

    The gradient of the evidence is ``P_pi(t) - P_theta(t)`` (the tests check it by differences).
    Where the supremum is at infinity, the weights that were found are also scaled up; what is
    missing is then about exp(-LARGEST times the smallest gap in E[U | d, pa] that matters).
    """
    rng = np.random.default_rng(seed)
    target = features(model, groups)

    def loss(theta: Array) -> tuple[float, Array]:
        log_policy = soft_optimal_policy(model, 1.0, factors_of(model, groups, theta))
        policy = {d: np.exp(q) for d, q in log_policy.items()}
        gradient = target - features(with_policy(model, policy), groups)
        return -evidence(model, log_policy), -gradient

    best, at = -loss(np.zeros(target.size))[0], np.zeros(target.size)
    for start in range(starts):
        theta = rng.normal(size=target.size) if start else np.zeros(target.size)
        for _ in range(4):  # restarts drop a stale curvature estimate
            for scale in (3.0, 10.0, 30.0):
                larger = np.clip(scale * theta, -LARGEST, LARGEST)
                if loss(larger)[0] < loss(theta)[0]:
                    theta = larger
            theta = minimize(
                loss,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=[(-LARGEST, LARGEST)] * target.size,
                options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 2000, "maxcor": 30},
            ).x
        if -loss(theta)[0] > best:
            best, at = -loss(theta)[0], theta
    factors = factors_of(model, groups, at)
    policy = {d: np.exp(q) for d, q in soft_optimal_policy(model, 1.0, factors).items()}
    return TargetsMeg(best, [values for _, values in factors], policy)


def influencing(model: Model, groups: Groups) -> list[str]:
    """The decisions with a directed path to some variable of some group."""
    result = []
    for d in model.decisions:
        reached, grown = {d}, True
        while grown:
            more = {x for x in model.sizes if reached & set(model.parents[x])} - reached
            reached, grown = reached | more, bool(more)
        if any(reached & set(group) for group in groups):
            result.append(d)
    return result


def matching_policy_bound(
    model: Model, groups: Groups, starts: Sequence[dict[str, Array]] = ()
) -> tuple[float, float]:
    """An upper bound on ``targets_meg`` by weak duality: ``(bound, residual of the matching)``.

    For weights theta, f(theta) = theta . P_pi(T) + C - max over pi' of (theta . P_pi'(T) + H(pi')),
    with C the sum of log |dom D|.  So any pi' with P_pi'(T) = P_pi(T) gives f <= C - H(pi'); the
    best is looked for among all policies of the decisions that influence T (the others are uniform
    and cancel), from the measured policy and from ``starts`` (by default its mixtures with the
    uniform one).  Of those that match to 1e-9 the best is returned; the measured policy always
    does.  A residual r leaves a slack of r times the sum of |theta|.

    On the boundary (deterministic policies) the optimiser easily stops short of the best pi'; the
    bound is then loose, never wrong.  Starting at ``targets_meg(...).policy`` closes it.
    """
    active = influencing(model, groups)
    if not active:
        return 0.0, 0.0
    total = math.fsum(math.log(model.sizes[d]) for d in active)
    target = features(model, groups)
    families = {d: (*model.parents[d], d) for d in active}
    shapes = {d: model.cpds[d].shape for d in active}
    fixed = {d: q for d, q in uniform_policy(model).items() if d not in active}
    ones = {d: np.ones(shape) for d, shape in shapes.items()}
    world = probability_table(with_policy(model, {**fixed, **ones}))  # all but the active decisions
    states = [
        spread(model, group, np.eye(math.prod(shape))[i].reshape(shape))
        for group, shape in zip(groups, group_sizes(model, groups), strict=True)
        for i in range(math.prod(shape))
    ]

    def unpack(x: Array) -> dict[str, Array]:
        """The policies, each spread over all variables."""
        out, at = {}, 0
        for d, shape in shapes.items():
            n = math.prod(shape)
            out[d] = spread(model, families[d], x[at : at + n].reshape(shape))
            at += n
        return out

    def joint_without(policy: dict[str, Array], left_out: str | None = None) -> Array:
        table = world
        for d in active:
            if d != left_out:
                table = table * policy[d]
        return table

    def entropy(x: Array) -> tuple[float, Array]:
        policy = unpack(np.clip(x, 1e-300, None))
        surprise = -sum(np.log(q) for q in policy.values())
        table = joint_without(policy)
        gradient = [
            sum_to(model, families[d], joint_without(policy, d) * surprise)
            - sum_to(model, model.parents[d], table)[..., None]
            for d in active
        ]
        return float((table * surprise).sum()), np.concatenate([g.ravel() for g in gradient])

    def matching(x: Array) -> Array:
        table = joint_without(unpack(x))
        return np.concatenate([sum_to(model, g, table).ravel() for g in groups]) - target

    def matching_jacobian(x: Array) -> Array:
        policy = unpack(x)
        without = {d: joint_without(policy, d) for d in active}
        rows = [
            [sum_to(model, families[d], without[d] * state).ravel() for d in active]
            for state in states
        ]
        return np.array([np.concatenate(row) for row in rows])

    # One row per context: its probabilities sum to one.
    size = sum(math.prod(shape) for shape in shapes.values())
    contexts = [shape[-1] for shape in shapes.values() for _ in range(math.prod(shape[:-1]))]
    sums = np.repeat(np.eye(len(contexts)), contexts, axis=1)

    # The optimiser needs independent constraints: an orthonormal basis of the directions in which
    # P(T) can move at all, from random policies.
    rng = np.random.default_rng(0)
    moves = []
    for _ in range(2 * target.size + 2):
        rows = rng.exponential(size=size)
        moves.append(matching(rows / (rows @ sums.T @ sums)))
    _, lengths, basis = np.linalg.svd(np.array(moves), full_matrices=False)
    basis = basis[lengths > 1e-10 * max(1.0, float(lengths[0]))]

    constraints = [{"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums}]
    if len(basis):
        constraints.append(
            {
                "type": "eq",
                "fun": lambda x: basis @ matching(x),
                "jac": lambda x: basis @ matching_jacobian(x),
            }
        )
    uniform = uniform_policy(model)
    mixtures = [
        {d: (1 - share) * model.cpds[d] + share * uniform[d] for d in active}
        for share in (0.5, 0.03)
    ]
    result = []
    for start in [model.cpds, *(starts or mixtures)]:
        x = np.concatenate([start[d].ravel() for d in active])
        result.append((total - entropy(x)[0], float(np.abs(matching(x)).max())))
        for _ in range(2):
            x = minimize(
                lambda x: tuple(-part for part in entropy(x)),
                x,
                jac=True,
                method="SLSQP",
                bounds=[(0.0, 1.0)] * size,
                constraints=constraints,
                options={"ftol": 1e-15, "maxiter": 100},
            ).x
            x = np.clip(x, 0.0, 1.0)
            x = x / (x @ sums.T @ sums)
            result.append((total - entropy(x)[0], float(np.abs(matching(x)).max())))
    return min((bound, residual) for bound, residual in result if residual < 1e-9)


# Binary decisions without sufficient recall: policies as points of a cube


class Cube(NamedTuple):
    """All policies of binary decisions, as points p of ``[0, 1]^K``.

    ``contexts[k] = (decision, context)`` for every context that some policy reaches; ``p[k]`` is
    the probability of choice 1 there.  Every expectation is linear in each p[k] by itself, so its
    values at the corners (the pure policies) say it all: ``reach[k]`` is P(context k), ``targets``
    is ``[number of joint target states, 2, ..., 2]``.  ``weight[k] = P_pi(context k, choice)`` of
    the policy that is measured.
    """

    contexts: list[tuple[str, tuple[int, ...]]]
    reach: Array  # [K, 2, ..., 2]
    targets: Array  # [T, 2, ..., 2]
    weight: Array  # [K, 2]
    policy: Array  # [K], the policy that is measured


def cube(model: Model, targets: Sequence[str]) -> Cube:
    """Evaluate every pure policy; decisions are binary."""
    if any(model.sizes[d] != 2 for d in model.decisions):
        raise ValueError("binary decisions only")
    uniform = probability_table(with_policy(model, uniform_policy(model)))
    contexts = [
        (d, context)
        for d in model.decisions
        for context in np.ndindex(*(model.sizes[p] for p in model.parents[d]))
        if sum_to(model, model.parents[d], uniform)[context] > 0.0
    ]
    K = len(contexts)
    n = math.prod(model.sizes[t] for t in targets)
    reach, reached = np.zeros((K, 2**K)), np.zeros((n, 2**K))
    for corner, choices in enumerate(itertools.product((0, 1), repeat=K)):
        policy = uniform_policy(model)
        for (d, context), choice in zip(contexts, choices, strict=True):
            policy[d][context] = [1.0 - choice, float(choice)]
        table = probability_table(with_policy(model, policy))
        for k, (d, context) in enumerate(contexts):
            reach[k, corner] = sum_to(model, model.parents[d], table)[context]
        reached[:, corner] = sum_to(model, targets, table).ravel()
    table = probability_table(model)
    weight = np.array(
        [sum_to(model, (*model.parents[d], d), table)[context] for d, context in contexts]
    )
    at = np.array([float(model.cpds[d][(*context, 1)]) for d, context in contexts])
    axes = [2] * K
    return Cube(contexts, reach.reshape(K, *axes), reached.reshape(n, *axes), weight, at)


@functools.cache
def corner_bits(K: int) -> Array:
    """``[K, 2^K]``: coordinate k of every corner, in the order of a flattened ``[2, ..., 2]``."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=K))).reshape(2**K, K).T


def corner_weights(p: Array) -> tuple[Array, Array]:
    """The weight ``[2^K]`` of every corner in a multilinear function's value at p, and its
    derivatives ``[K, 2^K]``."""
    bits = corner_bits(len(p))
    each = bits * p[:, None] + (1.0 - bits) * (1.0 - p[:, None])
    before, after = np.ones_like(each), np.ones_like(each)
    for k in range(1, len(p)):
        before[k] = before[k - 1] * each[k - 1]
        after[-1 - k] = after[-k] * each[-k]
    return before[-1] * each[-1], (2.0 * bits - 1.0) * before * after


def at_point(corners: Array, p: Array) -> Array:
    """The multilinear function with these corner values, ``[..., 2 (K times)]``, at one p."""
    weights, _ = corner_weights(p)
    flat = corners.reshape(*corners.shape[: corners.ndim - len(p)], -1)
    return np.asarray(flat @ weights)


def slopes(corners: Array, p: Array) -> Array:
    """Its derivatives, ``[..., K]``."""
    _, moves = corner_weights(p)
    return corners.reshape(*corners.shape[: corners.ndim - len(p)], -1) @ moves.T


def on_grid(corners: Array, points: Array, K: int) -> Array:
    """The multilinear function at all grid policies, ``[n, ..., n]`` (K axes, no others)."""
    basis = np.stack([1.0 - points, points], axis=1)
    for _ in range(K):
        corners = np.tensordot(corners, basis, axes=(0, 1))  # the first axis goes, a new one last
    return np.asarray(corners)


def binary_entropy(p: Array) -> Array:
    return -p * log_or_zero(p) - (1.0 - p) * log_or_zero(1.0 - p)


def entropy_at(space: Cube, p: Array) -> float:
    """The causal entropy of one policy."""
    return float(at_point(space.reach, p) @ binary_entropy(p))


def entropy_slopes(space: Cube, p: Array) -> Array:
    """Its derivatives, ``[K]``."""
    inside = np.clip(p, 1e-300, 1.0 - 1e-16)
    entropies = at_point(space.reach, p) * (np.log1p(-inside) - np.log(inside))
    return np.asarray(entropies + binary_entropy(p) @ slopes(space.reach, p))


def accuracy_at(space: Cube, p: Array) -> float:
    """``E_pi[sum log model + log 2]`` of the model policy p; -inf where it excludes a choice."""
    total = []
    for k in range(len(p)):
        for choice, m in ((0, 1.0 - p[k]), (1, p[k])):
            if space.weight[k, choice] > 0.0:
                if m <= 0.0:
                    return -math.inf
                total.append(float(space.weight[k, choice]) * (math.log(m) + math.log(2.0)))
    return math.fsum(total)


def grid_points(n: int) -> Array:
    """n probabilities from 0 to 1, both included, symmetric about 1/2."""
    return np.linspace(0.0, 1.0, n)


class GridMeg(NamedTuple):
    """``best`` = (value, u, policy); ``rows``: (u, entropy, accuracy) of every bin, in order."""

    value: float
    u: float
    policy: Array
    rows: Array


def grid_meg(space: Cube, utility: Array, n: int = 21, bins: int = 60) -> GridMeg:
    """Definitions 3.1 and 3.2 on a grid of policies, nothing else.

    The attainable utilities are cut into bins (the smallest and the largest are their own); in each
    bin the grid policies of maximum entropy (all that tie) are kept, and the best predictive
    accuracy among them is the bin's.  ``utility`` is one number per joint target state.

    Resolution: 1/(n - 1) in a probability and 1/bins of the range in u.  The value comes out too
    high rather than too low (a grid policy a little off the maximum may be luckier, and the best of
    many bins is taken): four contexts and n = 25 by up to about 0.1 nats, two and n = 401 by 0.005.
    """
    K = len(space.contexts)
    points = grid_points(n)
    u = on_grid(np.tensordot(utility, space.targets, axes=1), points, K).ravel()
    h = entropy_on_grid(space, points)
    accuracy = np.zeros([n] * K)
    with np.errstate(divide="ignore"):
        logs = np.stack([np.log(1.0 - points), np.log(points)])
    for k in range(K):
        axis = [n if i == k else 1 for i in range(K)]
        entropies = np.zeros(n)
        for choice in (0, 1):
            if space.weight[k, choice] > 0.0:
                entropies = entropies + space.weight[k, choice] * (logs[choice] + math.log(2.0))
        accuracy = accuracy + entropies.reshape(axis)
    h, accuracy = h.ravel(), accuracy.ravel()
    low, high = float(u.min()), float(u.max())
    if high - low < TIE:
        bin_of = np.zeros(u.shape, dtype=int)
    else:
        bin_of = 1 + np.minimum((u - low) / (high - low) * bins, bins - 1).astype(int)
        bin_of[u < low + TIE] = 0
        bin_of[u > high - TIE] = bins + 1
    top = np.full(bins + 2, -math.inf)
    np.maximum.at(top, bin_of, h)
    tied = np.flatnonzero(h >= top[bin_of] - TIE)
    rows, best = [], (-math.inf, 0.0, 0)
    for b in np.unique(bin_of[tied]):
        in_bin = tied[bin_of[tied] == b]
        i = int(in_bin[np.argmax(accuracy[in_bin])])
        rows.append((float(u[i]), float(h[i]), float(accuracy[i])))
        if accuracy[i] > best[0]:
            best = (float(accuracy[i]), float(u[i]), i)
    policy = points[np.array(np.unravel_index(best[2], [n] * K))]
    return GridMeg(best[0], best[1], policy, np.array(rows))


def entropy_on_grid(space: Cube, points: Array) -> Array:
    """The causal entropy of all grid policies, ``[n, ..., n]``."""
    K = len(space.contexts)
    h = np.zeros([len(points)] * K)
    for k in range(K):
        axis = [len(points) if i == k else 1 for i in range(K)]
        entropies = binary_entropy(points).reshape(axis)
        h = h + on_grid(space.reach[k], points, K) * entropies
    return h


def far_apart(
    candidates: Array, order: NDArray[np.intp], distance: float, most: int
) -> list[Array]:
    """The first candidates in this order that are not within the distance of one taken before."""
    taken: list[Array] = []
    for i in order:
        if all(np.abs(candidates[i] - t).max() > distance for t in taken):
            taken.append(candidates[i])
        if len(taken) == most:
            break
    return taken


SCAN_POINTS = {1: 2, 2: 201, 3: 31, 4: 15, 5: 8}  # per free coordinate, by number of contexts


class Search:
    """The policies of maximum entropy at an expected utility.

    First all policies on the level set E[U] = u are scanned: every coordinate in turn is solved for
    (E[U] is linear in it) while the others run over a grid.  Then SLSQP starts from the best of
    them that are not neighbours, and the results are polished.
    """

    def __init__(self, space: Cube, utility: Array, starts: int = 6):
        self.space = space
        self.worth = np.tensordot(utility, space.targets, axes=1)  # E[U] at the corners
        self.starts = starts
        self.low, self.high = float(self.worth.min()), float(self.worth.max())
        K = len(space.contexts)
        self.points = grid_points(SCAN_POINTS[K])
        # chart k: E[U] and the reaches on the grid of the other coordinates, with p[k] at 0 and 1
        self.charts = []
        for k in range(K):
            ends = []
            for end in (0, 1):
                worth = on_grid(np.take(self.worth, end, axis=k), self.points, K - 1)
                reach = [
                    on_grid(np.take(r, end, axis=k), self.points, K - 1).ravel()
                    for r in space.reach
                ]
                ends.append((worth.ravel(), np.array(reach)))
            self.charts.append(ends)
        self.others = np.array(list(itertools.product(self.points, repeat=K - 1)))
        self.others = self.others.reshape(-1, K - 1)

    def scan(self, u: float) -> tuple[Array, Array]:
        """Policies with E[U] = u, and their entropies."""
        policies, entropies = [], []
        for k, ((worth_0, reach_0), (worth_1, reach_1)) in enumerate(self.charts):
            slope = worth_1 - worth_0
            solvable = np.abs(slope) > 1e-9
            q = np.full(slope.shape, -1.0)
            q[solvable] = (u - worth_0[solvable]) / slope[solvable]
            on = (q >= 0.0) & (q <= 1.0)
            p = np.insert(self.others[on], k, q[on], axis=1)
            reach = reach_0[:, on] * (1.0 - q[on]) + reach_1[:, on] * q[on]
            policies.append(p)
            entropies.append((reach.T * binary_entropy(p)).sum(axis=1))
        return np.concatenate(policies), np.concatenate(entropies)

    def local(self, u: float, start: Array, bounds: list[tuple[float, float]]) -> Array | None:
        """SLSQP from one start; None if it does not end on the constraint."""
        result = minimize(
            lambda p: (-entropy_at(self.space, p), -entropy_slopes(self.space, p)),
            start,
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=[
                {
                    "type": "eq",
                    "fun": lambda p: at_point(self.worth, p) - u,
                    "jac": lambda p: slopes(self.worth, p),
                }
            ],
            options={"ftol": 1e-14, "maxiter": 100},
        )
        p = np.clip(result.x, 0.0, 1.0)
        if abs(float(at_point(self.worth, p)) - u) > 1e-7:
            return None
        return self.polish(u, p)

    def polish(self, u: float, p: Array) -> Array:
        """The stationary point next to p to full precision: slopes of H = lambda slopes of E[U].

        The entropy is flat at its top, so an optimiser's policy is only good to the square root of
        its tolerance, and the accuracy is not flat.  Points on the boundary are left as they are.
        """
        if p.min() < 1e-9 or p.max() > 1.0 - 1e-9:
            return p
        gradient, worth = entropy_slopes(self.space, p), slopes(self.worth, p)
        if float(worth @ worth) < 1e-12:
            return p

        def conditions(x: Array) -> Array:
            q = np.clip(x[:-1], 1e-12, 1.0 - 1e-12)
            stationary = entropy_slopes(self.space, q) - x[-1] * slopes(self.worth, q)
            return np.append(stationary, at_point(self.worth, q) - u)

        first = np.append(p, gradient @ worth / (worth @ worth))
        result = root(conditions, first, tol=1e-14)
        near = np.abs(result.x[:-1] - p).max() < 1e-2
        exact = np.abs(conditions(result.x)).max() < 1e-9
        return np.clip(result.x[:-1], 0.0, 1.0) if near and exact else p

    def faces(self, u: float) -> list[list[tuple[float, float]]]:
        """The faces of the cube on which E[U] = u throughout (for the extreme u).

        A multilinear function takes its extremes on a union of faces: where it is extreme inside a
        face it is constant on it.
        """
        result = []
        for kinds in itertools.product((0, 1, 2), repeat=len(self.space.contexts)):
            index = tuple(slice(None) if k == 2 else k for k in kinds)
            if (np.abs(self.worth[index] - u) < TIE).all():
                result.append([(0.0, 1.0) if k == 2 else (float(k), float(k)) for k in kinds])
        return result

    def policies(self, u: float) -> list[Array]:
        """All policies found whose entropy is the largest at u, up to 1e-9."""
        result: list[Array] = []
        if min(u - self.low, self.high - u) < TIE:
            for bounds in self.faces(u):
                low, high = np.array(bounds).T
                p = low + (high - low) * 0.5
                for _ in range(3):
                    p = minimize(
                        lambda p: (-entropy_at(self.space, p), -entropy_slopes(self.space, p)),
                        p,
                        jac=True,
                        method="L-BFGS-B",
                        bounds=bounds,
                        options={"ftol": 1e-16, "gtol": 1e-12},
                    ).x
                result.append(p)
        else:
            p, h = self.scan(u)
            slack = 8.0 * len(self.space.contexts) / (len(self.points) - 1) ** 2
            order = np.flatnonzero(h > h.max() - slack)
            begin = far_apart(p, order[np.argsort(-h[order])], 0.15, self.starts)
            # Among tied maxima the one that resembles the measured policy counts: look there too.
            for b in [*begin, self.space.policy]:
                ended = self.local(u, np.clip(b, 1e-3, 1.0 - 1e-3), [(0.0, 1.0)] * len(b))
                if ended is not None:
                    result.append(ended)
        if not result:
            return []
        top = max(entropy_at(self.space, p) for p in result)
        return [p for p in result if entropy_at(self.space, p) > top - TIE]

    def accuracy(self, u: float) -> tuple[float, Array | None]:
        """The best predictive accuracy among the maximum entropy policies at u."""
        tied = [(accuracy_at(self.space, p), i, p) for i, p in enumerate(self.policies(u))]
        if not tied:
            return -math.inf, None
        value, _, p = max(tied, key=lambda row: row[:2])
        return value, p


def searched_meg(
    space: Cube, utility: Array, steps: int = 12, starts: int = 6, refine: int = 2
) -> tuple[float, float, Array | None]:
    """Definitions 3.1 and 3.2 refined: ``(value, u, policy of maximum entropy)``.

    u runs over a grid that is even in the middle and geometric towards both extremes (the extremes,
    the uniform policy's and the measured policy's u included); around the ``refine`` best the
    accuracy is maximised without derivatives.  About 1e-6 in the value (2e-4 where the policy
    of maximum entropy splits in two at the best u), up to the search missing a maximum of the
    entropy: then it may be wrong in EITHER direction (``two_peaks`` in the tests).
    """
    search = Search(space, utility, starts=starts)
    low, width = search.low, search.high - search.low
    if width < TIE:
        half = np.full(len(space.contexts), 0.5)
        return accuracy_at(space, half), low, half
    shares = {k / steps for k in range(steps + 1)}
    shares |= {4.0**-k / steps for k in range(1, 5)} | {1.0 - 4.0**-k / steps for k in range(1, 5)}
    us = {low + share * width for share in shares}
    us |= {float(at_point(search.worth, np.full(len(space.contexts), 0.5)))}
    us |= {float(np.clip(at_point(search.worth, space.policy), low, search.high))}
    grid = sorted(us)
    rows = [(search.accuracy(u)[0], u) for u in grid]
    best_value, best_u = max(rows)
    for value, u in sorted(rows, reverse=True)[:refine]:
        i = grid.index(u)
        if value > -math.inf:
            result = minimize_scalar(
                lambda u: -max(search.accuracy(float(u))[0], -1e6),
                bounds=(grid[max(0, i - 1)], grid[min(len(grid) - 1, i + 1)]),
                method="bounded",
                options={"xatol": 1e-8 * width, "maxiter": 24},
            )
            if -float(result.fun) > best_value:
                best_value, best_u = -float(result.fun), float(result.x)
    return best_value, best_u, search.accuracy(best_u)[1]


def global_soft_policies(space: Cube, theta: Array, n: int = 11, polish: int = 6) -> list[Array]:
    """Every GLOBAL maximiser found of ``theta . P(T) + H`` (those that tie within 1e-9).

    From the best policies of a grid that are not neighbours, by L-BFGS-B.  ``theta`` is beta U, one
    number per joint target state.
    """
    K = len(space.contexts)
    worth = np.tensordot(theta, space.targets, axes=1)
    points = grid_points(n)
    score = (on_grid(worth, points, K) + entropy_on_grid(space, points)).ravel()
    candidates = points[np.array(np.unravel_index(np.arange(score.size), [n] * K)).T]
    begin = far_apart(candidates, np.argsort(-score), 0.25, polish)

    def loss(p: Array) -> tuple[float, Array]:
        value = float(at_point(worth, p)) + entropy_at(space, p)
        return -value, -(slopes(worth, p) + entropy_slopes(space, p))

    result = [
        minimize(
            loss,
            np.clip(b, 1e-6, 1.0 - 1e-6),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * K,
            options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 500},
        ).x
        for b in begin
    ]
    top = min(loss(p)[0] for p in result)
    return [p for p in result if loss(p)[0] < top + TIE]


def soft_accuracy(space: Cube, theta: Array, n: int = 11) -> float:
    """The best accuracy among the global maximisers of ``theta . P(T) + H``."""
    return max(accuracy_at(space, p) for p in global_soft_policies(space, theta, n))


def searched_targets_meg(
    space: Cube, starts: int = 4, seed: int = 0, n: int = 9, evaluations: int = 200
) -> tuple[float, Array]:
    """MEG towards the targets without sufficient recall, by direct search over beta U.

    Starts: the beta U for which the measured policy is stationary (the slopes of beta E[U] + H
    vanish there; if it is also the global maximiser, the value is the upper bound C - H(pi)), and
    ``starts`` random ones; each is improved by Nelder and Mead.  A lower bound as long as the inner
    maximum is global.  The utilities u that are attained but lie in a dent of the largest entropy
    as a function of u have no soft policy; Definition 4.2 allows them, this search does not look
    there.
    """
    rng = np.random.default_rng(seed)
    size = space.targets.shape[0]
    possible = np.flatnonzero(space.targets.reshape(size, -1).max(axis=1) > 0.0)

    def full(x: Array) -> Array:
        theta = np.zeros(size)
        theta[possible] = x
        return theta

    inside = np.clip(space.policy, 1e-6, 1.0 - 1e-6)
    stationary = np.linalg.lstsq(
        slopes(space.targets, inside).T, -entropy_slopes(space, inside), rcond=None
    )[0]
    begin: list[Array] = [np.zeros(possible.size), np.asarray(stationary[possible], dtype=float)]
    begin += [3.0 * rng.normal(size=possible.size) for _ in range(starts)]
    best, at = -math.inf, np.zeros(size)
    for x in begin:
        value = soft_accuracy(space, full(x), n)
        if value > best:
            best, at = value, full(x)
    for x in begin[1:]:
        result = minimize(
            lambda x: -max(soft_accuracy(space, full(x), n), -1e6),
            x,
            method="Nelder-Mead",
            options={"maxfev": evaluations, "xatol": 1e-7, "fatol": 1e-9, "adaptive": True},
        )
        if -float(result.fun) > best:
            best, at = -float(result.fun), full(result.x)
    return best, at
