"""Utilities over targets to begin a search from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.candidates import column, random_policies
from goalmeter.meg.causal.search.outcomes import safe_log
from goalmeter.meg.causal.search.stationary import Linearised
from goalmeter.meg.causal.search.utilities import UtilityClass

_INDICATORS = 12
# Typical differences in expected utility, in nats.
_SMALLEST, _LARGEST = 0.2, 40.0
_SIZES = 8
_TRIES = 6
# Shares of the uniform policy that the measured one is mixed with, to have logarithms.
_MIXED = (0.02, 0.1, 0.3)


def starting_weights(
    utilities: UtilityClass,
    n: int,
    most: int,
    rng: np.random.Generator,
    known: Sequence[FloatArray] = (),
) -> list[FloatArray]:
    """Coordinates y [K], b included, of utilities to begin from.

    Those that are known; those at which the measured policy is most nearly stationary; some joint
    states of the targets by themselves, wanted or unwanted, and n random ones, each in several
    sizes: about `most` in all.
    """
    inverse = np.linalg.pinv(utilities.basis)
    out = [inverse @ weights for weights in known]
    out += [fitted_weights(utilities, share) for share in _MIXED]
    states = rng.permutation(inverse.shape[1])[:_INDICATORS]
    directions = [sign * inverse[:, t] for t in states for sign in (1.0, -1.0)]
    directions += [np.asarray(z) for z in rng.standard_normal((n, len(inverse)))]
    sizes = min(max(most // len(directions), 1), _SIZES)
    gaps = typical_gaps(utilities, rng)
    for direction in directions[: most // sizes]:
        unit = direction / max(float(np.linalg.norm(gaps @ direction)), 1e-300)
        spread = np.geomspace(_SMALLEST, _LARGEST, sizes + 1)[:-1]
        # Not the same sizes in every direction.
        spread = spread * (_LARGEST / _SMALLEST) ** (rng.random() / sizes)
        out += [size * unit for size in spread]
    return [y for y in out if np.isfinite(y).all() and np.abs(y).max(initial=0.0) > 0]


def typical_gaps(utilities: UtilityClass, rng: np.random.Generator) -> FloatArray:
    """A matrix [K, K] that maps y to a vector as long as G y makes actions differ, typically.

    Root mean square, under random policies, over what the measured policy comes by.
    """
    table = utilities.table
    tries = random_policies(table, _TRIES, rng)
    weights = [v.sum(axis=1, keepdims=True) for v in utilities.visits]
    total = np.zeros((table.features.shape[1],) * 2)
    for i in range(_TRIES):
        at = Linearised(table, np.zeros(table.n_rows), 0.0, column(tries, i))
        paid = at.centred(at.paid_features())
        shares = [(w * p).reshape(-1) for w, p in zip(weights, at.policies, strict=True)]
        total += (paid * np.concatenate(shares)[:, None]).T @ paid / _TRIES
    values, vectors = np.linalg.eigh(total)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def fitted_weights(utilities: UtilityClass, share: float) -> FloatArray:
    """The weights y [K] at which the measured policy, mixed with uniform, is nearest to stationary.

    Least squares in the logs of the policy, weighted by how often it comes by and what it does.
    Where the policy is soft-optimal for some utility of the class, it is that one.
    """
    table = utilities.table
    mixed = [
        (1 - share) * p + share / a for p, a in zip(utilities.measured, table.actions, strict=True)
    ]
    at = Linearised(table, np.zeros(table.n_rows), 0.0, mixed)
    # With no utility the answers are what is left to say of later decisions.
    left = np.concatenate([safe_log(p).reshape(-1) for p in mixed]) - at.answers
    weight = np.concatenate(
        [
            np.sqrt(visits.sum(axis=1, keepdims=True) * p).reshape(-1)
            for visits, p in zip(utilities.visits, mixed, strict=True)
        ]
    )
    rows = weight[:, None] * at.centred(at.paid_features())
    wanted = weight * at.centred(left[:, None])[:, 0]
    solution, *_ = np.linalg.lstsq(rows, wanted, rcond=1e-8)
    return np.asarray(solution)
