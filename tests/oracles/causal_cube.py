"""Binary decisions without sufficient recall: policies as points of a cube, and a grid of them."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .causal_meg import TIE, log_or_zero
from .causal_model import Array, Model, probability_table, sum_to, uniform_policy, with_policy


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
    """Definitions 3.1 and 3.2 on a grid of policies: in each bin of utilities the policies of
    maximum entropy (all that tie), and the best predictive accuracy among them.

    The value comes out too high rather than too low: four contexts and n = 25 by up to about 0.1
    nats, two and n = 401 by 0.005. ``utility`` is one number per joint target state.
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
