"""Climbing to utilities that predict better, and checking that it is on maximum entropy policies.

A branch of local maxima is followed uphill in evidence; where it ends it is checked against fresh
starts. If a rival has more entropy at the same expected utility, the branch has stopped to consist
of maximum entropy policies somewhere on the way, and what it predicts does not count.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.branch import (
    LOST,
    Branch,
    HeldBranch,
    Place,
    minus_evidence,
    remembering,
    uphill_held,
)
from goalmeter.meg.causal.search.candidates import (
    Candidate,
    near_measured,
    random_policies,
    stacked,
)
from goalmeter.meg.causal.search.held import ENTROPY_TIE, greatest_entropies
from goalmeter.meg.causal.search.supported import candidate, maximisers, objectives_of, slack
from goalmeter.meg.causal.search.utilities import UtilityClass

_ROUNDS = 4
_FEW = 4
_STEPS = 80
_FIRST_STEP = 0.2
# Nats by which a maximiser may fall short: on a ridge it is as good as a rival by construction.
_TIE = 1e-7
# The largest multiplier that a start is given.
_LARGEST = 30.0


class Trial(NamedTuple):
    """Weights y [K] and policies that are stationary at E[G y] + H; attained: E[G y]."""

    y: FloatArray
    model: Candidate
    attained: float


class Verdict(NamedTuple):
    """What a check against fresh starts says.

    "supported": no start ended in a larger E[G y] + H. "held": some did, but in none with more
    entropy at the same E[G y], and others ended in as much. "beaten": one did, the rival, with
    the b that holds E[G y] / b; or none came near, and the rival is None.
    """

    kind: Literal["supported", "held", "beaten"]
    agreed: int
    rival: Candidate | None


def trial_of(utilities: UtilityClass, y: FloatArray, model: Candidate) -> Trial:
    """Policies that are stationary at y as a trial."""
    chance = utilities.table.probability(model.policies)
    return Trial(y, model, float(chance @ (utilities.table.features @ y)))


def check(utilities: UtilityClass, trial: Trial, n: int, rng: np.random.Generator) -> Verdict:
    """Whether policies maximise E[G y] + H, or else H at their E[G y], as far as n starts tell."""
    task, b = utilities.task(trial.y)
    mine = candidate(task, b, trial.model.policies)
    fresh = random_policies(task.table, n, rng)
    (fresh_ends,) = maximisers(task, [b], [fresh])
    reached, fresh_reached = objectives_of(b, mine, fresh_ends.best[0])
    if fresh_reached <= reached + slack(b) + _TIE:
        agreed = fresh_ends.agreed if fresh_reached >= reached - _TIE else 0
        return Verdict("supported", agreed, None)
    # The maximisers of the same utility in other sizes are starts as well: where the expected
    # utility moves smoothly with the size, one of them is near.
    sizes = np.outer([-1.0, 1.0], b * 4.0 ** np.arange(-5, 3)).reshape(-1)
    few = random_policies(task.table, _FEW, rng)
    rescaled = [ends.best[0] for ends in maximisers(task, list(sizes), [few] * len(sizes))]
    starts = stacked(
        [fresh, near_measured(task.table, task.measured), *(c.policies for c in rescaled)]
    )
    # Half of the fresh starts begin with the utility's own multiplier, half with none: the first
    # find maxima of the Lagrangian, the others plain maxima of the entropy.
    multipliers = np.zeros(starts[0].shape[2])
    multipliers[: n // 2] = min(b, _LARGEST)
    multipliers[-len(rescaled) :] = np.clip(sizes, -_LARGEST, _LARGEST)
    held = greatest_entropies(task, [mine.utility], [(starts, multipliers)])[0]
    if not held.best:
        return Verdict("beaten", 0, None)
    excess = held.best[0].entropy - mine.entropy
    if excess > 2 * ENTROPY_TIE:
        return Verdict("beaten", 0, held.best[0])
    if excess < -10 * ENTROPY_TIE:
        return Verdict("beaten", 0, None)
    return Verdict("held", min(held.agreed, n), None)


def uphill(utilities: UtilityClass, start: Trial) -> tuple[Trial, float]:
    """Follow the evidence along local maxima of E[G y] + H.

    Returns:
        The best trial on the way, not checked; and the size of the gradient there.
    """
    at = remembering(Branch(utilities, start.y, start.model).at)
    # The first step of the method has length 1: a share of y that does not overshoot.
    unit = _FIRST_STEP * float(np.linalg.norm(start.y))
    best: Place | None = None

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best
        place = at(unit * z)
        value, gradient = minus_evidence(place, unit, z)
        if value < LOST and (best is None or -value > best.model.evidence):
            best = place
        return value, gradient

    minimize(
        loss,
        start.y / unit,
        jac=True,
        method="L-BFGS-B",
        options={"maxfun": _STEPS, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20},
    )
    # The start itself may be degenerate, so that no gradient is known anywhere.
    if best is None:
        return start, np.inf
    slope = float(np.abs(best.gradient).max())
    return trial_of(utilities, best.x, best.model), slope


def along_the_ridge(
    utilities: UtilityClass, start: Trial, verdict: Verdict, n: int, rng: np.random.Generator
) -> tuple[Trial, Verdict]:
    """From maximum entropy policies to better ones, with the expected utility held.

    Returns:
        The trial and its verdict; what came in if nothing better stands the check.
    """
    rivals: list[HeldBranch] = []
    x = _held_at(start)
    for _ in range(_ROUNDS):
        place = uphill_held(HeldBranch(utilities, x, start.model), x, rivals)
        if place is None or place.model.evidence <= start.model.evidence:
            break
        at = trial_of(utilities, place.x[:-1] * place.model.rationality, place.model)
        checked = check(utilities, at, n, rng)
        if checked.kind != "beaten":
            return at, checked
        if checked.rival is None:
            break
        rivals.append(HeldBranch(utilities, _held_at(at), checked.rival))
    return start, verdict


def _held_at(trial: Trial) -> FloatArray:
    """(weights, E[U]) of a trial, in a unit in which its b is that of its policies."""
    b = trial.model.rationality
    return np.append(trial.y / b, trial.attained / b)
