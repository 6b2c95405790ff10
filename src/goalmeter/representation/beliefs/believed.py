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
# The rate of a place is how often a move flips when a needed cell there is changed. Few decisions
# concern one place, so rates are modelled as draws from one Beta distribution; its unknown mean and
# size are marginalised. If places differ, the estimate of a place depends on its own decisions; if
# all are alike, a place with few or no decisions borrows strength from the others.
#
# A place is used (not used) if its rate is above (below) the margin with probability `SURE`.
#
# Source: Gelman et al., Bayesian Data Analysis, section 5.3.

USED, NOT_USED, UNKNOWN = "used", "not used", "unknown"
MARGIN = 0.25
SURE = 0.95
# Means and sizes of the Beta distribution, equally likely a priori. A size is the number of
# decisions to which the other places are equivalent, hence the logarithmic scale.
_MEANS = (np.arange(40) + 0.5) / 40
_SIZES = np.geomspace(0.05, 50.0, 24)

Place = tuple[Shape, Cell]  # in the worlds of one shape


class CellTrial(NamedTuple):
    """Whether the move of a correct decision flipped when a needed cell was changed."""

    grid: str
    shape: Shape
    cell: Cell
    flipped: bool


@dataclass(frozen=True)
class PlaceUse(JsonFields):
    """Use of a place in the worlds of one shape.

    `decisions` counts correct decisions in which the cell was needed and changed; `flips` counts
    those whose move flipped, `as_if_wall` those whose move became optimal as if it were a wall.
    `rate` is the posterior mean of the rate of flips, `interval` its central 95% interval and
    `above` its probability of exceeding the margin.
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
        """Verdict: "used", "not used" or "unknown"."""
        if self.above >= SURE:
            return USED
        return NOT_USED if self.above <= 1.0 - SURE else UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the verdict as JSON values."""
        return super().to_json() | {"verdict": self.verdict}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlaceUse:
        """Return the place with these JSON values."""
        return row_from(cls, value)


@dataclass(frozen=True)
class UsedCells(JsonFields):
    """Use of all places with trials, ordered by shape, row and column."""

    margin: float
    places: tuple[PlaceUse, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of places by verdict."""
        verdicts = [place.verdict for place in self.places]
        return {verdict: verdicts.count(verdict) for verdict in (USED, NOT_USED, UNKNOWN)}

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the counts as JSON values."""
        return super().to_json() | {"counts": self.counts}


def used_cells(outcomes: Iterable[TrialOutcome], *, margin: float = MARGIN) -> UsedCells:
    """Pool the outcomes of one intervention by the place of the changed cell.

    Cells that were not needed, and decisions that were wrong before the intervention, are ignored.
    Places whose rate exceeds the margin are used.
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
    """Return the probability that each place is used (1 or 0 by verdict), and of a new place."""
    by_place: dict[Place, list[bool]] = {}
    for each in tried:
        by_place.setdefault((each.shape, each.cell), []).append(each.flipped)
    # The last one is a place without decisions.
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
    """Posterior of the rates of P places: a mixture of M Beta distributions."""

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
        """Return a quantile by bisection; a mixture has none in closed form."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(place, middle) < level else (low, middle)
        return (low + high) / 2


def unbelieved(gain: Estimate | None, places: Mapping[str, int] | None) -> str:
    """Return why results about a believed world are not interpretable; "" if they are."""
    # MEG is defined for any walks on any map.
    reasons = []
    if gain is None or gain.interval is None or not gain.interval[0] > 0:
        reasons.append("activations do not predict the map better than position alone")
    if places is not None and not any(places.get(each) for each in (USED, NOT_USED)):
        reasons.append("the use of every cell is unknown")
    return ", and ".join(reasons)


# --- Believed world -------------------------------------------------------------------------------
# If moves depend on what the prompt states about a place, the agent's map agrees with the prompt
# there. If hiding an open cell changes no move, the agent assumes that the place is open. The
# believed world is therefore the true one without the walls at unused places. If the use of a place
# is unknown, maps are drawn with its probability. The use is estimated on other grids, and the
# decoded map is not involved: its errors would count as errors of the agent.

MAPS = 32


class PossibleMaps(NamedTuple):
    """K equally likely lists of maps of N decisions, [K][N], with the agent at its true cell."""

    maps: Sequence[Sequence[GridWorld]]


def believed_maps(
    scenes: Scenes,
    tried: Sequence[CellTrial],
    uncertain: Mapping[Shape, BoolArray],
    *,
    seed: int = 0,
) -> PossibleMaps:
    """Return possible maps of the agent; only `uncertain` cells by shape can differ from truth."""
    draws = {
        shape: np.random.default_rng(seed).random((MAPS, *shape)) for shape in sorted(uncertain)
    }
    # Most grids share the trials of the other grids up to one or two decisions.
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
# The decisions in the true and in the believed world are the same. In the true world each is one
# step of a walk whose horizon is the cap. In the believed world the agent plans at every step on
# its map at that time, from its believed position, for the remaining number of decisions. One
# rationality is fitted to the walks in each world. A difference above 0 means that the agent is
# more goal-directed in the believed world: mistaken rather than aimless.
#
# If several maps are possible, moves are predicted by the mean over them. The agent's own map
# predicts its moves better on average than that mean. So the lower bounds of intervals are those
# of the mean, and the upper bounds at least those of the map with the most goal-directed walks.
#
# Steps without a map and invalid answers are unexplained, and count in the maximum. Any world with
# the true goal explains many moves, so compare with `map_controls`.
#
# Source: MEG paper (NeurIPS 2024), Definition 5.2; the believed world is not from the paper.

_MOST_STATES = 4000  # states of maps planned in one MDP, which takes a few hundred MB
_PARTS = 8  # subdivisions of the rationality grid around a fit, as in `navigation.rationality`
_CHUNK = 512  # decisions whose evidence on several maps is computed at once

Worlds = Sequence[GridWorld | None]
Placed = Sequence[tuple[GridWorld, State] | None]  # maps with the state of the agent, [N]


@dataclass(frozen=True)
class WorldFit(JsonFields):
    """Evidence that the walks pursue the goal in one world."""

    nats: Estimate  # nats per walk, corrected for the bias of a fit
    share: Estimate  # share of the maximum
    rationality: float  # fitted rationality


@dataclass(frozen=True)
class Believed:
    """Goal-directedness in the true world, in the believed one and in controls."""

    true: WorldFit  # fit in the true worlds
    believed: WorldFit  # fit of the same decisions in the believed worlds
    controls: Mapping[str, WorldFit]  # fits of the same decisions in other worlds, by name
    difference: Estimate  # believed minus true, in nats per walk
    beyond: Mapping[str, Estimate]  # believed minus each control, in nats per walk
    maximum: float  # nats per walk if every decision were explained
    missing: int  # number of decisions without a believed world

    @property
    def exceeds_controls(self) -> bool:
        """Whether the intervals of the differences to truth and all controls lie above 0."""
        intervals = [each.interval for each in (self.difference, *self.beyond.values())]
        return bool(self.beyond) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, true and believed as "meg_true" and "meg_believed"."""
        fields = dict(vars(self))
        fits = {"meg_true": fields.pop("true"), "meg_believed": fields.pop("believed")}
        return {**json_value(fits | fields), "exceeds_controls": self.exceeds_controls}


@dataclass(frozen=True, eq=False)
class WalkSteps:
    """Walk and step of each of N scenes."""

    walks: IntArray  # number of the walk, [N]
    steps: IntArray  # number of the step in the walk, from 0, [N]; no duplicates
    caps: IntArray  # maximum number of steps of the walk, [N]


def believed_meg(
    scenes: Scenes,
    walk_steps: WalkSteps,
    believed: Worlds | PossibleMaps,
    controls: Mapping[str, Worlds] | None = None,
) -> Believed:
    """Estimate MEG towards the goal in the believed worlds and in the true ones.

    `believed` are the believed worlds of the N decisions (the start is the believed position of
    the agent; None if there is none), or possible maps. `controls` are other worlds by name.
    """

    def placed(worlds: Worlds) -> Placed:
        pairs = zip(worlds, scenes.worlds, strict=True)
        return [own if own is None else (own, State(own.start)) for own, _ in pairs]

    walks = _Walks(scenes, walk_steps)
    missing = 0
    if isinstance(believed, PossibleMaps):
        possible = [list(zip(maps, scenes.states, strict=True)) for maps in believed.maps]
        curve, best = walks.curves(possible), walks.curves([max(possible, key=walks.highest)])
    else:
        curve = best = walks.curves([placed(believed)])
        missing = sum(world is None for world in believed)
    curves = {name: walks.curves([placed(each)]) for name, each in (controls or {}).items()}
    curves[""] = walks.curves([list(zip(scenes.worlds, scenes.states, strict=True))])
    fit, highest = walks.fit(curve), walks.fit(best)
    fits = {name: walks.fit(each) for name, each in curves.items()}
    differences = {
        name: _reaching(walks.difference(curve, each), walks.difference(best, each))
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
    """Return an estimate whose upper bound is at least that of another one."""
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
                f"steps of walks are duplicated or outside 0 to their cap - 1; expected different "
                f"steps within the caps for {len(scenes)} decisions"
            )
        # Renumber walks without gaps.
        _, first, self.walks = np.unique(walks, return_index=True, return_inverse=True)
        _, of_grid, self.cluster = np.unique(
            scenes.grids[first], return_index=True, return_inverse=True
        )
        # The outcome of the last decision before the cap is not observed.
        matters = self.steps + 1 < self.caps
        # Nats of each walk if every decision that matters were explained, [W].
        self.most = np.log(len(ACTIONS)) * np.bincount(self.walks[matters], minlength=len(first))
        # All shapes have the same weight, whatever their numbers of grids.
        shapes = scenes.shapes[first][of_grid]
        self.strata = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(len(of_grid))
        self.actions = np.array([INVALID if each is None else each for each in scenes.actions])

    def __len__(self) -> int:
        return len(self.strata)

    def curves(self, possible: Sequence[Placed]) -> Curves:
        """Return the evidence at the listed rationalities and at further ones around the best."""
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
        """Return the evidence of each walk, averaged over possible maps, in nats [W, G]."""
        count = len(possible)
        if count == 1:
            decisions = Decisions(self.walks, self.steps, self.steps, self.actions)
            return _evidence(decisions, self.caps, possible[0], rationalities)
        out = np.zeros((len(self.most), len(rationalities)))
        for rows in np.array_split(np.arange(len(self.walks)), 1 + len(self.walks) // _CHUNK):
            steps, actions, caps = (
                np.tile(each[rows], count) for each in (self.steps, self.actions, self.caps)
            )
            decisions = Decisions(np.arange(count * len(rows)), steps, steps, actions)
            tried = [maps[row] for maps in possible for row in rows]
            by_map = _evidence(decisions, caps, tried, rationalities).reshape(count, len(rows), -1)
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
        """Estimate the difference of two fits in nats per walk; rounding errors count as 0."""
        most = float(self.most.max(initial=0.0))

        def less(ours: FloatArray, theirs: FloatArray) -> FloatArray:
            return np.round(ours - theirs, 9)

        return fitted(self, [ours, theirs], less, bounds=(-most, most), paired=True)

    def _mean(self, nats: FloatArray) -> FloatArray:
        """Return the mean over the walks of a grid, the grids of a shape, and the shapes, [G]."""
        sums = np.zeros((len(self), nats.shape[1]))
        np.add.at(sums, self.cluster, nats)
        means = sums / np.bincount(self.cluster, minlength=len(self))[:, None]
        kinds = [means[self.strata == kind].mean(axis=0) for kind in np.unique(self.strata)]
        return np.asarray(np.mean(kinds, axis=0))


def _evidence(
    decisions: Decisions, caps: IntArray, maps: Placed, rationalities: FloatArray
) -> FloatArray:
    """Return the evidence of decisions on their maps, in nats [rows, G]; sets their states."""
    out = np.zeros((int(decisions.row.max()) + 1, len(rationalities)))
    # A plan counts backwards from the cap, so decisions with the same cap share one.
    for cap in np.unique(caps).tolist():
        numbers = np.flatnonzero(caps == cap).tolist()
        queue = deque((number, each) for number in numbers if (each := maps[number]) is not None)
        while queue:
            mdp, places = _union(queue, cap)
            known = Decisions(*(column[list(places)] for column in decisions))
            known = known._replace(state=np.array(list(places.values())))
            out += fitting.summed_evidence(mdp, known, len(out), rationalities)
    return out


def _union(
    remaining: deque[tuple[int, tuple[GridWorld, State]]], horizon: int
) -> tuple[TabularMDP, dict[int, int]]:
    """Combine the next maps, unconnected, in one MDP; also return the state of each decision."""
    known: dict[tuple[Any, ...], IntArray] = {}
    successors: list[IntArray] = []
    rewards: list[FloatArray] = []
    places: dict[int, int] = {}
    count = 0
    while remaining and count <= _MOST_STATES:
        decision, (world, ((row, column), layer)) = remaining.popleft()
        objects = (world.goal, world.key, world.door, world.neutral)
        name = (world.shape, world.walls.tobytes(), *objects)
        if name not in known:
            planned = plan(world)
            has = existing(planned)
            # Index of each state of the planner; -1 if the map does not have it.
            known[name] = np.where(has, np.cumsum(has) - 1 + count, -1)
            successors.append(known[name][planned.plans.successors[0][has]])
            rewards.append((planned.plans.distances[0][has] == 0).astype(float))
            count += int(has.sum())
        rows, columns = world.shape
        places[decision] = int(known[name][(layer * rows + row) * columns + column])
    after = np.concatenate(successors)[..., None]
    transitions = (after, np.ones(after.shape))
    return TabularMDP(transitions, np.concatenate(rewards), horizon=horizon, initial=0), places
