"""Which cells tell whether they are used, how a question is closed, and what became of answers."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.prompts import template
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.directions import (
    TargetCell,
    closed_question,
    target_cells,
    target_walls,
)
from goalmeter.representation.use.trials import Candidate, TrialOutcome, row_of

LEFT, RIGHT, UP, DOWN = range(4)
RING = GridWorld.from_text(["#######", "#A___G#", "#_###_#", "#_____#", "#######"])


def test_cells_of_a_ring_by_hand() -> None:
    """Four steps along the top, eight along the bottom; a wall along the top makes DOWN the first
    move.
    """
    target = {each.cell: each for each in target_cells(RING, State(RING.start))}
    top = [Cell(1, 2), Cell(1, 3), Cell(1, 4)]
    bottom = [Cell(2, 1), Cell(2, 5), *(Cell(3, column) for column in range(1, 6))]
    assert set(target) == {*top, *bottom}
    for cell in top:
        assert target[cell] == TargetCell(cell, True, (RIGHT,), (DOWN,))
    for cell in bottom:
        assert target[cell] == TargetCell(cell, False, (RIGHT,), (RIGHT,))


def test_walls_of_a_loop_by_hand() -> None:
    """Nine steps around the bottom; three to the right if the wall beside the agent were open."""
    loop = GridWorld.from_text(["########", "#A#_G_##", "#_###_##", "#_____##", "########"])
    target = {each.cell: each for each in target_walls(loop, State(loop.start))}
    assert target.pop(Cell(1, 2)) == TargetCell(Cell(1, 2), True, (DOWN,), (RIGHT,))
    assert target == {
        cell: TargetCell(cell, False, (DOWN,), (DOWN,)) for cell in (Cell(n, 6) for n in (1, 2, 3))
    }


def asked(prompt: str, world: GridWorld = RING) -> Sample:
    state = State(world.start)
    question = template(prompt).prompt(world, state)
    return Sample("a walk", 0, world, state, RIGHT, (RIGHT,), question, (1, 2), (3,))


def test_a_question_is_closed_by_hand() -> None:
    """A cell in a list keeps its place, with no way from it and none to it."""
    question = closed_question(asked("compact/2"), Cell(1, 3))
    assert question is not None
    assert question.splitlines()[2] == (
        "Open: 1,1 RD 1,2 L 1,3 - 1,4 R 1,5 LD 2,1 UD 2,5 UD 3,1 RU 3,2 LR 3,3 LR 3,4 LR 3,5 LU"
    )
    assert closed_question(asked("compact/2"), Cell(2, 2)) is None


def test_effects_by_hand() -> None:
    """Of four decisions at needed cells one was wrong before; of three, two flip, one as if there
    were a wall, and one cannot be read. At unneeded cells nothing flips.
    """
    needed = TargetCell(Cell(1, 2), True, (RIGHT,), (DOWN,))
    unneeded = needed._replace(needed=False, changed=(RIGHT,))
    moves = [(RIGHT, DOWN), (RIGHT, UP), (RIGHT, None), (LEFT, DOWN)]
    outcomes = [
        TrialOutcome(f"grid {step}", (7, 7), needed, before, after)
        for step, (before, after) in enumerate(moves)
    ]
    outcomes += [TrialOutcome(f"grid {n}", (7, 7), unneeded, RIGHT, RIGHT) for n in range(5)]
    candidate = Candidate("knock-out", 1, "pre/cell", lambda *_: None)
    row = row_of(candidate, outcomes)
    assert candidate.label == "knock-out at layer 1"
    shares = (row.needed.flips, row.needed.as_if_changed, row.needed.unreadable)
    assert [share.value for share in shares] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert {share.n for share in shares} == {3}
    assert (row.unneeded.flips.value, row.unneeded.flips.n) == (0, 5)
    written: dict[str, Any] = row.to_json()
    assert written["needed"]["flips"]["value"] == pytest.approx(2 / 3)
    assert written["layer"] == 1 and written["is_null"] is False
