"""What a search for the best utility of a class has reached, as a result."""

from __future__ import annotations

import math
from typing import NamedTuple

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Yardstick, bracketed, certifying, rounding
from goalmeter.meg.result import MegResult
from goalmeter.meg.watch import STOPPED_BY, duration
from goalmeter.tabular.mdp import TabularMDP

# The size of utilities that a bound is proven for, by whether it is of their range.
_MEASURES = {True: "range", False: "weights"}


class Reached(NamedTuple):
    """Where a search ended, or was ended; value and bound in nats.

    `bound_size` is 0 where the bound holds for all utilities (see `goalmeter.meg.certificate`),
    `infinite` says that the value is the limit of ever larger ones, and `error` is the rounding
    error of the value, nats.
    """

    value: float
    upper_bound: float
    bound_size: float
    bound_by_range: bool
    steps: int
    infinite: bool
    growing: bool
    error: float = 0.0

    @property
    def gap(self) -> float:
        """What bound and value differ by, nats."""
        return self.upper_bound - self.value


class Shown(NamedTuple):
    """What a reader sees of the best utility: itself in 0 to 1, its scale, and its evidence."""

    utility: FloatArray
    scale: float
    by_step: FloatArray
    by_state: FloatArray


def class_result(
    reached: Reached,
    shown: Shown,
    measure: Yardstick,
    *,
    mdp: TabularMDP,
    target: str,
    uniform: bool,
    tolerance: float,
    notes: tuple[str, ...] = (),
    stopped: str | None = None,
    elapsed: float = 0.0,
    i: int = 0,
) -> MegResult:
    """The result of a search in a world, by the yardstick of its behaviour (the i-th of several).

    `uniform` is whether the reference is; `tolerance` counts as certified, nats; `notes` come
    first; `stopped` is what ended the search after `elapsed` seconds, if anything did.
    """
    error = max(rounding(mdp), reached.error)
    maximum = float(measure.maximum[i % len(measure.maximum)])
    tolerance = certifying(tolerance, error, maximum)
    # Where the rounding error exceeds the tolerance, the reported value is a verified lower bound.
    doubtful = reached.error > tolerance
    value = reached.value - reached.error if doubtful else reached.value
    fields = bracketed(value, reached.upper_bound + error, measure, i)
    reached = reached._replace(value=fields["value"], upper_bound=fields["upper_bound"])
    return MegResult(
        **fields,
        rationality=math.inf if reached.infinite else shown.scale,
        target=target,
        method=f"concave maximisation, {reached.steps} Newton steps",
        tolerance=tolerance,
        by_step=shown.by_step,
        by_state=shown.by_state,
        utility=shown.utility,
        reference="uniform policy" if uniform else "given reference policy",
        notes=(*notes, *_notes(reached, tolerance, doubtful, stopped, elapsed)),
        stopped=stopped,
        bound_size=reached.bound_size or math.inf,
        bound_measure=_MEASURES[reached.bound_by_range] if reached.bound_size else "none",
    )


def _notes(
    reached: Reached, tolerance: float, doubtful: bool, stopped: str | None, elapsed: float
) -> tuple[str, ...]:
    notes = []
    if doubtful:
        notes.append(
            f"the value has a rounding error of up to {reached.error:.2g} nats, because the "
            f"utility found is too large or the discount too close to 1 for double precision; the "
            f"value reported is lower by that much, and it is not certified"
        )
    if stopped is not None:
        notes.append(
            f"stopped by {STOPPED_BY[stopped]} after {duration(elapsed)} and {reached.steps} "
            f"steps: the value is the best so far, a lower bound, and the upper bound is what was "
            f"proven by then"
        )
    if reached.infinite:
        notes.append(
            "the supremum is approached by ever larger utilities; the value is its exact limit"
        )
    elif reached.growing:
        notes.append(
            "the weights were still growing where the search ended: the optimum may lie at "
            "infinity, and the rationality is that of the utility that was reached"
        )
    if reached.gap > tolerance and stopped is None:
        notes.append(
            f"the certificate did not close: after {reached.steps} Newton steps the bound is "
            f"{reached.gap:.2g} nats above the value (tolerance {tolerance:g}); the value is a "
            f"lower bound"
        )
    if reached.bound_size and reached.bound_by_range:
        notes.append(
            f"the bound holds for all utilities of the class whose range (largest less smallest "
            f"entry) times the rationality is at most {reached.bound_size:.2g}, a thousand times "
            f"that of the best one reached"
        )
    elif reached.bound_size:
        notes.append(
            f"the bound holds for all utilities of the class whose weights times the "
            f"rationality sum to at most {reached.bound_size:.2g} in absolute value, a thousand "
            f"times those of the best one reached"
        )
    return tuple(notes)
