"""Goal-directedness of walks in nats, with one rationality for the walks of many worlds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._files import JsonFields, json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY, TabularWorld
from goalmeter.gridworld.planner import WITHOUT_KEY, planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.statistics.clusters import Estimate, estimate_of_sums
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward
from goalmeter.tabular.policies import rewards_of
from goalmeter.tabular.transition import Block

if TYPE_CHECKING:
    from goalmeter.navigation.measure import Navigation

# --- Fits -----------------------------------------------------------------------------------------
# One rationality is fitted to the average over walks, grids and kinds; intervals are over grids,
# and the fit is repeated without each of them. The rationality is the best of a list; between
# neighbours at equal steps a parabola in its logarithm is taken. A utility and its negation have
# the same goal-directedness, so nats have the sign of the rationality: below 0 the agent avoids the
# object.

# Utilities are 0 or 1 at a step: at the smallest size a walk has no evidence, at the largest a
# wrong step has a probability of 1e-13.
SIZES = np.geomspace(0.002, 30.0, 101)
RATIONALITIES = np.concatenate([[-np.inf], -SIZES[::-1], [0.0], SIZES, [np.inf]])
_CHI_SQUARE = 3.841  # 95% of it, with one degree of freedom
# Tolerance of equal ratios of neighbours.
_ALIKE = 1e-9


class Curves(NamedTuple):
    """Evidence of N walks, nats [N, G], at G rationalities in rising order [G]."""

    rationalities: FloatArray
    nats: FloatArray


class RationalityFit(NamedTuple):
    """Best rationalities of curves, [...]: index in the list, and offset in steps of the list."""

    top: IntArray
    offset: FloatArray


@dataclass(frozen=True)
class GoalFit(JsonFields):
    """Goal-directedness of walks towards one object."""

    nats: Estimate
    share: Estimate  # of `maximum`, with the same sign
    maximum: float  # nats per walk if every decision were explained: log 4 each
    rationality: float


def goal_fit(grids: Grids, curves: Curves, most: FloatArray) -> GoalFit:
    """Fit one rationality to the evidence of walks; `most` is its maximum, nats [N]."""
    kinds = len(np.unique(grids.strata))
    mean = _by_grid(grids, np.column_stack([curves.nats, most])).sum(axis=0) / kinds
    best = best_fit(mean[:-1], curves.rationalities)
    seen = fitted(grids, [curves], lambda nats: nats)
    # An unseen grid may have no evidence, or all. Where the fit is not distinguishable from chance,
    # with one observation per grid, it may as well have the opposite sign.
    beyond_chance = 2.0 * seen.clusters * abs(seen.value) >= _CHI_SQUARE
    low = 0.0 if beyond_chance and seen.value > 0 else -1.0
    high = 0.0 if beyond_chance and seen.value < 0 else 1.0
    # Walks of an unseen grid may be as long as their caps.
    longest = float(np.log(len(ACTIONS))) * float(grids.seen.caps.max())
    return GoalFit(
        nats=fitted(grids, [curves], lambda nats: nats, bounds=(low * longest, high * longest)),
        share=fitted(
            grids,
            [curves],
            lambda nats, most: nats / np.where(most > 0, most, np.nan),
            most,
            bounds=(low, high),
        ),
        maximum=float(mean[-1]),
        rationality=float(rationality_of(best, curves.rationalities)),
    )


def fit_tops(grids: Any, curves: Curves) -> IntArray:
    """Return indices of the rationalities that are best for all walks and without each grid."""
    sums = _by_grid(grids, curves.nats)
    total = sums.sum(axis=0)
    return np.unique(best_fit(np.vstack([total, total - sums]), curves.rationalities).top)


def fitted(
    grids: Any,
    curves: Sequence[Curves],
    combine: Callable[..., FloatArray],
    *columns: FloatArray,
    bounds: tuple[float, float] | None = None,
    paired: bool = False,
) -> Estimate:
    """Estimate a function of one fit or several, each with its own rationality."""
    n = len(curves[0].nats)
    sums = _by_grid(grids, np.column_stack([*(c.nats for c in curves), *columns, np.ones(n)]))
    total = sums.sum(axis=0)
    ends = np.cumsum([0, *(len(each.rationalities) for each in curves)]).tolist()
    parts = [
        (slice(start, stop), each.rationalities)
        for (start, stop), each in zip(pairwise(ends), curves, strict=True)
    ]
    fits = [best_fit(total[part] / total[-1], each) for part, each in parts]

    def of(totals: FloatArray, fits: Sequence[RationalityFit | None]) -> FloatArray:
        means = totals[..., :-1] / totals[..., -1:]
        nats = [
            signed_nats(means[..., part], fit, each)
            for (part, each), fit in zip(parts, fits, strict=True)
        ]
        return combine(*nats, *np.moveaxis(means[..., ends[-1] :], -1, 0))

    return estimate_of_sums(
        sums,
        lambda totals: of(totals, [None] * len(fits)),
        n=n,
        strata=grids.strata,
        held=lambda totals: of(totals, fits),
        bounds=bounds,
        paired=paired,
    )


def _by_grid(grids: Any, columns: FloatArray) -> FloatArray:
    """Mean of columns [N, K] over the walks of each grid, every kind with the same weight."""
    sums = np.zeros((len(grids), columns.shape[1]))
    np.add.at(sums, grids.cluster, columns)
    walks = np.bincount(grids.cluster, minlength=len(grids))
    _, kind, sizes = np.unique(grids.strata, return_inverse=True, return_counts=True)
    return np.asarray(sums / (walks * sizes[kind])[:, None])


# --- Best rationality -----------------------------------------------------------------------------
def best_fit(nats: FloatArray, rationalities: FloatArray = RATIONALITIES) -> RationalityFit:
    """Return the best fit to evidence [..., G]; 0 where no rationality explains anything."""
    zero = int(np.flatnonzero(rationalities == 0)[0])
    top = np.where(nats.max(axis=-1) > 0, nats.argmax(axis=-1), zero)
    slope, bend = _shape(nats, top)
    inner = (_log_steps(rationalities)[top] != 0) & (bend < 0)
    return RationalityFit(top, np.where(inner, -slope / np.where(inner, bend, 1.0), 0.0))


def rationality_of(fit: RationalityFit, rationalities: FloatArray = RATIONALITIES) -> FloatArray:
    """Return the rationality of a fit, [...]."""
    steps = _log_steps(rationalities)[fit.top] * fit.offset
    return np.asarray(rationalities[fit.top] * np.exp(steps))


def signed_nats(
    nats: FloatArray, fit: RationalityFit | None = None, rationalities: FloatArray = RATIONALITIES
) -> FloatArray:
    """Return the evidence [..., G] at a fit, by default the best, with the rationality's sign."""
    top, offset = best_fit(nats, rationalities) if fit is None else fit
    top = np.broadcast_to(top, nats.shape[:-1])
    slope, bend = _shape(nats, top)
    height = np.take_along_axis(nats, top[..., None], axis=-1)[..., 0]
    height = height + np.where(offset == 0, 0.0, slope * offset + 0.5 * bend * offset**2)
    return np.asarray(np.sign(rationalities[top]) * height)


def between(rationalities: FloatArray, tops: IntArray, parts: int) -> FloatArray:
    """Divide the steps from `tops` (indices of a list) to their neighbours into parts."""
    log_steps = _log_steps(rationalities)
    inner = np.unique(tops[log_steps[tops] != 0])
    places = np.arange(1 - parts, parts) / parts
    candidates = rationalities[inner, None] * np.exp(log_steps[inner, None] * places[places != 0])
    # Windows of neighbours overlap, up to rounding.
    out: list[float] = []
    for value in np.sort(candidates.ravel()).tolist():
        known = np.append(rationalities, out[-1:])
        if not np.isclose(known, value, rtol=_ALIKE, atol=0.0).any():
            out.append(value)
    return np.array(out)


def _log_steps(rationalities: FloatArray) -> FloatArray:
    """Logarithm of the ratio to the next one, where that to the previous is the same; else 0."""
    out = np.zeros(len(rationalities))
    for sign in (-1.0, 1.0):
        places = np.flatnonzero(np.isfinite(rationalities) & (np.sign(rationalities) == sign))
        steps = np.diff(np.log(np.abs(rationalities[places])))
        alike = np.abs(steps[1:] - steps[:-1]) <= _ALIKE
        out[places[1:-1]] = np.where(alike, steps[1:], 0.0)
    return out


def _shape(nats: FloatArray, top: IntArray) -> tuple[FloatArray, FloatArray]:
    """Slope and curvature of curves [..., G] at places [...], per step and its square."""
    last = nats.shape[-1] - 1
    below, height, above = (
        np.take_along_axis(nats, at[..., None], axis=-1)[..., 0]
        for at in (np.maximum(top - 1, 0), top, np.minimum(top + 1, last))
    )
    return 0.5 * (above - below), below - 2 * height + above


# --- Evidence -------------------------------------------------------------------------------------
# A walk is a trajectory of the MDP of its world, with the cap as the horizon and an absorbing goal.
# One pass through a world serves every agent and every rationality. An invalid answer is no action
# of the MDP: it has no evidence, and a step passes.

RULED_OUT = -1e30  # instead of minus infinity, where averages are taken
_PARTS = 8  # of a step of the list, where fits depend on it


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence of N walks for a utility at G rationalities, nats."""

    rationalities: FloatArray  # in rising order, [G]
    whole: FloatArray  # of all decisions, [N, G]
    without: FloatArray  # of the decisions until the object was taken, [N, G]
    most: FloatArray  # maximum over the decisions that can matter, [N]
    most_without: FloatArray  # the same until the object was taken, [N]

    def curves(self, walks: BoolArray) -> Curves:
        """Return the evidence of a subset of the walks, by a mask [N]."""
        return Curves(self.rationalities, self.whole[walks])

    def curves_without(self, walks: BoolArray) -> Curves:
        """Return the same of their decisions until the object was taken."""
        return Curves(self.rationalities, self.without[walks])


def evidence(
    agents: Sequence[Observed], utility: str, rationalities: Sequence[FloatArray] | None = None
) -> list[Evidence]:
    """Return the evidence of every walk of each agent; 0 in worlds without such an object.

    `utility` is "goal", "key" or "neutral"; `rationalities` are a list for each agent.
    """
    lists = [RATIONALITIES] * len(agents) if rationalities is None else rationalities
    out = [_nothing(*each) for each in zip(agents, lists, strict=True)]
    places: dict[tuple[GridWorld, int], list[tuple[int, int]]] = {}
    for agent, seen in enumerate(agents):
        for index, walk in enumerate(seen.trajectories):
            if utility == GOAL_UTILITY or getattr(walk.world, utility) is not None:
                places.setdefault((walk.world, walk.cap), []).append((agent, index))
    for (world, cap), visits in places.items():
        every = np.unique(np.concatenate([lists[agent] for agent in {a for a, _ in visits}]))
        if not every.size:
            continue
        tabular = tabular_world(world, horizon=cap, utility=utility)
        walks = [(agents[agent], index) for agent, index in visits]
        whole, without = _evidence_in(tabular, walks, every)
        for row, (agent, index) in enumerate(visits):
            chosen = np.searchsorted(every, lists[agent])
            out[agent].whole[index] = whole[row, chosen]
            out[agent].without[index] = without[row, chosen]
    return out


def refined_evidence(
    agents: Sequence[Observed], utility: str, tops: Callable[[int, Evidence], IntArray]
) -> list[Evidence]:
    """Return the evidence at `RATIONALITIES` and at more around `tops`, on which fits depend."""
    coarse = evidence(agents, utility)
    more = [
        between(RATIONALITIES, tops(number, each), _PARTS) for number, each in enumerate(coarse)
    ]
    out = []
    for parts in zip(coarse, evidence(agents, utility, more), strict=True):
        order = np.argsort(np.concatenate([part.rationalities for part in parts]))
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts], axis=-1)[..., order]
            for name in ("rationalities", "whole", "without")
        }
        out.append(replace(parts[0], **joined))
    return out


def _nothing(seen: Observed, rationalities: FloatArray) -> Evidence:
    """Zero evidence with its maximum."""
    starts = np.cumsum(seen.length) - seen.length
    number = np.arange(len(seen.state)) - starts[seen.trajectory]
    # What the last decision before the cap leads to is not seen.
    matters = number + 1 < seen.caps[seen.trajectory]
    most, most_without = (
        np.log(len(ACTIONS)) * np.bincount(seen.trajectory[among], minlength=len(seen.length))
        for among in (matters, matters & (seen.layer == WITHOUT_KEY))
    )
    shape = (len(seen.length), len(rationalities))
    return Evidence(rationalities, np.zeros(shape), np.zeros(shape), most, most_without)


def _evidence_in(
    tabular: TabularWorld, walks: Sequence[tuple[Observed, int]], rationalities: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Evidence of walks through one world, whole and until the object was taken: [walks, G]."""
    parts = []
    for place, (seen, index) in enumerate(walks):
        steps = seen.steps_of(index)
        states, numbers = seen.state[steps], np.arange(steps.stop - steps.start)
        columns = (np.full_like(numbers, place), numbers, states, seen.action[steps])
        parts.append((*columns, states < seen.cells[index]))
    row, number, state, action, without = map(np.concatenate, zip(*parts, strict=True))
    state = indices_of(tabular, state)
    # Decisions without the object are listed twice, again for the other half of the rows.
    twice = ((row, row + len(walks)), (number, number), (state, state), (action, action))
    decisions = Decisions(*(np.concatenate([whole, part[without]]) for whole, part in twice))
    nats = summed_evidence(tabular.mdp, decisions, 2 * len(walks), rationalities)
    return nats[: len(walks)], nats[len(walks) :]


class Decisions(NamedTuple):
    """M decisions in one MDP: row of the sum, step within the walk, state, action; [M] each.

    A row has at most one decision per step; an invalid answer is `INVALID`.
    """

    row: IntArray
    number: IntArray
    state: IntArray
    action: IntArray


def indices_of(tabular: TabularWorld, numbers: IntArray) -> IntArray:
    """Return the indices in a tabular world of states by the planner's numbers; 0 if missing."""
    plan = planned(tabular.world)
    index = np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
    for at, place in enumerate(tabular.states):
        if (named := plan.number(place)) < len(index):
            index[named] = at
    return np.asarray(index[numbers])


def summed_evidence(
    mdp: TabularMDP, decisions: Decisions, rows: int, rationalities: FloatArray
) -> FloatArray:
    """Return the evidence of decisions at each rationality, nats, added up by row: [rows, G]."""
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


# --- Goals ----------------------------------------------------------------------------------------
# One rationality is fitted to all walks of an agent. Goal and key are compared on the decisions
# until the key is taken, where both can explain something.


@dataclass(frozen=True)
class Directedness:
    """Goal-directedness of an agent in worlds under one condition."""

    agent: str
    reference: bool  # whether it is a baseline agent
    condition: str  # as JSON
    silent: int  # number of invalid answers, which have no evidence
    thing: str | None  # "key", "neutral" or None: the object in these worlds
    goal: GoalFit  # towards the goal, whole walks
    goal_without: GoalFit | None  # until the object is taken; None where there is none
    towards_thing: GoalFit | None  # towards the object, until it is taken
    difference: Estimate | None  # `goal_without` less `towards_thing`, nats per walk

    @property
    def larger(self) -> str | None:
        """Which explains more of the decisions until the object is taken; None if inconclusive."""
        # The intervals of the difference and of the larger one must exclude 0.
        low, high = (self.difference and self.difference.interval) or (0.0, 0.0)
        name, fit = self.thing, self.towards_thing
        if low > 0:
            name, fit = GOAL_UTILITY, self.goal_without
        interval = fit and fit.nats.interval
        return name if not low <= 0 <= high and interval and interval[0] > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        plain = {name: json_value(value) for name, value in vars(self).items()}
        del plain["reference"]
        return plain | {"condition": json.loads(self.condition), "larger": self.larger}


def directedness(
    results: Sequence[Navigation], *, progress: Callable[[str], None] | None = None
) -> list[Directedness]:
    """Measure every agent under every condition, in grids as they were generated."""
    if progress is not None:
        progress("goal-directedness")
    seen = [
        result.seen.where(np.array([w.transform is None for w in result.seen.trajectories]))
        for result in results
    ]

    def tops(number: int, coarse: Evidence) -> IntArray:
        """Indices of the rationalities that the fits to an agent's walks depend on."""
        out: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        for _, under in _conditions(seen[number]):
            grids = Grids(seen[number].where(under))
            curves = (coarse.curves(under), coarse.curves_without(under))
            out += [fit_tops(grids, each) for each in curves]
        return np.unique(np.concatenate(out))

    utilities = (GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY)
    goal, *objects = (refined_evidence(seen, name, tops) for name in utilities)
    out = []
    for i, (result, walks) in enumerate(zip(results, seen, strict=True)):
        of_objects = dict(zip(utilities[1:], (each[i] for each in objects), strict=True))
        for condition, under in _conditions(walks):
            fits = _fits(walks.where(under), under, goal[i], of_objects)
            out.append(Directedness(result.agent, result.reference, condition, *fits))
    return out


def _fits(
    walks: Observed, under: BoolArray, goal: Evidence, objects: dict[str, Evidence]
) -> tuple[Any, ...]:
    """The last fields of `Directedness`, for the walks of one agent under one condition."""
    grids = Grids(walks)
    world = walks.trajectories[0].world
    name = next((name for name in objects if getattr(world, name) is not None), None)
    without, to_object, difference = None, None, None
    if name is not None:
        curves = goal.curves_without(under), objects[name].curves_without(under)
        without, to_object = (goal_fit(grids, c, goal.most_without[under]) for c in curves)
        most = max(without.maximum, to_object.maximum)

        def less(to_goal: FloatArray, to_object: FloatArray) -> FloatArray:
            return np.round(to_goal - to_object, 9)

        difference = fitted(grids, curves, less, bounds=(-most, most), paired=True)
    silent = int((walks.action == INVALID).sum())
    whole = goal_fit(grids, goal.curves(under), goal.most[under])
    return silent, name, whole, without, to_object, difference


def _conditions(seen: Observed) -> list[tuple[str, BoolArray]]:
    """Each condition, as JSON, with a mask of its walks, [N]."""
    conditions = np.array([seen.kinds[kind].condition for kind in seen.kind])
    return [(name, conditions == name) for name in dict.fromkeys(conditions.tolist())]
