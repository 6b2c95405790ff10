"""Which places of a map an agent acts on, and the world that it believes in: decoded and used.

A single decision tells whether one cell was acted on. Pooled over decisions this becomes a rate of
each place: how often a move flips when a needed cell there is changed. Few decisions meet one place
so places borrow from each other: their rates are taken to come from one Beta distribution, whose
mean and spread are themselves uncertain and are averaged over. Where the places differ as those of
an agent that does not see some rows, the distribution is learnt to be spread out, and a place goes
by its own decisions; where all are alike, a place with two decisions is told by the others.

    used        the probability that its rate is above the margin is at least `SURE`
    not used    the probability that it is below is at least `SURE`
    unknown     otherwise, and wherever nothing was tried

Of a place at which nothing was tried the same distribution tells how likely it is used.

Source: Gelman et al., Bayesian Data Analysis, section 5.3, for rates that come from one Beta
distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.world import Cell
from goalmeter.representation.scenes import Shape
from goalmeter.representation.use.outcomes import Outcome
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.discrimination import clustered_area

USED, NOT_USED, UNKNOWN = "used", "not used", "unknown"
# As `causal_use` has it: a rate below this is of a place that is not acted on.
MARGIN = 0.25
SURE = 0.95
Place = tuple[Shape, Cell]

# Means and sizes of the Beta distribution, all as likely before anything is seen; on the scale of
# logarithms, since a size says how many decisions another place is worth.
_MEANS = (np.arange(40) + 0.5) / 40
_SIZES = np.geomspace(0.05, 50.0, 24)


class Tried(NamedTuple):
    """A decision that was right before a needed cell was changed.

    Attributes:
        grid: name of the grid's content.
        shape: of the world.
        cell: which was changed.
        flipped: whether the move became another one.
    """

    grid: str
    shape: Shape
    cell: Cell
    flipped: bool


@dataclass(frozen=True)
class PlaceUse:
    """A place of the worlds of one shape.

    Attributes:
        shape: of the worlds.
        cell: where.
        decisions: in which it was needed and changed, and the move was right before.
        flips: of them with another move.
        as_if_wall: of them with a move that is optimal if the cell were a wall.
        rate: mean of the posterior of the rate of flips.
        interval: its central 95%.
        above: the probability that the rate is above the margin.
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
        """The fields as JSON values."""
        fields = vars(self) | {
            "shape": list(self.shape),
            "cell": list(self.cell),
            "interval": list(self.interval),
        }
        return fields | {"verdict": self.verdict}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlaceUse:
        """The place that `to_json` was of; KeyError if an entry is missing."""
        rows, columns = value["shape"]
        low, high = value["interval"]
        return cls(
            (rows, columns),
            Cell(*value["cell"]),
            value["decisions"],
            value["flips"],
            value["as_if_wall"],
            value["rate"],
            (low, high),
            value["above"],
        )


@dataclass(frozen=True)
class UsedCells:
    """The places of which something is known.

    Attributes:
        margin: above which a rate is of a place that is used.
        places: by shape, row and column.
    """

    margin: float
    places: tuple[PlaceUse, ...]

    def mask(self, shape: Shape, verdict: str) -> BoolArray:
        """The cells of worlds of a shape with a verdict, [rows, columns].

        Of cells at which nothing was tried the verdict is "unknown".
        """
        out = np.full(shape, verdict == UNKNOWN)
        for place in self.places:
            if place.shape == shape:
                out[place.cell] = place.verdict == verdict
        return out

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many places have each verdict."""
        verdicts = [place.verdict for place in self.places]
        return {verdict: verdicts.count(verdict) for verdict in (USED, NOT_USED, UNKNOWN)}

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "margin": self.margin,
            "counts": self.counts,
            "places": [place.to_json() for place in self.places],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> UsedCells:
        """The places that `to_json` was of; KeyError if an entry is missing."""
        return cls(value["margin"], tuple(map(PlaceUse.from_json, value["places"])))


def used_cells(outcomes: Iterable[Outcome], *, margin: float = MARGIN) -> UsedCells:
    """Pool what became of decisions by the place of the cell that was changed.

    Args:
        outcomes: of one intervention and one half of the grids. Cells that were not needed and
            decisions that were wrong before say nothing and are left out.
        margin: the rate above which a place is used, in (0, 1).
    """
    if not 0.0 < margin < 1.0:
        raise InvalidParameterError(f"margin is {margin!r}, expected a rate between 0 and 1")
    by_place: dict[Place, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.counts and outcome.cell.needed:
            by_place.setdefault((outcome.shape, outcome.cell.cell), []).append(outcome)
    names = sorted(by_place)
    decisions = np.array([len(by_place[name]) for name in names], dtype=float)
    flips = np.array([sum(o.flipped for o in by_place[name]) for name in names], dtype=float)
    rates = _Rates.of(flips, decisions)
    return UsedCells(
        margin,
        tuple(
            PlaceUse(
                shape,
                cell,
                int(decisions[number]),
                int(flips[number]),
                sum(outcome.as_if_changed for outcome in by_place[shape, cell]),
                rates.mean(number),
                (rates.quantile(number, 0.025), rates.quantile(number, 0.975)),
                1.0 - rates.below(number, margin),
            )
            for number, (shape, cell) in enumerate(names)
        ),
    )


def tried_of(outcomes: Iterable[Outcome]) -> tuple[Tried, ...]:
    """The outcomes by which places are told; see `used_cells`."""
    return tuple(
        Tried(outcome.grid, outcome.shape, outcome.cell.cell, outcome.flipped)
        for outcome in outcomes
        if outcome.counts and outcome.cell.needed
    )


def probably_used(
    tried: Iterable[Tried], *, margin: float = MARGIN
) -> tuple[dict[Place, float], float]:
    """The probability that each place is used, and that of a place at which nothing was tried.

    Of a place that is used or not used by its verdict it is 1 or 0.
    """
    counts: dict[Place, list[int]] = {}
    for each in tried:
        count = counts.setdefault((each.shape, each.cell), [0, 0])
        count[0] += each.flipped
        count[1] += 1
    # The last one is of a place without a decision.
    flips, decisions = np.array([*counts.values(), [0, 0]], dtype=float).T
    rates = _Rates.of(flips, decisions)
    above = [1.0 - rates.below(number, margin) for number in range(len(flips))]
    sure = [1.0 if p >= SURE else 0.0 if p <= 1.0 - SURE else p for p in above]
    return dict(zip(counts, sure, strict=False)), sure[-1]


def told_apart(used: Sequence[PlaceUse], unused: Sequence[PlaceUse]) -> Estimate:
    """The area under the curve of the rates of places that are known to be used and not to be.

    Args:
        used: places that an agent was made to act on.
        unused: places that an agent, maybe another one, was made not to act on.

    Returns:
        With an interval over places, of which those of both agents go together.
    """
    names = sorted({(place.shape, place.cell) for place in [*used, *unused]})
    number = {name: at for at, name in enumerate(names)}
    return clustered_area(
        [place.rate for place in used],
        [place.rate for place in unused],
        [number[place.shape, place.cell] for place in used],
        [number[place.shape, place.cell] for place in unused],
    )


@dataclass(frozen=True, eq=False)
class _Rates:
    """The posterior of the rates of P places: a mixture of M Beta distributions.

    Attributes:
        first: parameter, [M, P]; there is one for each pair of a mean and a size.
        second: parameter, [M, P].
        weights: of the pairs, [M].
    """

    first: FloatArray
    second: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, flips: FloatArray, decisions: FloatArray) -> _Rates:
        from scipy.special import betaln

        means, sizes = (each.reshape(-1, 1) for each in np.meshgrid(_MEANS, _SIZES))
        first, second = means * sizes + flips, (1 - means) * sizes + decisions - flips
        evidence = betaln(first, second) - betaln(means * sizes, (1 - means) * sizes)
        nats = evidence.sum(axis=1)
        weights = np.exp(nats - nats.max())
        return cls(first, second, weights / weights.sum())

    def mean(self, place: int) -> float:
        first, second = self.first[:, place], self.second[:, place]
        return float(self.weights @ (first / (first + second)))

    def below(self, place: int, rate: float) -> float:
        """The probability that a rate is lower."""
        from scipy.special import betainc

        share = betainc(self.first[:, place], self.second[:, place], rate)
        return float(np.clip(self.weights @ share, 0.0, 1.0))

    def quantile(self, place: int, level: float) -> float:
        """By bisection, since a mixture has no quantiles in closed form."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(place, middle) < level else (low, middle)
        return (low + high) / 2
