"""What an intervention did to behaviour: flips, towards what, and beside which nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter.representation.scenes import Shape
from goalmeter.representation.use.candidates import Candidate
from goalmeter.representation.use.cells import TargetCell
from goalmeter.statistics.clustered import Estimate, estimate


@dataclass(frozen=True)
class Outcome:
    """One decision under one intervention at one cell.

    Attributes:
        walk: key of the decision's walk.
        step: number of the decision.
        grid: name of the grid's content, by which intervals are clustered.
        shape: rows and columns of the world.
        cell: the cell that was changed, and what should follow.
        before: the action without the intervention; None where that answer cannot be read.
        after: the action under it; None where the answer cannot be read.
    """

    walk: str
    step: int
    grid: str
    shape: Shape
    cell: TargetCell
    before: int | None
    after: int | None

    @property
    def counts(self) -> bool:
        """Whether the decision was right before, so that there is a move to be flipped."""
        return self.before in self.cell.optimal

    @property
    def flipped(self) -> bool:
        """Whether the answer is another move. An answer that cannot be read is no move."""
        return self.after is not None and self.after != self.before

    @property
    def as_if_changed(self) -> bool:
        """Whether the cell is needed and the move is optimal if it were changed."""
        return self.cell.needed and self.after in self.cell.changed


@dataclass(frozen=True)
class Effect:
    """What became of the decisions at cells of one kind, as shares of them with 95% intervals.

    Attributes:
        flips: with another move.
        as_if_changed: with a move that is optimal if the cell were what it is changed to, a wall or
            open; 0 for unneeded cells.
        unreadable: with an answer that cannot be read.
    """

    flips: Estimate
    as_if_changed: Estimate
    unreadable: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {name: value.to_json() for name, value in vars(self).items()}


@dataclass(frozen=True)
class UseRow:
    """One intervention on one half of the grids.

    Attributes:
        intervention: what was done.
        layer: where; "all" for every block.
        position: the tokens that were changed.
        is_null: whether nothing is expected of it.
        needed: its effect at cells that shortest ways need.
        unneeded: its effect at cells on no shortest way.
        dose: of a write, in gaps between walls and open cells; None of what has no dose.
        effect_nats: how far the distribution of the next action moves at needed cells, in nats
            (`divergence`); None if no answers were drawn.
    """

    intervention: str
    layer: int | str
    position: str
    is_null: bool
    needed: Effect
    unneeded: Effect
    dose: float | None = None
    effect_nats: Estimate | None = None

    @property
    def label(self) -> str:
        """The intervention with its place."""
        return f"{self.intervention} at layer {self.layer}"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        effects = {"needed": self.needed.to_json(), "unneeded": self.unneeded.to_json()}
        nats = None if self.effect_nats is None else self.effect_nats.to_json()
        return vars(self) | effects | {"effect_nats": nats}


def row_of(
    candidate: Candidate, outcomes: Sequence[Outcome], effect_nats: Estimate | None = None
) -> UseRow:
    """The effects of an intervention.

    Decisions that were wrong before are left out: nobody can say what should become of them.
    """
    return UseRow(
        candidate.name,
        candidate.layer,
        candidate.position,
        candidate.is_null,
        _effect([o for o in outcomes if o.counts and o.cell.needed]),
        _effect([o for o in outcomes if o.counts and not o.cell.needed]),
        candidate.dose,
        effect_nats,
    )


def _effect(outcomes: Sequence[Outcome]) -> Effect:
    grids = np.unique([outcome.grid for outcome in outcomes], return_inverse=True)[1]

    def share(hits: list[bool]) -> Estimate:
        total = np.bincount(grids)
        # Many decisions in a grid are not many grids; how many are asked is set beforehand.
        return estimate(
            np.bincount(grids, np.asarray(hits, float)),
            total,
            heaviest=total.max(initial=0),
            n=len(hits),
            bounds=(0.0, 1.0),
        )

    return Effect(
        share([outcome.flipped for outcome in outcomes]),
        share([outcome.as_if_changed for outcome in outcomes]),
        share([outcome.after is None for outcome in outcomes]),
    )
