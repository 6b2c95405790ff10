"""MEG in causal influence diagrams, definition by definition (Definitions 3.1, 3.2, 4.4).

Three cases, none of which shares code with the library:

- sufficient recall: literal backward induction, every expectation a sum over all joint outcomes;
- one decision: the closed form, written separately;
- binary decisions without sufficient recall: Definition 3.1 as it stands (`causal_cube`,
  `causal_search`).

The classes of utilities of Definition 4.4 are given as ``groups``, the variables of each additive
part: ``[("M", "S")]`` is every utility of M and S jointly, ``[("M",), ("S",)]`` the sums of a
utility of M and one of S.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

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


def transferred_evidence(changed: Model, beta: float) -> float:
    """The evidence of a goal whose rationality was fitted in another world, planned anew here."""
    return evidence(changed, soft_optimal_policy(changed, beta))


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
