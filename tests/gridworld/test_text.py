"""The text that a model reads, by hand."""

from __future__ import annotations

from goalmeter.gridworld.conversions import rendered
from goalmeter.gridworld.generators import maze
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, State
from goalmeter.gridworld.world import Cell, GridWorld

WORLD = GridWorld.from_text(["######", "#AKDG#", "######"])


def test_what_was_taken_and_opened_is_gone() -> None:
    row = [
        rendered(WORLD, State(Cell(1, column), layer)).splitlines()[2]
        for column, layer in ((1, 0), (2, WITH_KEY), (1, WITH_KEY), (2, DOOR_OPEN), (4, DOOR_OPEN))
    ]
    assert row == [
        "1 # A K D G #",
        "1 # _ A D G #",
        "1 # A _ D G #",
        "1 # _ A _ G #",
        "1 # _ _ _ A #",
    ]


def test_columns_stay_in_line_from_ten_on() -> None:
    lines = rendered(maze(11, 1.0, 0).world).splitlines()
    assert lines[0] == "   0  1  2  3  4  5  6  7  8  9  10"
    assert lines[11] == "10 " + "  ".join("#" * 11)
    assert all(len(line) in (len(lines[11]), len(lines[0])) for line in lines)
