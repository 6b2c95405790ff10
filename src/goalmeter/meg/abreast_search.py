"""The search of `goalmeter.meg.linear` in W worlds at once, for small classes.

Each world goes through the steps that it would go through alone: damped Newton steps, and near the
optimum a certificate after each. What a step costs most of, the interpreter's overhead of hundreds
of small passes, is paid once for all worlds. Worlds that are through leave; those whose search is
of another kind (an optimum at infinity that is not proven here, a plateau) are left to the single
search.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.abreast import Abreast
from goalmeter.meg.certificate import BOUND_FACTOR, matching_certificates
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.watch import TimeIsUp

# A world that takes more rounds than this is not like the others, and goes on alone.
_MOST_ROUNDS = 60
# As in `goalmeter.meg.linear`: the gains (nats) below which a certificate is worth looking for, and
# above which the optimum is far away; the steps that end a search by gaining next to nothing.
_NEAR, _FAR = 1e-2, 0.3
_IDLE_STEPS, _IDLE_SHARE = 4, 1e-2
_POLISHING_STEPS, _POLISHED = 30, 1e-14
_LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e12
# As in `goalmeter.meg.newton`.
_NULL_SHARE, _FLOOR = 1e-13, 1e-20
# What keeps a damped system regular where the information is null; its solutions are steps on the
# way, so they need not be exact.
_REGULAR = 1e-12


@dataclass
class Fits:
    """Where the searches of W worlds are, or were when they ended. All arrays [W] or [W, D].

    `bound` holds for utilities whose weights sum to at most `size` in absolute value (0: for all).
    `closed` are those whose bound is within the tolerance; `stopped` is whether time was over before
    the others were through.
    """

    theta: FloatArray
    value: FloatArray
    bound: FloatArray
    size: FloatArray
    steps: IntArray
    closed: BoolArray
    stopped: bool = False


@dataclass
class _Run:
    """What is known of the worlds that are still in the search; arrays [W] and [W, D]."""

    place: IntArray  # in the fits of all
    theta: FloatArray
    value: FloatArray
    damping: FloatArray
    gain: FloatArray
    idle: IntArray
    certificates: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    def take(self, chosen: IntArray) -> _Run:
        """Some of the worlds."""
        kept = [(kl[chosen], residual[chosen]) for kl, residual in self.certificates]
        arrays = (self.place, self.theta, self.value, self.damping, self.gain, self.idle)
        return _Run(*(array[chosen] for array in arrays), kept)


@dataclass(frozen=True)
class _Spectrum:
    """The information of W models, scaled to a diagonal of ones, by eigenvalues."""

    unit: FloatArray
    inverse: FloatArray  # of the eigenvalues; 0 for those that are null
    vectors: FloatArray

    def solve(self, right: FloatArray) -> FloatArray:
        """The exact Newton steps [W, D] of right sides [W, D]."""
        target = np.einsum("wdk,wd->wk", self.vectors, self.unit * right)
        return self.unit * np.einsum("wdk,wk->wd", self.vectors, self.inverse * target)


def search(abreast: Abreast, tolerance: float, ceiling: FloatArray) -> Fits:
    """The best utility of each world, and the fits of those that closed.

    `ceiling` [W] are bounds that are known beforehand, nats.
    """
    n_worlds = abreast.n_worlds
    fits = Fits(
        np.zeros((n_worlds, abreast.one.n_weights)),
        np.zeros(n_worlds),
        ceiling.copy(),
        np.zeros(n_worlds),
        np.zeros(n_worlds, dtype=np.int64),
        ceiling <= tolerance,
    )
    try:
        _ascend(abreast, fits, tolerance, ceiling)
        closed = np.flatnonzero(fits.closed)
        if closed.size:
            _polish(abreast if closed.size == n_worlds else abreast.take(closed), fits, closed)
    except TimeIsUp:
        # After every round the fits are what was reached by then.
        fits.stopped = True
    return fits


def _ascend(abreast: Abreast, fits: Fits, tolerance: float, ceiling: FloatArray) -> None:
    """Rounds of a step in each world, into `fits`; worlds that are through are left behind."""
    run = _Run(
        np.arange(abreast.n_worlds),
        fits.theta.copy(),
        fits.value.copy(),
        np.ones(abreast.n_worlds),
        np.full(abreast.n_worlds, np.inf),
        np.zeros(abreast.n_worlds, dtype=np.int64),
    )
    model, ends = abreast.model(run.theta), fits.closed.copy()
    for _ in range(_MOST_ROUNDS):
        if ends.all():
            break
        if 3 * ends.sum() >= len(ends):
            kept = np.flatnonzero(~ends)
            abreast, run = abreast.take(kept), run.take(kept)
            model, ends = abreast.model(run.theta), np.zeros(len(kept), dtype=bool)
        fits.steps[run.place[~ends]] += 1
        gradient = abreast.apart(model.gradient(abreast.behaviour))
        far = abreast.each(run.gain > _FAR)
        visited = abreast.behaviour.states[..., 0]
        states = np.where(far, 0.5 * (model.states + visited), model.states)
        unit, scaled = _scaled(abreast.information(model, states))
        near = ~ends & (run.gain <= _NEAR)
        if near.any():
            step = np.zeros_like(run.theta)
            step[near] = _spectrum(unit[near], scaled[near]).solve(gradient[near])
            run.certificates.append(_certificates(abreast, model, step, gradient, near))
        ends |= _closed(run, fits, ceiling, tolerance)
        moving = ~ends
        if moving.any():
            model, moved = _climb(abreast, run, gradient, unit, scaled, moving)
            stuck = moving & ~moved
            ends |= stuck & (run.gain <= _NEAR)
            run.gain[stuck] = 0.0
            idle = moved & (run.gain < _IDLE_SHARE * tolerance)
            run.idle = np.where(idle, run.idle + 1, np.where(moved, 0, run.idle))
            ends |= run.idle >= _IDLE_STEPS
            # What was proven before the step may be enough for where it led.
            ends |= _closed(run, fits, ceiling, tolerance)
        fits.theta[run.place], fits.value[run.place] = run.theta, run.value


def _polish(abreast: Abreast, fits: Fits, closed: IntArray) -> None:
    """More steps of the worlds that closed: a certified value leaves the weights half its digits."""
    theta, value = fits.theta[closed], fits.value[closed]
    model, going = abreast.model(theta), np.ones(closed.size, dtype=bool)
    # So near the optimum the information hardly changes any more.
    spectrum = _spectrum(*_scaled(abreast.information(model, model.states)))
    for _ in range(_POLISHING_STEPS):
        gradient = abreast.apart(model.gradient(abreast.behaviour))
        trial_theta = theta + np.where(going[:, None], spectrum.solve(gradient), 0.0)
        trial = abreast.model(trial_theta)
        reached = abreast.evidence(trial)
        better = going & (reached >= value)
        going = better & (reached - value > _POLISHED)
        theta = np.where(better[:, None], trial_theta, theta)
        value = np.where(better, reached, value)
        if not going.any():
            break
        model = trial if better.all() else abreast.model(theta)
    fits.theta[closed], fits.value[closed] = theta, value
    fits.bound[closed] = np.maximum(fits.bound[closed], value)


def _scaled(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The unit of each weight [W, D], 0 for those that do not matter, and the scaled matrices."""
    diagonal = np.diagonal(information, axis1=1, axis2=2)
    matters = diagonal > _FLOOR
    unit = np.where(matters, 1.0 / np.sqrt(np.where(matters, diagonal, 1.0)), 0.0)
    return unit, information * unit[:, None, :] * unit[:, :, None]


def _spectrum(unit: FloatArray, scaled: FloatArray) -> _Spectrum:
    values, vectors = np.linalg.eigh(scaled)
    keep = values > np.maximum(_NULL_SHARE * values[:, -1:], _FLOOR)
    return _Spectrum(unit, np.where(keep, 1.0 / np.where(keep, values, 1.0), 0.0), vectors)


def _certificates(
    abreast: Abreast, model: SoftModel, step: FloatArray, gradient: FloatArray, near: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """What the policies along exact Newton steps prove: KL and residual [W]; infinite if nothing."""
    psi = dict(model.tangents(abreast.joined(step)[:, None]))
    proven = matching_certificates(model, psi, abreast.n_worlds)
    visits = abreast.apart(model.utilities.collect(proven.visits)[:, 0])
    residual = np.abs(gradient - visits).max(axis=1) + proven.lost
    holds = proven.holds & near
    return np.where(holds, proven.kl, np.inf), np.where(holds, residual, 0.0)


def _closed(run: _Run, fits: Fits, ceiling: FloatArray, tolerance: float) -> BoolArray:
    """The worlds whose least bound, for utilities up to a thousand times their own, is close."""
    size = BOUND_FACTOR * np.maximum(1.0, np.abs(run.theta).sum(axis=1))
    bound, needed = ceiling[run.place].copy(), np.zeros(len(size))
    for kl, residual in run.certificates:
        upper = kl + size * residual
        better = upper < bound
        bound = np.where(better, upper, bound)
        needed = np.where(better, np.where(residual > 0, size, 0.0), needed)
    fits.bound[run.place], fits.size[run.place] = bound, needed
    closed = bound - run.value <= tolerance
    fits.closed[run.place] |= closed
    return np.asarray(closed)


def _climb(
    abreast: Abreast,
    run: _Run,
    gradient: FloatArray,
    unit: FloatArray,
    scaled: FloatArray,
    moving: BoolArray,
) -> tuple[SoftModel, BoolArray]:
    """A damped Newton step of each world that moves, tried with more damping until it gains.

    Returns the model of the steps that were taken, and which worlds took one.
    """
    identity = np.eye(scaled.shape[1])
    pending, moved = moving.copy(), np.zeros_like(moving)
    reached: SoftModel | None = None
    while True:
        pending &= run.damping < _MOST_DAMPED
        if not pending.any():
            break
        damping = np.maximum(run.damping[pending], _REGULAR)[:, None, None]
        right = (unit * gradient)[pending]
        step = np.zeros_like(run.theta)
        solution = np.linalg.solve(scaled[pending] + damping * identity, right[..., None])[..., 0]
        step[pending] = unit[pending] * solution
        promised = (gradient * step).sum(axis=1)
        trial = abreast.model(run.theta + step)
        gain = abreast.evidence(trial) - run.value
        taken = pending & (gain > 0.1 * promised)
        refused = pending & ~taken
        run.theta = np.where(taken[:, None], run.theta + step, run.theta)
        run.value = np.where(taken, run.value + gain, run.value)
        run.gain = np.where(taken, gain, run.gain)
        eased = run.damping * np.where(gain > 0.4 * promised, 0.1, 0.5)
        run.damping = np.where(taken, np.maximum(eased, _LEAST_DAMPED), run.damping)
        run.damping = np.where(refused, 4.0 * np.maximum(run.damping, 1e-10), run.damping)
        moved |= taken
        # The worlds that stay where they are have the same model in the trial.
        reached = None if refused.any() else trial
        pending = refused
    return reached or abreast.model(run.theta), moved
