"""Determine which cells an agent uses, and its goal-directedness in the world it believes in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.planner import State, existing, plan
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld, content
from goalmeter.navigation import rationality as fitting
from goalmeter.navigation.rationality import RATIONALITIES, Curves, Decisions, fitted
from goalmeter.navigation.steps import INVALID
from goalmeter.representation.result_rows import row_from
from goalmeter.representation.scenes import Scenes, Shape
from goalmeter.representation.use.trials import TrialOutcome
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import clustered_area
from goalmeter.tabular.mdp import TabularMDP

# --- Used cells -----------------------------------------------------------------------------------
# Each place has a rate: how often a move flips when a needed cell there is changed. Few decisions
# meet one place, so the rates are modelled as draws from one Beta distribution, whose mean and size
# are uncertain and averaged over. Where the places differ, the distribution is learnt to be spread
# out, and a place depends on its own decisions; where all are alike, a place with two decisions is
# judged by the others, and so is one without any.
#
# A place is used (not used) if its rate is above (below) the margin with probability `SURE`.
#
# Source: Gelman et al., Bayesian Data Analysis, section 5.3.

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
    """Return why nothing can be said about a believed world; "" if something can."""
    # Any walks have a MEG on any map.
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append("the map could not be read better than from places alone")
    if places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append("of no cell it could be told whether it is used")
    return ", and ".join(reasons)


# --- Believed world -------------------------------------------------------------------------------
# Where a move depends on what the prompt says of a place, the agent's map has it as the prompt
# does. Where hiding an open cell changes no move, the agent takes the place for open without
# looking, so the believed world is the true one without the walls at unused places. Where the use
# of a place is unknown, maps are drawn by its probability. It is known from other grids only, and
# the decoded map does not enter: its errors would count as the agent's.

MAPS = 32


class PossibleMaps(NamedTuple):
    """K equally likely lists of maps of N decisions, [K][N]; the agent is where it is in truth."""

    maps: Sequence[Sequence[GridWorld]]


def believed_maps(
    scenes: Scenes,
    tried: Sequence[CellTrial],
    uncertain: Mapping[Shape, BoolArray],
    *,
    seed: int = 0,
) -> PossibleMaps:
    """Return the maps that an agent may have; `uncertain` cells by shape have to be looked up."""
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


# --- Goal-directedness ----------------------------------------------------------------------------
# The decisions are the same in the true and in the believed world. In the true world each is one
# step of a walk whose horizon is the cap. In the believed world the agent plans, at every step, on
# the map that it has then and from where it believes to be, for as many decisions as are left. One
# rationality is fitted to the walks in each world, and a difference above 0 says that the agent is
# more directed in its own world: mistaken rather than aimless.
#
# Where it is unknown which of several maps an agent has, its move is predicted by the mean over
# them. Its own map predicts it better, on average, than that mean, so the lower ends of intervals
# are of the mean, and the upper ends at least those of the map on which walks are most directed.
#
# Steps without a map and invalid answers explain nothing, and count among the decisions that could
# have been explained. Any world with the right goal explains much, so compare with `map_controls`.
#
# Source: MEG paper (NeurIPS 2024), Definition 5.2; the believed world is ours.

_MOST_STATES = 4000  # of maps that are planned for together, which take some hundred MB
_PARTS = 8  # of a step of the list of rationalities around a fit, as in `navigation.rationality`
_CHUNK = 512  # decisions whose evidence on several maps is computed at once

Worlds = Sequence[GridWorld | None]
Placed = Sequence[tuple[GridWorld, State] | None]  # maps with the state of the agent, [N]


@dataclass(frozen=True)
class WorldFit(JsonFields):
    """How much of the walks the goal explains in one world."""

    nats: Estimate  # nats a walk, corrected for the bias of a fit
    share: Estimate  # share of the maximum
    rationality: float


@dataclass(frozen=True)
class Believed:
    """Goal-directedness in the true world, in the believed one and in controls."""

    true: WorldFit  # the walks in the world in which they were made
    believed: WorldFit  # the same decisions in the believed worlds
    controls: Mapping[str, WorldFit]  # the same decisions in other worlds, by name
    difference: Estimate  # believed minus true, nats a walk
    beyond: Mapping[str, Estimate]  # believed minus each control, nats a walk
    maximum: float  # nats a walk if every decision were explained
    missing: int  # number of decisions without a believed world

    @property
    def exceeds_controls(self) -> bool:
        """Whether it is above the true world and every control, each with an interval above 0."""
        intervals = [each.interval for each in (self.difference, *self.beyond.values())]
        return bool(self.beyond) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, true and believed as "meg_true" and "meg_believed"."""
        fields = dict(vars(self))
        fits = {"meg_true": fields.pop("true"), "meg_believed": fields.pop("believed")}
        return {**json_value(fits | fields), "exceeds_controls": self.exceeds_controls}


@dataclass(frozen=True, eq=False)
class WalkSteps:
    """Where each of N scenes stands in its walk."""

    walks: IntArray  # number of the walk, [N]
    steps: IntArray  # number of the step in it, from 0, [N]; no step twice
    caps: IntArray  # maximum number of steps of the walk, [N]


def believed_meg(
    scenes: Scenes,
    walk_steps: WalkSteps,
    believed: Worlds | PossibleMaps,
    controls: Mapping[str, Worlds] | None = None,
) -> Believed:
    """Estimate MEG towards the goal in the believed worlds and in the true ones.

    `believed` are the worlds of the N decisions, each with its start where the agent believes to
    be, or None, or several possible maps of each; `controls` are other worlds of them, by name.
    """

    def placed(worlds: Worlds) -> Placed:
        pairs = zip(worlds, scenes.worlds, strict=True)
        return [own if own is None else (own, State(own.start)) for own, _ in pairs]

    walks = _Walks(scenes, walk_steps)
    missing = 0
    if isinstance(believed, PossibleMaps):
        possible = [list(zip(maps, scenes.states, strict=True)) for maps in believed.maps]
        inner, best = walks.curves(possible), walks.curves([max(possible, key=walks.highest)])
    else:
        inner = best = walks.curves([placed(believed)])
        missing = sum(world is None for world in believed)
    curves = {name: walks.curves([placed(each)]) for name, each in (controls or {}).items()}
    curves[""] = walks.curves([list(zip(scenes.worlds, scenes.states, strict=True))])
    fit, highest = walks.fit(inner), walks.fit(best)
    fits = {name: walks.fit(each) for name, each in curves.items()}
    differences = {
        name: _reaching(walks.difference(inner, each), walks.difference(best, each))
        for name, each in curves.items()
    }
    nats, share = _reaching(fit.nats, highest.nats), _reaching(fit.share, highest.share)
    return Believed(
        true=fits.pop(""),
        believed=replace(fit, nats=nats, share=share),
        controls=fits,
        difference=differences.pop(""),
        beyond=differences,
        maximum=float(walks.most.mean()),
        missing=missing,
    )


def _reaching(estimate: Estimate, highest: Estimate) -> Estimate:
    """Return an estimate whose interval reaches at least as high as another's."""
    if estimate.interval is None or highest.interval is None:
        return estimate
    low, high = estimate.interval
    return replace(estimate, interval=(low, max(high, highest.interval[1])))


class _Walks:
    """N decisions of W walks, with the grid of each walk and the stratum (shape) of each grid."""

    def __init__(self, scenes: Scenes, walk_steps: WalkSteps) -> None:
        walks, self.steps, self.caps = walk_steps.walks, walk_steps.steps, walk_steps.caps
        distinct = len(np.unique([walks, self.steps], axis=1).T) == len(scenes)
        if not distinct or ((self.steps < 0) | (self.steps >= self.caps)).any():
            raise InvalidParameterError(
                f"steps of walks are missing, there twice or beyond their caps; expected one of 0 "
                f"to the cap less one for each of {len(scenes)} decisions"
            )
        # Numbers without gaps.
        _, first, self.walks = np.unique(walks, return_index=True, return_inverse=True)
        _, of_grid, self.cluster = np.unique(
            scenes.grids[first], return_index=True, return_inverse=True
        )
        # What the last decision before the cap leads to is not seen.
        matters = self.steps + 1 < self.caps
        # Nats of each walk if all that matters were explained, [W].
        self.most = np.log(len(ACTIONS)) * np.bincount(self.walks[matters], minlength=len(first))
        # Each shape has the same weight, however many grids it has.
        shapes = scenes.shapes[first][of_grid]
        self.strata = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(len(of_grid))
        self.actions = np.array([INVALID if each is None else each for each in scenes.actions])

    def __len__(self) -> int:
        return len(self.strata)

    def curves(self, possible: Sequence[Placed]) -> Curves:
        """Return the evidence at the listed rationalities and at more around the best."""
        coarse = Curves(RATIONALITIES, self.evidence(possible, RATIONALITIES))
        near = fitting.between(RATIONALITIES, fitting.fit_tops(self, coarse), _PARTS)
        tried = np.concatenate([RATIONALITIES, near])
        nats = np.concatenate([coarse.nats, self.evidence(possible, near)], axis=1)
        order = np.argsort(tried)
        return Curves(tried[order], nats[:, order])

    def highest(self, maps: Placed) -> float:
        """Return the evidence at the best of the listed rationalities."""
        return float(self._mean(self.evidence([maps], RATIONALITIES)).max())

    def evidence(self, possible: Sequence[Placed], rationalities: FloatArray) -> FloatArray:
        """Return how well the goal predicts each walk, by the mean over possible maps, [W, G]."""
        count = len(possible)
        if count == 1:
            made = Decisions(self.walks, self.steps, self.steps, self.actions)
            return _evidence(made, self.caps, possible[0], rationalities)
        out = np.zeros((len(self.most), len(rationalities)))
        for rows in np.array_split(np.arange(len(self.walks)), 1 + len(self.walks) // _CHUNK):
            steps, actions, caps = (
                np.tile(each[rows], count) for each in (self.steps, self.actions, self.caps)
            )
            made = Decisions(np.arange(count * len(rows)), steps, steps, actions)
            tried = [maps[row] for maps in possible for row in rows]
            by_map = _evidence(made, caps, tried, rationalities).reshape(count, len(rows), -1)
            mean = np.logaddexp.reduce(by_map, axis=0) - np.log(count)
            np.add.at(out, self.walks[rows], mean)
        return np.maximum(out, fitting.RULED_OUT)

    def fit(self, curves: Curves) -> WorldFit:
        """Fit one rationality to the walks."""
        best = fitting.best_fit(self._mean(curves.nats), curves.rationalities)

        def share(nats: FloatArray, most: FloatArray) -> FloatArray:
            return nats / np.where(most > 0, most, np.nan)

        return WorldFit(
            nats=fitted(self, [curves], lambda nats: nats),
            share=fitted(self, [curves], share, self.most, bounds=(-1.0, 1.0)),
            rationality=float(fitting.rationality_of(best, curves.rationalities)),
        )

    def difference(self, ours: Curves, theirs: Curves) -> Estimate:
        """Estimate the difference of two fits, nats a walk; one by rounding is none."""
        most = float(self.most.max(initial=0.0))

        def less(ours: FloatArray, theirs: FloatArray) -> FloatArray:
            return np.round(ours - theirs, 9)

        return fitted(self, [ours, theirs], less, bounds=(-most, most), paired=True)

    def _mean(self, nats: FloatArray) -> FloatArray:
        """Return the mean over each grid's walks, the grids of a shape, and shapes: [G]."""
        sums = np.zeros((len(self), nats.shape[1]))
        np.add.at(sums, self.cluster, nats)
        means = sums / np.bincount(self.cluster, minlength=len(self))[:, None]
        kinds = [means[self.strata == kind].mean(axis=0) for kind in np.unique(self.strata)]
        return np.asarray(np.mean(kinds, axis=0))


def _evidence(
    made: Decisions, caps: IntArray, maps: Placed, rationalities: FloatArray
) -> FloatArray:
    """Return the evidence of decisions on their maps, nats [rows, G]; their states are set here."""
    out = np.zeros((int(made.row.max()) + 1, len(rationalities)))
    # One plan serves all decisions with one cap, since a plan counts backwards from it.
    for cap in np.unique(caps).tolist():
        numbers = np.flatnonzero(caps == cap).tolist()
        left = deque((number, each) for number in numbers if (each := maps[number]) is not None)
        while left:
            mdp, places = _union(left, cap)
            known = Decisions(*(column[list(places)] for column in made))
            known = known._replace(state=np.array(list(places.values())))
            out += fitting.summed_evidence(mdp, known, len(out), rationalities)
    return out


def _union(
    left: deque[tuple[int, tuple[GridWorld, State]]], horizon: int
) -> tuple[TabularMDP, dict[int, int]]:
    """Join the next maps in one MDP, in which none leads to another; with each decision's state."""
    known: dict[tuple[Any, ...], IntArray] = {}
    successors: list[IntArray] = []
    rewards: list[FloatArray] = []
    places: dict[int, int] = {}
    count = 0
    while left and count <= _MOST_STATES:
        decision, (world, ((row, column), layer)) = left.popleft()
        objects = (world.goal, world.key, world.door, world.neutral)
        name = (world.shape, world.walls.tobytes(), *objects)
        if name not in known:
            planned = plan(world)
            has = existing(planned)
            # Of the planner's states, -1 for those that the map does not have.
            known[name] = np.where(has, np.cumsum(has) - 1 + count, -1)
            successors.append(known[name][planned.plans.successors[0][has]])
            rewards.append((planned.plans.distances[0][has] == 0).astype(float))
            count += int(has.sum())
        rows, columns = world.shape
        places[decision] = int(known[name][(layer * rows + row) * columns + column])
    after = np.concatenate(successors)[..., None]
    transitions = (after, np.ones(after.shape))
    return TabularMDP(transitions, np.concatenate(rewards), horizon=horizon, initial=0), places
