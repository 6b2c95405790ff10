"""Estimate goal-directedness in the world that an agent believes in.

The decisions are the same in the true and in the believed world. In the true world each is one step
of a walk whose horizon is the cap. In the believed world the agent plans, at every step, on the map
that it has at that step and from the place where it believes to be, for as many decisions as are
left. One rationality is fitted to the walks in each world, and a difference above 0 says that the
agent is more directed in its own world: mistaken rather than aimless.

Where it is unknown which of several maps an agent has, its move is predicted by the mean over them.
An agent's own map predicts it better, on average, than that mean, so the lower ends of intervals
are of the mean, and the upper ends at least those of the map on which the walks are most directed.

Steps without a map and invalid answers explain nothing, and count among the decisions that could
have been explained. Any world with the right goal explains much, so compare with `map_controls`.

Source: MEG paper (NeurIPS 2024), Definition 5.2; the believed world is ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.planner import State, existing, plan
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.navigation.rationality import (
    RATIONALITIES,
    RULED_OUT,
    Curves,
    Decisions,
    best_fit,
    between,
    fit_tops,
    fitted,
    rationality_of,
    summed_evidence,
)
from goalmeter.navigation.steps import INVALID
from goalmeter.representation.scenes import Scenes
from goalmeter.statistics.clusters import Estimate
from goalmeter.tabular.mdp import TabularMDP

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


class PossibleMaps(NamedTuple):
    """K equally likely lists of maps of N decisions, [K][N]; the agent is where it is in truth."""

    maps: Sequence[Sequence[GridWorld]]


def believed_meg(
    scenes: Scenes,
    walk_steps: WalkSteps,
    believed: Worlds | PossibleMaps,
    controls: Mapping[str, Worlds] | None = None,
) -> Believed:
    """Estimate MEG towards the goal in the believed worlds and in the true ones.

    Args:
        scenes: N decisions in their true worlds.
        walk_steps: where they stand in their walks.
        believed: the world of each decision, its start where the agent believes to be; None where
            there is none, [N]. Or several possible maps of each.
        controls: other worlds of the same decisions, by name.
    """

    def placed(name: str, worlds: Worlds) -> Placed:
        if len(worlds) != len(scenes):
            raise InvalidParameterError(
                f"there are {len(worlds)} worlds of {name} for {len(scenes)} decisions, expected "
                f"one each"
            )
        return [world if world is None else (world, State(world.start)) for world in worlds]

    walks = _Walks(scenes, walk_steps)
    missing = 0
    if isinstance(believed, PossibleMaps):
        possible = [list(zip(maps, scenes.states, strict=True)) for maps in believed.maps]
        inner, best = walks.curves(possible), walks.curves([max(possible, key=walks.highest)])
    else:
        inner = best = walks.curves([placed("believed", believed)])
        missing = sum(world is None for world in believed)
    curves = {name: walks.curves([placed(name, each)]) for name, each in (controls or {}).items()}
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
        if len(np.unique([walks, self.steps], axis=1).T) != len(scenes):
            raise InvalidParameterError(
                f"there are steps of walks that are missing or there twice, expected one for each "
                f"of {len(scenes)} decisions"
            )
        if (bad := np.flatnonzero((self.steps >= self.caps) | (self.steps < 0))).size:
            raise InvalidParameterError(
                f"decision {bad[0]} is step {self.steps[bad[0]]} of a walk of at most "
                f"{self.caps[bad[0]]} steps, expected 0 to the cap less one"
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
        near = between(RATIONALITIES, fit_tops(self, coarse), _PARTS)
        # Nothing is explained at any rationality.
        if not near.size:
            return coarse
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
        return np.maximum(out, RULED_OUT)

    def fit(self, curves: Curves) -> WorldFit:
        """Fit one rationality to the walks."""
        best = best_fit(self._mean(curves.nats), curves.rationalities)

        def share(nats: FloatArray, most: FloatArray) -> FloatArray:
            return nats / np.where(most > 0, most, np.nan)

        return WorldFit(
            nats=fitted(self, [curves], lambda nats: nats),
            share=fitted(self, [curves], share, self.most, bounds=(-1.0, 1.0)),
            rationality=float(rationality_of(best, curves.rationalities)),
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
            out += summed_evidence(mdp, known, len(out), rationalities)
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
