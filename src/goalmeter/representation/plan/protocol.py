"""What a reader of plans is asked for, and what it is fitted to.

A reader sees the activations of one decision at one layer and position, and says at once what will
be done from there on, step by step, and where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from goalmeter._errors import InvalidParameterError
from goalmeter._types import IntArray
from goalmeter.representation.probes.protocol import Activations, check_finite
from goalmeter.representation.probes.splits import Split, folds, split
from goalmeter.representation.scenes import Scenes


class PlanReading(NamedTuple):
    """Activations of N decisions with what was done from there on.

    Attributes:
        activations: [N, tokens, D].
        actions: [N, queries], as in `Plans`.
    """

    activations: Activations
    actions: IntArray

    def where(self, kept: IntArray) -> PlanReading:
        """Some of the decisions, by number."""
        return PlanReading(self.activations[kept], self.actions[kept])


class FittedPlanReader(Protocol):
    """A reader after its fit."""

    @property
    def parameters(self) -> int:
        """How many numbers were fitted."""

    def predicted(self, activations: Activations) -> IntArray:
        """The likeliest action of each step, or `END`, [N, queries]: argmax, nothing is drawn."""


class PlanReader(Protocol):
    """A way to read plans."""

    @property
    def name(self) -> str:
        """As it stands in tables."""

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> FittedPlanReader:
        """Fit to some decisions, and choose by others, which lie in other grids.

        Args:
            train: what is fitted.
            validation: what tells when to stop, or how strong a penalty is to be.
            seed: of whatever is drawn at random.
        """


def check_plan_reading(reading: PlanReading, name: str) -> None:
    """Refuse activations that are no numbers or not one row a sequence."""
    rows, sequences = reading.activations, len(reading.actions)
    if rows.ndim != 3 or len(rows) != sequences or not rows.size:
        raise InvalidParameterError(
            f"{name} has activations of shape {rows.shape} for {sequences} sequences, expected "
            f"[{sequences}, tokens, dimensions]"
        )
    check_finite(rows, name, "leave out decisions that lack the position")


def check_tokens(activations: Activations, shape: tuple[int, int]) -> None:
    """Refuse activations that another reader was fitted to."""
    if activations.ndim != 3 or activations.shape[1:] != shape:
        raise InvalidParameterError(
            f"activations have shape {activations.shape}, expected [decisions, {shape[0]}, "
            f"{shape[1]}], as those that the reader was fitted to"
        )


def divided(scenes: Scenes, parts: int, seed: int) -> Sequence[Split]:
    """Divisions of decisions by the content of their grids: one, or one for each part.

    Args:
        scenes: the decisions.
        parts: 1 to score a quarter of the grids; more to score all of them, by as many fits.
        seed: of the order in which grids are dealt.
    """
    return [split(scenes, seed=seed)] if parts == 1 else folds(scenes, parts, seed=seed)
