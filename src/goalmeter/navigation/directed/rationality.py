"""The rationality at which evidence is highest, on a list of those that were tried and between.

Between neighbours that are alike a parabola in the logarithm of the rationality is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray, IntArray

# Utilities are 0 or 1 at a step. At the least of these sizes the evidence of a walk is nothing, at
# the greatest a wrong step comes up once in 10¹³.
SIZES = np.geomspace(0.002, 30.0, 101)
RATIONALITIES = np.concatenate([[-np.inf], -SIZES[::-1], [0.0], SIZES, [np.inf]])
# Ratios of neighbours that differ by less are the same ratio, but for rounding.
_ALIKE = 1e-9


class Curves(NamedTuple):
    """The evidence of N walks at G rationalities.

    Attributes:
        rationalities: those that were tried, in rising order, [G].
        nats: the evidence at each of them, [N, G].
    """

    rationalities: FloatArray
    nats: FloatArray


class RationalityFit(NamedTuple):
    """The rationalities at which curves are highest, [...]; 0 where none explains anything.

    Attributes:
        top: index of the best of the list.
        offset: how far from it the best of all is, in steps of the list there.
    """

    top: IntArray
    offset: FloatArray


def best_fit(nats: FloatArray, rationalities: FloatArray = RATIONALITIES) -> RationalityFit:
    """The best fit to the evidence at each of some rationalities, [..., G]."""
    zero = int(np.flatnonzero(rationalities == 0)[0])
    top = np.where(nats.max(axis=-1) > 0, nats.argmax(axis=-1), zero)
    slope, bend = _shape(nats, top)
    inner = (_log_steps(rationalities)[top] != 0) & (bend < 0)
    return RationalityFit(top, np.where(inner, -slope / np.where(inner, bend, 1.0), 0.0))


def rationality_of(fit: RationalityFit, rationalities: FloatArray = RATIONALITIES) -> FloatArray:
    """The rationality of a fit as a number, [...]."""
    steps = _log_steps(rationalities)[fit.top] * fit.offset
    return np.asarray(rationalities[fit.top] * np.exp(steps))


def signed_nats(
    nats: FloatArray, fit: RationalityFit | None = None, rationalities: FloatArray = RATIONALITIES
) -> FloatArray:
    """The evidence of the best fit, or of a given one; below 0 where the rationality is.

    Args:
        nats: evidence at each of some rationalities, [..., G].
        fit: where to read it, [...]; None for where each curve is highest.
        rationalities: those, [G].
    """
    top, offset = best_fit(nats, rationalities) if fit is None else fit
    top = np.broadcast_to(top, nats.shape[:-1])
    slope, bend = _shape(nats, top)
    height = np.take_along_axis(nats, top[..., None], axis=-1)[..., 0]
    height = height + np.where(offset == 0, 0.0, slope * offset + 0.5 * bend * offset**2)
    return np.asarray(np.sign(rationalities[top]) * height)


def between(rationalities: FloatArray, tops: IntArray, parts: int) -> FloatArray:
    """Rationalities beside some of a list that have neighbours on either side at one step.

    Args:
        rationalities: the list, [G].
        tops: indices of those of it whose neighbourhood is wanted.
        parts: into how many the steps to both neighbours are divided.

    Returns:
        Those that are not on the list, in rising order.
    """
    log_steps = _log_steps(rationalities)
    inner = np.unique(tops[log_steps[tops] != 0])
    places = np.arange(1 - parts, parts) / parts
    beside = rationalities[inner, None] * np.exp(log_steps[inner, None] * places[places != 0])
    # Windows of neighbours overlap; what is the same but for rounding is there once.
    out: list[float] = []
    for value in np.sort(beside.ravel()).tolist():
        known = np.append(rationalities, out[-1:])
        if not np.isclose(known, value, rtol=_ALIKE, atol=0.0).any():
            out.append(value)
    return np.array(out)


def _log_steps(rationalities: FloatArray) -> FloatArray:
    """The logarithm of the ratio to the next one, where that to the one before is alike; else 0."""
    out = np.zeros(len(rationalities))
    for sign in (-1.0, 1.0):
        places = np.flatnonzero(np.isfinite(rationalities) & (np.sign(rationalities) == sign))
        steps = np.diff(np.log(np.abs(rationalities[places])))
        alike = np.abs(steps[1:] - steps[:-1]) <= _ALIKE
        out[places[1:-1]] = np.where(alike, steps[1:], 0.0)
    return out


def _shape(nats: FloatArray, top: IntArray) -> tuple[FloatArray, FloatArray]:
    """Slope and bend of curves [..., G] around places [...], per step and its square."""
    last = nats.shape[-1] - 1
    below, height, above = (
        np.take_along_axis(nats, at[..., None], axis=-1)[..., 0]
        for at in (np.maximum(top - 1, 0), top, np.minimum(top + 1, last))
    )
    return 0.5 * (above - below), below - 2 * height + above
