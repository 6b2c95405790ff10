"""The search of `goalmeter.meg.linear` in W worlds at once, for small classes.

Each world goes through the steps that it would go through alone: damped Newton steps, and near the
optimum a certificate after each. What a step costs most of, the interpreter's overhead of hundreds
of small passes, is paid once for all worlds. Worlds that are through leave; those whose search is
of another kind (an optimum at infinity that is not proven here, a plateau) are left to the single
search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.abreast import Abreast
from goalmeter.meg.abreast_face import Faces, find_faces
from goalmeter.meg.abreast_newton import Spectrum, damped_steps, scaled
from goalmeter.meg.behaviour import ROUNDING_SHARE
from goalmeter.meg.certificate import BOUND_FACTOR, matching_certificates
from goalmeter.meg.linear import FAR, IDLE_SHARE, IDLE_STEPS, NEAR, POLISHING_STEPS
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.watch import TimeIsUp
from goalmeter.tabular.side_by_side import Sums

# A world that takes more rounds than this is not like the others, and goes on alone.
MOST_ROUNDS = 60
# Gain (nats) of a polishing step that is followed by no other: many worlds wait for the last one.
_POLISHED = 1e-11
# So many of these steps are taken with the information at the first.
_SAME_INFORMATION = 3
_LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e12


@dataclass
class Fits:
    """Where the searches of W worlds are, or were when they ended. All arrays [W] or [W, D].

    `error` is the rounding error of the values, nats.
    `bound` holds for utilities whose weights sum to at most `size` in absolute value (0: for all).
    `closed` are those whose bound is within the tolerance; `stopped` is whether time was over
    before the others were through. Of an optimum at infinity `faces` has the actions [T, A, S] of
    the last face, and `direction` the utility that leads to the first one, 0 elsewhere.
    """

    theta: FloatArray
    value: FloatArray
    bound: FloatArray
    size: FloatArray
    steps: IntArray
    closed: BoolArray
    direction: FloatArray
    error: FloatArray
    faces: dict[int, BoolArray] = field(default_factory=dict)
    stopped: bool = False

    def groups(self, abreast: Abreast, chosen: IntArray) -> Iterator[tuple[IntArray, Abreast]]:
        """Chosen worlds with what is allowed in them: those without a face, then the others."""
        plain = np.array([i for i in chosen if i not in self.faces], dtype=np.int64)
        if plain.size:
            yield plain, abreast if plain.size == abreast.n_worlds else abreast.take(plain)
        faced = np.array([i for i in chosen if i in self.faces], dtype=np.int64)
        if faced.size:
            allowed = np.stack([self.faces[i] for i in faced], axis=2)
            yield faced, abreast.take(faced).confined(allowed.reshape(*allowed.shape[:2], -1))


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
        return _Run(
            self.place[chosen],
            self.theta[chosen],
            self.value[chosen],
            self.damping[chosen],
            self.gain[chosen],
            self.idle[chosen],
            [(kl[chosen], residual[chosen]) for kl, residual in self.certificates],
        )


def search(abreast: Abreast, tolerance: float, ceiling: FloatArray) -> Fits:
    """The best utility of each world, and the fits of those that closed.

    `ceiling` [W] are bounds that are known beforehand, nats.
    """
    n_worlds, d = abreast.n_worlds, abreast.space.n_weights
    fits = Fits(
        np.zeros((n_worlds, d)),
        np.zeros(n_worlds),
        ceiling.copy(),
        np.zeros(n_worlds),
        np.zeros(n_worlds, dtype=np.int64),
        ceiling <= tolerance,
        np.zeros((n_worlds, d)),
        np.zeros(n_worlds),
    )
    run = _Run(
        np.arange(n_worlds),
        fits.theta.copy(),
        fits.value.copy(),
        np.ones(n_worlds),
        np.full(n_worlds, np.inf),
        np.zeros(n_worlds, dtype=np.int64),
    )
    try:
        within: Abreast | None = abreast
        while within is not None:
            faced = _ascend(within, run, fits, tolerance, ceiling)
            # Worlds that came to a face go on inside it, together.
            within = None
            if faced:
                run = _joined(faced)
                run = run.take(np.argsort(run.place))
                ((_, within),) = fits.groups(abreast, run.place)
        for chosen, closed in fits.groups(abreast, np.flatnonzero(fits.closed)):
            _polish(closed, fits, chosen)
    except TimeIsUp:
        # After every round the fits are what was reached by then.
        fits.stopped = True
    return fits


def _joined(runs: Sequence[_Run]) -> _Run:
    """Worlds of several runs as one; what certificates proved of each stays, the rest is filled."""
    size = sum(run.place.size for run in runs)
    certificates, start = [], 0
    for run in runs:
        slots = slice(start, start + run.place.size)
        for kl, residual in run.certificates:
            padded = np.full(size, np.inf), np.zeros(size)
            padded[0][slots], padded[1][slots] = kl, residual
            certificates.append(padded)
        start = slots.stop
    return _Run(
        np.concatenate([run.place for run in runs]),
        np.concatenate([run.theta for run in runs]),
        np.concatenate([run.value for run in runs]),
        np.concatenate([run.damping for run in runs]),
        np.concatenate([run.gain for run in runs]),
        np.concatenate([run.idle for run in runs]),
        certificates,
    )


def _ascend(
    abreast: Abreast, run: _Run, fits: Fits, tolerance: float, ceiling: FloatArray
) -> list[_Run]:
    """Rounds of a step in each world, into `fits`; worlds that are through are left behind.

    Returns those that came to a face.
    """
    model, ends, faced = abreast.model(run.theta), fits.closed[run.place], []
    for _ in range(MOST_ROUNDS):
        if ends.all():
            break
        if 3 * ends.sum() >= len(ends):
            kept = np.flatnonzero(~ends)
            abreast, run = abreast.take(kept), run.take(kept)
            model, ends = abreast.model(run.theta), np.zeros(len(kept), dtype=bool)
        fits.steps[run.place[~ends]] += 1
        gradient = abreast.apart(model.gradient(abreast.behaviour))
        far = abreast.each(run.gain > FAR)
        visited = abreast.behaviour.states[..., 0]
        states = np.where(far, 0.5 * (model.states + visited), model.states)
        unit, matrices = scaled(abreast.information(model, states))
        near = ~ends & (run.gain <= NEAR)
        if near.any():
            step = np.zeros_like(run.theta)
            step[near] = Spectrum.of(unit[near], matrices[near]).solve(gradient[near])
            psi = dict(model.tangents(abreast.joined(step)[:, None]))
            run.certificates.append(_certificates(abreast, model, psi, gradient, near))
            ends |= _closed(run, fits, ceiling, tolerance)
            faces = find_faces(abreast, model, run.theta, step, psi, near & ~ends)
            if faces is not None:
                entered = _enter(run, fits, faces, tolerance)
                faced.append(run.take(entered))
                ends[entered] = True
        moving = ~ends
        if moving.any():
            model, moved = _climb(abreast, run, gradient, unit, matrices, moving)
            stuck = moving & ~moved
            ends |= stuck & (run.gain <= NEAR)
            run.gain[stuck] = 0.0
            idle = moved & (run.gain < IDLE_SHARE * tolerance)
            run.idle = np.where(idle, run.idle + 1, np.where(moved, 0, run.idle))
            ends |= run.idle >= IDLE_STEPS
        fits.theta[run.place], fits.value[run.place] = run.theta, run.value
        # What was proven before the step may be enough for where it led.
        ends |= _closed(run, fits, ceiling, tolerance)
    return [some for some in faced if some.place.size]


def _enter(run: _Run, fits: Fits, faces: Faces, tolerance: float) -> IntArray:
    """The worlds that go on inside their faces."""
    # A face holds the limit of ever better models, so it cannot be worse than this one.
    good = faces.value >= run.value[faces.places] - tolerance
    entered = faces.places[good]
    run.value[entered] = faces.value[good]
    for slot in np.flatnonzero(good):
        place = int(run.place[faces.places[slot]])
        if place not in fits.faces:
            fits.direction[place] = faces.direction[slot]
        fits.faces[place] = faces.allowed[:, :, slot]
    return entered


def _polish(abreast: Abreast, fits: Fits, closed: IntArray) -> None:
    """More steps of worlds that closed: a certified value leaves the weights half its digits."""
    theta, value = fits.theta[closed], fits.value[closed]
    model = abreast.model(theta)
    most = fits.bound[closed] + model.rounding(abreast.behaviour, closed.size)
    for step in range(POLISHING_STEPS):
        # So near an optimum the information hardly changes; where it does, the optimum is far out.
        if step == 0 or step >= _SAME_INFORMATION:
            spectrum = Spectrum.of(*scaled(abreast.information(model, model.states)))
        trial_theta = theta + spectrum.solve(abreast.apart(model.gradient(abreast.behaviour)))
        trial = abreast.model(trial_theta)
        reached = abreast.evidence(trial)
        better = (reached >= value) & (reached <= most)
        going = better & (reached - value > _POLISHED)
        fits.theta[closed[better]], fits.value[closed[better]] = (
            trial_theta[better],
            reached[better],
        )
        if not going.any():
            break
        theta, value, model = trial_theta, reached, trial
        if step + 1 >= _SAME_INFORMATION and not going.all():
            kept = np.flatnonzero(going)
            abreast, closed, theta, value, most = (
                abreast.take(kept),
                closed[kept],
                theta[kept],
                value[kept],
                most[kept],
            )
            model = abreast.model(theta)


def verify(
    abreast: Abreast, model: SoftModel, fits: Fits, chosen: IntArray, tolerance: float
) -> None:
    """Evaluate worlds again; reopen those whose value and bound do not agree."""
    value, bound = fits.value[chosen], fits.bound[chosen]
    rounded = model.rounding(abreast.behaviour, chosen.size)
    again = model.verified(abreast.behaviour, Sums(chosen.size))
    fits.error[chosen] = error = np.maximum(rounded, np.abs(again - value))
    resolved = error <= np.maximum(tolerance, ROUNDING_SHARE * bound)
    fits.closed[chosen] &= resolved & (np.abs(bound - value) <= np.maximum(tolerance, error))


def _certificates(
    abreast: Abreast,
    model: SoftModel,
    psi: dict[int, FloatArray],
    gradient: FloatArray,
    near: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """What policies along exact Newton steps prove: KL and residual [W]; infinite if nothing."""
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
    matrices: FloatArray,
    moving: BoolArray,
) -> tuple[SoftModel, BoolArray]:
    """A damped Newton step of each world that moves, tried with more damping until it gains.

    Returns the model of the steps that were taken, and which worlds took one.
    """
    pending, moved = moving.copy(), np.zeros_like(moving)
    reached: SoftModel | None = None
    while True:
        pending &= run.damping < _MOST_DAMPED
        if not pending.any():
            break
        step = np.zeros_like(run.theta)
        step[pending] = damped_steps(
            unit[pending], matrices[pending], gradient[pending], run.damping[pending]
        )
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
