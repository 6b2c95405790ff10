"""Optima at infinity: the face of policies that a diverging utility singles out.

Behaviour that never takes certain actions may be predicted ever better by ever larger
utilities. The supremum is then the best evidence among models that are confined to the actions
which are optimal for the diverging direction, and those models have a finite optimum (or
diverge again, inside the face). The direction is read off a Newton step: far out, a step
lowers the log-probability of each action that is dying out by about one.

A face is accepted only when it is proven: a direction for which all its policies are equally
good, and every action outside is worse.

Source: the multi-dimensional form of the limit rationality -> infinity (see
`goalmeter.tabular.backup`); facial reduction of the maximum-entropy dual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.newton import NewtonSystem
from goalmeter.meg.soft_model import ALL, SoftModel

# A Newton step that lowers the log-probability of an unused action by this much is killing it.
DYING = 0.3
# Relative to the direction's largest entry: ties inside the face, and clear losses outside.
TIE = 1e-8
CLEAR = 1e-5


class Face(NamedTuple):
    """A verified face: its models, and the direction that leads to it."""

    model: SoftModel
    direction: FloatArray


def find_face(
    model: SoftModel, step: FloatArray, psi: dict[int, FloatArray], behaviour: Behaviour
) -> Face | None:
    """The face that a model's Newton step [D] diverges towards, or None if none can be proven.

    `psi` are the step's tangents, t -> [A, S, 1]; the behaviour must stay inside the face.
    """
    allowed = _survivors(model, psi, behaviour)
    if allowed is None:
        return None
    confined = model.confined(allowed)
    system = NewtonSystem([(confined, confined.states)])
    for candidate in (step, model.theta):
        direction = system.ignored(candidate)
        if _exposes(model, confined, direction, allowed, behaviour):
            return Face(confined, direction / np.abs(direction).max())
    return None


def _survivors(
    model: SoftModel, psi: dict[int, FloatArray], behaviour: Behaviour
) -> BoolArray | None:
    """Actions [T, A, S] that are not dying out, or None if all survive."""
    steps = model.mdp.steps
    allowed = np.ones((steps, model.mdp.n_actions, model.mdp.n_states), dtype=bool)
    shrinks = False
    for t in range(steps):
        policy, _ = model.step(t)
        unused = behaviour.weights(t, ALL)[..., 0] <= 0
        alive = ~((psi[t][..., 0] < -DYING) & unused)
        # A state where everything dies is not visited any more; leave it as it is.
        alive |= ~alive.any(axis=0)
        shrinks |= bool((~alive & (policy > 0) & (model.states[t] > 0)).any())
        # What the behaviour does stays open, however little of it and however sure the model is
        # that it does not: ruling it out would cost everything.
        allowed[t] = (alive & (policy > 0)) | ~unused
        allowed[t] |= ~allowed[t].any(axis=0)
    return allowed if shrinks else None


def _exposes(
    model: SoftModel,
    confined: SoftModel,
    direction: FloatArray,
    allowed: BoolArray,
    behaviour: Behaviour,
) -> bool:
    """Whether exactly the allowed actions are optimal for a direction, where it matters."""
    scale = float(np.abs(direction).max())
    if not np.isfinite(scale) or scale <= 0:
        return False
    regrets = model.regrets(direction / scale)
    for t in range(model.mdp.steps):
        # It matters where the face goes, and where the behaviour goes: small chances may be too
        # small for the face's own numbers.
        visited = behaviour.weights(t, ALL)[..., 0].sum(axis=0) > 0
        reached = (confined.states[t] > 0) | visited
        regret, inside = regrets[t][:, reached], allowed[t][:, reached]
        if (regret[inside] > TIE).any() or (regret[~inside] < CLEAR).any():
            return False
    return True
