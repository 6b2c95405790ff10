"""Walks: what is recorded, what is read back, what is refused, and their columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from navigation.walked import taken, task, walked

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.agents.grid_agents import Decision, navigator
from goalmeter.gridworld import GridWorld, State, plan
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import WITH_KEY
from goalmeter.gridworld.world import Cell
from goalmeter.navigation import Step, Trajectory, suite, walk, walks
from goalmeter.navigation.steps import INVALID, observed

LEFT, RIGHT, UP, DOWN = range(4)


TASK = task(["#######", "#A__KG#", "#######"], cap=6, condition={"key": True})


class Scripted:
    """An agent that answers as it is told to."""

    name = "scripted"

    def __init__(self, *answers: int | None) -> None:
        self.answers = answers

    def begin(self, world: GridWorld, draws: Draws) -> Scripted:
        self.left = list(self.answers)
        return self

    def act(self, state: State) -> Decision:
        action = self.left.pop(0)
        return Decision(action, invalid=None if action is not None else "no action")


def test_a_walk_by_hand() -> None:
    done = walk(Scripted(RIGHT, UP, None, RIGHT, RIGHT, RIGHT), TASK, 3)
    assert done.outcome == "arrived" and done.trajectory == 3
    columns = [(s.state.cell.column, s.state.layer, s.action) for s in done.steps]
    assert columns == [(1, 0, 1), (2, 0, 2), (2, 0, None), (2, 0, 1), (3, 0, 1), (4, 1, 1)]
    assert all(step.optimal == (RIGHT,) for step in done.steps)
    assert done.steps[2].invalid == "no action" and done.steps[1].invalid is None
    assert (done.distance, done.cap, done.condition) == (4, 6, {"key": True})


def test_order_does_not_matter_and_streams_differ() -> None:
    made = suite("maze", sizes=[7], complexities=[0.5], grids=3, trajectories=3)
    agent = navigator("random")
    listed = list(walks(agent, made))
    backwards = [walk(agent, task, index) for task, index in reversed(list(made.walks()))]
    assert listed == backwards[::-1]
    taken_ = [tuple(step.action for step in t.steps) for t in listed]
    assert len(set(taken_)) == len(taken_)
    # For ever.
    first = suite("maze", sizes=[7], complexities=[0], grids=1).tasks[0]
    actions = [step.action for step in walk(agent, first).steps]
    assert actions == [1, 0, 2, 3, 0, 0, 1, 0, 1, 1, 0, 3, 3, 1, 3]


FOUND = State(Cell(1, 1), WITH_KEY)
STEPS = (
    Step(State(Cell(1, 2)), 0, (1,), raw="L", attempts=2, prompt_tokens=(5, 6), answer_tokens=(8,)),
    Step(FOUND, None, (1,), invalid="no action", prompt_tokens=412),
    Step(FOUND, 1, (1,), probabilities=(0.1, 0.8, 0.0, 0.0), reasoning="to G", prompt="where?"),
    Step(State(Cell(1, 2), WITH_KEY), 1, (1,)),
    Step(State(Cell(1, 3), WITH_KEY), 1, (1,)),
)
WALK = Trajectory(
    suite="key-no-door",
    size=3,
    complexity=None,
    grid=4,
    seed=1_000_004,
    transform=None,
    condition={"key": True, "prompt": "plain"},
    trajectory=7,
    world=GridWorld.from_text(["######", "#KA_G#", "######"]),
    cap=9,
    distance=2,
    outcome="arrived",
    steps=STEPS,
)


def test_the_json_of_a_walk() -> None:
    written = WALK.to_json()
    labels = ["suite", "size", "complexity", "grid", "seed", "transform", "condition", "trajectory"]
    assert list(written) == [*labels, "world", "cap", "distance", "outcome", "steps"]
    assert written["world"] == ["######", "#KA_G#", "######"] and written["complexity"] is None
    first = {"state": [1, 2, 0], "action": 0, "optimal": [1], "raw": "L", "prompt_tokens": [5, 6]}
    assert written["steps"][:2] == [
        first | {"answer_tokens": [8], "attempts": 2},
        {
            "state": [1, 1, 1],
            "action": None,
            "optimal": [1],
            "prompt_tokens": 412,
            "invalid": "no action",
        },
    ]
    assert Trajectory.from_json(json.loads(json.dumps(written))) == WALK


def damaged() -> Iterator[dict[str, Any]]:
    """Records with one entry removed, added, or replaced by a value of another kind."""
    wrong: tuple[Any, ...] = (True, -1, 2.5, "x", "a\ud83d", None, [1], {}, [[1]], float("nan"))
    step = WALK.to_json()["steps"][2]
    cases: dict[tuple[bool, str], tuple[Any, ...]] = {
        **{(False, name): wrong for name in (*WALK.to_json(), "model")},
        **{(True, name): wrong for name in (*step, "invalid", "attempts", "colour")},
        (True, "state"): (*wrong, [1, 2], [1, 2, 0.5], [1, 2, 3]),
        (True, "action"): (*wrong, 4),
        (True, "optimal"): (*wrong, [1, 0], [1, 4]),
        (True, "answer_tokens"): (7, ["a"]),
        (True, "probabilities"): (*wrong, [0.5, 0.6, 0, 0], [1, 0, 0], [1, -0.1, 0, 0]),
    }
    for (of_step, name), values in cases.items():
        for value in ("remove", *values):
            record = WALK.to_json()
            entry = record["steps"][2] if of_step else record
            if value == "remove":
                entry.pop(name, None)
            else:
                entry[name] = value
            yield record


def test_a_damaged_record_is_refused_or_read_as_another_valid_one() -> None:
    refused = 0
    for record in damaged():
        try:
            read = Trajectory.from_json(record)
        except InvalidTrajectoryError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 500
        else:
            # What is accepted is a value of the right kind, and is written as it was read.
            steps = [
                {k: v for k, v in step.items() if v is not None or k == "action"}
                for step in record["steps"]
            ]
            assert read.to_json() == record | {"steps": steps}
    assert refused > 150


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
    # compass turns back or goes down, each as often. Going down is away from the goal, and the
    # compass would go back up; at the bottom it might.
    assert seen.greedy[:8].tolist() == [1, 1, 0.5, 0.5, 0.5, 0, 0, 0.5]
    assert seen.detour[:5].tolist() == [False, False, True, True, True]
    assert seen.length.tolist() == [12] and seen.distance.tolist() == [10]
    assert seen.arrived.tolist() == [True] and np.isnan(seen.probabilities).all()


def with_step(number: int, **changes: Any) -> Trajectory:
    steps = list(DONE.steps)
    steps[number] = replace(steps[number], **changes)
    return replace(DONE, steps=tuple(steps))


BEHIND_THE_END = (*DONE.steps, Step(State(Cell(1, 5)), 0, ()))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "there are no trajectories to measure"),
        (
            [DONE, replace(DONE, distance=9)],
            "trajectory 1 (maze, size 6, seed 0, walk 0): distance is 9, expected ",
        ),
        ([with_step(1, action=LEFT)], "step 2 is not in the state that the previous step leads"),
        ([with_step(3, optimal=(1, 3))], "step 3 lists [1, 3] as optimal actions, expected [3]"),
        ([replace(DONE, outcome="cap")], "outcome is 'cap', but the walk ends at row 1, column 5,"),
        ([replace(DONE, steps=DONE.steps[:3], outcome="cap")], "has 3 steps and its cap is 12"),
        ([replace(DONE, cap=13, steps=BEHIND_THE_END)], "step 12 begins at the goal"),
        ([with_step(0, state=State(Cell(0, 0)))], "row 0, column 0, layer 0 is not a state"),
    ],
)
def test_records_that_do_not_agree(made: list[Trajectory], message: str) -> None:
    with pytest.raises(InvalidTrajectoryError) as caught:
        observed(made)
    assert message in str(caught.value)


def test_gaps_add_up_to_the_steps_that_were_lost() -> None:
    for done in walked("unreliable", sizes=(7,), complexities=(0.5, 1), grids=4, trajectories=3):
        end = plan(done.world).distance_from(done.states()[-1])
        lost = len(done.steps) + end - done.distance
        assert observed([done]).gap.sum() == lost
