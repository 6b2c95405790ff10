"""What was done from a decision on: the sequences of actions that plan readers are to tell.

A sequence begins at a decision and holds the actions that the walk executed from there, then `END`
if it arrived, then `NOTHING`. One that is longer than what is kept is cut and has no end, so that
no walk is left out for its length. An answer that could not be read executed nothing: the sequence
goes on with the next one.

An agent that plans anew at every step need not do what it planned. So what can be told of later
actions is bounded by how well the agent agrees with itself (`known.asked_again`).

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5; its code leaves out every walk of more than nine actions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._types import BoolArray, IntArray
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.scenes import Scenes

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
