"""Uphill in evidence as far as no rival has more entropy.

The best utility often lies where two branches have the same entropy at the same expected utility:
a ridge, beyond which the branch that predicts better no longer consists of maximum entropy
policies. It is walked on by linear programmes in a region that is trusted, each step made only if
it keeps clear of all rivals; sequential quadratic programming finishes.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.branch import HeldBranch, Place

# A rival is kept this far below, nats, so that rounding does not let it through.
_MARGIN = 5e-8
_STEPS = 50
_FINISH = 25
# The region, as a share of the size of x: at first, and where it is given up.
_FIRST = 0.3
_LEAST = 1e-6
# Evidence gained by a step that is worth no other, nats.
_GAIN = 1e-10
_LOST = 1e6


def uphill_held(branch: HeldBranch, start: FloatArray, rivals: list[HeldBranch]) -> Place | None:
    """Where the evidence is greatest, among places at which no rival has more entropy.

    Args:
        branch: of policies with a held utility.
        start: weights and held utility, [K + 1], where the branch has more entropy than rivals.
        rivals: branches of policies that attain the same.

    Returns:
        The best place seen, or None if the branch cannot be differentiated at the start.
    """
    now = branch.at(start)
    if now is None:
        return None
    trusted = _FIRST
    for _ in range(_STEPS):
        lead, slopes = _margins(branch, now, rivals)
        reach = trusted * float(np.abs(now.x).max())
        step = _step(now.gradient, lead, slopes, reach)
        if step is None:
            trusted *= 0.4
            continue
        hoped = float(now.gradient @ step)
        if hoped <= _GAIN or trusted < _LEAST:
            break
        new = branch.at(now.x + step)
        clear = new is not None and _margins(branch, new, rivals)[0].min(initial=0.0) >= -_MARGIN
        if new is None or not clear or new.model.evidence <= now.model.evidence:
            trusted *= 0.4
            continue
        if new.model.evidence - now.model.evidence > 0.5 * hoped:
            trusted = min(2.0 * trusted, 1.0)
        now = new
    return _finished(branch, now, rivals)


def _margins(
    branch: HeldBranch, place: Place, rivals: list[HeldBranch]
) -> tuple[FloatArray, FloatArray]:
    """By how much a place has more entropy than each rival, nats [n], with gradients [n, K + 1]."""
    lead = np.full(len(rivals), 1.0)
    slopes = np.zeros((len(rivals), len(place.x)))
    mine = branch.entropy_gradient(place.model)
    for i, rival in enumerate(rivals):
        attained = rival.find(place.x)
        # A rival that cannot attain the same is none here.
        if attained is not None:
            lead[i] = place.model.entropy - attained.entropy - _MARGIN
            slopes[i] = mine - rival.entropy_gradient(attained)
    return lead, slopes


def _step(
    gradient: FloatArray, lead: FloatArray, slopes: FloatArray, reach: float
) -> FloatArray | None:
    """The step within reach that promises most and keeps the lead; None if there is none."""
    scale = max(float(np.abs(gradient).max()), 1e-300)
    solution = linprog(
        -gradient / scale,
        A_ub=-slopes if len(slopes) else None,
        b_ub=lead if len(slopes) else None,
        bounds=[(-reach, reach)] * len(gradient),
        method="highs",
    )
    return None if solution.x is None else np.asarray(solution.x)


def _finished(branch: HeldBranch, place: Place, rivals: list[HeldBranch]) -> Place:
    """The place after a few steps that know of curvature, if they help."""
    best = place
    size = float(np.abs(place.x).max())
    last: tuple[bytes, Place | None] = (b"", None)

    def at(z: FloatArray) -> Place | None:
        nonlocal last, best
        if z.tobytes() != last[0]:
            reached = branch.at(size * z)
            last = (z.tobytes(), reached)
            if (
                reached is not None
                and reached.model.evidence > best.model.evidence
                and _margins(branch, reached, rivals)[0].min(initial=0.0) >= -_MARGIN
            ):
                best = reached
        return last[1]

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        reached = at(z)
        if reached is None or not np.isfinite(reached.model.evidence):
            return _LOST, np.zeros_like(z)
        return -reached.model.evidence, -size * reached.gradient

    def lead(z: FloatArray) -> FloatArray:
        reached = at(z)
        return -np.ones(len(rivals)) if reached is None else _margins(branch, reached, rivals)[0]

    def slopes(z: FloatArray) -> FloatArray:
        reached = at(z)
        shape = (len(rivals), len(z))
        return np.zeros(shape) if reached is None else size * _margins(branch, reached, rivals)[1]

    minimize(
        loss,
        place.x / size,
        jac=True,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lead, "jac": slopes}] if rivals else [],
        options={"maxiter": _FINISH, "ftol": 1e-12},
    )
    return best
