"""The record of a walk: what is written, what is read back, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.gridworld import State
from goalmeter.gridworld.planner import WITH_KEY
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.navigation import Step, Trajectory

WORLD = GridWorld.from_text(["######", "#KA_G#", "######"])
STEPS = (
    Step(
        State(Cell(1, 2)),
        0,
        (1,),
        raw="LEFT",
        attempts=2,
        prompt_tokens=(5, 6, 7),
        answer_tokens=(8, 9),
    ),
    Step(State(Cell(1, 1), WITH_KEY), None, (1,), invalid="no action", prompt_tokens=412),
    Step(
        State(Cell(1, 1), WITH_KEY),
        1,
        (1,),
        probabilities=(0.1, 0.8, 0.0, 0.0),
        reasoning="to the goal",
        prompt="where?",
    ),
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
    world=WORLD,
    cap=9,
    distance=2,
    outcome="arrived",
    steps=STEPS,
)


def test_as_json() -> None:
    written = WALK.to_json()
    assert list(written) == [
        "suite",
        "size",
        "complexity",
        "grid",
        "seed",
        "transform",
        "condition",
        "trajectory",
        "world",
        "cap",
        "distance",
        "outcome",
        "steps",
    ]
    assert written["world"] == ["######", "#KA_G#", "######"]
    assert written["condition"] == {"key": True, "prompt": "plain"}
    assert written["complexity"] is None and written["transform"] is None
    assert written["steps"][:3] == [
        {
            "state": [1, 2, 0],
            "action": 0,
            "optimal": [1],
            "raw": "LEFT",
            "prompt_tokens": [5, 6, 7],
            "answer_tokens": [8, 9],
            "attempts": 2,
        },
        {
            "state": [1, 1, 1],
            "action": None,
            "optimal": [1],
            "prompt_tokens": 412,
            "invalid": "no action",
        },
        {
            "state": [1, 1, 1],
            "action": 1,
            "optimal": [1],
            "probabilities": [0.1, 0.8, 0.0, 0.0],
            "reasoning": "to the goal",
            "prompt": "where?",
        },
    ]


def test_what_is_written_is_read_back() -> None:
    assert Trajectory.from_json(json.loads(json.dumps(WALK.to_json()))) == WALK


def test_states() -> None:
    assert [(s.cell.column, s.layer) for s in WALK.states()] == [
        (2, 0),
        (1, 1),
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ]
    assert WALK.arrived
    assert [step.is_optimal for step in STEPS] == [False, False, True, True, True]
    nothing = Trajectory(**(vars(WALK) | {"steps": (), "outcome": "timeout"}))
    assert nothing.states() == (State(Cell(1, 2)),) and not nothing.arrived
    stuck = Trajectory(**(vars(WALK) | {"steps": STEPS[:2], "outcome": "timeout"}))
    assert stuck.states()[-1] == State(Cell(1, 1), WITH_KEY)


def changed(**values: Any) -> dict[str, Any]:
    return WALK.to_json() | values


def with_step(**values: Any) -> dict[str, Any]:
    out = WALK.to_json()
    out["steps"][2] |= values
    return out


def without(name: str) -> dict[str, Any]:
    out = WALK.to_json()
    del out[name]
    return out


def without_in_step(name: str) -> dict[str, Any]:
    out = WALK.to_json()
    del out["steps"][2][name]
    return out


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: 3, "3 is not a trajectory, expected an object"),
        (lambda: without("cap"), "a trajectory lacks cap"),
        (lambda: changed(model="x"), "a trajectory has model, expected only suite, size,"),
        (lambda: changed(suite=3), "suite is 3, expected text"),
        (lambda: changed(outcome=None), "outcome is None, expected text"),
        (lambda: changed(size=True), "size is True, expected a whole number of at least 3"),
        (lambda: changed(cap=0), "cap is 0, expected a whole number of at least 1"),
        (lambda: changed(distance=2.5), "distance is 2.5, expected a whole number of at least 1"),
        (lambda: changed(grid="0"), "grid is '0', expected a whole number"),
        (lambda: changed(complexity="0.5"), "complexity is '0.5', expected a number or null"),
        (lambda: changed(complexity=True), "complexity is True, expected a number or null"),
        (lambda: changed(transform="turn"), "transform is 'turn', expected null or one of reflect"),
        (lambda: changed(transform=["a"]), "transform is ['a'], expected null or one of reflect"),
        (lambda: changed(condition=[1]), "condition is [1], expected an object"),
        (lambda: changed(world=["###"]), "world is no picture of a grid world: the picture"),
        (lambda: changed(world=3), "world is 3, expected a list of rows of text"),
        (lambda: changed(world=["#Q#"]), "world is no picture of a grid world: the picture of"),
        (lambda: changed(world=[["#"]]), "world is [['#']], expected a list of rows of text"),
        (lambda: changed(steps={}), "steps is {}, expected a list"),
        (lambda: changed(cap=4), "there are 5 steps, more than the cap of 4"),
        (lambda: changed(steps=["x"]), "step 0: 'x' is not a step, expected an object"),
        (lambda: without_in_step("optimal"), "step 2: a step lacks optimal"),
        (lambda: with_step(colour=1), "step 2: a step has colour, expected only state, action,"),
        (lambda: with_step(state=[1, 2]), "step 2: state is [1, 2], expected 3 whole numbers"),
        (lambda: with_step(state=[1, 2, 0.5]), "state is [1, 2, 0.5], expected 3 whole numbers"),
        (lambda: with_step(state=[1, 2, 3]), "step 2: layer is 3, expected 0 to 2"),
        (lambda: with_step(action=4), "step 2: action is 4, expected 0 to 3 or null"),
        (lambda: with_step(action="UP"), "step 2: action is 'UP', expected 0 to 3 or null"),
        (lambda: with_step(action=True), "step 2: action is True, expected 0 to 3 or null"),
        (lambda: with_step(action=None), "step 2: action is None and invalid is None; a step"),
        (lambda: with_step(invalid="late"), "step 2: action is 1 and invalid is 'late'; a step"),
        (lambda: with_step(optimal=[1, 0]), "optimal is [1, 0], expected different actions, 0 to"),
        (lambda: with_step(optimal=[1, 4]), "optimal is [1, 4], expected different actions"),
        (lambda: with_step(optimal=1), "optimal is 1, expected whole numbers"),
        (lambda: with_step(raw=3), "step 2: raw is 3, expected text or null"),
        (lambda: with_step(raw="a\ud83d"), "step 2: raw has half a character, '\\ud83d', which"),
        (lambda: with_step(attempts=0), "step 2: attempts is 0, expected 1 or more"),
        (lambda: with_step(prompt_tokens=-1), "prompt_tokens is -1, expected whole numbers"),
        (lambda: with_step(prompt_tokens=["a"]), "prompt_tokens is ['a'], expected whole numbers"),
        (lambda: with_step(answer_tokens=7), "answer_tokens is 7, expected whole numbers"),
        (
            lambda: with_step(probabilities=[0.5, 0.6, 0, 0]),
            "step 2: probabilities are [0.5, 0.6, 0, 0], expected 4 numbers from 0 to 1 that add",
        ),
        (lambda: with_step(probabilities=[1, 0, 0]), "probabilities are [1, 0, 0], expected 4"),
        (lambda: with_step(probabilities=[1, -0.1, 0, 0]), "expected 4 numbers from 0 to 1"),
        (lambda: with_step(probabilities=[float("nan"), 0, 0, 0]), "expected 4 numbers from 0"),
        (lambda: with_step(probabilities="1000"), "probabilities are '1000', expected 4 numbers"),
    ],
)
def test_errors(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidTrajectoryError) as caught:
        Trajectory.from_json(made())
    assert said in str(caught.value)
