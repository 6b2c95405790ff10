"""A value and a bound brought together: what rounding may cost, and what no bound may exceed."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from goalmeter.meg.behaviour import Yardstick
from goalmeter.tabular.mdp import TabularMDP

# Rounding may widen what counts as certified up to this share of the maximum, and no further.
ROUNDING_SHARE = 1e-6


class Bracket(TypedDict):
    """The fields of a `MegResult` that hold a value between its bounds, all nats."""

    value: float
    upper_bound: float
    maximum: float
    ceiling: float


def bracketed(value: float, bound: float, measure: Yardstick, i: int = 0) -> Bracket:
    """The value and the bound of a behaviour, neither above what any behaviour could score.

    Args:
        value: evidence of the best model, nats.
        bound: proven bound, nats, with what rounding may add to it.
        measure: maximum and ceiling, of B behaviours or of one that stands for all.
        i: which behaviour.
    """
    maximum = float(measure.maximum[i % len(measure.maximum)])
    ceiling = min(float(measure.ceiling[i % len(measure.ceiling)]), maximum)
    value = min(max(value, 0.0), maximum)
    return Bracket(
        value=value,
        upper_bound=min(max(bound, value), maximum),
        maximum=maximum,
        ceiling=ceiling,
    )


def rounding(mdp: TabularMDP) -> float:
    """What rounding can add up to, nats: values of up to T log(A), summed over T decisions."""
    decisions = 1.0 / (1.0 - mdp.discount) if mdp.horizon is None else float(mdp.horizon)
    return float(np.finfo(float).eps * np.log(mdp.n_actions) * decisions**2)


def certifying(tolerance: float, error: float, maximum: float) -> float:
    """The tolerance, or room for twice an error of rounding where that stays small.

    Small is a millionth of the maximum. An error that is larger than both leaves a result
    uncertified, since the number may then be nothing but the error.
    """
    return max(tolerance, min(2.0 * error, ROUNDING_SHARE * maximum))
