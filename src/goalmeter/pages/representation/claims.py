"""What intervals carry: a claim is made only where they leave no other reading."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import UsedRow
from goalmeter.representation.use.causal_use import MARGIN, NOT_USED, UNKNOWN, USED
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.statistics.clustered import Estimate

ABOVE, BELOW, OPEN = "above", "below", "cannot be told"


def ends(estimate: Estimate | None) -> tuple[float, float] | None:
    """The interval of an estimate; None where there is none, or no number."""
    if estimate is None or estimate.interval is None or math.isnan(estimate.value):
        return None
    return None if any(map(math.isnan, estimate.interval)) else estimate.interval


def beside(ours: Estimate | None, others: Iterable[Estimate | None]) -> str:
    """`ABOVE` if the whole interval lies above each other one, `BELOW` if below one of them."""
    interval, controls = ends(ours), [ends(each) for each in others]
    if interval is None or not controls:
        return OPEN
    low, high = interval
    if any(control is not None and high < control[0] for control in controls):
        return BELOW
    # A control without an interval is one that nothing is known to be above.
    above = all(control is not None and control[1] < low for control in controls)
    return ABOVE if above else OPEN


def sign(difference: Estimate | None) -> str:
    """On which side of 0 the interval of a difference lies."""
    interval = ends(difference)
    if interval is None or interval[0] <= 0 <= interval[1]:
        return OPEN
    return ABOVE if interval[0] > 0 else BELOW


def signs(differences: Mapping[str, Estimate]) -> str:
    """`ABOVE` if every difference is, `BELOW` if one is."""
    all_signs = [sign(each) for each in differences.values()]
    if BELOW in all_signs:
        return BELOW
    return ABOVE if all_signs and set(all_signs) == {ABOVE} else OPEN


def best(named: Mapping[str, Estimate | None]) -> tuple[str, Estimate] | None:
    """The largest number of those that are known, with its name."""
    known = {k: e for k, e in named.items() if e is not None and not math.isnan(e.value)}
    return max(known.items(), key=lambda entry: entry[1].value) if known else None


def confirmed(result: Representation) -> UsedRow | None:
    """The intervention that was chosen on one half, as it did on the other."""
    return next((row for row in result.use if row.chosen and row.half == CONFIRM), None)


def use_of(result: Representation) -> str:
    """Whether cells are used, as far as both the verdict and the intervals say so."""
    row = confirmed(result)
    if row is None:
        return UNKNOWN
    nulls: Sequence[Estimate | None] = (row.unneeded_flips, row.null_flips)
    compared = [each for each in nulls if each is not None]
    if result.verdict == USED and beside(row.flips, compared) == ABOVE:
        return USED
    flips = ends(row.flips)
    if result.verdict == NOT_USED and flips is not None and flips[1] < MARGIN:
        return NOT_USED
    return UNKNOWN
