"""The best utility of a large class: Newton steps along falling penalties, matrix-free.

Where every entry of the utility is a weight of its own, features are visits. The evidence hardly
feels states that are visited a millionth of a millionth of a time, and yet the bound does, so the
problem is solved at one scale after another,

    max over u of  f(u) - e/2 |u|^2,      where        m(u) = a - e u

with m the model's visits and a the behaviour's. From one penalty e to the next, e', a step in
logarithms, log m(u + v) = log m(u) + (information . v) / m, lowers even what is visited far too
often, and Newton steps correct it. Source: `docs/notes/mathematics.md`, "Large classes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg import certificate, preconditioners
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.certificate import Bounds, LinearFit, UtilitySearch
from goalmeter.meg.soft_model import SoftModel, conjugate_gradients

_MAX_STEPS, _STEPS_A_STAGE = 300, 12
# The first penalty, what each is of the one before, and the last: below it visits are rounded.
_FIRST, _PART, _LAST = 1e-3, 1e-2, 1e-17
# A stage is over when a step would gain less than this many times what the penalty costs.
_SETTLED = 2.0
_LEAST = 1e-14  # added to all visits that are divided by; less is not told from none
# A step asks for at most this change of a logarithm; a long step upwards overshoots.
_LARGEST_FALL, _LARGEST_RISE = 8.0, 1.0
# After a system that took more products than the last, the preconditioner is given up if it can be.
_ACCURACY, _CG_STEPS, _MANY_PRODUCTS = 3e-2, 300, 60
_DONE = 1e-9  # gain (nats) below which the best utility under a penalty is reached
# Share of the promised gain that a step must bring, that shows damping to be hardly needed, and
# what rounding may take from it (nats).
_LEAST_SHARE, _GOOD_SHARE, _ROUNDING = 0.1, 0.3, 1e-13
# What damping is multiplied by when a step is refused grows by the last factor each time in a row.
_LEAST_DAMPED, _FIRST_DAMPED, _MOST_DAMPED, _REFUSED = 1e-14, 1e-6, 1e10, 8.0
# A quadratic gives half of what its slope promises. Where it is more, steps twice as long are
# tried, up to a range of utilities beyond which digits are lost.
_HALF, _WIDEST = 0.55, 2e3
# Share of the tolerance that visits which a certificate misses may cost; of a value below 1 nat
# the same share of that, but for values below the last.
_MISSED, _SMALLEST = 0.1, 1e-3
# A certificate is tried once a step promises no more than a few tolerances, and visits that it may
# have to cut off cost no more than a part of one (of features: logarithms are this close). So many
# in a row that do not halve the gap end the search.
_NEARLY, _CLOSE, _CLOSE_LOGARITHMS, _IDLE_CERTIFICATES = 4.0, 0.3, 0.5, 4
# How much a far-out utility's range grows over some penalties if it may be on its way to infinity.
_GROWING = 1.5


class _Point(NamedTuple):
    """A model with its evidence, nats, and its visits [D]."""

    model: SoftModel
    value: float
    visits: FloatArray


class _Damping(NamedTuple):
    """How much a step is damped, and what that is multiplied by if the step is refused."""

    size: float = 1.0
    factor: float = _REFUSED

    def refused(self) -> _Damping:
        """What is tried after a step that does not gain."""
        # Two refusals in a row say that the size is wrong by orders of magnitude.
        return _Damping(self.factor * max(self.size, _FIRST_DAMPED), _REFUSED * self.factor)

    def scaled(self, by: float) -> _Damping:
        """What is tried after a step that gains."""
        return _Damping(max(by * self.size, _LEAST_DAMPED))


def match_visits(
    search: UtilitySearch,
    start: SoftModel,
    directions: Sequence[FloatArray] = (),
    *,
    dense: bool | None = None,
) -> LinearFit:
    """Climb from a model to the best utility of its class, until the bound is within tolerance."""
    # What the behaviour never visits must be closed to the model (see `goalmeter.meg.faces`), by
    # the `directions` that the fit names. `dense` asks for, or forbids, the information itself.
    start = preconditioners.counted(start)
    matching = _Matching(search, start)
    if dense:
        matching.space.give_up()
        return matching.follow(start, directions, "dense Newton steps")
    fit = matching.follow(start, directions, "Newton steps")
    if dense is None and abs(fit.gap) > search.tolerance and matching.space.give_up():
        # Steps that were solved too roughly may have settled where there was still far to go.
        fit = search.better(matching.follow(start, directions, "dense Newton steps"), fit)
    return fit


def penalised_climb(
    start: SoftModel, behaviour: Behaviour, penalties: Iterable[float]
) -> Iterator[SoftModel]:
    """The models of max f(u) - penalty / 2 |u|^2 for one penalty after another."""
    start = preconditioners.counted(start)
    matching = _Matching(UtilitySearch(behaviour, _DONE, Bounds(np.inf)), start)
    at = matching.at(start)
    for penalty in penalties:
        damping = _Damping()
        for _ in range(_MAX_STEPS):
            after, damping, promised = matching.climb(at, penalty, damping)
            at = at if after is None else after
            if promised < _DONE or damping.size > _MOST_DAMPED:
                break
        yield at.model


def centred(model: SoftModel) -> FloatArray:
    """A model's utility less its mean, which no policy depends on; weights of features: [D]."""
    if model.utilities.matrix is not None:
        return model.theta
    return np.asarray(model.theta - model.theta.mean())


def cost(model: SoftModel, penalty: float) -> float:
    """What a penalty takes off a model's evidence, nats."""
    utility = centred(model)
    return 0.5 * penalty * float(utility @ utility)


class _Matching:
    """A search for the model whose visits are those of the behaviour, `target` [D]."""

    def __init__(self, search: UtilitySearch, start: SoftModel) -> None:
        self._search, self._behaviour = search, search.behaviour
        entries = preconditioners.behaviour_entries(start.utilities, search.behaviour)
        self._target = start.utilities.collect(entries)[:, 0]
        self.space = preconditioners.space_of(start, entries)

    def at(self, model: SoftModel, value: float | None = None) -> _Point:
        """The point that a model is; its value is worked out if it is not known."""
        value = model.evidence(self._behaviour) if value is None else value
        return _Point(model, value, preconditioners.model_visits(model))

    def follow(self, start: SoftModel, directions: Sequence[FloatArray], kind: str) -> LinearFit:
        """One search along falling penalties, see `match_visits`; `kind` is what its steps are."""
        search, tolerance, at = self._search, self._search.tolerance, self.at(start)
        fit = search.fit(start, at.value, directions=directions)
        penalty, damping, stage, leap, idle = _FIRST, _Damping(), 0, False, 0
        ranges = [0.0]
        for step in range(1, _MAX_STEPS + 1):
            search.watch.tell(fit, stage=kind, step=step - 1, of=_MAX_STEPS)
            after, damping, promised = self.climb(at, penalty, damping, leap)
            leap = False
            if after is None and damping.size > _MOST_DAMPED:
                break
            if after is not None:
                # Whoever still holds the model before does not need gigabytes of policies of it.
                at.model.forget()
                at, stage = after, stage + 1
                fit = self._kept(fit, at, step)
            if promised < _NEARLY * tolerance and self._is_close(at):
                before = fit.gap
                at = self._certify(at)
                fit = self._kept(fit, at, step)
                idle = idle + 1 if fit.gap > 0.5 * before else 0
                if abs(fit.gap) <= tolerance or idle == _IDLE_CERTIFICATES:
                    break
            settled = after is not None and promised < _SETTLED * cost(at.model, penalty)
            if settled or stage >= _STEPS_A_STAGE:
                if penalty <= _LAST:
                    break
                if search.watch.bound_is_due:
                    self._prove(at)
                    fit = self._kept(fit, at, step)
                penalty, stage, leap = penalty * _PART, 0, settled
                ranges.append(float(np.ptp(at.model.theta)))
        if abs(fit.gap) > tolerance:
            self._certify(at)
            fit = self._kept(fit, at, fit.steps)
        width = float(np.ptp(fit.model.theta))
        far = abs(fit.gap) > tolerance or width > _WIDEST
        return replace(fit, growing=far and width > _GROWING * min(ranges[-3:]))

    def _kept(self, fit: LinearFit, at: _Point, steps: int) -> LinearFit:
        """The fit that a search keeps: the better value, under all that is proven for it."""
        model, value = (at.model, at.value) if at.value >= fit.value else (fit.model, fit.value)
        return self._search.fit(model, value, steps, fit.directions)

    def _is_close(self, at: _Point) -> bool:
        """Whether a certificate is worth its price, as far as the point's visits tell."""
        if at.model.utilities.matrix is not None:
            away = np.log((self._target + _LEAST) / (at.visits + _LEAST))
            return float(np.abs(away).max()) < _CLOSE_LOGARITHMS
        # A Newton step takes away more than a state has where the model is there too often. What is
        # cut off has been a part of this, in the worlds that were looked at.
        excess = np.maximum(at.visits - 2.0 * self._target, 0.0)
        return certificate.price(at.model, excess) < _CLOSE * self._search.tolerance

    def _certify(self, at: _Point) -> _Point:
        """Add what the policy one exact Newton step away proves; the better end of the step."""
        # The step leaves the value right to the square of what it was.
        after = self.at(at.model.at(at.model.theta + self._prove(at)))
        return after if after.value > at.value else at

    def _prove(self, at: _Point) -> FloatArray:
        """Add what the policy along the exact Newton direction at a point proves; the direction."""
        worth = min(max(at.value, _SMALLEST), 1.0)
        missed = _MISSED * self._search.tolerance * worth
        gradient = self._target - at.visits
        direction = certificate.newton_direction(
            at.model, at.visits, gradient, self.space, _LEAST, missed
        )
        policy = certificate.tilted(at.model, direction)
        self._search.bounds.add(certificate.policy_certificate(at.model, policy, self._target))
        return direction

    def climb(
        self, at: _Point, penalty: float, damping: _Damping, leap: bool = False
    ) -> tuple[_Point | None, _Damping, float]:
        """The point after a damped step (None without gain), the next damping, the promise."""
        # A `leap` follows a penalty that has just fallen, and is taken in logarithms.
        wanted = self._target - penalty * centred(at.model)
        gradient = wanted - at.visits
        shifted = at.visits + _LEAST
        added = penalty + damping.size * self.space.scale(at.model, shifted, wanted)
        right = gradient
        if leap and (wanted > 0).all():
            change = np.clip(np.log(wanted / shifted), -_LARGEST_FALL, _LARGEST_RISE)
            # A constant utility changes nothing, so the right side must sum to what the gradient
            # does, or next to nothing solves the system.
            if at.model.utilities.matrix is not None:
                right = preconditioners.features_moved(at.model, change)
            else:
                right = shifted * change
                right = right - shifted * (float((right - gradient).sum()) / float(shifted.sum()))
            added = added + penalty * (shifted / wanted - 1.0)
        step = self._solved(at.model, shifted, added, right)
        promised = float(gradient @ step)
        before = at.value - cost(at.model, penalty)
        # A shorter step is cheaper to try than another system to solve.
        for length in (1.0, 0.5, 0.25):
            # The one before is let go first: a large model takes gigabytes.
            model = None
            model = at.model.at(at.model.theta + length * step)
            value = model.evidence(self._behaviour)
            gain = value - cost(model, penalty) - before
            least = _LEAST_SHARE * length * promised - _ROUNDING * max(1.0, abs(at.value))
            if promised > 0 and gain > least:
                if length < 1.0:
                    return self.at(model, value), damping.scaled(2.0), promised
                if gain > _HALF * promised:
                    model, value = self._doubled(at, step, model, value, penalty)
                factor = 0.25 if gain > _GOOD_SHARE * promised else 0.5
                return self.at(model, value), damping.scaled(factor), promised
        # A leap that fails says nothing of how much damping a Newton step needs.
        return None, damping if leap else damping.refused(), promised

    def _solved(
        self, model: SoftModel, visits: FloatArray, added: FloatArray, right: FloatArray
    ) -> FloatArray:
        """A step [D] with (information + added) . step = right, nearly."""
        products = 0

        def product(v: FloatArray) -> FloatArray:
            nonlocal products
            products += 1
            return model.curve(v, model.states) + added * v

        while True:
            nearly = self.space.preconditioner(model, visits, added)
            step = conjugate_gradients(product, right, _ACCURACY, nearly, _CG_STEPS)
            if products <= _MANY_PRODUCTS or not self.space.give_up():
                return step

    def _doubled(
        self, at: _Point, step: FloatArray, model: SoftModel, value: float, penalty: float
    ) -> tuple[SoftModel, float]:
        """The model, with its value, at the end of a step that is doubled while that gains."""
        length = 2.0
        while np.ptp(at.model.theta + length * step) < _WIDEST:
            longer = at.model.at(at.model.theta + length * step)
            reached = longer.evidence(self._behaviour)
            if not reached - cost(longer, penalty) > value - cost(model, penalty):
                break
            model.forget()
            model, value, length = longer, reached, 2.0 * length
        return model, value
