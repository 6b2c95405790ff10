"""The best utility of a linear class as a search leaves it, and bounds on all others.

By weak duality, for any policy x and any weights theta of the class,

    f(theta) <= KL(x) + theta . (features expected by the behaviour - features expected by x),

with KL(x) = E_x[sum log x / reference]. Whatever x is, the bound holds; it is tight where x has the
behaviour's features and is the model of the best utility. A difference r that is left costs at most
B * max|r| for all utilities whose weights (times the rationality) sum to at most B.

Source: weak duality of maximum causal entropy (Ziebart 2010).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import ROUNDING_SHARE, Behaviour, decisions
from goalmeter.meg.soft_model import SoftModel

# The bound holds for utilities whose weights sum to at most this multiple of the model's.
BOUND_FACTOR = 1e3
# Occupancies this far below zero, relative to the largest, are zeros that were rounded.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class LinearFit:
    """The maximum of the evidence over a linear class, or the best so far of a search for it.

    `upper_bound` is proven for every utility up to the size `bound_size`; both bound and value are
    in nats.
    """

    value: float  # evidence of the best model
    upper_bound: float
    bound_size: float  # B of the certificate; 0 where the bound holds for all utilities
    bound_by_range: bool  # whether B is of the utility's range, not of the sum of its weights
    model: SoftModel  # the best one (inside the last face, if there are faces)
    # Diverging directions [D], the dominant first; empty for a finite optimum.
    directions: list[FloatArray] = field(default_factory=list)
    steps: int = 0  # Newton steps taken
    # Whether the weights were still growing where the search ended, so that the optimum may lie at
    # infinity without that being shown.
    growing: bool = False
    error: float = 0.0  # rounding error of the value, nats; see `checked`

    @property
    def bracket(self) -> tuple[float, float]:
        """The value and the bound, nats."""
        return self.value, self.upper_bound

    @property
    def gap(self) -> float:
        """What bound and value differ by, nats."""
        return self.upper_bound - self.value

    @property
    def doubt(self) -> float:
        """Distance between value and bound, whichever is larger, plus the error, nats."""
        return abs(self.gap) + self.error

    def closes(self, tolerance: float) -> bool:
        """Whether value and bound agree within the tolerance or a small rounding error."""
        resolved = self.error <= max(tolerance, ROUNDING_SHARE * self.upper_bound)
        return resolved and abs(self.gap) <= max(tolerance, self.error)


class Certificate(NamedTuple):
    """What one policy proves: f(theta) <= kl + size(theta) * residual for all weights theta.

    `kl` is in nats. The size is the sum of absolute weights, and the residual the largest
    difference of features that is left; or `by_range` the size is the utility's largest entry less
    its smallest, and the residual half the sum of absolute differences of visits.
    """

    kl: float
    residual: float
    by_range: bool = False

    def bound(self, size: float) -> float:
        """The bound for utilities up to this size, nats."""
        return self.kl + size * self.residual if self.residual > 0 else self.kl


class ProvenBound(NamedTuple):
    """A bound in nats, the size of utilities up to which it holds (0: for all), and of what."""

    upper: float
    size: float
    by_range: bool


class Bounds:
    """All certificates of a search. Each is a line in B, so which is the best depends on B.

    Args:
        ceiling: a bound that holds for all utilities, nats.
    """

    def __init__(self, ceiling: float) -> None:
        self._all = [Certificate(ceiling, 0.0)]

    def add(self, certificate: Certificate) -> None:
        """Keep one more certificate, which may be the best for some B."""
        self._all.append(certificate)

    def refute(self, model: SoftModel, value: float) -> None:
        """Drop certificates, except the ceiling, that the evidence of a model contradicts."""
        first, *others = self._all
        self._all = [first, *(c for c in others if c.bound(self._size(c, model)) >= value)]

    def at(self, model: SoftModel) -> ProvenBound:
        """The least bound for utilities up to a thousand times a model's own size.

        The size grows with the model: a bound for small utilities says nothing of a large one that
        was found later.
        """

        def proven(certificate: Certificate) -> ProvenBound:
            size = self._size(certificate, model)
            needed = size if certificate.residual > 0 else 0.0
            return ProvenBound(certificate.bound(size), needed, certificate.by_range)

        return min(map(proven, self._all), key=lambda bound: bound.upper)

    @staticmethod
    def _size(certificate: Certificate, model: SoftModel) -> float:
        """The size of utilities that a certificate is used for beside a model."""
        theta = model.theta
        own = np.ptp(theta) if certificate.by_range else np.abs(theta).sum()
        return BOUND_FACTOR * max(1.0, float(own))


def checked(fit: LinearFit, behaviour: Behaviour, bounds: Bounds) -> LinearFit:
    """Return a fit with the rounding error of its value.

    Certificates that the value contradicts by more than that error are dropped.
    """
    error = float(fit.model.rounding(behaviour)[0])
    bounds.refute(fit.model, fit.value - 2.0 * error)
    upper, size, by_range = bounds.at(fit.model)
    return replace(fit, upper_bound=upper, bound_size=size, bound_by_range=by_range, error=error)


def model_certificate(model: SoftModel, gradient: FloatArray) -> Certificate:
    """What the model's own policy proves; gradient: what the behaviour's features exceed it by."""
    # Rounding in the gradient, of one part in 2^52 for each decision, counts as difference too.
    difference = float(np.abs(gradient).max()) + np.finfo(float).eps * decisions(model.mdp)
    return Certificate(model.divergence(), difference)


def matching_certificate(
    model: SoftModel, psi: dict[int, FloatArray], gradient: FloatArray
) -> Certificate | None:
    """What the matching policy one linear step away proves.

    Moving the model's occupancy along the Newton direction that `psi` belongs to matches the
    features exactly, up to a residual of rounding size. None where the step leaves what policies
    can do.
    """
    proven = matching_certificates(model, psi, 1)
    if not proven.holds[0]:
        return None
    residual = float(np.abs(gradient - model.utilities.collect(proven.visits)[:, 0]).max())
    return Certificate(float(proven.kl[0]), residual + float(proven.lost[0]))


class MatchingPolicies(NamedTuple):
    """The policies one linear step away in W worlds side by side.

    `kl` [W] in nats, `visits` the change of the class's visits, `lost` [W] what rounding may have
    taken off the features, and `holds` [W] where the step is one that policies can take.
    """

    kl: FloatArray
    visits: FloatArray
    lost: FloatArray
    holds: BoolArray


def matching_certificates(
    model: SoftModel, psi: dict[int, FloatArray], n_worlds: int
) -> MatchingPolicies:
    """What `matching_certificate` rests on, for each of the worlds that a model's states are of."""

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
