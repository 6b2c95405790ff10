"""MEG of tiny worlds in 50 digits: the most evidence of a linear class, by Newton steps.

A problem is a set of nodes with transitions that sum to less than 1, so that the infinite
discounted problem (a node for each state, the discount in its transitions), a finite horizon (a
node for each decision and state) and decisions without successors (a diagram) are one thing. A
known utility is a class of one feature. Nothing of goalmeter is used.

For weights w, V(n) = log mean_a exp(w . phi(n, a) + sum_m M(n, a, m) V(m)), and the evidence is
w . (features of the behaviour) - V(start): concave, its slope the difference of features, and its
second derivative the covariance of psi(n, a) = phi(n, a) + E W - W(n), W the model's features to
come. A penalty of 1e-36 per decision keeps the maximum finite where the supremum is not attained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import mpmath as mp

DIGITS = 50
_P = ParamSpec("_P")
_T = TypeVar("_T")
_PENALTIES = (1e-3, 1e-8, 1e-16, 1e-24, 1e-30, 1e-36)
_MOST_STEPS = 400


def _exactly(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Evaluate a function in so many digits."""

    @wraps(call)
    def exact(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with mp.workdps(DIGITS):
            return call(*args, **kwargs)

    return exact


class Problem(NamedTuple):
    """Start [N], transitions [N, A, N], features [N, A, D] and behaviour [N, A], as lists."""

    start: list[Any]
    moves: list[list[list[Any]]]
    features: list[list[list[Any]]]
    behaviour: list[list[Any]]


def unit_row(row: Any) -> list[Any]:
    """A row of doubles as probabilities that sum to 1 in all digits."""
    exact = [mp.mpf(float(p)) for p in row]
    total = sum(exact)
    return [p / total for p in exact]


@_exactly
def discounted(
    transition: Any, discount: float, start: Any, features: Any, behaviour: Any
) -> Problem:
    """The infinite problem: arrays [S, A, S], [S], [S, A, D] and [S, A]."""
    g = mp.mpf(float(discount))
    moves = [[[g * p for p in unit_row(row)] for row in rows] for rows in transition]
    return Problem(unit_row(start), moves, _exact(features), [unit_row(b) for b in behaviour])


@_exactly
def finite(transition: Any, horizon: int, start: Any, features: Any, behaviour: Any) -> Problem:
    """A finite horizon: as `discounted`, but for features [H, S, A, D] and behaviour [H, S, A]."""
    n, zero = len(start), mp.mpf(0)
    rows = [[unit_row(row) for row in rows] for rows in transition]

    def placed(row: list[Any], t: int) -> list[Any]:
        out = [zero] * (n * horizon)
        if t + 1 < horizon:
            out[(t + 1) * n : (t + 2) * n] = row
        return out

    moves = [[placed(row, t) for row in rows[s]] for t in range(horizon) for s in range(n)]
    first = unit_row(start) + [zero] * (n * (horizon - 1))
    policy = [unit_row(behaviour[t][s]) for t in range(horizon) for s in range(n)]
    return Problem(first, moves, _exact([phi for now in features for phi in now]), policy)


@_exactly
def decisions(start: Any, targets: Any, behaviour: Any) -> Problem:
    """Decisions without successors: contexts [N], targets [N, A, D] and behaviour [N, A]."""
    features = [[unit_row(row) for row in rows] for rows in targets]
    n, actions = len(start), len(behaviour[0])
    moves = [[[mp.mpf(0)] * n for _ in range(actions)] for _ in range(n)]
    return Problem(unit_row(start), moves, features, [unit_row(b) for b in behaviour])


@_exactly
def best_evidence(problem: Problem) -> Any:
    """The supremum of the evidence over all weights, nats."""
    d = len(problem.features[0][0])
    uses = _occupancy(problem, problem.behaviour)
    length = sum(uses)
    target = _features_of(problem, uses, problem.behaviour)
    # In units of the largest feature, which change no class: weights are then of the order of 1.
    unit = [max(abs(phi[i]) for now in problem.features for phi in now) or 1 for i in range(d)]
    features = [
        [[x / c for x, c in zip(p, unit, strict=True)] for p in now] for now in problem.features
    ]
    problem = problem._replace(features=features)
    target = [x / c for x, c in zip(target, unit, strict=True)]
    weights, values = [mp.mpf(0)] * d, [mp.mpf(0)] * len(problem.start)
    for penalty in _PENALTIES:
        weights, values = _penalised(problem, target, penalty * length, weights, values, length)
    return _dot(weights, target) - _dot(problem.start, values)


@_exactly
def predictability(problem: Problem) -> Any:
    """The evidence of the behaviour for itself, nats: what utilities of state and action reach."""
    uses = _occupancy(problem, problem.behaviour)
    return sum(
        use * sum(p * mp.log(len(pi) * p) for p in pi if p)
        for use, pi in zip(uses, problem.behaviour, strict=True)
    )


def _penalised(
    problem: Problem, target: list[Any], penalty: Any, weights: Any, values: Any, length: Any
) -> tuple[list[Any], list[Any]]:
    def height(at: list[Any], worth: list[Any]) -> Any:
        return _dot(at, target) - _dot(problem.start, worth) - penalty / 2 * _dot(at, at)

    values = _planned(problem, weights, values)
    for _ in range(_MOST_STEPS):
        policy = _policy(problem, weights, values)
        slope, bend = _derivatives(problem, policy, target)
        slope = [g - penalty * w for g, w in zip(slope, weights, strict=True)]
        for i in range(len(weights)):
            bend[i][i] += penalty
        step = _solve(bend, slope)
        promised = _dot(slope, step)
        if promised <= mp.mpf(10) ** -22 * length * max(penalty / length, mp.mpf(10) ** -12):
            break
        size, now = mp.mpf(1), height(weights, values)
        while True:
            tried = [w + size * v for w, v in zip(weights, step, strict=True)]
            worth = _planned(problem, tried, values)
            if height(tried, worth) >= now + size * promised / 10:
                break
            size /= 2
        weights, values = tried, worth
    return weights, values


def _planned(problem: Problem, weights: list[Any], values: list[Any]) -> list[Any]:
    """Soft values: Newton's method on V = T V."""
    paid = [[_dot(weights, phi) for phi in now] for now in problem.features]
    for _ in range(200):
        gain, policy = [], []
        for n, rows in enumerate(problem.moves):
            logits = [u + _dot(row, values) for u, row in zip(paid[n], rows, strict=True)]
            top = max(logits)
            parts = [mp.exp(x - top) for x in logits]
            total = sum(parts)
            policy.append([p / total for p in parts])
            gain.append(top + mp.log(total / len(parts)) - values[n])
        step = _solve(_evaluation(problem, policy), gain)
        values = [v + s for v, s in zip(values, step, strict=True)]
        size = max(abs(v) for v in values) + 1
        if max(abs(s) for s in step) <= mp.mpf(10) ** (6 - DIGITS) * size * size:
            return values
    raise AssertionError("soft values did not settle")


def _policy(problem: Problem, weights: list[Any], values: list[Any]) -> list[list[Any]]:
    out = []
    for now, rows in zip(problem.features, problem.moves, strict=True):
        logits = [
            _dot(weights, phi) + _dot(row, values) for phi, row in zip(now, rows, strict=True)
        ]
        top = max(logits)
        parts = [mp.exp(x - top) for x in logits]
        total = sum(parts)
        out.append([p / total for p in parts])
    return out


def _derivatives(
    problem: Problem, policy: list[list[Any]], target: list[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """The slope of the evidence [D] and minus its second derivative [D, D]."""
    uses = _occupancy(problem, policy)
    own = _features_of(problem, uses, policy)
    d, system = len(target), _evaluation(problem, policy)
    paid = [
        [
            sum(p * phi[i] for p, phi in zip(pi, now, strict=True))
            for pi, now in zip(policy, problem.features, strict=True)
        ]
        for i in range(d)
    ]
    to_come = _solve_many(system, paid)
    bend = [[mp.mpf(0)] * d for _ in range(d)]
    for n, (pi, now, rows) in enumerate(zip(policy, problem.features, problem.moves, strict=True)):
        for p, phi, row in zip(pi, now, rows, strict=True):
            psi = [phi[i] + _dot(row, to_come[i]) - to_come[i][n] for i in range(d)]
            for i in range(d):
                for j in range(d):
                    bend[i][j] += uses[n] * p * psi[i] * psi[j]
    return [a - b for a, b in zip(target, own, strict=True)], bend


def _evaluation(problem: Problem, policy: list[list[Any]]) -> list[list[Any]]:
    """I - M under a policy: [N, N]."""
    n = len(problem.start)
    out = [
        [
            -sum(p * row[m] for p, row in zip(policy[k], problem.moves[k], strict=True))
            for m in range(n)
        ]
        for k in range(n)
    ]
    for k in range(n):
        out[k][k] += 1
    return out


def _occupancy(problem: Problem, policy: list[list[Any]]) -> list[Any]:
    system = _evaluation(problem, policy)
    return _solve([list(column) for column in zip(*system, strict=True)], problem.start)


def _features_of(problem: Problem, uses: list[Any], policy: list[list[Any]]) -> list[Any]:
    d = len(problem.features[0][0])
    return [
        sum(
            use * p * phi[i]
            for use, pi, now in zip(uses, policy, problem.features, strict=True)
            for p, phi in zip(pi, now, strict=True)
        )
        for i in range(d)
    ]


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return mp.fdot(a, b)


def _exact(features: Any) -> list[list[list[Any]]]:
    return [
        [[mp.mpf(x) if isinstance(x, mp.mpf) else mp.mpf(float(x)) for x in phi] for phi in now]
        for now in features
    ]


def _solve(system: list[list[Any]], right: list[Any]) -> list[Any]:
    return _solve_many(system, [right])[0]


def _solve_many(system: list[list[Any]], rights: list[list[Any]]) -> list[list[Any]]:
    """Gaussian elimination with partial pivoting for several right sides."""
    n = len(system)
    rows = [[*row, *(right[i] for right in rights)] for i, row in enumerate(system)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            if rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    solutions = []
    for j in range(len(rights)):
        x = [mp.mpf(0)] * n
        for i in reversed(range(n)):
            x[i] = (rows[i][n + j] - mp.fdot(rows[i][i + 1 : n], x[i + 1 :])) / rows[i][i]
        solutions.append(x)
    return solutions
