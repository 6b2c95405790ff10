"""How much of a write it takes: flips by dose, beside random directions of equal norm.

A direction that matters flips moves at doses at which a random one as long does not. Where the two
come together, the write is no longer about the cell: anything so large would break the answer.
"""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter.representation.result_rows import DoseRow
from goalmeter.representation.use.asking import Asking
from goalmeter.representation.use.candidates import Candidate
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.representation.use.outcomes import row_of


def dose_row(asking: Asking, candidate: Candidate, dose: float) -> DoseRow:
    """A write at another dose, on the confirm half.

    Args:
        asking: the model and its trials.
        candidate: a write.
        dose: in gaps between walls and open cells.
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
