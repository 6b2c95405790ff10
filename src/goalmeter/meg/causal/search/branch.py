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
        """Begin with policies that are stationary at y [K]."""
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
        """Begin with policies that are stationary at x [K + 1] with b `model.rationality`."""
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


def _walk(
    known: list[tuple[FloatArray, Candidate]],
    x: FloatArray,
    step: Callable[[FloatArray, Candidate], Candidate | None],
    distance: Callable[[Candidate, Candidate], float],
) -> Candidate | None:
    """From the nearest known point to x, in steps that do not change the policies by much.

    What is reached is remembered in `known`. None if a step, however short, makes a jump.
    """
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
