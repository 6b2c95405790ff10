"""Fitted soft values: backward induction over decisions with a kernel regression of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from goalmeter._types import AnyArray, FloatArray, IntArray
from goalmeter.meg.simulator.protocol import BoxReference, FreeChoice

# --- Recorded steps -------------------------------------------------------------------------------
_PIXELS = 16  # images are averaged to at most so many rows and columns


class Recorder:
    """Recorded steps of a simulator, with observations as vectors of length d."""

    def __init__(self, space: Any) -> None:
        self._space = space
        self._rows: list[tuple[Any, ...]] = []

    def flattened(self, observation: Any) -> AnyArray:
        """Return an observation as a vector, [d]."""
        shape: tuple[int, ...] = getattr(self._space, "shape", None) or ()
        if len(shape) == 3 and min(sorted(shape)[1:]) > _PIXELS:
            # The last axis, or the first one, has colours and earlier images.
            image: AnyArray = np.moveaxis(
                np.asarray(observation, dtype=np.float32), np.argmin(shape), 2
            )
            for axis in (0, 1):
                ends = np.linspace(0, image.shape[axis], _PIXELS, endpoint=False).astype(int)
                sizes = np.diff(ends, append=image.shape[axis])
                sums = np.add.reduceat(image, ends, axis=axis)
                image = sums / (sizes[:, None, None] if axis == 0 else sizes[:, None])
            return image.ravel().astype(np.uint8 if self._space.dtype == np.uint8 else np.float32)
        if len(shape) == 1:
            return np.asarray(observation, dtype=np.float32)
        from gymnasium.spaces import flatten

        out = np.asarray(flatten(self._space, observation))
        return out if out.dtype == np.uint8 else out.astype(np.float32)

    def add(
        self, seen: Any, action: Any, paid: Sequence[float], after: Any, ended: bool, decision: int
    ) -> None:
        """Record a step."""
        vectors = self.flattened(seen), self.flattened(after)
        self._rows.append((vectors[0], action, paid, vectors[1], ended, decision))

    def taken(self) -> RecordedSteps:
        """Return the recorded steps, and forget them."""
        columns = [np.array(each) for each in zip(*self._rows, strict=True)]
        self._rows = []
        return RecordedSteps(*columns)


class RecordedSteps(NamedTuple):
    """N steps of a simulator with U utilities."""

    seen: AnyArray  # observations [N, d]
    action: AnyArray  # numbers [N], or continuous actions [N, k]
    paid: FloatArray  # [N, U]
    after: AnyArray  # next observations [N, d]
    ended: AnyArray  # whether the episode ended in a terminal state [N]
    decision: IntArray  # number of the decision, from 0 [N]

    @property
    def starts(self) -> AnyArray:
        """Observations in which episodes began."""
        return np.asarray(self.seen[self.decision == 0])

    def subset(self, rows: Any) -> RecordedSteps:
        """Return some of the steps."""
        return RecordedSteps(*(each[rows] for each in self))


# --- Kernel features ------------------------------------------------------------------------------
_LANDMARKS = 300  # maximum number of landmarks
_POOL = 8_000  # number of observations among which landmarks are chosen
_LINEAR = 0.3  # scale of the linear features, which extrapolate


class KernelFeatures:
    """Features k(x, landmarks) of a Laplace kernel after a linear map, whitened, and a constant.

    If few observations are distinct, all are landmarks, and the regression is nearly a table.
    """

    def __init__(
        self, seen: AnyArray, linear_map: FloatArray | None, generator: np.random.Generator
    ) -> None:
        x = seen.astype(np.float32)
        self._mean, self._scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-3)
        if seen.dtype == np.uint8:  # entries of images have one scale
            self._scale = np.full_like(self._scale, (x - self._mean).std() + 1e-3)
        self.linear_map = linear_map
        z = self._mapped(x)
        distinct = np.unique(z.round(5), axis=0)
        self.is_table = len(distinct) <= _LANDMARKS
        if self.is_table:
            self._landmarks = distinct
            neighbours, factor = 1, 0.3
        else:
            pool = z[generator.choice(len(z), min(len(z), _POOL), replace=False)]
            self._landmarks = pool[_spread_out(pool, generator)]
            neighbours, factor = 2 * z.shape[1] + 1, 2.0
        near = np.sqrt(np.sort(_squares(self._landmarks, self._landmarks), axis=1))
        self._width = factor * float(near[:, 1 : neighbours + 1].mean()) if len(near) > 1 else 1.0
        values, vectors = np.linalg.eigh(self._kernel(self._landmarks).astype(np.float64))
        kept = values > 1e-6 * values.max()
        self._whitening = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)

    def _mapped(self, x: AnyArray) -> AnyArray:
        z = (x.astype(np.float32) - self._mean) / self._scale
        return z if self.linear_map is None else np.asarray(z @ self.linear_map)

    def _kernel(self, z: AnyArray) -> AnyArray:
        return np.asarray(np.exp(-np.sqrt(_squares(z, self._landmarks) + 1e-8) / self._width))

    def __call__(self, seen: AnyArray) -> AnyArray:
        """Return the features of observations [N, d], [N, D]; the last is 1."""
        z = self._mapped(seen)
        parts = [self._kernel(z) @ self._whitening, np.ones((len(z), 1), dtype=np.float32)]
        if not self.is_table:
            parts.insert(0, _LINEAR * np.clip(z, -5.0, 5.0))
        return np.concatenate(parts, axis=1)

    def learnt_map(self, seen: AnyArray, coefficients: AnyArray) -> FloatArray:
        """Return the map by which outputs features(x) @ [D, J] change equally in all directions.

        It is the root of the mean outer product of their gradients: directions without effect
        vanish.

        Source: Radhakrishnan et al., "Mechanism for feature learning in neural networks and
        backpropagation-free machine learning models", Science 383 (2024), recursive feature
        machines.
        """
        z, d = self._mapped(seen), seen.shape[1]
        own = self._whitening @ coefficients[d : d + self._whitening.shape[1]]
        distance = np.sqrt(_squares(z, self._landmarks) + (0.1 * self._width) ** 2)
        slope = -np.exp(-distance / self._width) / (distance * self._width)
        product = np.zeros((d, d))
        for point, weights in zip(z, slope, strict=True):
            gradient = ((point - self._landmarks).T * weights) @ own
            gradient += _LINEAR * coefficients[:d]
            product += gradient @ gradient.T
        if self.linear_map is not None:
            product = self.linear_map @ product @ self.linear_map.T
        values, vectors = np.linalg.eigh(product)
        values = np.maximum(values / max(values.max(), 1e-300), 1e-4)
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T, dtype=np.float32)


def _squares(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return squared distances, [N, M]."""
    out = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2.0 * a @ b.T
    return np.asarray(np.maximum(out, 0.0))


def _spread_out(pool: AnyArray, generator: np.random.Generator) -> list[int]:
    """Choose points with a probability proportional to their squared distance to chosen ones."""
    chosen = [int(generator.integers(len(pool)))]
    distance = _squares(pool, pool[chosen])[:, 0]
    while len(chosen) < _LANDMARKS and distance.any():
        chosen.append(int(generator.choice(len(pool), p=distance / distance.sum())))
        distance = np.minimum(distance, _squares(pool, pool[chosen[-1:]])[:, 0])
    return chosen


# --- Actions --------------------------------------------------------------------------------------
_CANDIDATES = 16  # number of continuous actions that stand for all of them in a state


class ActionSet:
    """Actions of every state that a soft policy chooses from: A discrete ones, or K candidates.

    Continuous candidates are a shifted Sobol sequence with the density of the reference, so that
    each one has this density, and their mean is close to that over all actions.
    """

    def __init__(self, reference: FreeChoice | BoxReference) -> None:
        self.quantile = None if isinstance(reference, FreeChoice) else reference.quantile
        self.count = _CANDIDATES if self.quantile else reference.n_actions
        self._numbers: AnyArray = np.arange(self.count)
        if isinstance(reference, BoxReference):
            from scipy.stats.qmc import Sobol

            sobol = Sobol(math.prod(reference.shape), scramble=False)
            self._numbers = sobol.random(self.count) + 0.5 / self.count

    def candidates(self, n: int, generator: np.random.Generator) -> AnyArray:
        """Return the actions that N states choose from: numbers [N, A], or actions [N, K, k]."""
        if self.quantile is None:
            return np.broadcast_to(self._numbers, (n, self.count))
        shift = generator.random((n, 1, self._numbers.shape[1]))
        return self.quantile((self._numbers + shift) % 1.0).astype(np.float32)

    def inputs(self, seen: AnyArray, action: AnyArray) -> AnyArray:
        """Return inputs of features for observations [N, d] and actions, or candidates."""
        if self.quantile is None:  # each discrete action has a regression of its own
            return seen
        if action.ndim == 3:
            seen = np.repeat(seen, action.shape[1], axis=0)
        return np.concatenate([seen.astype(np.float32), action.reshape(len(seen), -1)], axis=1)


# --- Fitted soft values ---------------------------------------------------------------------------
_RIDGE = 0.1  # penalty of the regression, as a number of steps
_STEADY = 0.05  # nats by which all values together may differ from a steady change
_DEEPEST = 8.0  # nats below the value of a state from which its actions are not distinguished


def log_mean_exp(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log mean exp over axis 1, and the log probabilities relative to free choice."""
    top = q.max(axis=1, keepdims=True)
    value = top + np.log(np.exp(q - top).mean(axis=1, keepdims=True))
    return value[:, 0], q - value


def _soft_value(own: FloatArray, other: FloatArray) -> FloatArray:
    """Return log mean exp over axis 1 of Q, from two estimates of Q with independent errors.

    The soft maximum of noisy Q is too large by half the variance of the errors over actions. The
    value of the policy of the other estimate is too low by as much, so the mean is used.
    """
    largest, _ = log_mean_exp(own)
    _, log_ratio = log_mean_exp(other)
    share = np.exp(log_ratio) / log_ratio.shape[1]
    return np.asarray(0.5 * (largest + (share * (own - log_ratio)).sum(axis=1)))


class SoftValues:
    """Fitted soft action values for T decisions and B rationalities, with A actions of a state.

    Each half of the steps has a regression of its own.
    """

    def __init__(
        self,
        features: KernelFeatures,
        actions: ActionSet,
        steps: RecordedSteps,
        utility: FloatArray,  # payoff of each step, [N]
        rationalities: FloatArray,  # [B]
        horizon: int,
        generator: np.random.Generator,
    ) -> None:
        self.features, self.rationalities, self.horizon = features, rationalities, horizon
        self._actions, self._generator = actions, generator
        self._ends = np.stack([rationalities * end for end in (utility.min(), utility.max())])
        phi = features(actions.inputs(steps.seen, steps.action))
        own = phi if actions.quantile is None else self._phi(steps.seen)
        following = self._phi(steps.after)
        half = np.arange(len(utility)) % 2
        each = [steps.action == a for a in range(actions.count)]
        each = each if actions.quantile is None else [half >= 0]
        rows = [np.flatnonzero((half == h) & chosen) for h in range(2) for chosen in each]
        solvers = [_solver(phi[each]) for each in rows]
        pays = (utility[:, None] * rationalities).astype(np.float32)
        going, count = ~steps.ended[:, None], len(rationalities)
        # Coefficients of Q of both halves, [T, D, 2 A B], or [T, D, 2 B] of continuous actions.
        shape = horizon, phi.shape[1], len(rows) * count
        self._coefficients = np.zeros(shape, dtype=np.float32)
        value, here = (np.zeros((len(utility), count), dtype=np.float32) for _ in range(2))
        # One more decision lowers the value of a state by at most the least payoff. Far below it,
        # values need not be exact, and large differences would spoil the regression.
        least = np.minimum(pays.min(axis=0), 0.0) - _DEEPEST
        for t in reversed(range(horizon)):
            aim = np.maximum(pays + going * value, here + least)
            for k, (chosen, solver) in enumerate(zip(rows, solvers, strict=True)):
                self._coefficients[t, :, k * count : (k + 1) * count] = solver @ aim[chosen]
            if t == 0:
                break
            before = value
            value, here = (
                self._value(self._halves(each, t), half, t).astype(np.float32)
                for each in (following, own)
            )
            change = (value - before)[going[:, 0]]
            # With one decision left, an end makes no difference yet.
            is_known = t < horizon - 1 and len(change)
            if is_known and t * float(np.ptp(change, axis=0).max()) < _STEADY:
                # All values change by the same amount with every further decision.
                more = np.tile(change.mean(axis=0), len(rows))
                self._coefficients[:t] = self._coefficients[t]
                self._coefficients[:t, -1] += np.arange(t, 0, -1)[:, None] * more
                break

    def _phi(self, seen: AnyArray) -> AnyArray:
        """Return the features of observations and of all their actions, [N, D] or [N K, D]."""
        candidates = self._actions.candidates(len(seen), self._generator)
        return self.features(self._actions.inputs(seen, candidates))

    def _halves(self, phi: AnyArray, t: int) -> AnyArray:
        """Return Q of both halves, [N, 2, A, B]."""
        q, count = phi @ self._coefficients[t], self._actions.count
        if self._actions.quantile is None:
            return np.asarray(q.reshape(len(phi), 2, count, -1))
        return np.asarray(q.reshape(len(phi) // count, count, 2, -1).swapaxes(1, 2))

    def _value(self, q: AnyArray, half: IntArray, t: int) -> AnyArray:
        """Return the value by one half, [N, B]."""
        value = _soft_value(*(q[np.arange(len(q)), each] for each in (half, 1 - half)))
        # No total payoff is outside those of equal payoffs until now or until the end.
        left = self.horizon - t
        low, high = left * self._ends.min(axis=0), left * self._ends.max(axis=0)
        return np.asarray(np.clip(value, np.minimum(low, 0.0), np.maximum(high, 0.0)))

    def start(self, seen: AnyArray) -> FloatArray:
        """Return the soft values of starts [N, d] by each half, [2, N, B]."""
        q, half = self._halves(self._phi(seen), 0), np.zeros(len(seen), dtype=np.int64)
        return np.stack([self._value(q, half + h, 0) for h in range(2)])

    def policy(
        self, seen: AnyArray, t: int, column: int, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, AnyArray]:
        """Return soft values [N] at decision t, log ratios to free choice [N, A], and actions."""
        candidates = self._actions.candidates(len(seen), generator)
        phi = self.features(self._actions.inputs(seen, candidates))
        q = self._halves(phi, t)[..., column].astype(np.float64)
        return *log_mean_exp(q.mean(axis=1)), candidates

    def map(self, steps: RecordedSteps) -> FloatArray:
        """Return the map of inputs that some of the values suggest; see `learnt_map`."""
        times = np.unique(np.linspace(0, self.horizon - 1, 8).astype(int))
        outputs = np.concatenate([self._coefficients[t] for t in times], axis=1)
        inputs = self._actions.inputs(steps.seen, steps.action)
        spread = (self.features(inputs) @ outputs).std(axis=0)
        return self.features.learnt_map(inputs, outputs / np.maximum(spread, 1e-12))


def _solver(phi: AnyArray) -> AnyArray:
    """Return the matrix from targets to ridge coefficients, [D, N]."""
    wide = phi.astype(np.float64)
    gram = wide.T @ wide + _RIDGE * np.eye(phi.shape[1])
    return np.asarray(np.linalg.solve(gram, wide.T), dtype=np.float32)
