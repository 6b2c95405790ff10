"""The best utility of a small class as a convex program and its dual, solved along a path.

Far-out optima defeat plain Newton steps: utilities may have to grow without bound, in directions
whose sizes lie many powers of ten apart. With a penalty on their size the problem is well posed
whatever the behaviour is, and so is its dual, a search among policies x:

    max over theta of  f(theta) - e/2 |theta|^2   =   min over x of  KL(x) + |r(x)|^2 / (2 e),

with r(x) what the behaviour's features exceed those of x by. Both are solved by one pair: the
optimal x is the model of the optimal theta, and r = e theta. As e falls, f(theta) rises to the
maximum of the evidence, KL(x) falls short of it by ever less, and r vanishes: value and bound
close on each other. Each e takes a few Newton steps from the solution of the one before.

The bound that is reported does not trust the solver: it is weak duality at whatever policy the
search has come to (`goalmeter.meg.certificate`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.certificate import (
    Bounds,
    LinearFit,
    checked,
    matching_certificate,
    model_certificate,
)
from goalmeter.meg.face import find_face
from goalmeter.meg.newton import newton_step
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.meg.watch import Watch
from goalmeter.tabular.mdp import TabularMDP

# The path is for classes of up to this many weights, where forming the information takes no more
# than this many multiplications: about a second for each of a hundred Newton steps.
PATH_WEIGHTS = 400
PATH_WORK = 2e9
# Each penalty is this part of the one before, from 1 down to 1e-24, far below what rounding
# leaves of the information's smallest eigenvalues.
_PART = 10**-0.5
_STAGES = 48
_STEPS_A_STAGE = 25
# A stage is over when a Newton step would gain less than this share of the penalty's own value.
_SETTLED = 1e-4
# Gain of evidence over KL (nats) below which it is worth moving the model's policy to match.
_NEAR = 1e-2
# Towards a finite optimum the weights move by `_PART` as much in each stage as in the one before;
# by more than this, they are still on their way, perhaps to infinity.
_GROWING = 0.6
# So many stages that improve neither value nor bound by this share of the tolerance end the path.
_IDLE_STAGES = 6
_IDLE_SHARE = 1e-2


def is_small(mdp: TabularMDP, utilities: LinearClass) -> bool:
    """Whether a class is small enough for the path."""
    d = utilities.n_weights
    rows = mdp.steps * mdp.n_actions * mdp.n_states
    return d <= PATH_WEIGHTS and (rows + d) * d**2 <= PATH_WORK


def penalised_path(
    start: SoftModel,
    behaviour: Behaviour,
    tolerance: float,
    bounds: Bounds,
    watch: Watch[LinearFit],
) -> LinearFit:
    """The best utility of a class and a bound, by Newton steps along falling penalties.

    It leads from the model of weights 0 to where value and bound are within the tolerance; the path
    adds to the bounds that are proven already, and tells the watch of every stage.
    """
    at = _Point(start, start.evidence(behaviour), start.gradient(behaviour))
    fit = checked(LinearFit(at.value, *bounds.at(start), start), behaviour, bounds)
    penalty, idle, steps, highest, moves = 1.0, 0, 0, at.value, (np.inf, np.inf)
    for stage in range(1, _STAGES + 1):
        penalty, last = penalty * _PART, at
        for _ in range(_STEPS_A_STAGE):
            steps += 1
            after = _penalised_step(at, behaviour, penalty)
            if after is None:
                break
            at = after
        _certify(at, bounds)
        before, highest = fit.gap, max(highest, last.value)
        now = checked(LinearFit(at.value, *bounds.at(at.model), at.model), behaviour, bounds)
        if now.error > before:
            # Weights grow as the penalty falls, and so does rounding.
            break
        moves = (moves[1], float(np.linalg.norm(at.model.theta - last.model.theta)))
        # A little more evidence at much larger weights may cost more in the bound than it gains.
        if now.doubt < fit.doubt:
            fit = replace(now, growing=moves[1] > _GROWING * moves[0])
        fit = replace(fit, steps=steps)
        watch.tell(fit, *fit.bracket, stage="falling penalties", step=stage, of=_STAGES)
        gained = max(before - fit.gap, at.value - highest)
        idle = idle + 1 if gained < _IDLE_SHARE * tolerance else 0
        if fit.closes(tolerance) or idle == _IDLE_STAGES:
            break
    return _at_infinity(fit, behaviour, tolerance)


class _Point(NamedTuple):
    """A model with its evidence and the gradient of it."""

    model: SoftModel
    value: float
    gradient: FloatArray


def _penalised_step(at: _Point, behaviour: Behaviour, penalty: float) -> _Point | None:
    """A Newton step on the penalised evidence, shortened until it gains; None if it is settled."""
    theta = at.model.theta
    slope = at.gradient - penalty * theta
    _, sizes, directions = np.linalg.svd(at.model.information_root(), full_matrices=False)
    # What the root does not span changes no policy, and so has neither slope nor use.
    step = directions.T @ ((directions @ slope) / (sizes**2 + penalty))
    promised = float(slope @ step)
    penalty_now = 0.5 * penalty * float(theta @ theta)
    if promised <= _SETTLED * (penalty + 2.0 * penalty_now):
        return None
    length = 1.0
    while length > 1e-8:
        # An offset in the weights changes no policy, but costs digits.
        model = at.model.at(at.model.utilities.centred(theta + length * step))
        value = model.evidence(behaviour)
        cost = 0.5 * penalty * float(model.theta @ model.theta)
        if (value - cost) - (at.value - penalty_now) >= 0.1 * length * promised:
            return _Point(model, value, model.gradient(behaviour))
        length *= 0.25
    return None


def _certify(at: _Point, bounds: Bounds) -> None:
    """Add what the model's own policy proves, and the policy that a Newton step would match."""
    proven = model_certificate(at.model, at.gradient)
    bounds.add(proven)
    if at.value - proven.kl < _NEAR:
        _, psi = newton_step(at.model, at.gradient)
        matching = matching_certificate(at.model, psi, at.gradient)
        if matching is not None:
            bounds.add(matching)


def _at_infinity(fit: LinearFit, behaviour: Behaviour, tolerance: float) -> LinearFit:
    """The exact limit, where the path's end shows the face that the limit's policies form."""
    model = fit.model
    face = find_face(model, *newton_step(model, model.gradient(behaviour)), behaviour)
    if face is None:
        return fit
    value = face.model.evidence(behaviour)
    if not fit.value - tolerance <= value <= fit.upper_bound:
        return fit
    return replace(
        fit,
        value=max(value, fit.value),
        model=face.model,
        directions=[face.direction],
        growing=False,
    )
