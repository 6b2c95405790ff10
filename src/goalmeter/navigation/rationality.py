"""Fit one rationality to the trajectories of many worlds, from the evidence at each rationality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.conversions import GOAL_UTILITY, TabularWorld
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.statistics.clusters import Estimate, estimate_of_sums
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward
from goalmeter.tabular.policies import rewards_of
from goalmeter.tabular.transition import Block

# --- Fits -----------------------------------------------------------------------------------------
# The fit is to the mean over the walks of a grid, the grids of a kind and kinds, as any average of
# navigation. Intervals are over grids, and fit again without each of them. The rationality is the
# best of a list; between neighbours that are alike a parabola in its logarithm is taken.
#
# A utility and its negation have the same goal-directedness, so nats are given a sign: below 0 the
# fitted rationality is, and the agent keeps away from the thing.

# Utilities are 0 or 1 at a step. At the least of these sizes the evidence of a walk is nothing, at
# the greatest a wrong step comes up once in 10¹³.
SIZES = np.geomspace(0.002, 30.0, 101)
RATIONALITIES = np.concatenate([[-np.inf], -SIZES[::-1], [0.0], SIZES, [np.inf]])
_CHI_SQUARE = 3.841  # 95% of it, with one degree of freedom
# Ratios of neighbours that differ by less are the same ratio, but for rounding.
_ALIKE = 1e-9


class Curves(NamedTuple):
    """The evidence of N walks at G rationalities.

    Attributes:
        rationalities: those that were tried, in rising order, [G].
        nats: the evidence at each of them, [N, G].
    """

    rationalities: FloatArray
    nats: FloatArray


class RationalityFit(NamedTuple):
    """The rationalities at which curves are highest, [...]; 0 where none explains anything.

    Attributes:
        top: index of the best of the list.
        offset: how far from it the best of all is, in steps of the list there.
    """

    top: IntArray
    offset: FloatArray


class Clusters(Protocol):
    """Which walks are of one grid, and which grids of one kind, as `Grids` has it."""

    @property
    def cluster(self) -> IntArray:
        """Number of the grid of each walk, from 0 without gaps, [N]."""

    @property
    def strata(self) -> IntArray:
        """The kind of each grid."""

    def __len__(self) -> int:
        """How many grids there are."""


@dataclass(frozen=True)
class GoalFit(JsonFields):
    """How far the wish for one thing explains the walks.

    Attributes:
        nats: a walk, corrected for the bias of a fit; below 0 if the agent keeps away from it.
        share: of `maximum`; with the same sign.
        maximum: nats a walk if every decision were explained: log 4 each.
        rationality: that of the fit, nats that a step of having it is worth; infinite where no
            decision speaks against.
    """

    nats: Estimate
    share: Estimate
    maximum: float
    rationality: float


def goal_fit(grids: Grids, curves: Curves, most: FloatArray) -> GoalFit:
    """The best fit to the evidence of walks that could have given `most`, nats, [N]."""
    kinds = len(np.unique(grids.strata))
    mean = _by_grid(grids, np.column_stack([curves.nats, most])).sum(axis=0) / kinds
    best = best_fit(mean[:-1], curves.rationalities)
    maximum = float(mean[-1])
    seen = fitted(grids, [curves], lambda nats: nats)
    # A grid that was not seen may tell nothing of the wish, or all. Where the fit is not told
    # from chance, with one observation a grid, it may as well tell the opposite.
    beyond_chance = 2.0 * seen.clusters * abs(seen.value) >= _CHI_SQUARE
    low = 0.0 if beyond_chance and seen.value > 0 else -1.0
    high = 0.0 if beyond_chance and seen.value < 0 else 1.0
    # Walks of an unseen grid may be longer than those that were seen, as long as caps let them.
    most_of_any = float(np.log(len(ACTIONS))) * max(walk.cap for walk in grids.seen.trajectories)
    return GoalFit(
        nats=fitted(
            grids, [curves], lambda nats: nats, bounds=(low * most_of_any, high * most_of_any)
        ),
        share=fitted(
            grids,
            [curves],
            lambda nats, most: nats / np.where(most > 0, most, np.nan),
            most,
            bounds=(low, high),
        ),
        maximum=maximum,
        rationality=float(rationality_of(best, curves.rationalities)),
    )


def fit_tops(grids: Clusters, curves: Curves) -> IntArray:
    """Indices of the rationalities that are best for all walks, and without each of the grids."""
    # An interval fits again without each grid, so those fits need their rationalities listed too.
    sums = _by_grid(grids, curves.nats)
    total = sums.sum(axis=0)
    return np.unique(best_fit(np.vstack([total, total - sums]), curves.rationalities).top)


def fitted(
    grids: Clusters,
    curves: Sequence[Curves],
    combine: Callable[..., FloatArray],
    *columns: FloatArray,
    bounds: tuple[float, float] | None = None,
    paired: bool = False,
) -> Estimate:
    """What is made of one fit or of several, each with a rationality of its own.

    Args:
        grids: of N walks.
        curves: the evidence of the walks, for each fit.
        combine: of the nats of each fit and the means of the columns; all [...].
        columns: of the walks, [N] each.
        bounds: as in `estimate_of_sums`.
        paired: as in `estimate_of_sums`.
    """
    n = len(curves[0].nats)
    nats = [each.nats for each in curves]
    sums = _by_grid(grids, np.column_stack([*nats, *columns, np.ones(n)]))
    total = sums.sum(axis=0)
    ends = np.cumsum([0, *(len(each.rationalities) for each in curves)]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends)]
    lists = [each.rationalities for each in curves]
    fits = [
        best_fit(total[part] / total[-1], each) for part, each in zip(parts, lists, strict=True)
    ]

    def of(totals: FloatArray, fits: Sequence[RationalityFit | None]) -> FloatArray:
        means = totals[..., :-1] / totals[..., -1:]
        fitted_nats = [
            signed_nats(means[..., part], fit, each)
            for part, fit, each in zip(parts, fits, lists, strict=True)
        ]
        return combine(*fitted_nats, *np.moveaxis(means[..., parts[-1].stop :], -1, 0))

    return estimate_of_sums(
        sums,
        lambda totals: of(totals, [None] * len(fits)),
        n=n,
        strata=grids.strata,
        held=lambda totals: of(totals, fits),
        bounds=bounds,
        paired=paired,
    )


def _by_grid(grids: Clusters, columns: FloatArray) -> FloatArray:
    """The mean of columns [N, K] over the walks of each grid, every kind with the same weight."""
    sums = np.zeros((len(grids), columns.shape[1]))
    np.add.at(sums, grids.cluster, columns)
    walks = np.bincount(grids.cluster, minlength=len(grids))
    _, kind, sizes = np.unique(grids.strata, return_inverse=True, return_counts=True)
    return np.asarray(sums / (walks * sizes[kind])[:, None])


# --- The rationality at which evidence is highest -------------------------------------------------
def best_fit(nats: FloatArray, rationalities: FloatArray = RATIONALITIES) -> RationalityFit:
    """The best fit to the evidence at each of some rationalities, [..., G]."""
    zero = int(np.flatnonzero(rationalities == 0)[0])
    top = np.where(nats.max(axis=-1) > 0, nats.argmax(axis=-1), zero)
    slope, bend = _shape(nats, top)
    inner = (_log_steps(rationalities)[top] != 0) & (bend < 0)
    return RationalityFit(top, np.where(inner, -slope / np.where(inner, bend, 1.0), 0.0))


def rationality_of(fit: RationalityFit, rationalities: FloatArray = RATIONALITIES) -> FloatArray:
    """The rationality of a fit as a number, [...]."""
    steps = _log_steps(rationalities)[fit.top] * fit.offset
    return np.asarray(rationalities[fit.top] * np.exp(steps))


def signed_nats(
    nats: FloatArray, fit: RationalityFit | None = None, rationalities: FloatArray = RATIONALITIES
) -> FloatArray:
    """The evidence [..., G] at its best fit, or at another; below 0 where the rationality is.

    Without a fit each curve is read where it is highest.
    """
    top, offset = best_fit(nats, rationalities) if fit is None else fit
    top = np.broadcast_to(top, nats.shape[:-1])
    slope, bend = _shape(nats, top)
    height = np.take_along_axis(nats, top[..., None], axis=-1)[..., 0]
    height = height + np.where(offset == 0, 0.0, slope * offset + 0.5 * bend * offset**2)
    return np.asarray(np.sign(rationalities[top]) * height)


def between(rationalities: FloatArray, tops: IntArray, parts: int) -> FloatArray:
    """Rationalities beside some of a list that have neighbours on either side at one step.

    The steps from `tops`, indices of the list, to both neighbours are divided into parts. Those
    that are not on the list are returned, in rising order.
    """
    log_steps = _log_steps(rationalities)
    inner = np.unique(tops[log_steps[tops] != 0])
    places = np.arange(1 - parts, parts) / parts
    beside = rationalities[inner, None] * np.exp(log_steps[inner, None] * places[places != 0])
    # Windows of neighbours overlap; what is the same but for rounding is there once.
    out: list[float] = []
    for value in np.sort(beside.ravel()).tolist():
        known = np.append(rationalities, out[-1:])
        if not np.isclose(known, value, rtol=_ALIKE, atol=0.0).any():
            out.append(value)
    return np.array(out)


def _log_steps(rationalities: FloatArray) -> FloatArray:
    """The logarithm of the ratio to the next one, where that to the one before is alike; else 0."""
    out = np.zeros(len(rationalities))
    for sign in (-1.0, 1.0):
        places = np.flatnonzero(np.isfinite(rationalities) & (np.sign(rationalities) == sign))
        steps = np.diff(np.log(np.abs(rationalities[places])))
        alike = np.abs(steps[1:] - steps[:-1]) <= _ALIKE
        out[places[1:-1]] = np.where(alike, steps[1:], 0.0)
    return out


def _shape(nats: FloatArray, top: IntArray) -> tuple[FloatArray, FloatArray]:
    """Slope and bend of curves [..., G] around places [...], per step and its square."""
    last = nats.shape[-1] - 1
    below, height, above = (
        np.take_along_axis(nats, at[..., None], axis=-1)[..., 0]
        for at in (np.maximum(top - 1, 0), top, np.minimum(top + 1, last))
    )
    return 0.5 * (above - below), below - 2 * height + above


# --- Evidence -------------------------------------------------------------------------------------
# A walk through a world is a trajectory of its MDP, whose horizon is the cap; the goal absorbs, and
# what comes after it is not seen. One pass through a world serves every agent that walked there and
# every rationality, so that one rationality can be fitted to all worlds, and again without some,
# without planning twice.
#
# An answer that is no action has no place among the actions of an MDP: nothing is explained of it,
# the agent stays, and the time goes on.

# Stands for minus infinity, the evidence of an action that is ruled out, where averages are taken.
RULED_OUT = -1e30
# Into so many parts the steps of the list are divided where fits depend on them.
_PARTS = 8


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a wish says of N walks, at G rationalities.

    Attributes:
        rationalities: in rising order, [G].
        whole: evidence of each walk at each of them, nats, [N, G].
        without: of its decisions until there was nothing left to take, [N, G].
        most: what every decision that can matter could give, nats, [N].
        most_without: the same until there was nothing left to take, [N].
    """

    rationalities: FloatArray
    whole: FloatArray
    without: FloatArray
    most: FloatArray
    most_without: FloatArray

    def curves(self, walks: BoolArray) -> Curves:
        """The evidence of some of the walks, [N]."""
        return Curves(self.rationalities, self.whole[walks])

    def curves_without(self, walks: BoolArray) -> Curves:
        """The same of their decisions until there was nothing left to take."""
        return Curves(self.rationalities, self.without[walks])


def evidence(
    agents: Sequence[Observed], utility: str, rationalities: Sequence[FloatArray] | None = None
) -> list[Evidence]:
    """The evidence of every walk of every agent; 0 where the world has no such utility.

    The utility is one of `tabular_world`: "goal", "key" or "neutral". Every agent has a list of
    rationalities, in rising order; `RATIONALITIES` if there are none.
    """
    lists = [RATIONALITIES] * len(agents) if rationalities is None else rationalities
    columns = [_columns(seen) for seen in agents]
    out = [_nothing(*each) for each in zip(agents, columns, lists, strict=True)]
    places: dict[tuple[GridWorld, int], list[tuple[int, int]]] = {}
    for agent, seen in enumerate(agents):
        for index, walk in enumerate(seen.trajectories):
            if utility == GOAL_UTILITY or getattr(walk.world, utility) is not None:
                places.setdefault((walk.world, walk.cap), []).append((agent, index))
    for (world, cap), visits in places.items():
        steps = [columns[agent].of(index) for agent, index in visits]
        agents_here = {agent for agent, _ in visits}
        every = np.unique(np.concatenate([lists[agent] for agent in agents_here]))
        if not every.size:
            continue
        tabular = tabular_world(world, horizon=cap, utility=utility)
        # Each agent has its own columns, so who else walks there changes nothing for it.
        whole, without = _passes(tabular, steps, every)
        for row, (agent, index) in enumerate(visits):
            chosen = np.searchsorted(every, lists[agent])
            out[agent].whole[index] = whole[row, chosen]
            out[agent].without[index] = without[row, chosen]
    return out


def refined_evidence(
    agents: Sequence[Observed], utility: str, tops: Callable[[int, Evidence], IntArray]
) -> list[Evidence]:
    """The evidence at `RATIONALITIES`, and at more of them around those that fits depend on.

    Where ways are long, evidence is highest in a range of rationality that is narrower than the
    list's steps, and a fit that only knew the list would be off by some hundredths of a nat. `tops`
    gives, for the number of an agent and its evidence, the indices of the rationalities that are
    best for its walks, or for some of them.
    """
    coarse = evidence(agents, utility)
    more = [
        between(RATIONALITIES, tops(number, each), _PARTS) for number, each in enumerate(coarse)
    ]
    beside = evidence(agents, utility, more)
    return [_merged(*both) for both in zip(coarse, beside, strict=True)]


def _merged(coarse: Evidence, beside: Evidence) -> Evidence:
    """Evidence at the rationalities of both, in rising order."""
    order = np.argsort(np.concatenate([coarse.rationalities, beside.rationalities]))
    columns = {
        name: np.concatenate([getattr(part, name) for part in (coarse, beside)], axis=-1)[
            ..., order
        ]
        for name in ("rationalities", "whole", "without")
    }
    return replace(coarse, **columns)


class _Columns(NamedTuple):
    """Steps: of one agent in the order of its walks, or of one walk."""

    number: IntArray  # within the walk, from 0
    state: IntArray
    action: IntArray
    without: BoolArray  # whether there was something left to take
    starts: IntArray  # first step of each walk, and the end

    def of(self, walk: int) -> _Columns:
        steps = slice(self.starts[walk], self.starts[walk + 1])
        number, state, action, without, _ = self
        return _Columns(number[steps], state[steps], action[steps], without[steps], self.starts[:0])


def _columns(seen: Observed) -> _Columns:
    starts = np.concatenate([[0], np.cumsum(seen.length)])
    cells = np.array([walk.world.walls.size for walk in seen.trajectories])
    return _Columns(
        number=np.arange(len(seen.state)) - starts[seen.trajectory],
        state=seen.state,
        action=seen.action,
        # The planner numbers the states in which nothing was taken first.
        without=seen.state < cells[seen.trajectory],
        starts=starts,
    )


def _nothing(seen: Observed, steps: _Columns, rationalities: FloatArray) -> Evidence:
    """No evidence yet, and the most that there could be."""
    caps = np.array([walk.cap for walk in seen.trajectories])
    # What the last decision before the cap leads to is not seen.
    matters = steps.number + 1 < caps[seen.trajectory]
    most, most_without = (
        np.log(len(ACTIONS)) * np.bincount(seen.trajectory[among], minlength=len(caps))
        for among in (matters, matters & steps.without)
    )
    shape = (len(caps), len(rationalities))
    return Evidence(rationalities, np.zeros(shape), np.zeros(shape), most, most_without)


def _passes(
    tabular: TabularWorld, walks: Sequence[_Columns], rationalities: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The evidence of walks through one world, whole and without: [walks, G] each."""
    walk = np.repeat(np.arange(len(walks)), [len(steps.state) for steps in walks])
    number, state, action, without = (
        np.concatenate([steps[column] for steps in walks]) for column in range(4)
    )
    # The decisions without stand there twice, the second time for the other half of the rows.
    twice = [
        np.concatenate([column, column[without]])
        for column in (number, indices_of(tabular, state), action)
    ]
    rows = np.concatenate([walk, walk[without] + len(walks)])
    whole, first = np.split(
        summed_evidence(tabular.mdp, Decisions(rows, *twice), 2 * len(walks), rationalities), 2
    )
    return whole, first


class Decisions(NamedTuple):
    """M decisions in one world, or in several that are one MDP.

    Attributes:
        row: where their evidence is added up, [M]; a row has at most one decision a step.
        number: of the step within the walk, from 0, [M].
        state: index in the MDP, [M].
        action: what was done; `INVALID` for an answer that is no action, [M].
    """

    row: IntArray
    number: IntArray
    state: IntArray
    action: IntArray


def indices_of(tabular: TabularWorld, numbers: IntArray) -> IntArray:
    """The index in a tabular world of states by the planner's numbers; 0 for those it has not."""
    plan = planned(tabular.world)
    index = np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
    for at, place in enumerate(tabular.states):
        if (named := plan.number(place)) < len(index):
            index[named] = at
    return np.asarray(index[numbers])


def summed_evidence(
    mdp: TabularMDP, decisions: Decisions, rows: int, rationalities: FloatArray
) -> FloatArray:
    """The evidence of decisions at each rationality, nats, added up by row: [rows, G].

    Args:
        mdp: the world and its utility.
        decisions: in any order.
        rows: how many there are.
        rationalities: in rising order, [G].
    """
    row, number, state, action = decisions
    made = action != INVALID
    out = np.zeros((rows, len(rationalities)))
    # Problems of one sign share their plan.
    for columns in (rationalities < 0, rationalities >= 0):
        places = np.flatnonzero(columns)
        if not places.size:
            continue
        bounds = slice(places[0], places[-1] + 1)

        def visit(step: int, block: Block, done: Backup, bounds: slice = bounds) -> None:
            inside = made & (number == step) & (state >= block.start) & (state < block.stop)
            out[row[inside], bounds] += done.log_ratio[action[inside], state[inside] - block.start]

        task = problem(mdp, rewards_of(mdp), rationalities[bounds])
        backward(task, visit, derivatives=False)
    return np.maximum(out, RULED_OUT)
