"""Maximum-likelihood fits of soft-optimal models to logged trajectories.

With sampled transitions the evidence is the average log-likelihood of the logged actions. It is
no longer exactly concave (sampled successors differ from expected ones), so the known utility's
rationality is checked against a scan, and a class's weights are a local maximum, reached
from 0. A maximum at infinity is reached to within `_DONE` nats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.evidence import Evidence, best_rationality, evidence, first_size
from goalmeter.meg.likelihood_climb import climb_likelihood
from goalmeter.meg.newton import NewtonSystem
from goalmeter.meg.samples import Group, curves_by_trajectory
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular.backup import problem
from goalmeter.tabular.rewards import Rewards

_DONE = 1e-9
# Classes of more weights are climbed by products with their information alone, but for utilities
# over actions: most actions of a log's states are hardly ever seen, and the products too many.
_LARGE_WEIGHTS = 100
_MAX_STEPS = 120
# Fractions of a step that are tried before it is damped, and by how much: in scaled weights, whose
# own information is 1.
_SHORTEST, _LEAST_DAMPED, _MOST_DAMPED = 0.02, 1e-6, 1e3
# Multiples of the best rationality at which each trajectory's evidence is worked out.
_SCAN = np.geomspace(1 / 256, 256, 49)
_CLOSE = np.linspace(0.0, 2.0, 65)
# Sizes for a utility in its own scale, in case the best one was missed.
_ANYWHERE = np.geomspace(1e-3, 1e4, 57)


@dataclass(frozen=True)
class Fit:
    """The weights with the highest likelihood that a search came to."""

    theta: FloatArray  # [D]; for a known utility, D = 1, its rationality, possibly infinite
    models: list[SoftModel]  # the fitted one of each group
    value: float  # average evidence, nats a trajectory
    infinite: bool  # whether the maximum lies at infinity
    # For a known utility the evidence of each trajectory at a grid of rationalities, [N, G] nats.
    curves: FloatArray | None = None


def fit_known(groups: Sequence[Group], weights: Sequence[FloatArray]) -> Fit:
    """The rationality that predicts trajectories best, for classes of one weight."""

    def evaluate(b: FloatArray) -> Evidence:
        tasks = [problem(g.mdp, _utility(g), b, g.log_reference) for g in groups]
        pairs = zip(tasks, groups, weights, strict=True)
        return reduce(add, [evidence(task, g.behaviour(w)) for task, g, w in pairs])

    at_zero = evaluate(np.zeros(1))
    best = best_rationality(evaluate, at_zero)
    value = float(evaluate(best).value[0])
    grid = _grid(best[0], at_zero)
    curves = np.concatenate([curves_by_trajectory(g, _utility(g), grid) for g in groups])
    best, value = _highest(evaluate, best, value, grid, curves)
    models = [fitted_model(g, best) for g in groups]
    return Fit(best, models, value, bool(np.isinf(best[0])), curves)


def fit_class(groups: Sequence[Group], weights: Sequence[FloatArray]) -> Fit:
    """Weights of a class that predict trajectories best, by damped scoring steps."""
    utilities = groups[0].utilities
    if utilities.n_weights > _LARGE_WEIGHTS and not utilities.on_actions:
        return _fit_large(groups, weights)
    behaviours = [g.behaviour(w) for g, w in zip(groups, weights, strict=True)]
    visits = [g.visits(w) for g, w in zip(groups, weights, strict=True)]

    def evaluate(theta: FloatArray) -> tuple[list[SoftModel], float]:
        models = [g.model(theta) for g in groups]
        pairs = zip(models, behaviours, strict=True)
        return models, float(sum([m.evidence(b) for m, b in pairs]))

    theta = np.zeros(groups[0].utilities.n_weights)
    models, value = evaluate(theta)
    damping = 0.0
    for _ in range(_MAX_STEPS):
        pairs = zip(models, behaviours, strict=True)
        gradient = np.sum([m.gradient(b) for m, b in pairs], axis=0)
        system = NewtonSystem(list(zip(models, visits, strict=True)), exact=False)
        step = system.solve(gradient, damping=damping)
        rise = float(gradient @ step)
        if rise <= _DONE:
            break
        size, better = 1.0, None
        while better is None and damping <= _MOST_DAMPED:
            trial, reached = evaluate(theta + size * step)
            if reached >= value + 1e-4 * size * rise:
                better = (theta + size * step, trial, reached)
            elif size > _SHORTEST:
                size /= 2
            else:
                # Directions that the logs hardly tell apart promise steps far beyond where the
                # promise holds: they are kept short, the others stay as they are.
                damping = max(10 * damping, _LEAST_DAMPED)
                step = system.solve(gradient, damping=damping)
                rise, size = float(gradient @ step), 1.0
        if better is None:
            break
        if size == 1.0:
            damping = damping / 10 if damping > _LEAST_DAMPED else 0.0
        theta, models, value = better
    return Fit(theta, models, value, _diverges(models, visits, step))


def _fit_large(groups: Sequence[Group], weights: Sequence[FloatArray]) -> Fit:
    climbed = climb_likelihood(groups, weights, _DONE)
    models = [g.model(climbed.theta) for g in groups]
    visits = [g.visits(w) for g, w in zip(groups, weights, strict=True)]
    diverges = _diverges(models, visits, climbed.step)
    return Fit(climbed.theta, models, climbed.value, diverges)


def _diverges(models: list[SoftModel], visits: list[FloatArray], step: FloatArray) -> bool:
    """Whether a step at the optimum still changes log-probabilities where the data are."""
    for model, seen in zip(models, visits, strict=True):
        for t, psi in model.tangents(step[:, None]):
            if (np.abs(psi[..., 0]) * (seen[t] > 0)).max() > 0.3:
                return True
    return False


def _grid(best: float, at_zero: Evidence) -> FloatArray:
    """Rationalities of both signs, wide apart far out and close around the best one: [G]."""
    near = best if np.isfinite(best) and best != 0 else float(first_size(at_zero)[0])
    wide = np.concatenate([_SCAN * abs(near), _ANYWHERE])
    return np.unique(np.concatenate([[-np.inf, 0.0, np.inf], -wide, wide, near * _CLOSE]))


def _highest(
    evaluate: Callable[[FloatArray], Evidence],
    best: FloatArray,
    value: float,
    grid: FloatArray,
    curves: FloatArray,
) -> tuple[FloatArray, float]:
    """The best rationality of all: the root of the slope, or a better one that the grid shows."""
    heights = curves.mean(axis=0)
    top = int(heights.argmax())
    if heights[top] <= value + 1e-9:
        return best, value
    if not np.isfinite(grid[top]):
        return grid[top : top + 1], float(heights[top])
    from scipy.optimize import minimize_scalar

    low, high = grid[max(top - 1, 1)], grid[min(top + 1, len(grid) - 2)]
    optimum = minimize_scalar(
        lambda b: -float(evaluate(np.array([b])).value[0]),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10 * abs(high - low)},
    )
    return np.array([optimum.x]), -float(optimum.fun)


def fitted_model(group: Group, theta: FloatArray) -> SoftModel:
    """The model of fitted weights; at infinity, free choice among the actions that are optimal."""
    if not np.isinf(theta).any():
        return group.model(theta)
    model = group.model(np.zeros(1))
    return model.confined(model.regrets(np.sign(theta)) <= 0)


def _utility(group: Group) -> Rewards:
    return group.utilities.rewards(np.ones((1, 1)))
