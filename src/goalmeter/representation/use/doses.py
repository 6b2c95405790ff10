"""How much of a write it takes: flips by dose, beside random directions of equal norm.

A direction that matters flips moves at doses at which a random one as long does not. Where the two
come together, the write is no longer about the cell: anything so large would break the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from goalmeter._errors import InvalidParameterError
from goalmeter._json import JsonFields
from goalmeter.representation.use.asking import Asking
from goalmeter.representation.use.candidates import Candidate
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.representation.use.outcomes import row_of
from goalmeter.statistics.clustered import Estimate


@dataclass(frozen=True)
class DoseRow(JsonFields):
    """A write at a dose, beside random directions of equal norm, at needed cells.

    Attributes:
        intervention: what was done.
        layer: where; "all" for every one that was tried.
        position: the tokens that were changed.
        dose: in gaps between walls and open cells.
        flips: share of decisions with another move.
        null_flips: the same under random directions.
        unreadable: share of decisions whose answer cannot be read.
    """

    intervention: str
    layer: int | str
    position: str
    dose: float
    flips: Estimate
    null_flips: Estimate
    unreadable: Estimate


def dose_row(asking: Asking, candidate: Candidate, dose: float) -> DoseRow:
    """A write at another dose, on the confirm half.

    Args:
        asking: the model and its trials.
        candidate: a write.
        dose: in gaps between walls and open cells.

    Raises:
        InvalidParameterError: the intervention is no write.
    """
    if candidate.dosed is None:
        raise InvalidParameterError(f"{candidate.label} has no dose, expected a write")
    dosed = candidate.dosed(dose)
    needed, random = (
        row_of(each, asking.outcomes(each, CONFIRM)).needed for each in (dosed, dosed.nulls[0])
    )
    return DoseRow(
        dosed.name,
        dosed.layer,
        dosed.position,
        dose,
        needed.flips,
        random.flips,
        needed.unreadable,
    )
