"""Action sequences that plan readers predict, baselines that need no activations, and scores."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.representation.replay import Located, Sample, scenes_of
from goalmeter.representation.scenes import Scenes, mean_over_grids
from goalmeter.statistics.clusters import Estimate

# A sequence begins at a decision and holds the actions that the walk executed from there, then
# `END` if it arrived, then `NOTHING`. One that is longer than the number of queries is cut and has
# no end, so that no walk is left out for its length. An answer that could not be read executed
# nothing: the sequence goes on with the next one.
#
# An agent that plans anew at every step need not do what it planned. So what can be read of later
# actions is bounded by how well the agent agrees with itself (`other_walks`).
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5; its code leaves out every walk of more than nine actions.

# After the numbers of the actions: the walk has arrived, and nothing is known or predicted.
END, NOTHING = len(ACTIONS), -1
# Steps that are predicted at once, as in the paper.
QUERIES = 10


@dataclass(frozen=True, eq=False)
class WalkPlans:
    """The sequences of actions from N decisions on."""

    actions: IntArray  # 0 to 3, then `END` if the walk arrived, then `NOTHING`, [N, queries]
    scenes: Scenes  # the decisions from which they begin
    walks: tuple[Hashable, ...]  # key of the walk of each, [N]
    steps: IntArray  # number of the decision in its walk, [N]
    questions: tuple[Hashable, ...]  # prompts, [N]
    unreadable: int  # number of answers of the walks that could not be read

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def queries(self) -> int:
        """Number of steps of each sequence."""
        return int(self.actions.shape[1])

    @cached_property
    def lengths(self) -> IntArray:
        """Number of actions of each sequence, [N]."""
        return np.asarray(((self.actions >= 0) & (self.actions < END)).sum(axis=1))

    def where(self, chosen: IntArray | BoolArray) -> WalkPlans:
        """Return some of the sequences, by number or by a mask, [N]."""
        places = np.arange(len(self))[chosen]
        return WalkPlans(
            self.actions[places],
            self.scenes.where(places),
            tuple(self.walks[i] for i in places),
            self.steps[places],
            tuple(self.questions[i] for i in places),
            self.unreadable,
        )


def plans_of(samples: Sequence[Sample], *, queries: int = QUERIES) -> WalkPlans:
    """Return the plans of walks from all their decisions; `queries` steps each, end included."""
    walks, steps, questions = (
        [getattr(sample, name) for sample in samples] for name in ("walk", "step", "question")
    )
    return plans_in(scenes_of(samples), walks, steps, questions, queries=queries)


def plans_in(
    scenes: Scenes,
    walks: Sequence[Hashable],
    steps: Sequence[int],
    questions: Sequence[Hashable] | None = None,
    *,
    queries: int = QUERIES,
) -> WalkPlans:
    """Return the plans of walks; the walk, step and question of each scene are given, [N]."""
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
        done = [action for n in numbers if (action := scenes.actions[n]) is not None]
        last = scenes.actions[numbers[-1]]
        plan = planned(scenes.worlds[numbers[-1]])
        if last is not None:
            after = plan.step(scenes.states[numbers[-1]], last)
            done += [END] if plan.distance_from(after) == 0 else []
        rows[numbers[0]] = done
    # First decisions alone look like walks that ended after one step.
    alone = all(len(numbers) == 1 for numbers in of_walk.values())
    if alone and any(END not in row for row in rows.values()):
        raise InvalidTrajectoryError(
            "every walk has a single decision, and not all of them arrive, so what was done later "
            "is not known; replay all decisions of the walks, not the first alone"
        )
    starts = sorted(rows)
    return WalkPlans(
        np.array([_filled(rows[start], queries) for start in starts]),
        scenes.where(np.array(starts)),
        tuple(walks[start] for start in starts),
        np.array([steps[start] for start in starts]),
        tuple("" if questions is None else questions[start] for start in starts),
        sum(action is None for action in scenes.actions),
    )


def _filled(moves: Sequence[int], queries: int) -> list[int]:
    return [*moves, *[NOTHING] * queries][:queries]


# --- Baselines without activations ----------------------------------------------------------------
# majority              the action that training walks take most often at a step
# position only         a linear reader of the cells of agent and goal
# repeat the first      the first decoded action, again and again
# optimal plan          a shortest path of the true map, drawn at random where there are several
# stated plan           what the model writes after "plan" before it answers
# asked again           what another walk did from the same state and question. It is no strict
#                       ceiling: it agrees with the walk by chance where the agent is undecided, and
#                       a reader that predicts the likelier action is right more often; after
#                       reasoning, a reader also sees which path was chosen
#
# The published analysis has none of them.

MAJORITY, POSITION, REPEAT = "majority", "position only", "repeat the first"
OPTIMAL, STATED, AGAIN = "optimal plan", "stated plan", "asked again"
SHUFFLED = "shuffled activations"
# In the order of tables.
BASELINES = (REPEAT, MAJORITY, POSITION, SHUFFLED, OPTIMAL, STATED, AGAIN)
# Prediction for a sequence whose beginning no other walk shares.
UNASKED = -2
_ENOUGH_ASKED = 0.5


def majority(train: IntArray) -> IntArray:
    """Return the most frequent action of each step of training sequences, [queries]."""
    out: list[int] = []
    for column in train.T:
        counts = np.bincount(column[(column >= 0) & (column < END)], minlength=END)
        # Beyond the longest training walk it is the action of the step before.
        out.append(int(counts.argmax()) if counts.any() or not out else out[-1])
    return np.array(out)


def position_features(scenes: Scenes) -> FloatArray:
    """Encode the cells of agent and goal, and nothing of the map, [N, 1, F].

    One-hot coordinates of both, one-hot differences of rows and columns, and the layer of the
    state: enough for a linear reader to follow the compass.
    """
    rows, columns = scenes.shapes.max(axis=0)
    agents = np.array([state.cell for state in scenes.states])
    goals = np.array([world.goal for world in scenes.worlds])
    away = goals - agents
    parts = [
        *(np.eye(rows)[at[:, 0]] for at in (agents, goals)),
        *(np.eye(columns)[at[:, 1]] for at in (agents, goals)),
        np.eye(2 * rows)[away[:, 0] + rows],
        np.eye(2 * columns)[away[:, 1] + columns],
        np.sign(away).astype(float),
        np.eye(LAYERS)[[state.layer for state in scenes.states]],
    ]
    return np.concatenate(parts, axis=1)[:, None]


def optimal_plans(plans: WalkPlans, *, seed: int) -> IntArray:
    """Draw a shortest path of the true map from each decision, [N, queries]."""
    out = np.full(plans.actions.shape, NOTHING)
    places = zip(
        plans.scenes.worlds, plans.scenes.states, plans.walks, plans.steps.tolist(), strict=True
    )
    for number, (world, state, walk, step) in enumerate(places):
        plan, moves = planned(world), list[int]()
        draws = Draws("optimal plan", seed, str(walk), step)
        while actions := plan.optimal_actions(state):
            moves.append(draws.choice(actions))
            state = plan.step(state, moves[-1])
        # Where the goal is out of reach there is no way that would end.
        moves += [END] if plan.distance_from(state) == 0 else []
        out[number] = _filled(moves, plans.queries)
    return out


def stated_plans(samples: Sequence[Sample], tokenizer: Any, plans: WalkPlans) -> IntArray | None:
    """Return the plans that a model states before it answers, [N, queries]; None if none."""
    places = list(zip(map(str, plans.walks), plans.steps.tolist(), strict=True))
    wanted = set(places)
    stated = {
        place: Located(sample, tokenizer).stated_plan()
        for sample in samples
        if (place := (sample.walk, sample.step)) in wanted
    }
    moves = [stated.get(place) for place in places]
    out = np.array([_filled([*each, END] if each else [], plans.queries) for each in moves])
    return out if (out != NOTHING).any() else None


def other_walks(plans: WalkPlans, *, seed: int) -> IntArray | None:
    """Return what another walk did from the same state and question, [N, queries].

    Of several walks one is drawn; rows of `UNASKED` have none.
    """
    groups: dict[Hashable, list[int]] = {}
    keys = zip(plans.scenes.worlds, plans.scenes.states, plans.questions, strict=True)
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    out = np.full(plans.actions.shape, UNASKED)
    for numbers in groups.values():
        for number in numbers:
            others = [i for i in numbers if plans.walks[i] != plans.walks[number]]
            if others:
                place = str(plans.walks[number]), int(plans.steps[number])
                out[number] = plans.actions[Draws("asked again", seed, *place).choice(others)]
    asked = (out != UNASKED).any(axis=1)
    # Fewer are grids that were drawn twice by chance, whose walks may have drawn the same answers.
    return out if len(out) and asked.mean() >= _ENOUGH_ASKED else None


# prefix at n        of the sequences with at least n actions, those whose first n are right
# conditional at n   of the sequences with at least n actions whose first n - 1 are right, those
#                    whose n-th is right as well
#
# Prefix accuracy is the product of the conditional ones only where all sequences are as long: those
# that are shorter have left. A reader that predicts the end too early has the action there wrong.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, for prefix accuracy.
def plan_score(
    predicted: IntArray,
    actions: IntArray,
    grids: IntArray,
    n: int,
    reader: IntArray | None = None,
) -> dict[str, Estimate]:
    """Return the "prefix" and "conditional" accuracy of n actions of plans, [N, queries] each.

    With a reader's predictions there is "beyond" too: its prefix accuracy less that of these.
    """
    among = (actions[:, n - 1] >= 0) & (actions[:, n - 1] < END)

    def right(predicted: IntArray) -> BoolArray:
        """Whether all steps up to each are right, [N, queries]."""
        return np.logical_and.accumulate((predicted == actions) & (actions >= 0), axis=1)

    theirs = right(predicted)
    before = among & theirs[:, n - 2] if n > 1 else among
    scores = {
        "prefix": mean_over_grids(theirs[:, n - 1], grids, among),
        "conditional": mean_over_grids(theirs[:, n - 1], grids, before),
    }
    if reader is not None:
        difference = right(reader)[:, n - 1].astype(float) - theirs[:, n - 1]
        scores["beyond"] = mean_over_grids(difference, grids, among, paired=True)
    return scores
