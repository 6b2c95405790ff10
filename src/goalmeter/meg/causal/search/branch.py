"""A branch of stationary policies, followed as the utility changes.

For utilities U = G y that are linear in weights y, stationary policies of E[U] + H move smoothly
with y until branches meet; with a held E[U] = u they move smoothly with y and u even where the b
that holds them turns back. So does the evidence for them, with derivatives by the implicit
function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.candidates import Candidate, Task
from goalmeter.meg.causal.search.held import exact
from goalmeter.meg.causal.search.stationary import implicit_gradient
from goalmeter.meg.causal.search.supported import near
from goalmeter.meg.causal.search.utilities import UtilityClass

_REMEMBERED = 8
# Policies that differ by more, in decisions of the measured policy, are on different branches.
_JUMP = 0.4
_TRIES = 8


class Place(NamedTuple):
    """A point of a branch; x is y [K], or y and u [K + 1]."""

    x: FloatArray
    model: Candidate
    gradient: FloatArray  # d evidence / dx


class Branch:
    """Local maxima of E[G y] + H by y, each reached from the nearest that is known."""

    def __init__(self, utilities: UtilityClass, y: FloatArray, model: Candidate) -> None:
        self.utilities = utilities
        self._known = [(y, model)]

    def find(self, x: FloatArray) -> Candidate | None:
        """The point at y = x, or None if the branch is lost on the way."""
        return _walk(self._known, x, self._step, self.utilities.plain(x).distance)

    def _step(self, x: FloatArray, start: Candidate) -> Candidate | None:
        task, b = self.utilities.task(x)
        return near(task, b, start.policies)

    def at(self, x: FloatArray) -> Place | None:
        """The point at y = x with its gradient."""
        model = self.find(x)
        if model is None:
            return None
        task, b = self.utilities.task(x)
        gradient = _gradient(task, b, model, held=False)
        return None if gradient is None else Place(x.copy(), model, gradient[:-1] / b)


class HeldBranch:
    """Stationary policies of H at E[G y] = u by y and u, x = (y, u)."""

    def __init__(self, utilities: UtilityClass, x: FloatArray, model: Candidate) -> None:
        self.utilities = utilities
        self._known = [(x, model)]

    def find(self, x: FloatArray) -> Candidate | None:
        """The point at x, or None if the branch is lost on the way."""
        return _walk(self._known, x, self._step, self.utilities.plain(x[:-1]).distance)

    def _step(self, x: FloatArray, start: Candidate) -> Candidate | None:
        return exact(self.utilities.plain(x[:-1]), float(x[-1]), start.policies, start.rationality)

    def at(self, x: FloatArray) -> Place | None:
        """The point at x with its gradient."""
        model = self.find(x)
        if model is None:
            return None
        task = self.utilities.plain(x[:-1])
        gradient = _gradient(task, model.rationality, model, held=True)
        return None if gradient is None else Place(x.copy(), model, gradient)

    def entropy_gradient(self, model: Candidate) -> FloatArray:
        """D H / dx [K + 1]: H is a maximum, so only the constraint counts."""
        b = model.rationality
        return np.append(b * self.utilities.table.expected(model.policies), -b)


def remembering(
    place_at: Callable[[FloatArray], Place | None],
) -> Callable[[FloatArray], Place | None]:
    """The same function, which keeps its last answer: optimisers ask for parts of it one by one."""
    last: tuple[bytes, Place | None] = (b"", None)

    def asked(x: FloatArray) -> Place | None:
        nonlocal last
        if x.tobytes() != last[0]:
            last = (x.tobytes(), place_at(x))
        return last[1]

    return asked


def minus_evidence(place: Place | None, unit: float, z: FloatArray) -> tuple[float, FloatArray]:
    """A loss to minimise in z = x / unit, with its gradient."""
    if place is None or not np.isfinite(place.model.evidence):
        return LOST, np.zeros_like(z)
    return -place.model.evidence, -unit * place.gradient


def _walk(
    known: list[tuple[FloatArray, Candidate]],
    x: FloatArray,
    step: Callable[[FloatArray, Candidate], Candidate | None],
    distance: Callable[[Candidate, Candidate], float],
) -> Candidate | None:
    """From the nearest known point to x, in steps that do not change the policies by much."""
    # What is reached is remembered in `known`. None if a step, however short, makes a jump.
    at, now = min(known, key=lambda point: float(np.sum((point[0] - x) ** 2)))
    done, length = 0.0, 1.0
    for _ in range(_TRIES):
        ahead = min(done + length, 1.0)
        model = step(at + ahead * (x - at), now)
        if model is None or distance(model, now) > _JUMP:
            length *= 0.5
            continue
        now, done = model, ahead
        if done == 1.0:
            known.append((x.copy(), now))
            del known[1:-_REMEMBERED]
            return now
    return None


def _gradient(task: Task, b: float, model: Candidate, *, held: bool) -> FloatArray | None:
    """D evidence / d(weights, u), [K + 1], or None where branches meet."""
    try:
        by_weights, by_utility = implicit_gradient(
            task.table, task.value, b, model.policies, task.visits, held=held
        )
    except np.linalg.LinAlgError:
        return None
    gradient = np.append(by_weights, by_utility)
    return gradient if np.isfinite(gradient).all() else None


# A rival is kept this far below, nats, so that rounding does not let it through.
_MARGIN = 5e-8
_STEPS = 50
_FINISH = 25
# The region, as a share of the size of x: at first, and where it is given up.
_FIRST = 0.3
_LEAST = 1e-6
# Evidence gained by a step that is worth no other, nats.
_GAIN = 1e-10
# Loss where there is no branch, nats.
LOST = 1e6


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

    @remembering
    def at(z: FloatArray) -> Place | None:
        nonlocal best
        reached = branch.at(size * z)
        if (
            reached is not None
            and reached.model.evidence > best.model.evidence
            and _margins(branch, reached, rivals)[0].min(initial=0.0) >= -_MARGIN
        ):
            best = reached
        return reached

    def lead(z: FloatArray) -> FloatArray:
        reached = at(z)
        return -np.ones(len(rivals)) if reached is None else _margins(branch, reached, rivals)[0]

    def slopes(z: FloatArray) -> FloatArray:
        reached = at(z)
        shape = (len(rivals), len(z))
        return np.zeros(shape) if reached is None else size * _margins(branch, reached, rivals)[1]

    minimize(
        lambda z: minus_evidence(at(z), size, z),
        place.x / size,
        jac=True,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lead, "jac": slopes}] if rivals else [],
        options={"maxiter": _FINISH, "ftol": 1e-12},
    )
    return best
