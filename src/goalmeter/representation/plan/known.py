"""What can be told of a walk without its activations: every baseline as a prediction.

- majority: the action that training walks take most often at a step, of those that are under way.
- position only: a linear reader that sees where the agent and the goal are, and nothing else.
- repeat the first: the first action that was decoded, again and again.
- optimal plan: one shortest way of the true map, drawn at random where there are several. An agent
  that goes by shortest ways may take another one, and nobody could have known which.
- stated plan: what the model itself says behind "plan" before it answers.
- asked again: what another walk did from the same state and question. It is no strict ceiling: it
  agrees with the walk by chance where the agent is undecided, and a reader that tells the likelier
  action is right more often; after reasoning, a reader also sees which way was settled on.

The published analysis has none of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import LAYERS, planned
from goalmeter.representation.plan.targets import END, NOTHING, Plans
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes

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
