"""The record of a walk: what is written, what is read back, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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


def damaged() -> Iterator[dict[str, Any]]:
    """Records with one entry removed, added, or replaced by a value of another kind."""
    wrong: tuple[Any, ...] = (True, -1, 2.5, "x", "a\ud83d", None, [1], {}, [[1]], float("nan"))
    for step in (False, True):
        for name in (*WALK.to_json()["steps"][2], "invalid") if step else WALK.to_json():
            for value in ("remove", *wrong):
                record = WALK.to_json()
                entry = record["steps"][2] if step else record
                if value == "remove":
                    entry.pop(name, None)
                else:
                    entry[name] = value
                yield record
    yield WALK.to_json() | {"model": "x"}
    for field, values in {
        "state": ([1, 2], [1, 2, 0.5], [1, 2, 3]),
        "action": (4,),
        "optimal": ([1, 0], [1, 4]),
        "attempts": (0,),
        "answer_tokens": (7, ["a"]),
        "probabilities": ([0.5, 0.6, 0, 0], [1, 0, 0], [1, -0.1, 0, 0], [float("nan"), 0, 0, 0]),
        "colour": (1,),
    }.items():
        for value in values:
            record = WALK.to_json()
            record["steps"][2][field] = value
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
            assert read.to_json() == {
                **record,
                "steps": [
                    {k: v for k, v in step.items() if v is not None or k == "action"}
                    for step in record["steps"]
                ],
            }
    assert refused > 150
