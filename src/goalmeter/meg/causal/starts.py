"""Utilities over targets to begin a search from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.branch import Class
from goalmeter.meg.causal.outcomes import safe_log
from goalmeter.meg.causal.stationary import Linearised

_INDICATORS = 12
_INDICATOR_SIZE = 3.0
_SMALLEST, _LARGEST = 0.3, 30.0
# Shares of the uniform policy that the measured one is mixed with, to have logarithms.
_MIXED = (0.02, 0.1, 0.3)


def starting_weights(
    utilities: Class, n: int, rng: np.random.Generator, given: Sequence[FloatArray] = ()
) -> list[FloatArray]:
    """Coordinates y [K], b included, of utilities to begin from.

    Those given; those at which the measured policy is most nearly stationary; some joint states of
    the targets by themselves, wanted or unwanted; and n random ones from small to large.
    """
    inverse: FloatArray = np.asarray(np.linalg.pinv(utilities.basis), dtype=np.float64)
    out = [inverse @ weights for weights in given]
    out += [fitted_weights(utilities, share) for share in _MIXED]
    for t in rng.permutation(inverse.shape[1])[:_INDICATORS]:
        out += [sign * _INDICATOR_SIZE * _unit(inverse[:, t]) for sign in (1.0, -1.0)]
    for size in np.geomspace(_SMALLEST, _LARGEST, n):
        out.append(size * _unit(rng.standard_normal(len(inverse))))
    return [y for y in out if np.isfinite(y).all() and np.abs(y).max(initial=0.0) > 0]


def _unit(y: FloatArray) -> FloatArray:
    return np.asarray(y / max(float(np.linalg.norm(y)), 1e-300))


def fitted_weights(utilities: Class, share: float) -> FloatArray:
    """The weights y [K] at which the measured policy, mixed with uniform, is nearest to stationary.

    Least squares in the logs of the policy, weighted by how often it comes by and what it does.
    Where the policy is soft-optimal for some utility of the class, it is that one.
    """
    table = utilities.table
    mixed = [
        (1 - share) * p + share / a for p, a in zip(utilities.measured, table.actions, strict=True)
    ]
    at = Linearised(table, np.zeros(table.n_rows), 0.0, mixed)
    known = [np.where(mass > 0, mass, 1.0) for mass in at.masses]
    paid = np.concatenate(
        [
            (table.total(i, at.chances[i][:, None] * table.features) / mass[..., None]).reshape(
                -1, table.features.shape[1]
            )
            for i, mass in enumerate(known)
        ]
    )
    # With no utility the answers are what is left to say of later decisions.
    left = np.concatenate([safe_log(p).reshape(-1) for p in mixed]) - at.answers
    weight = np.concatenate(
        [
            np.sqrt(visits.sum(axis=1, keepdims=True) * p).reshape(-1)
            for visits, p in zip(utilities.visits, mixed, strict=True)
        ]
    )
    rows = weight[:, None] * at.centred(paid)
    wanted = weight * at.centred(left[:, None])[:, 0]
    solution, *_ = np.linalg.lstsq(rows, wanted, rcond=1e-8)
    return np.asarray(solution)
