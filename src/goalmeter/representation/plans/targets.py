"""Action sequences that plan readers predict, baselines that need no activations, and scores."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError, whole
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.representation.replay import Located, Sample, scenes_of
from goalmeter.representation.scenes import Scenes
from goalmeter.statistics.clusters import Estimate, estimate

# --- Targets --------------------------------------------------------------------------------------
# A sequence begins at a decision and holds the actions that the walk executed from there, then
# `END` if it arrived, then `NOTHING`. One that is longer than what is kept is cut and has no end,
# so that no walk is left out for its length. An answer that could not be read executed nothing:
# the sequence goes on with the next one.
#
# An agent that plans anew at every step need not do what it planned. So what can be told of later
# actions is bounded by how well the agent agrees with itself (`known.asked_again`).
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5; its code leaves out every walk of more than nine actions.

# Behind the numbers of the actions: the walk has arrived, and nothing is known or said.
END, NOTHING = len(ACTIONS), -1
# Steps that are told at once, as in the paper.
QUERIES = 10
_MOST_QUERIES = 1000


@dataclass(frozen=True, eq=False)
class Plans:
    """The sequences of actions from N decisions on.

    Attributes:
        actions: 0 to 3, then `END` if the walk arrived, then `NOTHING`, [N, queries].
        scenes: the decisions from which they begin.
        walks: key of the walk of each, [N].
        steps: number of the decision in its walk, [N].
        questions: what was asked there; equal ones are the same question, [N].
        unreadable: how many answers of the walks could not be read.
    """

    actions: IntArray
    scenes: Scenes
    walks: tuple[Hashable, ...]
    steps: IntArray
    questions: tuple[Hashable, ...]
    unreadable: int

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def queries(self) -> int:
        """Steps that are kept of each."""
        return int(self.actions.shape[1])

    @cached_property
    def lengths(self) -> IntArray:
        """How many actions are kept of each, [N]."""
        return np.asarray(((self.actions >= 0) & (self.actions < END)).sum(axis=1))

    @cached_property
    def ended(self) -> BoolArray:
        """Whether its end is kept: it arrived before the last query, [N]."""
        return np.asarray((self.actions == END).any(axis=1))

    def where(self, kept: IntArray | BoolArray) -> Plans:
        """Some of the sequences, by number or by a mask, [N]."""
        places = np.arange(len(self))[kept]
        return Plans(
            self.actions[places],
            self.scenes.where(places),
            tuple(self.walks[i] for i in places),
            self.steps[places],
            tuple(self.questions[i] for i in places),
            self.unreadable,
        )


def plans_of(
    samples: Sequence[Sample], *, every_step: bool = False, queries: int = QUERIES
) -> Plans:
    """The plans of recorded decisions.

    Args:
        samples: all decisions of some walks; activations are needed of those alone from which
            sequences begin.
        every_step: begin at every decision of a walk, and not at its first alone.
        queries: actions that are kept of each, the end included.
    """
    return plans_in(
        scenes_of(samples),
        [sample.walk for sample in samples],
        [sample.step for sample in samples],
        [sample.question for sample in samples],
        every_step=every_step,
        queries=queries,
    )


def plans_in(
    scenes: Scenes,
    walks: Sequence[Hashable],
    steps: Sequence[int],
    questions: Sequence[Hashable] | None = None,
    *,
    every_step: bool = False,
    queries: int = QUERIES,
) -> Plans:
    """The plans of decisions that are given as scenes.

    Args:
        scenes: N decisions.
        walks: the walk of each, [N].
        steps: its number in the walk, from 0, [N].
        questions: what was asked, [N]; None where the state says all of it.
        every_step: as in `plans_of`, like the rest.
        queries: actions that are kept of each.
    """
    whole(queries, "queries", least=1, most=_MOST_QUERIES)
    if not len(scenes) == len(walks) == len(steps):
        raise InvalidParameterError(
            f"there are {len(walks)} walks and {len(steps)} steps for {len(scenes)} decisions, "
            f"expected one each"
        )
    of_walk: dict[Hashable, list[int]] = {}
    for number, walk in enumerate(walks):
        of_walk.setdefault(walk, []).append(number)
    rows: dict[int, list[int]] = {}
    for walk, numbers in of_walk.items():
        numbers.sort(key=lambda number: steps[number])
        if [steps[number] for number in numbers] != list(range(len(numbers))):
            raise InvalidTrajectoryError(
                f"the decisions of walk {walk!r} are not all there, or not once each; expected "
                f"steps 0 to the last: replay all decisions"
            )
        done = [(number, scenes.actions[number]) for number in numbers]
        tail = [END] if _arrives(scenes, numbers[-1]) else []
        for begin in range(len(numbers) if every_step else 1):
            told = [action for _, action in done[begin:] if action is not None] + tail
            rows[numbers[begin]] = told
    _check_whole(of_walk, rows)
    starts = sorted(rows)
    actions = np.full((len(starts), queries), NOTHING, dtype=np.int64)
    for place, start in enumerate(starts):
        kept = rows[start][:queries]
        actions[place, : len(kept)] = kept
    asked = [""] * len(scenes) if questions is None else list(questions)
    return Plans(
        actions,
        scenes.where(np.array(starts)),
        tuple(walks[start] for start in starts),
        np.array([steps[start] for start in starts]),
        tuple(asked[start] for start in starts),
        sum(action is None for action in scenes.actions),
    )


def _arrives(scenes: Scenes, number: int) -> bool:
    action = scenes.actions[number]
    if action is None:
        return False
    plan = planned(scenes.worlds[number])
    return plan.distance_from(plan.step(scenes.states[number], action)) == 0


def _check_whole(of_walk: dict[Hashable, list[int]], rows: dict[int, list[int]]) -> None:
    """Refuse first decisions alone: they look like walks that were ended after one step."""
    alone = all(len(numbers) == 1 for numbers in of_walk.values())
    if alone and any(END not in told for told in rows.values()):
        raise InvalidTrajectoryError(
            "every walk has a single decision, and not all of them arrive, so what was done later "
            "is not known; replay all decisions of the walks, not the first alone"
        )


# --- Known ----------------------------------------------------------------------------------------
# - majority: the action that training walks take most often at a step, of those that are under way.
# - position only: a linear reader that sees where the agent and the goal are, and nothing else.
# - repeat the first: the first action that was decoded, again and again.
# - optimal plan: one shortest way of the true map, drawn at random where there are several. An
# agent
#   that goes by shortest ways may take another one, and nobody could have known which.
# - stated plan: what the model itself says behind "plan" before it answers.
# - asked again: what another walk did from the same state and question. It is no strict ceiling: it
#     agrees with the walk by chance where the agent is undecided, and a reader that tells the
#   likelier
#   action is right more often; after reasoning, a reader also sees which way was settled on.
#
# The published analysis has none of them.

MAJORITY, POSITION, REPEAT = "majority", "position only", "repeat the first"
OPTIMAL, STATED, AGAIN, SHUFFLED = (
    "optimal plan",
    "stated plan",
    "asked again",
    "shuffled activations",
)
# What is told of a sequence that no other walk shares its beginning with.
UNASKED = -2
_ENOUGH_ASKED = 0.5
# In the order of tables.
BASELINES = (REPEAT, MAJORITY, POSITION, SHUFFLED, OPTIMAL, STATED, AGAIN)


def majority(train: IntArray) -> IntArray:
    """The most frequent action of each step, [queries]; the lowest of equal ones.

    Ends are not counted: sequences of at least n actions are scored, and an end is none.

    Args:
        train: what was done in the training part, [N, queries].
    """
    out: list[int] = []
    for column in train.T:
        counts = np.bincount(column[(column >= 0) & (column < END)], minlength=END)
        # Beyond the longest training walk it is the action of the step before.
        out.append(int(counts.argmax()) if counts.any() or not out else out[-1])
    return np.array(out)


def repeated(predicted: IntArray) -> IntArray:
    """The first step of each prediction at every step, [N, queries]."""
    return np.repeat(predicted[:, :1], predicted.shape[1], axis=1)


def position_features(scenes: Scenes) -> FloatArray:
    """Where the agent and the goal are, and nothing of the map, [N, 1, F].

    One-hot coordinates of both, one-hot differences of rows and columns, and the layer of the
    state: enough for a linear reader to go by the compass.
    """
    rows, columns = scenes.shapes.max(axis=0)
    agents = np.array([state.cell for state in scenes.states])
    goals = np.array([world.goal for world in scenes.worlds])
    away = goals - agents
    layers = np.array([state.layer for state in scenes.states])
    parts = [
        *(_one_hot(at[:, 0], rows) for at in (agents, goals)),
        *(_one_hot(at[:, 1], columns) for at in (agents, goals)),
        _one_hot(away[:, 0] + rows, 2 * rows),
        _one_hot(away[:, 1] + columns, 2 * columns),
        np.sign(away).astype(float),
        _one_hot(layers, LAYERS),
    ]
    return np.concatenate(parts, axis=1)[:, None]


def optimal_plans(plans: Plans, *, seed: int) -> IntArray:
    """One shortest way of the true map from each decision, [N, queries].

    Args:
        plans: where they begin.
        seed: of the choice among equally short ones.
    """
    out = np.full(plans.actions.shape, NOTHING)
    for number, (world, state) in enumerate(
        zip(plans.scenes.worlds, plans.scenes.states, strict=True)
    ):
        plan = planned(world)
        draws = Draws("optimal plan", seed, str(plans.walks[number]), int(plans.steps[number]))
        told: list[int] = []
        while actions := plan.optimal_actions(state):
            told.append(draws.choice(actions))
            state = plan.step(state, told[-1])
        # Where the goal is out of reach there is no way that would end.
        told += [END] if plan.distance_from(state) == 0 else []
        out[number] = _filled(told, plans.queries)
    return out


def stated_plans(samples: Sequence[Sample], tokenizer: Any, plans: Plans) -> IntArray | None:
    """The plan that the model states before it answers, [N, queries]; None if it states none.

    A decision without a stated plan is told nothing, and so wrongly. A stated plan ends where its
    words do.

    Args:
        samples: decisions of the run, those from which `plans` begin among them.
        tokenizer: of the model that walked.
        plans: where they begin.
    """
    by_place = {(sample.walk, sample.step): sample for sample in samples}
    out = np.full(plans.actions.shape, NOTHING)
    for number, (walk, step) in enumerate(zip(plans.walks, plans.steps.tolist(), strict=True)):
        sample = by_place.get((str(walk), step))
        told = () if sample is None else Located(sample, tokenizer).stated_plan()
        if told:
            out[number] = _filled([*told, END], plans.queries)
    return out if (out != NOTHING).any() else None


def asked_again(plans: Plans, *, seed: int) -> IntArray | None:
    """What another walk did from the same state and question, [N, queries].

    Rows of `UNASKED` have no such walk. Of several walks one is drawn. None unless at least half of
    the sequences have one: the few of a run that asked once are grids which were drawn twice, and
    whose walks may have drawn the same answers.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, key in enumerate(
        zip(plans.scenes.worlds, plans.scenes.states, plans.questions, strict=True)
    ):
        groups.setdefault(key, []).append(number)
    out = np.full(plans.actions.shape, UNASKED)
    for numbers in groups.values():
        for number in numbers:
            others = [i for i in numbers if plans.walks[i] != plans.walks[number]]
            if others:
                place = str(plans.walks[number]), int(plans.steps[number])
                out[number] = plans.actions[Draws("asked again", seed, *place).choice(others)]
    asked = (out != UNASKED).any(axis=1)
    return out if len(out) and asked.mean() >= _ENOUGH_ASKED else None


def _filled(told: Sequence[int], queries: int) -> IntArray:
    out = np.full(queries, NOTHING)
    out[: len(told)] = told[:queries]
    return out


def _one_hot(values: IntArray, count: int) -> FloatArray:
    return np.asarray(np.eye(count)[values])


# --- Scores ---------------------------------------------------------------------------------------
# prefix at n        of the sequences with at least n actions, those whose first n are all told
#     conditional at n   of the sequences with at least n actions whose first n - 1 are told, those
#                        whose n-th is told as well
#         ends at n          of the sequences that arrive after n actions and whose n are all told,
#     those
#                        of which it is told that they end there
#
# Prefix accuracy is the product of the conditional ones only where all sequences are as long: those
# that are shorter have left. Whoever says an end too early has the action there wrong.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, for prefix accuracy.

UNIT, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class PlanScore:
    """The scores of one length, as shares with intervals over grids.

    Attributes:
        n: actions.
        prefix: see above, like those that follow.
        conditional: NaN with n = 0 where no sequence is told so far.
        ends: NaN with n = 0 where no sequence ends there.
    """

    n: int
    prefix: Estimate
    conditional: Estimate
    ends: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        shares = ("prefix", "conditional", "ends")
        return {"n": self.n} | {name: getattr(self, name).to_json() for name in shares}


def plan_score(predicted: IntArray, actions: IntArray, grids: IntArray, n: int) -> PlanScore:
    """Score some predictions.

    Args:
        predicted: what is said of each step, [N, queries]; what is neither an action nor `END` is
            never right.
        actions: what was done, [N, queries], as in `Plans`.
        grids: number of the grid of each sequence, by which intervals are clustered, [N].
        n: actions, from 1 to the number of queries.
    """
    _check(predicted, actions, grids, n)
    known, told = _known(actions, n), told_so_far(predicted, actions)
    before = known & (told[:, n - 2] if n > 1 else True)
    ends, ends_told = np.zeros(len(actions), dtype=bool), np.zeros(len(actions), dtype=bool)
    if n < actions.shape[1]:
        ends, ends_told = (actions[:, n] == END) & told[:, n - 1], predicted[:, n] == END
    return PlanScore(
        n,
        share(told[:, n - 1], known, grids),
        share(told[:, n - 1], before, grids),
        share(ends_told, ends, grids),
    )


def prefix_beyond(
    ours: IntArray, theirs: IntArray, actions: IntArray, grids: IntArray, n: int
) -> Estimate:
    """Prefix accuracy of one prediction less that of another, on the same sequences.

    Arguments are those of `plan_score`.
    """
    for predicted in (ours, theirs):
        _check(predicted, actions, grids, n)
    both = [told_so_far(each, actions)[:, n - 1].astype(float) for each in (ours, theirs)]
    return share(both[0] - both[1], _known(actions, n), grids, paired=True)


def told_so_far(predicted: IntArray, actions: IntArray) -> BoolArray:
    """Whether all steps up to each are told, [N, queries]."""
    return np.logical_and.accumulate((predicted == actions) & (actions >= 0), axis=1)


def share(
    values: BoolArray | FloatArray, among: BoolArray, grids: IntArray, *, paired: bool = False
) -> Estimate:
    """The mean of some values, clustered by grid.

    Args:
        values: [N], shares, or differences of shares if they are paired.
        among: which of them count, [N].
        grids: [N].
        paired: whether values are differences.
    """
    of = np.unique(grids[among], return_inverse=True)[1]
    if not len(of):
        return Estimate(float("nan"), None, 0, 0)
    return estimate(
        np.bincount(of, np.asarray(values, dtype=float)[among]),
        np.bincount(of),
        heaviest=np.unique(grids, return_counts=True)[1].max(),
        n=len(of),
        bounds=DIFFERENCE if paired else UNIT,
        paired=paired,
    )


def _known(actions: IntArray, n: int) -> BoolArray:
    return np.asarray((actions[:, n - 1] >= 0) & (actions[:, n - 1] < END))


def _check(predicted: IntArray, actions: IntArray, grids: IntArray, n: int) -> None:
    if predicted.shape != actions.shape or actions.ndim != 2 or len(grids) != len(actions):
        raise InvalidParameterError(
            f"predictions have shape {predicted.shape} and actions {actions.shape} of {len(grids)} "
            f"grids, expected the same [sequences, queries] and a grid for each sequence"
        )
    if not 1 <= n <= actions.shape[1]:
        raise InvalidParameterError(
            f"n is {n!r}, expected 1 to {actions.shape[1]}, the number of queries"
        )
