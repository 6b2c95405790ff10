"""Relative entropies of independent normals that a box clips, in closed form.

What a clip leaves of a normal has a density inside and an atom at each end. Clipping both sides of
a relative entropy never makes it larger, and it makes it bounded: the reference's atoms catch what
goes far out, however far. With least standard deviation s the density ratio inside is at most that
of the tallest normal, at the place of the box where the reference is thinnest.
"""

from __future__ import annotations

import math

import numpy as np

from goalmeter._types import FloatArray

_ROOT = math.sqrt(2 * math.pi)


def relative_entropy(
    mean: FloatArray,
    std: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> float:
    """KL(clipped N(mean, std) || clipped N(centre, scale)) over D independent dimensions, nats.

    Args:
        mean: [D], of what acts; `std` likewise.
        std: [D], positive.
        centre: [D], of the reference; `scale` likewise.
        scale: [D], positive.
        low: [D], ends of the box; -inf for none.
        high: [D]; inf for none.

    Example: without a box this is the textbook's formula, log 2 + 1/8 - 1/2 here.
        >>> zero, one, far = np.zeros(1), np.ones(1), np.full(1, np.inf)
        >>> print(round(relative_entropy(zero, one / 2, zero, one, -far, far), 4))
        0.3181
    """
    from scipy.special import log_ndtr, ndtr

    start, end = (low - mean) / std, (high - mean) / std
    inside = _mass(start, end)
    with np.errstate(invalid="ignore"):
        at_start = np.where(np.isfinite(start), start * _height(start), 0.0)
        at_end = np.where(np.isfinite(end), end * _height(end), 0.0)
    # Moments of the standard normal between the ends of the box.
    first = _height(start) - _height(end)
    second = inside + at_start - at_end
    away = mean - centre
    square = away**2 * inside + 2 * away * std * first + std**2 * second
    density = inside * np.log(scale / std) - second / 2 + square / (2 * scale**2)
    below = _atom(ndtr(start), log_ndtr(start), log_ndtr((low - centre) / scale))
    above = _atom(ndtr(-end), log_ndtr(-end), log_ndtr((centre - high) / scale))
    return float(np.maximum(density + below + above, 0.0).sum())


def largest_relative_entropy(
    least_std: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> float:
    """What `relative_entropy` cannot exceed whatever the mean, with standard deviations from here.

    Infinite where the box has no end: a mean can then be as far out as it likes.
    """
    from scipy.special import log_ndtr

    far = np.maximum(np.abs(low - centre), np.abs(high - centre))
    if not np.isfinite(far).all():
        return math.inf
    density = np.log(scale / least_std) + far**2 / (2 * scale**2)
    below, above = -log_ndtr((low - centre) / scale), -log_ndtr((centre - high) / scale)
    return float(np.maximum(density, np.maximum(below, above)).sum())


def _mass(start: FloatArray, end: FloatArray) -> FloatArray:
    """The standard normal's mass between two points, precise on both of its tails."""
    from scipy.special import ndtr

    right = start > 0
    return np.asarray(np.where(right, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start)))


def _height(x: FloatArray) -> FloatArray:
    """The standard normal's density; 0 at infinity."""
    return np.asarray(np.exp(-0.5 * np.minimum(np.abs(x), 1e3) ** 2) / _ROOT)


def _atom(mass: FloatArray, log_mass: FloatArray, log_reference: FloatArray) -> FloatArray:
    """What an atom adds: nothing where there is none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(mass > 0, mass * (log_mass - log_reference), 0.0))
