"""Entropy of counts, and how far a distribution is from another, in bits."""

from __future__ import annotations

import numpy as np

from goalmeter._types import ArrayLike, FloatArray


def plug_in_entropy(counts: ArrayLike) -> FloatArray:
    """Entropy of the shares of counts, in bits, over the last axis.

    It is too low on average, by about (K - 1) / (2 n ln 2) for K outcomes and n observations.

    Args:
        counts: [..., outcomes], at least one observation each.

    Example: two outcomes, as often.
        >>> float(plug_in_entropy([3, 3, 0]))
        1.0
    """
    counted = np.asarray(counts, dtype=float)
    shares = counted / counted.sum(axis=-1, keepdims=True)
    return np.asarray(-_x_log_x(shares).sum(axis=-1)) + 0.0  # never -0.0


def miller_madow_entropy(counts: ArrayLike) -> FloatArray:
    """The plug-in entropy with its leading bias taken out, in bits, over the last axis.

    (K - 1) / (2 n ln 2) is added, where K is the number of outcomes that were seen. One observation
    still gives 0.

    Source: Miller, Note on the bias of information estimates (1955).
    """
    counted = np.asarray(counts, dtype=float)
    seen = (counted > 0).sum(axis=-1)
    return np.asarray(
        plug_in_entropy(counted) + (seen - 1) / (2 * np.log(2) * counted.sum(axis=-1))
    )


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Jensen-Shannon divergence of distributions, in bits, over the last axis: from 0 to 1.

    Example: a point against two equally likely ones, of which it is one.
        >>> round(float(jensen_shannon([1, 0], [0.5, 0.5])), 3)
        0.311
    """
    p, q = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    middle = (_x_log_x(p) + _x_log_x(q)) / 2 - _x_log_x((p + q) / 2)
    return np.asarray(np.clip(middle.sum(axis=-1), 0.0, 1.0))


def _x_log_x(p: FloatArray) -> FloatArray:
    # 0 log 0 counts as 0, its limit.
    return np.asarray(p * np.log2(np.where(p > 0, p, 1.0)))
