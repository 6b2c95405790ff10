"""The rationality at which evidence is highest, between those that were tried.

Evidence is known at a fixed list of rationalities, so that every fit again without a grid costs a
sum and no planning. Between neighbours of the list, log rationality by log rationality, it is the
polynomial through nine of them. That agrees with `meg.from_trajectories`, which plans at every
rationality it looks at, to 1e-3 nats a walk; a parabola through three of them is off by some
hundredths of a nat in mazes with long ways, where the evidence is steep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.navigation.directed.evidence import RATIONALITIES, SIZES

_ZERO = int(np.flatnonzero(RATIONALITIES == 0)[0])
_STEP = float(SIZES[1] / SIZES[0])
# Rationalities with a neighbour on either side at that step.
_INNER = np.isin(np.abs(RATIONALITIES), SIZES[1:-1])
# Neighbours to each side that a polynomial goes through, and what gives its coefficients, the
# constant first, from the values there.
_SIDE = 4
_NODES = np.arange(-_SIDE, _SIDE + 1)
_COEFFICIENTS = np.linalg.inv(np.vander(_NODES.astype(float), increasing=True))
# The middle of the nine by the best of the list: as near as the ends of one sign allow.
_CENTRE = np.where(
    RATIONALITIES < 0,
    np.clip(np.arange(len(RATIONALITIES)), 1 + _SIDE, len(SIZES) - _SIDE),
    np.clip(np.arange(len(RATIONALITIES)), _ZERO + 1 + _SIDE, _ZERO + len(SIZES) - _SIDE),
)
# From the vertex of the parabola Newton's method has nothing left to gain after these.
_NEWTON_STEPS = 12


class RationalityFit(NamedTuple):
    """The rationalities at which curves are highest, [...]; 0 where none explains anything.

    Attributes:
        top: index of the best of `RATIONALITIES`.
        offset: how far from it the best of all is, in steps of the list, from -1 to 1.
    """

    top: IntArray
    offset: FloatArray

    @property
    def rationality(self) -> FloatArray:
        """As a number, [...]."""
        best = RATIONALITIES[self.top]
        factor = np.where(np.isfinite(best), _STEP**self.offset, 1.0)
        return np.asarray(best * np.where(best < 0, 1.0 / factor, factor))


def best_fit(curves: FloatArray) -> RationalityFit:
    """The best fit to evidence at each rationality, [..., G]."""
    top = np.where(curves.max(axis=-1) > 0, curves.argmax(axis=-1), _ZERO)
    inner = _INNER[top]
    value, slope, bend = _polynomial(curves, top, np.zeros(top.shape))
    start, offset = value, np.zeros(top.shape)
    for _ in range(_NEWTON_STEPS):
        bends = inner & (bend < 0)
        step = np.where(bends, -slope / np.where(bends, bend, 1.0), 0.0)
        offset = np.clip(offset + step, -1.0, 1.0)
        value, slope, bend = _polynomial(curves, top, offset)
    # Where Newton's method went astray, the best of the list stays the best.
    return RationalityFit(top, np.where(inner & (value > start), offset, 0.0))


def signed_nats(curves: FloatArray, fit: RationalityFit | None = None) -> FloatArray:
    """The evidence of the best fit, or of a given one; below 0 where the rationality is.

    Args:
        curves: evidence at each of `RATIONALITIES`, nats, [..., G].
        fit: where to read it, [...]; None for where each curve is highest.
    """
    top, offset = best_fit(curves) if fit is None else fit
    top = np.broadcast_to(top, curves.shape[:-1])
    height = np.take_along_axis(curves, top[..., None], axis=-1)[..., 0]
    between, _, _ = _polynomial(curves, top, offset)
    return np.asarray(np.sign(RATIONALITIES[top]) * np.where(offset == 0, height, between))


def _polynomial(
    curves: FloatArray, top: IntArray, offset: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, slope and bend of curves [..., G] at an offset from a place, by the step: [...]."""
    centre = _CENTRE[top]
    values = np.take_along_axis(curves, centre[..., None] + _NODES, axis=-1)
    # Relative to the first of them, so that sums keep the digits of small differences.
    base = values[..., :1]
    coefficients = (values - base) @ _COEFFICIENTS.T
    at = top - centre + offset
    value, slope, bend = (np.zeros(at.shape) for _ in range(3))
    for power in range(2 * _SIDE, -1, -1):  # Horner's rule, and its derivatives
        bend = bend * at + 2.0 * slope
        slope = slope * at + value
        value = value * at + coefficients[..., power]
    return value + base[..., 0], slope, bend
