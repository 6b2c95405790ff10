"""Optima at infinity in W worlds at once, as `goalmeter.meg.face` has them in one.

A face is the policies that a diverging utility singles out. It is accepted only where its direction
is proven to leave them equally good and to make every action outside worse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.abreast import Abreast
from goalmeter.meg.abreast_newton import Spectrum, scaled
from goalmeter.meg.face import CLEAR, DYING, TIE
from goalmeter.meg.soft_model import SoftModel


class Faces(NamedTuple):
    """The faces of F of W worlds.

    `places` [F] are the worlds, `allowed` [T, A, F, S] the actions inside, `direction` [F, D] with
    a largest entry of 1, and `value` the evidence of the model inside [F], nats.
    """

    places: IntArray
    allowed: BoolArray
    direction: FloatArray
    value: FloatArray


def find_faces(
    abreast: Abreast,
    model: SoftModel,
    theta: FloatArray,
    step: FloatArray,
    psi: dict[int, FloatArray],
    wanted: BoolArray,
) -> Faces | None:
    """The faces that exact Newton steps [W, D] diverge towards, in the wanted worlds [W].

    `model` is that of the weights theta, `psi` the tangents of the step. None if there are none.
    """
    everywhere, shrinks = _survivors(abreast, model, psi)
    places = np.flatnonzero(wanted & shrinks)
    if not places.size:
        return None
    allowed = abreast.by_world(everywhere)[:, :, places]
    some, theta, step = abreast.take(places), theta[places], step[places]
    flat = allowed.reshape(*allowed.shape[:2], -1)
    inside, outside = some.confined(flat), some.model(theta)
    confined = inside.model(theta)
    spectrum = Spectrum.of(*scaled(inside.information(confined, confined.states)))
    exists, direction = np.zeros(places.size, dtype=bool), np.zeros_like(theta)
    for candidate in (step, theta):
        tried = spectrum.ignored(candidate)
        size = np.abs(tried).max(axis=1)
        sound = np.isfinite(size) & (size > 0)
        unit = np.where(sound[:, None], tried / np.where(sound, size, 1.0)[:, None], 0.0)
        fresh = ~exists & sound & _exposes(some, outside, confined, unit, flat)
        direction[fresh], exists = unit[fresh], exists | fresh
        if exists.all():
            break
    value = inside.evidence(confined)
    return Faces(places[exists], allowed[:, :, exists], direction[exists], value[exists])


def _survivors(
    abreast: Abreast, model: SoftModel, psi: dict[int, FloatArray]
) -> tuple[BoolArray, BoolArray]:
    """Actions [T, A, W * S] that are not dying out, and the worlds where some are [W]."""
    allowed = np.empty((abreast.mdp.steps, abreast.mdp.n_actions, abreast.mdp.n_states), dtype=bool)
    shrinks = np.zeros(abreast.n_worlds, dtype=bool)
    for t in range(abreast.mdp.steps):
        policy = model.policy(t)
        unused = abreast.weights[t].reshape(policy.shape) <= 0
        alive = ~((psi[t][..., 0] < -DYING) & unused)
        # A state where everything dies is not visited any more; leave it as it is.
        alive |= ~alive.any(axis=0)
        dying = ~alive & (policy > 0) & (model.states[t] > 0)
        shrinks |= abreast.by_world(dying).any(axis=(0, 2))
        # What the behaviour does stays open, however sure the model is that it does not.
        allowed[t] = (alive & (policy > 0)) | ~unused
        allowed[t] |= ~allowed[t].any(axis=0)
    return allowed, shrinks


def _exposes(
    abreast: Abreast,
    model: SoftModel,
    confined: SoftModel,
    direction: FloatArray,
    allowed: BoolArray,
) -> BoolArray:
    """Whether exactly the allowed actions are optimal for a direction, where it matters: [W]."""
    regrets = model.regrets(abreast.joined(direction))
    out = np.ones(abreast.n_worlds, dtype=bool)
    for t in range(abreast.mdp.steps):
        # It matters where the face goes, and where the behaviour goes.
        visited = abreast.weights[t].sum(axis=0).reshape(-1) > 0
        reached = (confined.states[t] > 0) | visited
        wrong = np.where(allowed[t], regrets[t] > TIE, regrets[t] < CLEAR) & reached
        out &= ~abreast.by_world(wrong).any(axis=(0, 2))
    return out
