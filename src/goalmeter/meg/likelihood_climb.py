"""The likelihood of a large class climbed by products with its information alone.

The information of logged decisions is that of the states that the log visits, and damped steps
with it (Fisher's scoring) lead to a maximum, taking a share of what is missing away each. Where
nothing is left to chance and all logs are whole, the evidence of a log is that of a policy: it is
concave, its second derivative is the information of the states that the *model* visits, and steps
with that square what is missing. They go first, and scoring has the last word. A step counts only
if the likelihood rises.

Systems are solved by conjugate gradients with the preconditioners of `goalmeter.meg.value_space`
and `goalmeter.meg.feature_space`; of several worlds that share their weights the information adds
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.meg.counted import behaviour_entries, counted, model_visits
from goalmeter.meg.feature_space import FeatureSpace, by_cholesky, space_of
from goalmeter.meg.newton import conjugate_gradients
from goalmeter.meg.samples import Group
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.value_space import Operator, Space

_MAX_STEPS = 200
_LEAST = 1e-14
_ACCURACY, _LAST_ACCURACY, _CG_STEPS, _MANY_PRODUCTS = 1e-2, 1e-6, 200, 60
# As in `goalmeter.meg.visit_matching`.
_LEAST_SHARE, _GOOD_SHARE, _HALF = 0.1, 0.3, 0.55
_ROUNDING, _LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e-14, 1e3
# Damping below which a step promises what there is to gain, and a range of weights beyond which
# digits are lost.
_UNDAMPED, _WIDEST = 1e-3, 1e6


class Climbed(NamedTuple):
    """Weights [D], the average evidence there (nats), and the last step [D]."""

    theta: FloatArray
    value: float
    step: FloatArray


def climb_likelihood(
    groups: Sequence[Group], weights: Sequence[FloatArray], done: float
) -> Climbed:
    """Weights of the highest likelihood, from 0, to where a step promises less than `done` nats."""
    pool = _Pool(groups, weights)
    theta = np.zeros(groups[0].utilities.n_weights)
    models, value = pool.at(theta)
    step = np.zeros_like(theta)
    damping, by_log, accuracy = 1.0, not pool.telescopes, _ACCURACY
    for _ in range(_MAX_STEPS):
        step, rise = pool.step(models, damping, by_log, accuracy)
        better = pool.better(theta, models, value, step, rise)
        if better is None or rise <= done:
            if damping > _UNDAMPED and better is not None:
                damping *= 0.1
            elif better is None and rise > done and damping < _MOST_DAMPED:
                damping = 8.0 * max(damping, 1e-6)
            elif not by_log:
                by_log, damping = True, 1e-6
            elif accuracy == _ACCURACY:
                # A rough solution may miss the little that there is to gain where little is known.
                accuracy = _LAST_ACCURACY
            else:
                break
            continue
        theta, models, after, length = better
        gain, value = after - value, after
        if length < 1.0:
            damping = 2.0 * max(damping, 1e-6)
        else:
            damping = max((0.1 if gain > _GOOD_SHARE * rise else 0.5) * damping, _LEAST_DAMPED)
    return Climbed(theta, value, step)


class _Pool:
    """Worlds that share their weights, with logs in each."""

    def __init__(self, groups: Sequence[Group], weights: Sequence[FloatArray]) -> None:
        one = len(groups) == 1
        starts = [counted(_start(g if one else _with_features(g))) for g in groups]
        self._groups = [
            replace(g, utilities=m.utilities) for g, m in zip(groups, starts, strict=True)
        ]
        pairs = list(zip(self._groups, weights, strict=True))
        self._behaviours = [g.behaviour(w) for g, w in pairs]
        self._seen = [g.visits(w) for g, w in pairs]
        # What a model visits is weighted like the trajectories that it stands for.
        self._shares = [float(w.sum()) for w in weights]
        self._target = [
            behaviour_entries(g.utilities, b)
            for g, b in zip(self._groups, self._behaviours, strict=True)
        ]
        self._spaces: list[Space] = [
            space_of(m, target) for m, target in zip(starts, self._target, strict=True)
        ]

    def at(self, theta: FloatArray) -> tuple[list[SoftModel], float]:
        """The models of weights, and their average evidence."""
        models = [g.model(theta) for g in self._groups]
        pairs = zip(models, self._behaviours, strict=True)
        return models, float(sum(m.evidence(b) for m, b in pairs))

    @property
    def telescopes(self) -> bool:
        """Whether the logs' evidence is that of a policy, but for where they start."""
        return all(
            g.mdp.horizon is not None
            and g.levels is None
            and g.mdp.transition.n_entries == g.mdp.n_actions * g.mdp.n_states
            and bool((g.trajectories.length == g.mdp.horizon).all())
            for g in self._groups
        )

    def step(
        self, models: list[SoftModel], damping: float, by_log: bool, accuracy: float
    ) -> tuple[FloatArray, float]:
        """A damped step [D], and what its slope promises, nats."""
        pairs = zip(models, self._behaviours, strict=True)
        gradient = np.sum([m.gradient(b) for m, b in pairs], axis=0)
        states = self._seen
        if not by_log:
            states = [m.states * share for m, share in zip(models, self._shares, strict=True)]
        scale = self._scale(models)
        added = damping * (scale + _LEAST) + _LEAST
        products = 0

        def product(v: FloatArray) -> FloatArray:
            nonlocal products
            products += 1
            parts = zip(models, states, strict=True)
            felt: FloatArray = np.sum([m.curve(v, now) for m, now in parts], axis=0)
            return felt + added * v

        nearly = self._preconditioner(models, scale, added, states)
        step = conjugate_gradients(product, gradient, accuracy, nearly, _CG_STEPS)
        if products > _MANY_PRODUCTS and len(models) == 1:
            self._spaces[0].give_up()
        return step, float(gradient @ step)

    def better(
        self,
        theta: FloatArray,
        models: list[SoftModel],
        value: float,
        step: FloatArray,
        rise: float,
    ) -> tuple[FloatArray, list[SoftModel], float, float] | None:
        """Weights, models, evidence and length of the longest part of a step that gains."""
        for length in (1.0, 0.5, 0.25):
            trial, reached = self.at(theta + length * step)
            if reached - value <= _LEAST_SHARE * length * rise - _ROUNDING * max(1.0, abs(value)):
                continue
            while reached - value > _HALF * length * rise and length >= 1.0:
                longer = theta + 2.0 * length * step
                if np.ptp(longer) > _WIDEST:
                    break
                further, more = self.at(longer)
                if not more > reached:
                    break
                trial, reached, length = further, more, 2.0 * length
            return theta + length * step, trial, reached, length
        return None

    def _scale(self, models: list[SoftModel]) -> FloatArray:
        """How much each weight may be felt by the models and by the logs, [D]."""
        total = np.zeros(self._groups[0].utilities.n_weights)
        for model, target, space, share in zip(
            models, self._target, self._spaces, self._shares, strict=True
        ):
            visits = share * model_visits(model)
            total += space.scale(model, visits, model.utilities.collect(target)[:, 0])
        return total

    def _preconditioner(
        self,
        models: list[SoftModel],
        scale: FloatArray,
        added: FloatArray,
        states: list[FloatArray],
    ) -> Operator:
        if len(models) == 1:
            visits = model_visits(models[0]) + _LEAST
            return self._spaces[0].preconditioner(models[0], visits, added, states[0])
        formed = [s for s in self._spaces if isinstance(s, FeatureSpace) and s.forms]
        if len(formed) < len(models):
            return lambda right: right / (scale + added)
        parts = zip(formed, models, states, strict=True)
        system = np.sum([space.nearly(m, now) for space, m, now in parts], axis=0)
        system[np.diag_indices_from(system)] += added
        return by_cholesky(system)


def _start(group: Group) -> SoftModel:
    return group.model(np.zeros(group.utilities.n_weights))


def _with_features(group: Group) -> Group:
    """The group with a feature for every entry of a utility that does not depend on time."""
    utilities = group.utilities
    if utilities.matrix is not None or utilities.shape[0] > 1:
        return group
    every: Any = sp.identity(utilities.n_weights, format="csr")
    return replace(group, utilities=replace(utilities, matrix=every))
