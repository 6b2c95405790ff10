"""Estimate goal-directedness in the world that an agent believes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
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

# --- Map evidence ---------------------------------------------------------------------------------
# What takes time in a small world is the calls and not the numbers, so hundreds of maps of a few
# cells are planned for at once: as one MDP, in which no map leads to another.

# Of maps that are planned for together, so that what they take stays within some hundred MB.
_MOST_STATES = 4000


def evidence_on_maps(
    walks: IntArray,
    steps: IntArray,
    caps: IntArray,
    actions: IntArray,
    worlds: Sequence[GridWorld | None],
    states: Sequence[State] | None,
    rationalities: FloatArray,
) -> FloatArray:
    """How well the wish for the goal predicts decisions at each rationality, by walk: [W, G] nats.

    Args:
        walks: number of the walk of each decision, from 0 without gaps, [N].
        steps: number of the decision in its walk, [N].
        caps: decisions that a walk has, [N].
        actions: what was done, `INVALID` for an answer that could not be read, [N].
        worlds: the map of each decision; nothing is explained of one without, [N].
        states: where the agent is on its map; its start if not given, [N].
        rationalities: in rising order, [G].
    """
    # One plan serves all decisions with one cap, since a plan counts backwards from it.
    out = np.zeros((int(walks.max()) + 1, len(rationalities)))

    def add(union: _Union, cap: int) -> None:
        if union.decisions:
            chosen = np.array(union.decisions)
            made = Decisions(walks[chosen], steps[chosen], np.array(union.states), actions[chosen])
            out[:] += summed_evidence(union.mdp(cap), made, len(out), rationalities)

    for cap in np.unique(caps).tolist():
        union = _Union()
        for number in np.flatnonzero(caps == cap).tolist():
            if (world := worlds[number]) is not None:
                union.add(number, world, None if states is None else states[number])
            if union.n_states > _MOST_STATES:
                add(union, cap)
                union = _Union()
        add(union, cap)
    return out


class _Union:
    """Several maps as one MDP. Steps on one map share it, wherever the agent is on it."""

    def __init__(self) -> None:
        self.decisions: list[int] = []
        self.states: list[int] = []  # of each decision
        self.n_states = 0
        self._successors: list[IntArray] = []
        self._rewards: list[FloatArray] = []
        self._known: dict[tuple[Any, ...], IntArray] = {}

    def add(self, decision: int, world: GridWorld, state: State | None) -> None:
        """A decision on a map: in a state, or at the map's start."""
        objects = (world.goal, world.key, world.door, world.neutral)
        name = (world.shape, world.walls.tobytes(), *objects)
        if name not in self._known:
            self._known[name] = self._joined(world)
        (row, column), layer = State(world.start) if state is None else state
        rows, columns = world.shape
        self.decisions.append(decision)
        self.states.append(int(self._known[name][(layer * rows + row) * columns + column]))

    def mdp(self, horizon: int) -> TabularMDP:
        """All maps so far."""
        after = np.concatenate(self._successors)[..., None]
        rewards = np.concatenate(self._rewards)
        return TabularMDP((after, np.ones(after.shape)), rewards, horizon=horizon, initial=0)

    def _joined(self, world: GridWorld) -> IntArray:
        """The index of each of the planner's states, -1 for those that the map does not have."""
        planned = plan(world)
        has = existing(planned)
        index = np.where(has, np.cumsum(has) - 1 + self.n_states, -1)
        self._successors.append(index[planned.plans.successors[0][has]])
        self._rewards.append((planned.plans.distances[0][has] == 0).astype(float))
        self.n_states += int(has.sum())
        return index


# --- Believed -------------------------------------------------------------------------------------
# The decisions are the same in both. In the true world each is one step of a walk whose horizon
# is the cap. In the believed world the agent plans, at every step, on the map that it has at that
# step and from the place where it believes to be, for as many decisions as are left; what it then
# does is judged by that plan. So one rationality is fitted to the walks in each world, and the
# difference says whose shortest ways they follow: above 0, the agent is more directed in its own
# world than in the true one, and mistaken rather than aimless.
#
# Where it is not known which of several maps an agent has, its move is predicted by the mean over
# them: one wall that is wrongly taken for open then costs a share of a step, and not a whole
# walk. An agent's own map predicts it better, on average, than a mean over maps does. So the
# lower ends of intervals are of the mean, and the upper ends at least those of the map on which
# the walks are most directed.
#
# Nothing is explained of a step without a map, nor of an answer that could not be read; both stay
# among the decisions that could have been explained. A decoded world has to be compared with worlds
# that are no map of this state as well (`map_controls`): any world with the right goal explains
# much.
#
# Source: MEG paper (NeurIPS 2024), Definition 5.2; the second world is ours.

# As `navigation.directed.evidence` divides the steps of the list around a fit.
_PARTS = 8
# Decisions whose evidence on several maps is held at once.
_CHUNK = 512


@dataclass(frozen=True)
class WorldFit:
    """How far the wish for the goal explains the walks in one world.

    Attributes:
        nats: a walk, corrected for the bias of a fit.
        share: of what there is to explain.
        rationality: that of the fit.
    """

    nats: Estimate
    share: Estimate
    rationality: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "nats": self.nats.to_json(),
            "share": self.share.to_json(),
            "rationality": self.rationality,
        }


@dataclass(frozen=True)
class Believed:
    """Goal-directedness in the true world, in the believed one and in controls.

    Attributes:
        true: the walks in the world in which they were made.
        believed: the same decisions in the believed worlds.
        controls: the same in other worlds, by name.
        difference: believed less true, nats a walk.
        beyond: believed less each control, nats a walk.
        maximum: nats a walk if every decision were explained.
        missing: decisions without a believed world.
    """

    true: WorldFit
    believed: WorldFit
    controls: Mapping[str, WorldFit]
    difference: Estimate
    beyond: Mapping[str, Estimate]
    maximum: float
    missing: int

    @property
    def exceeds_controls(self) -> bool:
        """Whether it is above the true world and every control, each with an interval above 0.

        Above the controls alone is also an agent that knows the true map, or follows a compass.
        """
        intervals = [each.interval for each in (self.difference, *self.beyond.values())]
        return bool(self.beyond) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "meg_true": self.true.to_json(),
            "meg_believed": self.believed.to_json(),
            "controls": {name: each.to_json() for name, each in self.controls.items()},
            "difference": self.difference.to_json(),
            "beyond": {name: each.to_json() for name, each in self.beyond.items()},
            "maximum": self.maximum,
            "missing": self.missing,
            "exceeds_controls": self.exceeds_controls,
        }


@dataclass(frozen=True, eq=False)
class WalkSteps:
    """Where each of N scenes stands in its walk.

    Attributes:
        walks: number of the walk, [N].
        steps: number of the step in it, from 0, [N]; no step twice.
        caps: most steps of the walk, [N].
    """

    walks: IntArray
    steps: IntArray
    caps: IntArray


@dataclass(frozen=True, eq=False)
class PossibleMaps:
    """Maps of N decisions between which it is not known which the agent has.

    Attributes:
        maps: K equally likely lists of worlds, [K][N]. On each map the agent is where it is in
            truth.
    """

    maps: Sequence[Sequence[GridWorld]]

    def __len__(self) -> int:
        return len(self.maps[0])


def believed_meg(
    scenes: Scenes,
    walk_steps: WalkSteps,
    believed: Sequence[GridWorld | None] | PossibleMaps,
    controls: Mapping[str, Sequence[GridWorld | None]] | None = None,
) -> Believed:
    """MEG towards the goal in the believed worlds and in the true ones, on the same decisions.

    Args:
        scenes: N decisions in their true worlds.
        walk_steps: which of them are one walk, and when.
        believed: the world of each decision, its start where the agent believes to be; None where
            there is none, [N]. Or several maps of each.
        controls: other worlds of the same decisions, by name.
    """
    _check(scenes, walk_steps, {"believed": believed, **(controls or {})})
    decisions = _Walks.of(scenes, walk_steps)
    true = decisions.curves(scenes.worlds, scenes.states)
    if isinstance(believed, PossibleMaps):
        inner = decisions.curves_of(
            lambda tried: decisions.averaged(believed, scenes.states, tried)
        )
        best = decisions.curves(decisions.best_of(believed, scenes.states), scenes.states)
        missing = 0
    else:
        inner = best = decisions.curves(believed, None)
        missing = sum(world is None for world in believed)
    others = {name: decisions.curves(worlds, None) for name, worlds in (controls or {}).items()}
    return Believed(
        true=decisions.fit(true),
        believed=_up_to(decisions.fit(inner), decisions.fit(best)),
        controls={name: decisions.fit(curves) for name, curves in others.items()},
        difference=_reaching(decisions.difference(inner, true), decisions.difference(best, true)),
        beyond={
            name: _reaching(decisions.difference(inner, curves), decisions.difference(best, curves))
            for name, curves in others.items()
        },
        maximum=decisions.maximum,
        missing=missing,
    )


@dataclass(frozen=True, eq=False)
class _Clusters:
    """The grids of W walks, as fits ask for them."""

    cluster: IntArray  # [W]
    strata: IntArray  # [grids]

    def __len__(self) -> int:
        return len(self.strata)


@dataclass(frozen=True, eq=False)
class _Walks:
    """The decisions, by walk."""

    walks: IntArray  # [N], from 0 without gaps
    steps: IntArray  # [N]
    caps: IntArray  # [N]
    actions: IntArray  # [N], INVALID for an answer that could not be read
    most: FloatArray  # nats of each walk if all that matters were explained, [W]
    clusters: _Clusters

    @classmethod
    def of(cls, scenes: Scenes, walk_steps: WalkSteps) -> _Walks:
        _, first, walks = np.unique(walk_steps.walks, return_index=True, return_inverse=True)
        grids, of_grid, cluster = np.unique(
            scenes.grids[first], return_index=True, return_inverse=True
        )
        # What the last decision before the cap leads to is not seen.
        matters = walk_steps.steps + 1 < walk_steps.caps
        most = np.log(len(ACTIONS)) * np.bincount(walks[matters], minlength=len(first))
        # A shape is what was chosen, so each has the same weight, however many grids it has.
        shapes = scenes.shapes[first][of_grid]
        strata = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(len(grids))
        actions = [INVALID if action is None else action for action in scenes.actions]
        return cls(
            walks,
            walk_steps.steps,
            walk_steps.caps,
            np.array(actions),
            most,
            _Clusters(cluster, strata),
        )

    @property
    def maximum(self) -> float:
        return float(self.most.mean())

    def curves(self, worlds: Sequence[GridWorld | None], states: Sequence[State] | None) -> Curves:
        """The evidence of each walk on one map a decision."""
        return self.curves_of(lambda tried: self._evidence(worlds, states, tried))

    def curves_of(self, evidence: Callable[[FloatArray], FloatArray]) -> Curves:
        """The evidence of each walk, at a list of rationalities and at more around the best."""
        coarse = Curves(RATIONALITIES, evidence(RATIONALITIES))
        beside = between(RATIONALITIES, fit_tops(self.clusters, coarse), _PARTS)
        # Nothing is explained at any rationality, so there is nowhere to look closer.
        if not beside.size:
            return coarse
        tried = np.concatenate([RATIONALITIES, beside])
        nats = np.concatenate([coarse.nats, evidence(beside)], axis=1)
        order = np.argsort(tried)
        return Curves(tried[order], nats[:, order])

    def _evidence(
        self,
        worlds: Sequence[GridWorld | None],
        states: Sequence[State] | None,
        rationalities: FloatArray,
    ) -> FloatArray:
        return evidence_on_maps(
            self.walks, self.steps, self.caps, self.actions, worlds, states, rationalities
        )

    def best_of(
        self, possible: PossibleMaps, states: Sequence[State]
    ) -> Sequence[GridWorld | None]:
        """The maps on which the walks are most directed."""

        def highest(worlds: Sequence[GridWorld | None]) -> float:
            nats = self._evidence(worlds, states, RATIONALITIES)
            return float(_mean_of_walks(self.clusters, nats).max())

        return max(possible.maps, key=highest)

    def averaged(
        self, possible: PossibleMaps, states: Sequence[State], rationalities: FloatArray
    ) -> FloatArray:
        """The evidence of each walk where each move is predicted by the mean over several maps."""
        out = np.zeros((len(self.most), len(rationalities)))
        for rows in np.array_split(np.arange(len(self.walks)), 1 + len(self.walks) // _CHUNK):
            count = len(possible.maps)
            nats = evidence_on_maps(
                np.arange(count * len(rows)),
                np.tile(self.steps[rows], count),
                np.tile(self.caps[rows], count),
                np.tile(self.actions[rows], count),
                [worlds[row] for worlds in possible.maps for row in rows.tolist()],
                [states[row] for row in rows.tolist()] * count,
                rationalities,
            )
            by_map = nats.reshape(count, len(rows), -1)
            mean = np.logaddexp.reduce(by_map, axis=0) - np.log(count)
            np.add.at(out, self.walks[rows], mean)
        return np.maximum(out, RULED_OUT)

    def fit(self, curves: Curves) -> WorldFit:
        means = _mean_of_walks(self.clusters, curves.nats)
        return WorldFit(
            nats=fitted(self.clusters, [curves], lambda nats: nats),
            share=fitted(
                self.clusters,
                [curves],
                lambda nats, most: nats / np.where(most > 0, most, np.nan),
                self.most,
                bounds=(-1.0, 1.0),
            ),
            rationality=float(
                rationality_of(best_fit(means, curves.rationalities), curves.rationalities)
            ),
        )

    def difference(self, ours: Curves, theirs: Curves) -> Estimate:
        most = float(self.most.max(initial=0.0))
        return fitted(
            self.clusters,
            [ours, theirs],
            # What differs by rounding does not differ.
            lambda ours, theirs: np.round(ours - theirs, 9),
            bounds=(-most, most),
            paired=True,
        )


def _reaching(estimate: Estimate, highest: Estimate) -> Estimate:
    """An estimate whose interval reaches as high as another's."""
    if estimate.interval is None or highest.interval is None:
        return estimate
    low, high = estimate.interval
    return replace(estimate, interval=(low, max(high, highest.interval[1])))


def _up_to(fit: WorldFit, best: WorldFit) -> WorldFit:
    return WorldFit(
        _reaching(fit.nats, best.nats), _reaching(fit.share, best.share), fit.rationality
    )


def _mean_of_walks(clusters: _Clusters, nats: FloatArray) -> FloatArray:
    """Of each grid's walks, of the grids of a shape, of shapes: [G]."""
    sums = np.zeros((len(clusters), nats.shape[1]))
    np.add.at(sums, clusters.cluster, nats)
    means = sums / np.bincount(clusters.cluster, minlength=len(clusters))[:, None]
    kinds = [means[clusters.strata == kind].mean(axis=0) for kind in np.unique(clusters.strata)]
    return np.asarray(np.mean(kinds, axis=0))


def _check(
    scenes: Scenes,
    walk_steps: WalkSteps,
    worlds: Mapping[str, Sequence[GridWorld | None] | PossibleMaps],
) -> None:
    n = len(scenes)
    lengths = {
        "walks": len(walk_steps.walks),
        "steps": len(walk_steps.steps),
        "caps": len(walk_steps.caps),
        **{f"worlds of {name}": len(each) for name, each in worlds.items()},
    }
    for name, length in lengths.items():
        if length != n:
            raise InvalidParameterError(
                f"there are {length} {name} for {n} decisions, expected one each"
            )
    places = np.stack([walk_steps.walks, walk_steps.steps], axis=1)
    if len(np.unique(places, axis=0)) != n:
        raise InvalidParameterError("a step of a walk is there twice, expected each once")
    if (walk_steps.steps >= walk_steps.caps).any() or (walk_steps.steps < 0).any():
        bad = int(np.flatnonzero((walk_steps.steps >= walk_steps.caps) | (walk_steps.steps < 0))[0])
        raise InvalidParameterError(
            f"decision {bad} is step {walk_steps.steps[bad]} of a walk of at most "
            f"{walk_steps.caps[bad]} steps, expected 0 to the cap less one"
        )
