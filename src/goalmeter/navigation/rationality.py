"""Goal-directedness of walks in nats, with one rationality fitted to the walks of many worlds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._files import JsonFields, json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY, TabularWorld
from goalmeter.gridworld.planner import WITHOUT_KEY, State, planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.meg.behaviour import LinearClass, behaviour_of
from goalmeter.meg.linear import climb_gradients
from goalmeter.meg.soft_model import SoftModel
from goalmeter.navigation.prompts import PROMPT
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
# One rationality is fitted to the average over walks, grids and kinds. Intervals are over grids:
# the fit is repeated without each grid. It selects the best rationality of a list and refines it
# by a parabola in the logarithm, where neighbours are equally spaced. A utility and its negation
# have equal goal-directedness, so nats carry the sign of the rationality: below 0 the agent avoids
# the object.

# Utilities of a step are 0 or 1. The smallest rationality explains nothing in a walk; at the
# largest a wrong step has probability 1e-13.
SIZES = np.geomspace(0.002, 30.0, 101)
RATIONALITIES = np.concatenate([[-np.inf], -SIZES[::-1], [0.0], SIZES, [np.inf]])
_CHI_SQUARE = 3.841  # 95% quantile, one degree of freedom
_SAME_RATIO = 1e-9  # tolerance for equal ratios of neighbours


class Curves(NamedTuple):
    """Evidence of N walks in nats, [N, G], at G rationalities in rising order, [G]."""

    rationalities: FloatArray
    nats: FloatArray


class RationalityFit(NamedTuple):
    """Best rationalities of curves, [...]: index in the list, and offset in list steps."""

    top: IntArray
    offset: FloatArray


@dataclass(frozen=True)
class GoalFit(JsonFields):
    """Goal-directedness of walks towards one object."""

    nats: Estimate
    share: Estimate  # nats as a share of `maximum`, with the same sign
    maximum: float  # nats per walk if every decision is explained: log 4 each
    rationality: float


def goal_fit(grids: Grids, curves: Curves, most: FloatArray) -> GoalFit:
    """Fit one rationality to the evidence of walks; `most` is the maximum in nats, [N]."""
    kinds = len(np.unique(grids.strata))
    mean = _by_grid(grids, np.column_stack([curves.nats, most])).sum(axis=0) / kinds
    best = best_fit(mean[:-1], curves.rationalities)
    fit = fitted(grids, [curves], lambda nats: nats)
    # An unseen grid may have no evidence, or all. If the fit is not distinguishable from chance,
    # with one observation per grid, an unseen grid may have the opposite sign.
    beyond_chance = 2.0 * fit.clusters * abs(fit.value) >= _CHI_SQUARE
    low = 0.0 if beyond_chance and fit.value > 0 else -1.0
    high = 0.0 if beyond_chance and fit.value < 0 else 1.0
    # Walks through an unseen grid may be as long as their caps.
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
    """Return the indices of the best rationalities for all grids and without each grid."""
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
    """Estimate a function of one or more fits, each with its own rationality."""
    n = len(curves[0].nats)
    sums = _by_grid(grids, np.column_stack([*(c.nats for c in curves), *columns, np.ones(n)]))
    lists = [each.rationalities for each in curves]

    def split(totals: FloatArray) -> list[FloatArray]:
        means = totals[..., :-1] / totals[..., -1:]
        return np.split(means, np.cumsum([len(each) for each in lists]), axis=-1)

    def of(totals: FloatArray, fits: Sequence[RationalityFit | None]) -> FloatArray:
        *nats, rest = split(totals)
        signed = map(signed_nats, nats, fits, lists)
        return combine(*signed, *np.moveaxis(rest, -1, 0))

    fits = [*map(best_fit, split(sums.sum(axis=0)), lists)]
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
    """Return the mean of columns [N, K] over each grid's walks, divided by grids per kind."""
    sums = np.zeros((len(grids), columns.shape[1]))
    np.add.at(sums, grids.cluster, columns)
    walks = np.bincount(grids.cluster, minlength=len(grids))
    _, kind, sizes = np.unique(grids.strata, return_inverse=True, return_counts=True)
    return np.asarray(sums / (walks * sizes[kind])[:, None])


# --- Best rationality -----------------------------------------------------------------------------
def best_fit(nats: FloatArray, rationalities: FloatArray = RATIONALITIES) -> RationalityFit:
    """Return the best fit to evidence [..., G]; rationality 0 where none explains anything."""
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
    """Return evidence [..., G] at a fit, by default the best, with the sign of the rationality."""
    top, offset = best_fit(nats, rationalities) if fit is None else fit
    top = np.broadcast_to(top, nats.shape[:-1])
    slope, bend = _shape(nats, top)
    height = np.take_along_axis(nats, top[..., None], axis=-1)[..., 0]
    height = height + np.where(offset == 0, 0.0, slope * offset + 0.5 * bend * offset**2)
    return np.asarray(np.sign(rationalities[top]) * height)


def between(rationalities: FloatArray, tops: IntArray, parts: int) -> FloatArray:
    """Return rationalities that divide the steps around `tops` (list indices) into parts."""
    log_steps = _log_steps(rationalities)
    inner = np.unique(tops[log_steps[tops] != 0])
    places = np.arange(1 - parts, parts) / parts
    candidates = rationalities[inner, None] * np.exp(log_steps[inner, None] * places[places != 0])
    # Intervals around neighbouring tops overlap, up to rounding.
    values = np.sort(candidates.ravel())
    is_known = (np.abs(rationalities / values[:, None] - 1.0) <= _SAME_RATIO).any(axis=1)
    is_known[1:] |= np.abs(values[:-1] / values[1:] - 1.0) <= _SAME_RATIO
    return np.asarray(values[~is_known])


def _log_steps(rationalities: FloatArray) -> FloatArray:
    """Return the log ratio to the next rationality if the previous ratio is equal, else 0."""
    out = np.zeros(len(rationalities))
    for sign in (-1.0, 1.0):
        places = np.flatnonzero(np.isfinite(rationalities) & (np.sign(rationalities) == sign))
        steps = np.diff(np.log(np.abs(rationalities[places])))
        same = np.abs(steps[1:] - steps[:-1]) <= _SAME_RATIO
        out[places[1:-1]] = np.where(same, steps[1:], 0.0)
    return out


def _shape(nats: FloatArray, top: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return slope and curvature of curves [..., G] at indices [...], per list step."""
    last = nats.shape[-1] - 1
    below, height, above = (
        np.take_along_axis(nats, at[..., None], axis=-1)[..., 0]
        for at in (np.maximum(top - 1, 0), top, np.minimum(top + 1, last))
    )
    return 0.5 * (above - below), below - 2 * height + above


# --- Evidence -------------------------------------------------------------------------------------
# A walk is a trajectory in the MDP of its world, with the cap as horizon and an absorbing goal. One
# pass through a world covers all agents and rationalities. An invalid answer is not an action of
# the MDP: it takes a step and has no evidence.

RULED_OUT = -1e30  # replaces minus infinity in averages
_PARTS = 8  # number of parts of a list step around a fit


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence of N walks for a utility at G rationalities, in nats."""

    rationalities: FloatArray  # in rising order, [G]
    whole: FloatArray  # evidence of all decisions, [N, G]
    without: FloatArray  # evidence of the decisions before the object is taken, [N, G]
    most: FloatArray  # maximum over the decisions that affect the utility, [N]
    most_without: FloatArray  # the same before the object is taken, [N]

    def curves(self, walks: BoolArray) -> Curves:
        """Return the evidence of all decisions for a subset of walks, by a mask [N]."""
        return Curves(self.rationalities, self.whole[walks])

    def curves_without(self, walks: BoolArray) -> Curves:
        """Return the evidence of decisions before the object is taken, by a mask [N]."""
        return Curves(self.rationalities, self.without[walks])


def evidence(
    agents: Sequence[Observed], utility: str, rationalities: Sequence[FloatArray] | None = None
) -> list[Evidence]:
    """Return the evidence of every walk of each agent; 0 in worlds without the object.

    `utility` is "goal", "key" or "neutral"; `rationalities` has one list for each agent.
    """
    lists = [RATIONALITIES] * len(agents) if rationalities is None else rationalities
    out = [_zero_evidence(*each) for each in zip(agents, lists, strict=True)]
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
        row, *columns = decisions_of(tabular, walks)
        layers = [seen.layer[seen.steps_of(index)] for seen, index in walks]
        without = np.concatenate(layers) == WITHOUT_KEY
        # Decisions without the object are repeated for the second half of the rows.
        rows = np.concatenate([row, row[without] + len(walks)])
        repeated = (np.concatenate([each, each[without]]) for each in columns)
        nats = summed_evidence(tabular.mdp, Decisions(rows, *repeated), 2 * len(walks), every)
        for number, (agent, index) in enumerate(visits):
            chosen = np.searchsorted(every, lists[agent])
            out[agent].whole[index] = nats[number, chosen]
            out[agent].without[index] = nats[number + len(walks), chosen]
    return out


def refined_evidence(
    agents: Sequence[Observed], utility: str, tops: Callable[[int, Evidence], IntArray]
) -> list[Evidence]:
    """Return the evidence at `RATIONALITIES` and at additional ones around `tops`."""
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


def _zero_evidence(seen: Observed, rationalities: FloatArray) -> Evidence:
    """Return zero evidence with its maximum."""
    starts = np.cumsum(seen.length) - seen.length
    number = np.arange(len(seen.state)) - starts[seen.trajectory]
    # The last decision before the cap does not affect the utility.
    matters = number + 1 < seen.caps[seen.trajectory]
    most, most_without = (
        np.log(len(ACTIONS)) * np.bincount(seen.trajectory[among], minlength=len(seen.length))
        for among in (matters, matters & (seen.layer == WITHOUT_KEY))
    )
    shape = (len(seen.length), len(rationalities))
    return Evidence(rationalities, np.zeros(shape), np.zeros(shape), most, most_without)


class Decisions(NamedTuple):
    """M decisions in one MDP: row of the sum, step within the walk, state, action; [M] each.

    A row has at most one decision per step; the action of an invalid answer is `INVALID`.
    """

    row: IntArray
    number: IntArray
    state: IntArray
    action: IntArray


def decisions_of(tabular: TabularWorld, walks: Sequence[tuple[Observed, int]]) -> Decisions:
    """Return the decisions of walks (arrays of an agent, index of a walk), one row each."""
    parts = []
    for row, (seen, index) in enumerate(walks):
        steps = seen.steps_of(index)
        numbers = np.arange(steps.stop - steps.start)
        parts.append((np.full_like(numbers, row), numbers, seen.state[steps], seen.action[steps]))
    rows, numbers, states, actions = map(np.concatenate, zip(*parts, strict=True))
    return Decisions(rows, numbers, indices_of(tabular, states), actions)


def indices_of(tabular: TabularWorld, numbers: IntArray) -> IntArray:
    """Return tabular state indices for state numbers of the planner; 0 if a state is missing."""
    plan = planned(tabular.world)
    index = np.zeros(plan.plans.distances.shape[1], dtype=np.int64)
    index[[plan.number(place) for place in tabular.states]] = np.arange(len(tabular.states))
    return np.asarray(index[numbers])


def summed_evidence(
    mdp: TabularMDP,
    decisions: Decisions,
    rows: int,
    rationalities: FloatArray,
    *,
    lapse: float = 0.0,
) -> FloatArray:
    """Return the evidence of decisions at each rationality, in nats, summed by row: [rows, G].

    With a `lapse` the model takes a random action with this probability, so that an action that it
    rules out costs -log(lapse).
    """
    row, number, state, action = decisions
    is_valid = action != INVALID
    out = np.zeros((rows, len(rationalities)))
    # Rationalities of one sign share a plan.
    for columns in (rationalities < 0, rationalities >= 0):
        places = np.flatnonzero(columns)
        if not places.size:
            continue
        bounds = slice(places[0], places[-1] + 1)

        def visit(step: int, block: Block, done: Backup, bounds: slice = bounds) -> None:
            inside = is_valid & (number == step) & (state >= block.start) & (state < block.stop)
            ratio = done.log_ratio[action[inside], state[inside] - block.start]
            if lapse > 0:
                ratio = np.log((1.0 - lapse) * np.exp(ratio) + lapse)
            out[row[inside], bounds] += ratio

        task = problem(mdp, rewards_of(mdp), rationalities[bounds])
        backward(task, visit, derivatives=False)
    return np.maximum(out, RULED_OUT)


# --- Joint world ----------------------------------------------------------------------------------
# Worlds that share their weights are the parts of one MDP whose start is drawn among them, so its
# MEG is their average. Its horizon is the longest cap. A walk that is cut off before the goal has
# the horizon of its own decisions: its part begins with states in which all actions lead on.
# Invalid answers are left out of a walk.


class Place(NamedTuple):
    """A state of a world, with the name of the prompt that describes it."""

    world: GridWorld
    prompt: str
    state: State


@dataclass(frozen=True, eq=False)
class JointWorld:
    """All worlds of N walks as one MDP with S states, the first K of which are places."""

    seen: Observed  # the walks, [N]
    places: tuple[Place, ...]  # [K]
    part: IntArray  # number of the world of each place, [K]
    part_of_walk: IntArray  # [N]
    entrances: IntArray  # state in which each part begins
    successors: IntArray  # [S, A]
    horizon: int
    decisions: Decisions  # of all walks; a row is a walk

    @classmethod
    def of(cls, walks: Observed) -> JointWorld:
        """Join the worlds of walks; walks without a valid answer are left out."""
        seen = walks.where(walks.means(walks.action != INVALID) > 0)
        valid = seen.action != INVALID
        lengths = np.bincount(seen.trajectory[valid], minlength=len(seen.length))
        longest = int(max(seen.caps[seen.arrived].max(initial=0), lengths.max()))
        horizons = np.where(seen.arrived, longest, lengths).tolist()
        parts: dict[tuple[GridWorld, str, int], int] = {}
        part_of_walk = np.array(
            [
                parts.setdefault((w.world, w.condition.get(PROMPT, ""), h), len(parts))
                for w, h in zip(seen.trajectories, horizons, strict=True)
            ]
        )
        tabular = [tabular_world(world, horizon=horizon) for world, _, horizon in parts]
        first = np.cumsum([0, *(len(each.states) for each in tabular)])
        successors = [
            each.mdp.transition.by_action().indices.reshape(len(ACTIONS), -1).T + start
            for each, start in zip(tabular, first, strict=False)
        ]
        # Of each part the states that come before its start, in order.
        delays = np.array([longest - horizon for *_, horizon in parts])
        ends = int(first[-1]) + np.cumsum([0, *delays])
        for (begin, end), start in zip(pairwise(ends.tolist()), first.tolist(), strict=False):
            after = np.array([*range(begin + 1, end), start])[: end - begin]
            successors.append(np.repeat(after[:, None], len(ACTIONS), axis=1))
        columns = []
        for walk, part in enumerate(part_of_walk.tolist()):
            steps = np.arange(len(seen.action))[seen.steps_of(walk)]
            steps = steps[valid[steps]]
            states = indices_of(tabular[part], seen.state[steps]) + first[part]
            numbers = np.arange(len(steps)) + delays[part]
            columns.append((np.full(len(steps), walk), numbers, states, seen.action[steps]))
        return cls(
            seen=seen,
            places=tuple(
                Place(world, prompt, state)
                for (world, prompt, _), each in zip(parts, tabular, strict=True)
                for state in each.states
            ),
            part=np.repeat(np.arange(len(parts)), np.diff(first)),
            part_of_walk=part_of_walk,
            entrances=np.where(delays > 0, ends[:-1], first[:-1]),
            successors=np.concatenate(successors),
            horizon=longest,
            decisions=Decisions(*map(np.concatenate, zip(*columns, strict=True))),
        )

    @cached_property
    def policy(self) -> FloatArray:
        """What the walks do, [H, S, A]; uniform where there is no walk."""
        counts = np.zeros((self.horizon, *self.successors.shape))
        _, step, state, action = self.decisions
        np.add.at(counts, (step, state, action), 1.0)
        total = counts.sum(axis=2, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1.0), 1.0 / len(ACTIONS))

    @cached_property
    def maximum(self) -> FloatArray:
        """Nats of each walk if all decisions that affect a utility are explained, [N]."""
        matters = self.decisions.number + 1 < self.horizon
        counts = np.bincount(self.decisions.row[matters], minlength=len(self.part_of_walk))
        return np.asarray(np.log(len(ACTIONS)) * counts)

    def mdp(self, walks: BoolArray, utility: FloatArray | None = None) -> TabularMDP:
        """Return the MDP of the worlds of some walks [N], with a utility of places [K]."""
        starts = self.entrances[self.part_of_walk[walks]]
        initial = np.bincount(starts, minlength=len(self.successors)) / len(starts)
        reward = np.zeros(len(self.successors))
        if utility is not None:
            reward[: len(utility)] = utility
        next_state = self.successors[..., None]
        transition = next_state, np.ones(next_state.shape)
        return TabularMDP(transition, reward, horizon=self.horizon, initial=initial)


# The weights maximise  f(theta) - PENALTY / 2 |theta|^2  over the training worlds, f their evidence
# in nats per walk, for features of unit variance. As in `meg.linear`, KL(x) + |r(x)|^2 / 2 PENALTY
# of any policy x bounds the maximum; that of the fitted model exceeds the value reached by
# |gradient|^2 / 2 PENALTY. The penalty keeps weights of features finite that no walk tests.

PENALTY = 1e-3


class UtilityFit(NamedTuple):
    """Utility fitted to some walks."""

    utility: FloatArray  # of all places, [K]
    share: float  # evidence of these walks as a share of their maximum
    gap: float  # optimality gap, in nats per walk


def fit_utility(joint: JointWorld, features: FloatArray, walks: BoolArray) -> UtilityFit:
    """Fit a utility linear in features of places [K, D] to the walks in a mask [N]."""
    mdp = joint.mdp(walks)
    matrix = np.pad(features, ((0, mdp.n_states - len(features)), (0, 0)))
    utilities = LinearClass((1, 1, mdp.n_states), matrix, 1.0, "some utility linear in features")
    behaviour = behaviour_of(mdp, [joint.policy])
    start = SoftModel(mdp, utilities, np.zeros(matrix.shape[1]), None, measured=behaviour)
    model = climb_gradients(start, behaviour, PENALTY, {"gtol": 1e-4, "ftol": 1e-14})
    slope = model.gradient(behaviour) - PENALTY * model.theta
    share = model.evidence(behaviour) / float(joint.maximum[walks].mean())
    return UtilityFit(features @ model.theta, share, float(slope @ slope) / (2 * PENALTY))


# --- Goals ----------------------------------------------------------------------------------------
# One rationality is fitted to all walks of an agent. Goal and key are compared on the decisions
# before the key is taken, since only these can be explained by both.


@dataclass(frozen=True)
class Directedness:
    """Goal-directedness of an agent in worlds under one condition."""

    agent: str
    reference: bool  # whether the agent is a baseline
    condition: str  # as JSON
    silent: int  # number of invalid answers, which have no evidence
    thing: str | None  # object in these worlds: "key", "neutral" or None
    goal: GoalFit  # fit to the goal, over whole walks
    goal_without: GoalFit | None  # fit to the goal before the object is taken; None without object
    towards_thing: GoalFit | None  # fit to the object before it is taken
    difference: Estimate | None  # `goal_without` less `towards_thing`, in nats per walk

    @property
    def larger(self) -> str | None:
        """Utility that better explains decisions before the object; None if inconclusive."""
        # The intervals of the difference and of the larger fit must exclude 0.
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
    """Measure goal-directedness of every agent under every condition, in the original frame."""
    if progress is not None:
        progress("goal-directedness")
    seen = [
        result.seen.where(np.array([w.transform is None for w in result.seen.trajectories]))
        for result in results
    ]

    def tops(number: int, coarse: Evidence) -> IntArray:
        """Return the indices of the rationalities around which an agent's fits are refined."""
        out: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        for _, mask in _conditions(seen[number]):
            grids = Grids(seen[number].where(mask))
            curves = (coarse.curves(mask), coarse.curves_without(mask))
            out += [fit_tops(grids, each) for each in curves]
        return np.unique(np.concatenate(out))

    utilities = (GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY)
    by_utility = {name: refined_evidence(seen, name, tops) for name in utilities}
    out = []
    for i, (result, walks) in enumerate(zip(results, seen, strict=True)):
        of_agent = {name: each[i] for name, each in by_utility.items()}
        for condition, mask in _conditions(walks):
            fits = _fits(walks.where(mask), mask, of_agent)
            out.append(Directedness(result.agent, result.reference, condition, *fits))
    return out


def _fits(walks: Observed, mask: BoolArray, of_agent: dict[str, Evidence]) -> tuple[Any, ...]:
    """Return the last fields of `Directedness` for one agent under one condition."""
    grids, goal, name = Grids(walks), of_agent[GOAL_UTILITY], walks.objects[0]
    without, to_object, difference = None, None, None
    if name is not None:
        curves = goal.curves_without(mask), of_agent[name].curves_without(mask)
        without, to_object = (goal_fit(grids, c, goal.most_without[mask]) for c in curves)
        most = max(without.maximum, to_object.maximum)

        def subtract(to_goal: FloatArray, to_object: FloatArray) -> FloatArray:
            return np.round(to_goal - to_object, 9)

        difference = fitted(grids, curves, subtract, bounds=(-most, most), paired=True)
    silent = int((walks.action == INVALID).sum())
    whole = goal_fit(grids, goal.curves(mask), goal.most[mask])
    return silent, name, whole, without, to_object, difference


def _conditions(seen: Observed) -> list[tuple[str, BoolArray]]:
    """Return each condition, as JSON, with a mask of its walks, [N]."""
    conditions = np.array([seen.kinds[kind].condition for kind in seen.kind])
    return [(name, conditions == name) for name in dict.fromkeys(conditions.tolist())]
