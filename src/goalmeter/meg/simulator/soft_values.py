"""Fitted soft values: backward induction over decisions with a kernel regression of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from goalmeter._types import AnyArray, FloatArray, IntArray

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
            image = np.asarray(observation, dtype=np.float32)
            image = image if shape[2] <= 4 else np.moveaxis(image, 0, 2)
            for axis in (0, 1):
                ends = np.linspace(0, image.shape[axis], _PIXELS, endpoint=False).astype(int)
                image = np.add.reduceat(image, ends, axis=axis) / (image.shape[axis] / _PIXELS)
            return image.ravel().astype(np.uint8)
        if len(shape) == 1:
            return np.asarray(observation, dtype=np.float32)
        from gymnasium.spaces import flatten

        out = np.asarray(flatten(self._space, observation))
        return out if out.dtype == np.uint8 else out.astype(np.float32)

    def add(
        self, seen: Any, action: int, paid: Sequence[float], after: Any, ended: bool, decision: int
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
    action: IntArray  # [N]
    paid: FloatArray  # [N, U]
    after: AnyArray  # next observations [N, d]
    ended: AnyArray  # whether the episode ended in a terminal state [N]
    decision: IntArray  # number of the decision, from 0 [N]

    @property
    def starts(self) -> AnyArray:
        """Observations in which episodes began."""
        return np.asarray(self.seen[self.decision == 0])

    @classmethod
    def of(cls, parts: Sequence[RecordedSteps]) -> RecordedSteps:
        """Concatenate the steps of all parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

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
    while len(chosen) < _LANDMARKS:
        chosen.append(int(generator.choice(len(pool), p=distance / distance.sum())))
        distance = np.minimum(distance, _squares(pool, pool[chosen[-1:]])[:, 0])
    return chosen


# --- Fitted soft values ---------------------------------------------------------------------------
_RIDGE = 0.1  # penalty of the regression, as a number of steps
_STEADY = 0.05  # nats by which all values together may differ from a steady change


def _log_mean_exp(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log mean exp over axis 1, and the log probabilities relative to free choice."""
    top = q.max(axis=1, keepdims=True)
    value = top + np.log(np.exp(q - top).mean(axis=1, keepdims=True))
    return value[:, 0], q - value


class SoftValues:
    """Fitted soft action values for T decisions and B rationalities, with A actions.

    Half of the steps fit Q, and the other half the policy whose value it is. A maximum over
    actions of one noisy estimate would be too large.
    """

    def __init__(
        self,
        features: KernelFeatures,
        steps: RecordedSteps,
        utility: FloatArray,  # payoff of each step, [N]
        rationalities: FloatArray,  # [B]
        horizon: int,
        n_actions: int,
    ) -> None:
        self.features, self.rationalities = features, rationalities
        self.horizon, self._n_actions = horizon, n_actions
        self._ends = np.stack([rationalities * end for end in (utility.min(), utility.max())])
        phi, following = features(steps.seen), features(steps.after)
        half = np.arange(len(utility)) % 2
        size, count = phi.shape[1], len(rationalities)
        groups = [(h, a) for h in range(2) for a in range(n_actions)]
        rows = [np.flatnonzero((half == h) & (steps.action == a)) for h, a in groups]
        solvers = [_solver(phi[each]) for each in rows]
        pays = (utility[:, None] * rationalities).astype(np.float32)
        going = ~steps.ended[:, None]
        # Coefficients of Q of both halves, [T, D, 2 A B].
        self._coefficients = np.zeros((horizon, size, 2 * n_actions * count), dtype=np.float32)
        value = np.zeros((len(utility), count), dtype=np.float32)
        for t in reversed(range(horizon)):
            aim = pays + going * value
            for k, (each, solver) in enumerate(zip(rows, solvers, strict=True)):
                self._coefficients[t, :, k * count : (k + 1) * count] = solver @ aim[each]
            if t == 0:
                break
            before = value
            value = self._value(self._halves(following, t), half, t).astype(np.float32)
            change = (value - before)[going[:, 0]]
            if len(change) and t * float(np.ptp(change, axis=0).max()) < _STEADY:
                # All values change by the same amount with every further decision.
                more = np.tile(change.mean(axis=0), 2 * n_actions)
                self._coefficients[:t] = self._coefficients[t]
                self._coefficients[:t, -1] += np.arange(t, 0, -1)[:, None] * more
                break

    def _halves(self, phi: AnyArray, t: int) -> AnyArray:
        """Return Q of both halves, [N, 2, A, B]."""
        q = phi @ self._coefficients[t]
        return np.asarray(q.reshape(len(phi), 2, self._n_actions, -1))

    def _value(self, q: AnyArray, half: IntArray, t: int) -> AnyArray:
        """Return the value in Q of one half of the policy of the other one, [N, B]."""
        rows = np.arange(len(q))
        _, log_ratio = _log_mean_exp(q[rows, 1 - half])
        share = np.exp(log_ratio) / self._n_actions
        value = (share * (q[rows, half] - log_ratio)).sum(axis=1)
        # No total payoff is outside those of equal payoffs until now or until the end.
        left = self.horizon - t
        low, high = left * self._ends.min(axis=0), left * self._ends.max(axis=0)
        return np.asarray(np.clip(value, np.minimum(low, 0.0), np.maximum(high, 0.0)))

    def start(self, seen: AnyArray) -> FloatArray:
        """Return the mean soft value of starts by each half, [2, B]."""
        q = self._halves(self.features(seen), 0)
        half = np.zeros(len(seen), dtype=np.int64)
        return np.stack([self._value(q, half + h, 0).mean(axis=0) for h in range(2)])

    def policy(self, seen: AnyArray, t: int, column: int) -> tuple[FloatArray, FloatArray]:
        """Return soft values [N] at decision t, and log ratios to free choice [N, A]."""
        q = self._halves(self.features(seen), t)[..., column].astype(np.float64)
        return _log_mean_exp(q.mean(axis=1))

    def map(self, seen: AnyArray) -> FloatArray:
        """Return the map of observations that some of the values suggest; see `learnt_map`."""
        times = np.unique(np.linspace(0, self.horizon - 1, 8).astype(int))
        outputs = np.concatenate([self._coefficients[t] for t in times], axis=1)
        spread = (self.features(seen) @ outputs).std(axis=0)
        return self.features.learnt_map(seen, outputs / np.maximum(spread, 1e-12))


def _solver(phi: AnyArray) -> AnyArray:
    """Return the matrix from targets to ridge coefficients, [D, N]."""
    wide = phi.astype(np.float64)
    gram = wide.T @ wide + _RIDGE * np.eye(phi.shape[1])
    return np.asarray(np.linalg.solve(gram, wide.T), dtype=np.float32)
