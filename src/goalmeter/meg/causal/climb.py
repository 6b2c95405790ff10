"""Climbing to utilities that predict better, on maximum entropy policies only.

A branch of local maxima is followed uphill in evidence; where it ends it is checked against fresh
starts. If a rival has more entropy at the same expected utility, the branch has stopped to consist
of maximum entropy policies somewhere on the way. Then the climb goes on with the expected utility
held, so that gaps that no rationality attains are in reach, and under the constraint that no rival
found so far has more entropy; and so on, until no new one turns up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from goalmeter._types import FloatArray
from goalmeter.meg.causal.branch import Branch, Class, HeldBranch, Place
from goalmeter.meg.causal.candidates import Candidate, near_measured, random_policies, stacked
from goalmeter.meg.causal.held import ENTROPY_TIE, greatest_entropies
from goalmeter.meg.causal.ridge import uphill_held
from goalmeter.meg.causal.supported import candidate, maximisers, objectives, slack

_ROUNDS = 6
_STEPS = 80
# The largest multiplier that a start is given.
_LARGEST = 30.0
# Loss where there is no branch, nats.
_LOST = 1e6
# A gradient below this is none.
_FLAT = 1e-7


class Trial(NamedTuple):
    """Weights y [K] and policies that are stationary at E[G y] + H; attained: E[G y]."""

    y: FloatArray
    found: Candidate
    attained: float


class Verdict(NamedTuple):
    """What a check against fresh starts says.

    "supported": no start ended in a larger E[G y] + H; "held": some did, but in none with more
    entropy at the same E[G y]; "beaten": one did, the rival, with the b that holds E[G y] / b.
    """

    kind: Literal["supported", "held", "beaten"]
    agreed: int
    rival: Candidate | None


def trial_of(utilities: Class, y: FloatArray, found: Candidate) -> Trial:
    """Policies that are stationary at y as a trial."""
    chance = utilities.table.probability(found.policies)
    return Trial(y, found, float(chance @ (utilities.table.features @ y)))


def trial_at(utilities: Class, y: FloatArray, n: int, rng: np.random.Generator) -> Trial:
    """The best maximiser of E[G y] + H that n random starts find."""
    task, b = utilities.task(y)
    starts = [random_policies(task.table, n, rng), near_measured(task.table, task.measured)]
    return trial_of(utilities, y, maximisers(task, [b], [stacked(starts)])[0].best[0])


def check(utilities: Class, trial: Trial, n: int, rng: np.random.Generator) -> Verdict:
    """Whether policies maximise E[G y] + H, or else H at their E[G y], as far as n starts tell."""
    task, b = utilities.task(trial.y)
    mine = candidate(task, b, trial.found.policies)
    fresh = random_policies(task.table, n, rng)
    tried = maximisers(task, [b], [fresh])[0]
    best = tried.best[0]
    one, other = objectives(
        b, np.array([mine.utility, best.utility]), np.array([mine.entropy, best.entropy])
    )
    if other <= one + slack(b):
        return Verdict("supported", tried.agreed if other >= one - 10 * slack(b) else 0, None)
    starts = stacked([fresh, near_measured(task.table, task.measured), best.policies])
    multipliers = np.zeros(starts[0].shape[2])
    multipliers[::2] = min(b, _LARGEST)
    held = greatest_entropies(task, [mine.utility], [(starts, multipliers)])[0]
    if not held.best or held.best[0].entropy <= mine.entropy + 2 * ENTROPY_TIE:
        return Verdict("held", min(held.agreed, n), None)
    return Verdict("beaten", 0, held.best[0])


def climb(
    utilities: Class, start: Trial, n: int, rng: np.random.Generator
) -> tuple[Trial, Verdict, list[Trial]]:
    """The best maximum entropy policies that a branch leads to.

    Args:
        utilities: the class.
        start: where to begin, at a local maximum.
        n: random starts of each check.
        rng: of the starts.

    Returns:
        the trial; its verdict, "beaten" if the start was already; and rivals that were met, as
        trials of their own.
    """
    at, slope = _uphill(utilities, start)
    verdict = check(utilities, at, n, rng)
    if verdict.rival is None and slope <= _FLAT:
        return at, verdict, []
    rivals: list[HeldBranch] = []
    met: list[Trial] = []
    sure, known = (start, check(utilities, start, n, rng)) if verdict.rival else (at, verdict)
    for _ in range(_ROUNDS):
        if known.rival is not None:
            break
        if verdict.rival is not None:
            x = _held_at(utilities, at)
            rivals.append(HeldBranch(utilities, x, verdict.rival))
            met.append(trial_of(utilities, x[:-1] * verdict.rival.rationality, verdict.rival))
        x = _held_at(utilities, sure)
        branch = HeldBranch(utilities, x, sure.found)
        place = uphill_held(branch, x, rivals)
        if place is None:
            break
        at = trial_of(utilities, place.x[:-1] * place.found.rationality, place.found)
        verdict = check(utilities, at, n, rng)
        if verdict.rival is None:
            sure, known = at, verdict
            break
    return sure, known, met


def _held_at(utilities: Class, trial: Trial) -> FloatArray:
    """(weights, E[U]) of a trial, in a unit in which its b is that of its policies."""
    b = trial.found.rationality
    return np.append(trial.y / b, trial.attained / b)


class _Path:
    """A branch as an objective, which remembers where it was asked last."""

    def __init__(self, at: Callable[[FloatArray], Place | None]) -> None:
        self._at = at
        self._last: tuple[bytes, Place | None] = (b"", None)

    def place(self, x: FloatArray) -> Place | None:
        """The point at x."""
        if x.tobytes() != self._last[0]:
            self._last = (x.tobytes(), self._at(x))
        return self._last[1]

    def loss(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Minus the evidence, and its gradient."""
        place = self.place(x)
        if place is None or not np.isfinite(place.found.evidence):
            return _LOST, np.zeros_like(x)
        return -place.found.evidence, -place.gradient


def _uphill(utilities: Class, start: Trial) -> tuple[Trial, float]:
    """Follow the evidence along local maxima; with the size of the gradient at the end."""
    path = _Path(Branch(utilities, start.y, start.found).at)
    best: Place | None = None

    def loss(y: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best
        value, gradient = path.loss(y)
        if value < _LOST and (best is None or -value > best.found.evidence):
            best = path.place(y)
        return value, gradient

    minimize(
        loss,
        start.y,
        jac=True,
        method="L-BFGS-B",
        options={"maxfun": _STEPS, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20},
    )
    if best is None:
        return start, np.inf
    slope = float(np.abs(best.gradient).max())
    return trial_of(utilities, best.x, best.found), slope
