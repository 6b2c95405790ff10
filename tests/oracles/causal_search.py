"""Definition 3.1 without sufficient recall: maximum entropy on a grid of policies, refined."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize, minimize_scalar, root

from .causal_cube import (
    Cube,
    accuracy_at,
    at_point,
    binary_entropy,
    entropy_at,
    entropy_on_grid,
    entropy_slopes,
    far_apart,
    grid_points,
    on_grid,
    slopes,
)
from .causal_meg import TIE
from .causal_model import Array

SCAN_POINTS = {1: 2, 2: 201, 3: 31, 4: 15, 5: 8}  # per free coordinate, by number of contexts


class Search:
    """The policies of maximum entropy at an expected utility: the level set E[U] = u is scanned
    coordinate by coordinate, SLSQP starts from the best, and the results are polished.
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
        """The stationary point next to p to full precision: slopes of H = lambda slopes of E[U];
        the entropy is flat at its top and the accuracy is not.  The boundary is left as it is.
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
        """The faces of the cube on which E[U] = u throughout (for the extreme u)."""
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

    About 1e-6 in the value (2e-4 where the policy of maximum entropy splits in two at the best u),
    up to the search missing a maximum of the entropy: then it may be wrong in EITHER direction.
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
    """Every GLOBAL maximiser found of ``theta . P(T) + H`` (ties within 1e-9)."""
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
    """MEG towards the targets without sufficient recall, by direct search over beta U: a lower
    bound as long as the inner maximum is global.  Starts are the beta U for which the measured
    policy is stationary and random ones.  Utilities in a dent of the largest entropy have no soft
    policy and are not looked at, although Definition 4.2 allows them.
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
