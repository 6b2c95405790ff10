"""Certificates: upper bounds on the evidence of every utility of a linear class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour, decisions
from goalmeter.meg.preconditioners import Space
from goalmeter.meg.result import Reached, Watch
from goalmeter.meg.soft_model import SoftModel, conjugate_gradients
from goalmeter.tabular.planning import state_occupancy

# --- Certificate ----------------------------------------------------------------------------------
# By weak duality (Ziebart 2010), for any policy x and any weights theta of the class,
#
#     f(theta) <= KL(x) + theta . (features expected by the behaviour - features expected by x),
#
# with KL(x) = E_x[sum log x / reference]. It is tight where x is the model of the best utility. A
# difference r costs at most B * max|r| for utilities whose weights (at their rationality) sum to B.

# The bound holds for utilities whose weights sum to at most this multiple of the model's.
BOUND_FACTOR = 1e3
# Occupancies this far below zero, relative to the largest, are zeros that were rounded.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class LinearFit(Reached):
    """The maximum of the evidence over a linear class, or the best so far of a search for it."""

    model: SoftModel  # the best one (inside the last face, if there are faces)
    # Diverging directions [D], the dominant first; empty for a finite optimum.
    directions: list[FloatArray] = field(default_factory=list)

    @property
    def shown(self) -> FloatArray:
        """The weights [D] to show: of an optimum at infinity, the dominant direction."""
        return self.directions[0] if self.directions else self.model.theta


class Certificate(NamedTuple):
    """What one policy proves: f(theta) <= kl + size(theta) * residual for all weights theta."""

    # The size is the sum of absolute weights, and the residual the largest difference of features
    # that is left; or `by_range` the largest entry of a utility less its smallest, and half the sum
    # of absolute differences of visits.

    kl: float
    residual: float
    by_range: bool = False

    def bound(self, size: float) -> float:
        """The bound for utilities up to this size, nats."""
        return self.kl + size * self.residual if self.residual > 0 else self.kl


class Bounds:
    """All certificates of a search: each is a line in B, so which is the best depends on B."""

    def __init__(self, ceiling: float) -> None:
        self._all = [Certificate(ceiling, 0.0)]

    def add(self, certificate: Certificate) -> None:
        """Keep one more certificate, which may be the best for some B."""
        self._all.append(certificate)

    def refute(self, model: SoftModel, value: float) -> None:
        """Drop certificates, except the ceiling, that the evidence of a model contradicts."""
        first, *others = self._all
        sizes = [bounded_size(model, by_range=by_range) for by_range in (False, True)]
        self._all = [first, *(c for c in others if c.bound(sizes[c.by_range]) >= value)]

    def at(self, model: SoftModel) -> tuple[float, float, bool]:
        """The least bound for utilities up to a thousand times a model's own size."""
        # With that size (0 where it holds for all), and whether it is one of a range. A bound for
        # small utilities says nothing of a large one that was found later.
        sizes = [bounded_size(model, by_range=by_range) for by_range in (False, True)]
        best = min(
            self._all, key=lambda certificate: certificate.bound(sizes[certificate.by_range])
        )
        size = sizes[best.by_range]
        return best.bound(size), size if best.residual > 0 else 0.0, best.by_range


def bounded_size(model: SoftModel, *, by_range: bool) -> float:
    """The size of utilities that a certificate is used for beside a model."""
    own = np.ptp(model.theta) if by_range else np.abs(model.theta).sum()
    return BOUND_FACTOR * max(1.0, float(own))


@dataclass(frozen=True)
class UtilitySearch:
    """A search for the best utility of a class that explains a behaviour."""

    behaviour: Behaviour
    tolerance: float  # nats
    bounds: Bounds  # all that is proven so far
    # is told of every step; raises what ends the search
    watch: Watch[LinearFit] = field(default_factory=Watch)

    def fit(
        self,
        model: SoftModel,
        value: float | None = None,
        steps: int = 0,
        directions: Sequence[FloatArray] = (),
    ) -> LinearFit:
        """The fit that a model is, under all that is proven; by default its value is worked out."""
        value = model.evidence(self.behaviour) if value is None else value
        bound = self.bounds.at(model)
        return LinearFit(value, *bound, steps, model=model, directions=list(directions))

    def checked(self, fit: LinearFit) -> LinearFit:
        """A fit with the rounding error of its value; certificates it refutes are dropped."""
        error = float(fit.model.rounding(self.behaviour)[0])
        self.bounds.refute(fit.model, fit.value - 2.0 * error)
        upper, size, by_range = self.bounds.at(fit.model)
        return replace(
            fit, upper_bound=upper, bound_size=size, bound_by_range=by_range, error=error
        )

    def better(self, first: LinearFit, second: LinearFit) -> LinearFit:
        """The fit of two searches whose value and bound are closer, under all that both proved."""
        steps = first.steps + second.steps
        fits = [self.checked(replace(fit, steps=steps)) for fit in (second, first)]
        return min(fits, key=lambda fit: fit.doubt)


def model_certificate(model: SoftModel, gradient: FloatArray) -> Certificate:
    """What the model's own policy proves; gradient: what the behaviour's features exceed it by."""
    # Rounding in the gradient, of one part in 2^52 for each decision, counts as difference too.
    difference = float(np.abs(gradient).max()) + np.finfo(float).eps * decisions(model.mdp)
    return Certificate(model.divergence(), difference)


def matching_certificate(
    model: SoftModel, psi: dict[int, FloatArray], gradient: FloatArray
) -> Certificate | None:
    """What the policy one linear step away proves; None where policies cannot take it."""
    proven = matching_certificates(model, psi, 1)
    if not proven.holds[0]:
        return None
    residual = float(np.abs(gradient - model.utilities.collect(proven.visits)[:, 0]).max())
    return Certificate(float(proven.kl[0]), residual + float(proven.lost[0]))


class MatchingPolicies(NamedTuple):
    """The policies one linear step away in W worlds side by side."""

    kl: FloatArray  # [W] nats
    visits: FloatArray  # the change of the class's visits
    lost: FloatArray  # what rounding may have taken off the features, [W]
    holds: BoolArray  # the step is one that policies can take, [W]


def matching_certificates(
    model: SoftModel, psi: dict[int, FloatArray], n_worlds: int
) -> MatchingPolicies:
    """What `matching_certificate` rests on, for each of W worlds."""

    def by_world(values: FloatArray) -> FloatArray:
        return values.reshape(*values.shape[:-1], n_worlds, -1)

    moved = by_world(model.states + model.occupancy_change(psi))  # [T, W, S]
    holds = ~(moved < -_ROUNDING * moved.max(axis=(0, 2))[:, None]).any(axis=(0, 2))
    lost = np.maximum(-moved, 0.0).sum(axis=(0, 2))
    moved = np.maximum(moved, 0.0)
    total = np.zeros(n_worlds)
    visits = model.utilities.visits(1)
    for t in range(model.mdp.steps):
        policy, log_ratio = model.step(t)
        now = moved[t].reshape(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(now > 0, model.states[t] / now, 0.0)
        tilt = psi[t][..., 0] * share
        weights = policy * now
        used = weights > 0
        # Where a state loses all its mass, the mass of its actions must go too.
        left = weights + policy * psi[t][..., 0] * model.states[t]
        holds &= ~by_world(used & (tilt < -1.0 - _ROUNDING)).any(axis=(0, 2))
        holds &= ~(by_world(left) < -_ROUNDING * moved[t].max(axis=1)[:, None]).any(axis=(0, 2))
        tilt = np.maximum(tilt, -1.0)
        mass = weights * (1.0 + tilt)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = mass * (log_ratio + np.log1p(tilt))
        terms = np.where(used & (mass > 0), terms, 0.0)
        total += by_world(terms).sum(axis=(0, 2))
        model.utilities.tally(visits, t, (mass - policy * model.states[t])[..., None])
    # Mass that was rounded away could have been in the worst place for all decisions.
    return MatchingPolicies(total, visits, lost * model.mdp.steps, holds)


# --- Tilted ---------------------------------------------------------------------------------------
# The policy tried here is the model's, moved along the Newton direction v, information . v = a - m,
#
#     x_t(a | s)  is proportional to  pi_t(a | s) max(0, 1 + psi_t(s, a) + e_t(s) / d_t(s)),
#
# d the occupancy of the model, e its derivative and psi that of log pi. Where nothing is cut off
# at 0 the visits of x are the behaviour's a; else they are counted by running x.

# The direction is wanted to rounding at most; so much damping only keeps the system regular.
_ACCURACY, _CG_STEPS = 1e-10, 400
# The search for a direction ends where no residual was smaller for so many products, sooner if
# what is missed was at most so many times what is wanted.
_IDLE_PRODUCTS, _FEW_PRODUCTS, _NEARLY = 40, 8, 30.0
_DAMPING, _DAMPING_FLOOR = 1e-13, 1e-3


def price(model: SoftModel, missed: FloatArray) -> float:
    """What features [D] that a policy misses cost the bound beside a model, nats."""
    if model.utilities.matrix is None:
        return 0.5 * bounded_size(model, by_range=True) * float(np.abs(missed).sum())
    return bounded_size(model, by_range=False) * float(np.abs(missed).max())


def newton_direction(
    model: SoftModel,
    visits: FloatArray,
    gradient: FloatArray,
    space: Space,
    least: float,
    missed: float,
) -> FloatArray:
    """The Newton direction [D] of a model, as exact as `missed` nats of the bound ask for."""
    shifted = visits + least
    scale = space.scale(model, shifted, np.zeros_like(shifted))
    damping = _DAMPING * scale + _DAMPING_FLOOR * least
    nearly = space.preconditioner(model, shifted, damping)
    # The solution whose residual costs the least: rounding makes residuals grow again, since the
    # system is singular, with its right side nearly in range.
    closest: FloatArray | None = None
    least_cost, idle = np.inf, 0

    def ended(weights: FloatArray, residual: FloatArray) -> bool:
        nonlocal closest, least_cost, idle
        cost, idle = price(model, residual), idle + 1
        if cost < least_cost:
            closest, least_cost, idle = weights.copy(), cost, 0
        few = least_cost <= _NEARLY * missed
        return least_cost <= missed or idle >= (_FEW_PRODUCTS if few else _IDLE_PRODUCTS)

    last = conjugate_gradients(
        lambda v: model.curve(v, model.states) + damping * v,
        gradient,
        _ACCURACY,
        nearly,
        _CG_STEPS,
        ended,
    )
    return last if closest is None else closest


def tilted(model: SoftModel, direction: FloatArray) -> Iterator[FloatArray]:
    """The policy along a Newton direction, one decision [A, S] after the other."""
    psi, push, states = model.tangent(direction), model.mdp.transition.push, model.states
    change = np.zeros(model.mdp.n_states)
    if model.mdp.horizon is None:
        change = model.occupancy_change({0: psi(0)[..., None]})[0]
    for t in range(model.mdp.steps):
        now, log_change = model.policy(t), psi(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(states[t] > 0, change / states[t], 0.0)
        tilted = now * np.maximum(1.0 + share + log_change, 0.0)
        total = tilted.sum(axis=0)
        # Where everything is cut off the policy is never in doubt, as little as it is used.
        yield np.where(total > 0, tilted / np.where(total > 0, total, 1.0), now)
        change = push(now * (log_change * states[t] + change))


def policy_certificate(
    model: SoftModel, policy: Iterable[FloatArray], target: FloatArray
) -> Certificate:
    """What a policy, [A, S] for each decision, proves of a model's class."""
    # `target` are the behaviour's expected features [D], which are visits where there are none.
    mdp, utilities = model.mdp, model.utilities
    visits, total = utilities.visits(1), 0.0
    uniform = -np.log(mdp.n_actions)
    states = mdp.initial
    for t, now in enumerate(policy):
        if mdp.horizon is None:
            states = state_occupancy(mdp, now[None, ..., None])[0, :, 0]
        mass = now * states
        used = mass > 0
        prior = uniform
        if model.log_reference is not None:
            prior = model.log_reference[min(t, len(model.log_reference) - 1)][used]
        total += float(mass[used] @ (np.log(now[used]) - prior))
        utilities.tally(visits, t, mass[..., None])
        states = mdp.transition.push(mass)
    missed = target - utilities.collect(visits)[:, 0]
    if utilities.matrix is not None:
        rounding = np.finfo(float).eps * decisions(mdp)
        return Certificate(total, float(np.abs(missed).max()) + rounding)
    # Rounding, of one part in 2^52 of all visits, counts as difference too.
    rounding = np.finfo(float).eps * float(target.sum())
    return Certificate(total, 0.5 * float(np.abs(missed).sum()) + rounding, by_range=True)
