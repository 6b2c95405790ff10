"""What a search for the best utility of a linear class hands back."""

from __future__ import annotations

from dataclasses import dataclass, field

from goalmeter._types import FloatArray
from goalmeter.meg.soft_model import SoftModel


@dataclass(frozen=True)
class LinearFit:
    """The maximum of the evidence over a linear class, or the best so far of a search for it.

    Attributes:
        value: evidence of the best model, nats.
        upper_bound: proven bound on the evidence of every utility with |weights|_1 up to
            `bound_weight`, nats.
        bound_weight: B of the certificate; 0 where the bound holds for all utilities.
        model: the best model (inside the last face, if there are faces).
        directions: diverging directions [D], the dominant first; empty for a finite optimum.
        steps: Newton steps taken.
        growing: whether the weights were still growing where the search ended, so that the optimum
            may lie at infinity without that being shown.
    """

    value: float
    upper_bound: float
    bound_weight: float
    model: SoftModel
    directions: list[FloatArray] = field(default_factory=list)
    steps: int = 0
    growing: bool = False
