"""Determine which cells an agent uses, and the world it believes in by interventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.world import Cell, GridWorld, content
from goalmeter.representation.beliefs.meg import Believed, PossibleMaps, WalkSteps, believed_meg
from goalmeter.representation.scenes import Scenes, Shape
from goalmeter.representation.use.trials import Outcome
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import clustered_area

# --- Used cells -----------------------------------------------------------------------------------
# A single decision tells whether one cell was acted on. Pooled over decisions this becomes a rate
# of each place: how often a move flips when a needed cell there is changed. Few decisions meet
# one place so places borrow from each other: their rates are taken to come from one Beta
# distribution, whose mean and spread are themselves uncertain and are averaged over. Where the
# places differ as those of an agent that does not see some rows, the distribution is learnt to be
# spread out, and a place goes by its own decisions; where all are alike, a place with two
# decisions is told by the others.
#
#     used        the probability that its rate is above the margin is at least `SURE`
#     not used    the probability that it is below is at least `SURE`
#     unknown     otherwise, and wherever nothing was tried
#
# Of a place at which nothing was tried the same distribution tells how likely it is used.
#
# Source: Gelman et al., Bayesian Data Analysis, section 5.3, for rates that come from one Beta
# distribution.

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


# --- Belief ---------------------------------------------------------------------------------------
# Any walks have a MEG on any map. If the decoded map is no better than what places alone tell,
# nothing was read of the agent; and where of no place it is told whether it is used, nothing is
# known of what the agent looks at.

NOT_READ = "the map could not be read better than from places alone"
NO_PLACE = "of no cell it could be told whether it is used"


def unbelieved(gain: Estimate | None, places: Mapping[str, int] | None) -> str:
    """Why nothing can be said of a world that a model believes in; "" if something can.

    That of all cells together it cannot be told whether they are used is no reason: some may be
    used and others not.

    Args:
        gain: bits a cell over position alone at walls of uncertain cells, where maps are decoded;
            None where no uncertain cell was scored.
        places: how many places have each verdict; None where nobody counted them.
    """
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append(NOT_READ)
    if places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append(NO_PLACE)
    return ", and ".join(reasons)


# --- Believed world -------------------------------------------------------------------------------
# Where the move depends on what the prompt says of a place, the agent's map has there what the
# prompt
# says. Where hiding an open cell changes no move that passes through it, the agent takes the place
# for open without having looked. So the believed world is the true one, without the walls at places
# that are not used. Of a place of which neither is told the probability of use is known; maps are
# drawn by it, and the agent's move is predicted by the mean over them.
#
# The decoded map does not enter. A probe of some dozen grids reads the goal wrongly in half of the
# decisions and one uncertain wall in seven, and its errors would count as the agent's: the mouse,
# which has the true map, seems to lose half of its goal-directedness.
#
# Each grid is judged by what was told in the other grids alone.

# Maps that are drawn where it is not told which places are used.
MAPS = 32


@dataclass(frozen=True)
class BelievedByUse:
    """Goal-directedness in the believed world, beside the true one and controls.

    Attributes:
        meg: of all walks.
        changed: share of the decisions at which some believed map is not the true one.
    """

    meg: Believed
    changed: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return self.meg.to_json() | {"changed": self.changed}


def believed_maps(
    scenes: Scenes, tried: Sequence[Tried], uncertain: Mapping[Shape, BoolArray], *, seed: int = 0
) -> PossibleMaps:
    """The maps that an agent may have, by what became of its moves in other grids.

    Args:
        scenes: N decisions in their true worlds.
        tried: decisions that were right before a needed cell was changed.
        uncertain: by shape, the cells that have to be looked up, [rows, columns]; all others are
            known by their place.
        seed: of the maps that are drawn.
    """
    draws = {
        shape: np.random.default_rng(seed).random((MAPS, *shape)) for shape in sorted(uncertain)
    }

    # What differs between grids is a decision or two, so most of them are told the same.
    @cache
    def used(others: tuple[Tried, ...]) -> tuple[dict[Place, float], float]:
        return probably_used(others)

    known: dict[GridWorld, list[GridWorld]] = {}
    for world in scenes.worlds:
        if world in known:
            continue
        if world.shape not in uncertain:
            known[world] = [world] * MAPS
            continue
        grid = content(world)
        others = (each._replace(grid="") for each in tried if each.grid != grid)
        places, untried = used(tuple(sorted(others)))
        share = np.full(world.shape, untried)
        for (shape, cell), probability in places.items():
            if shape == world.shape:
                share[cell] = probability
        looked_up = draws[world.shape] < share
        walls = world.walls & (looked_up | ~uncertain[world.shape])
        distinct: dict[bytes, GridWorld] = {}
        known[world] = [
            distinct.setdefault(each.tobytes(), replace(world, walls=each)) for each in walls
        ]
    return PossibleMaps([[known[world][k] for world in scenes.worlds] for k in range(MAPS)])


def believed_by_use(
    scenes: Scenes,
    walk_steps: WalkSteps,
    tried: Sequence[Tried],
    uncertain: Mapping[Shape, BoolArray],
    *,
    controls: Mapping[str, Sequence[GridWorld | None]] | None = None,
    seed: int = 0,
) -> BelievedByUse:
    """MEG of walks in the world that the agent believes in, and in the true one.

    Args:
        scenes: N decisions in their true worlds.
        walk_steps: which of them are one walk, and when.
        tried: as in `believed_maps`.
        uncertain: as in `believed_maps`.
        controls: other worlds of the same decisions, by name.
        seed: as in `believed_maps`.
    """
    maps = believed_maps(scenes, tried, uncertain, seed=seed)
    changed = [
        any(worlds[row] != world for worlds in maps.maps) for row, world in enumerate(scenes.worlds)
    ]
    return BelievedByUse(
        believed_meg(scenes, walk_steps, maps, controls or {}), float(np.mean(changed))
    )
