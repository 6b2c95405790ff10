"""Columns of trajectories, and records that do not agree with their world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from navigation.walked import taken, task, walked

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.gridworld import State, plan
from goalmeter.gridworld.world import Cell
from goalmeter.navigation import Step, Trajectory
from goalmeter.navigation.steps import INVALID, observed

LEFT, RIGHT, UP, DOWN = range(4)
# To the right is a dead end that the compass walks into.
TRAP = task(["#######", "#A__#G#", "#_#_#_#", "#_#_#_#", "#_____#", "#######"], cap=12)
DONE = taken(TRAP, RIGHT, RIGHT, None, RIGHT, DOWN, DOWN, DOWN, RIGHT, RIGHT, UP, UP, UP)


def test_columns_by_hand() -> None:
    seen = observed([DONE])
    assert seen.action.tolist() == [1, 1, INVALID, 1, 3, 3, 3, 1, 1, 2, 2, 2]
    assert seen.to_goal.tolist() == [10, 9, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1]
    assert seen.gap.tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert seen.correct.tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    # At the start both ways are optimal, and right is one of them; at the end of the dead end the
    # compass turns back or goes down, each as often.
    assert seen.greedy[:5].tolist() == [1, 1, 0.5, 0.5, 0.5]
    assert seen.detour[:5].tolist() == [False, False, True, True, True]
    # Going down is away from the goal, and the compass would go back up; at the bottom it might.
    assert seen.greedy[5:8].tolist() == [0, 0, 0.5]
    assert seen.length.tolist() == [12] and seen.distance.tolist() == [10]
    assert seen.arrived.tolist() == [True]
    assert np.isnan(seen.probabilities).all()


def with_step(number: int, step: Step) -> Trajectory:
    return replace(DONE, steps=(*DONE.steps[:number], step, *DONE.steps[number + 1 :]))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: [], "there are no trajectories to measure"),
        (
            lambda: [DONE, replace(DONE, distance=9)],
            "trajectory 1 (maze, size 6, seed 0, walk 0): its distance is 9, but the shortest "
            "path of its world has 10 steps",
        ),
        (
            lambda: [with_step(1, replace(DONE.steps[1], action=LEFT))],
            "step 2 is in another state than the step before it leads to",
        ),
        (
            lambda: [with_step(3, replace(DONE.steps[3], optimal=(1, 3)))],
            "step 3 calls the actions [1, 3] optimal, expected [3]",
        ),
        (
            lambda: [replace(DONE, outcome="cap")],
            "its outcome is 'cap', but it ends at row 1, column 5; the goal is at row 1, column 5",
        ),
        (
            lambda: [replace(DONE, steps=DONE.steps[:3], outcome="cap")],
            "its outcome is 'cap', but it has 3 steps and the cap is 12",
        ),
        (
            lambda: [replace(DONE, cap=13, steps=(*DONE.steps, Step(State(Cell(1, 5)), 0, ())))],
            "step 12 comes after the goal",
        ),
        (
            lambda: [with_step(0, replace(DONE.steps[0], state=State(Cell(0, 0))))],
            "row 0, column 0, layer 0 is no state of this world",
        ),
    ],
)
def test_records_that_do_not_agree(made: Callable[[], list[Trajectory]], message: str) -> None:
    with pytest.raises(InvalidTrajectoryError) as caught:
        observed(made())
    assert message in str(caught.value)


def test_gaps_add_up_to_the_steps_that_were_lost() -> None:
    for walk in walked("unreliable", sizes=(7,), complexities=(0.5, 1), grids=4, trajectories=3):
        end = plan(walk.world).distance_from(walk.states()[-1])
        lost = len(walk.steps) + end - walk.distance
        assert observed([walk]).gap.sum() == lost
