"""Determine which cells an agent uses, and the world it believes in by interventions.

Each place has a rate: how often a move flips when a needed cell there is changed. Few decisions
meet one place, so the rates are modelled as draws from one Beta distribution, whose mean and size
are uncertain and averaged over. Where the places differ, the distribution is learnt to be spread
out, and a place depends on its own decisions; where all are alike, a place with two decisions is
judged by the others, and so is one without any.

A place is used (not used) if its rate is above (below) the margin with probability `SURE`.

Source: Gelman et al., Bayesian Data Analysis, section 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.world import Cell, GridWorld, content
from goalmeter.representation.beliefs.meg import PossibleMaps
from goalmeter.representation.result_rows import row_from
from goalmeter.representation.scenes import Scenes, Shape
from goalmeter.representation.use.trials import TrialOutcome
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import clustered_area

USED, NOT_USED, UNKNOWN = "used", "not used", "unknown"
MARGIN = 0.25
SURE = 0.95
# Means and sizes of the Beta distribution, equally likely a priori; sizes on a logarithmic scale,
# since a size is the number of decisions that another place is worth.
_MEANS = (np.arange(40) + 0.5) / 40
_SIZES = np.geomspace(0.05, 50.0, 24)

Place = tuple[Shape, Cell]  # in the worlds of one shape


class CellTrial(NamedTuple):
    """Whether the move of a right decision flipped when a needed cell was changed."""

    grid: str
    shape: Shape
    cell: Cell
    flipped: bool


@dataclass(frozen=True)
class PlaceUse(JsonFields):
    """A place in the worlds of one shape.

    Of `decisions` that were right and in which it was needed and changed, some flip and some become
    optimal as if it were a wall. The rate of flips has a posterior mean, a central 95% interval
    and a probability of being above the margin.
    """

    shape: Shape
    cell: Cell
    decisions: int
    flips: int
    as_if_wall: int
    rate: float
    interval: tuple[float, float]
    above: float

    @property
    def verdict(self) -> str:
        """One of "used", "not used" and "unknown"."""
        if self.above >= SURE:
            return USED
        return NOT_USED if self.above <= 1.0 - SURE else UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The fields and the verdict as JSON values."""
        return super().to_json() | {"verdict": self.verdict}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlaceUse:
        """The place with these JSON values."""
        return row_from(cls, value)


@dataclass(frozen=True)
class UsedCells(JsonFields):
    """The places at which something was tried, by shape, row and column."""

    margin: float
    places: tuple[PlaceUse, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of places with each verdict."""
        verdicts = [place.verdict for place in self.places]
        return {verdict: verdicts.count(verdict) for verdict in (USED, NOT_USED, UNKNOWN)}

    def to_json(self) -> dict[str, Any]:
        """The fields and the counts as JSON values."""
        return super().to_json() | {"counts": self.counts}


def used_cells(outcomes: Iterable[TrialOutcome], *, margin: float = MARGIN) -> UsedCells:
    """Pool the outcomes of one intervention by the place of the cell that was changed.

    Cells that were not needed and decisions that were wrong before are ignored. Places with a rate
    above the margin are used.
    """
    if not 0.0 < margin < 1.0:
        raise InvalidParameterError(f"margin is {margin!r}, expected a rate between 0 and 1")
    by_place: dict[Place, list[TrialOutcome]] = {}
    for outcome in outcomes:
        if outcome.counts and outcome.cell.needed:
            by_place.setdefault((outcome.shape, outcome.cell.cell), []).append(outcome)
    names = sorted(by_place)
    flips = [[outcome.flipped for outcome in by_place[name]] for name in names]
    rates = _Rates(flips)
    places = [
        PlaceUse(
            *name,
            decisions=len(flips[number]),
            flips=sum(flips[number]),
            as_if_wall=sum(outcome.as_if_changed for outcome in by_place[name]),
            rate=rates.mean(number),
            interval=(rates.quantile(number, 0.025), rates.quantile(number, 0.975)),
            above=1.0 - rates.below(number, margin),
        )
        for number, name in enumerate(names)
    ]
    return UsedCells(margin, tuple(places))


def tried_of(outcomes: Iterable[TrialOutcome]) -> tuple[CellTrial, ...]:
    """Return the outcomes that `used_cells` does not ignore."""
    return tuple(
        CellTrial(outcome.grid, outcome.shape, outcome.cell.cell, outcome.flipped)
        for outcome in outcomes
        if outcome.counts and outcome.cell.needed
    )


def probably_used(tried: Iterable[CellTrial]) -> tuple[dict[Place, float], float]:
    """Return the probability that each place is used (1 or 0 by verdict), and of an untried one."""
    by_place: dict[Place, list[bool]] = {}
    for each in tried:
        by_place.setdefault((each.shape, each.cell), []).append(each.flipped)
    # The last one is a place without a decision.
    rates = _Rates([*by_place.values(), []])
    above = [1.0 - rates.below(number, MARGIN) for number in range(len(by_place) + 1)]
    *sure, untried = (1.0 if p >= SURE else 0.0 if p <= 1.0 - SURE else p for p in above)
    return dict(zip(by_place, sure, strict=True)), untried


def told_apart(used: Sequence[PlaceUse], unused: Sequence[PlaceUse]) -> Estimate:
    """Estimate the AUROC of rates of used against unused places, clustered by place."""
    names = sorted({(place.shape, place.cell) for place in [*used, *unused]})
    clusters = [[names.index((each.shape, each.cell)) for each in side] for side in (used, unused)]
    return clustered_area([each.rate for each in used], [each.rate for each in unused], *clusters)


class _Rates:
    """The posterior of the rates of P places: a mixture of M Beta distributions."""

    def __init__(self, flips: Sequence[Sequence[bool]]) -> None:
        from scipy.special import betaln

        means, sizes = (each.reshape(-1, 1) for each in np.meshgrid(_MEANS, _SIZES))
        hits = np.array([sum(each) for each in flips], dtype=float)
        decisions = np.array([len(each) for each in flips], dtype=float)
        # Parameters by mean and size, [M, P].
        self._first = means * sizes + hits
        self._second = (1 - means) * sizes + decisions - hits
        evidence = betaln(self._first, self._second) - betaln(means * sizes, (1 - means) * sizes)
        nats = evidence.sum(axis=1)
        weights = np.exp(nats - nats.max())
        self._weights: FloatArray = weights / weights.sum()  # [M]

    def mean(self, place: int) -> float:
        first, second = self._first[:, place], self._second[:, place]
        return float(self._weights @ (first / (first + second)))

    def below(self, place: int, rate: float) -> float:
        """Return the probability that the rate is lower."""
        from scipy.special import betainc

        share = betainc(self._first[:, place], self._second[:, place], rate)
        return float(np.clip(self._weights @ share, 0.0, 1.0))

    def quantile(self, place: int, level: float) -> float:
        """Bisect, since a mixture has no quantiles in closed form."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(place, middle) < level else (low, middle)
        return (low + high) / 2


def unbelieved(gain: Estimate | None, places: Mapping[str, int] | None) -> str:
    """Return why nothing can be said about a believed world; "" if something can.

    Any walks have a MEG on any map, so the map must be read better than from places alone (a gain
    in bits a cell, at walls of uncertain cells), and the use of some place must be known.
    """
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append("the map could not be read better than from places alone")
    if places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append("of no cell it could be told whether it is used")
    return ", and ".join(reasons)


MAPS = 32  # that are drawn where it is unknown which places are used


def believed_maps(
    scenes: Scenes,
    tried: Sequence[CellTrial],
    uncertain: Mapping[Shape, BoolArray],
    *,
    seed: int = 0,
) -> PossibleMaps:
    """Return the maps that an agent may have, from the trials in other grids.

    Where a move depends on what the prompt says of a place, the agent's map has it as the prompt
    does. Where hiding an open cell changes no move, the agent takes the place for open without
    looking, so the believed world is the true one without the walls at unused places. Where the use
    of a place is unknown, maps are drawn by its probability.

    The decoded map does not enter: its errors would count as the agent's. `uncertain` are, by
    shape, the cells that have to be looked up, [rows, columns]; all others are known by place.
    """
    draws = {
        shape: np.random.default_rng(seed).random((MAPS, *shape)) for shape in sorted(uncertain)
    }
    # Grids differ in a decision or two, so most of them have the same other trials.
    probabilities = cache(probably_used)

    @cache
    def maps_of(world: GridWorld) -> list[GridWorld]:
        if world.shape not in uncertain:
            return [world] * MAPS
        grid = content(world)
        others = (each._replace(grid="") for each in tried if each.grid != grid)
        places, untried = probabilities(tuple(sorted(others)))
        share = np.full(world.shape, untried)
        for (shape, cell), probability in places.items():
            if shape == world.shape:
                share[cell] = probability
        looked_up = draws[world.shape] < share
        distinct: dict[bytes, GridWorld] = {}
        return [
            distinct.setdefault(walls.tobytes(), replace(world, walls=walls))
            for walls in world.walls & (looked_up | ~uncertain[world.shape])
        ]

    return PossibleMaps([[maps_of(world)[k] for world in scenes.worlds] for k in range(MAPS)])
