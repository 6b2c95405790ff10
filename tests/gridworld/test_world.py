"""A grid world is checked once, compared by content, and is its picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.world import Cell, GridWorld

PICTURE = ["######", "#A_#G#", "#_KD_#", "######"]


def test_a_world_is_its_picture() -> None:
    world = GridWorld.from_text(PICTURE)
    assert (world.start, world.goal) == (Cell(1, 1), Cell(1, 4))
    assert (world.key, world.door) == (Cell(2, 2), Cell(2, 3))
    assert world.shape == (4, 6)
    assert str(world).splitlines() == PICTURE
    assert GridWorld.from_text(str(world)) == world
    assert GridWorld.from_text("\n".join(" ".join(row) for row in PICTURE)) == world
    assert eval(repr(world)) == world
    assert len({world, GridWorld.from_text(PICTURE)}) == 1
    assert world != "world"


def test_walls_cannot_be_changed() -> None:
    walls = np.ones((3, 4), dtype=bool)
    walls[1, 1:3] = False
    world = GridWorld(walls, (1, 1), (1, 2))
    walls[1, 2] = True
    assert not world.walls[1, 2]
    with pytest.raises(ValueError, match="read-only"):
        world.walls[1, 2] = True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GridWorld([[1, 1], [1, 1]], (0, 0), (1, 1)), "walls have shape (2, 2)"),
        (lambda: GridWorld.from_text(["####", "#AG_", "####"]), "the border of a grid is wall"),
        (lambda: GridWorld.from_text(PICTURE).with_(key=(1, 3)), "column 3, where there is a wall"),
        (lambda: GridWorld.from_text(PICTURE).with_(goal=(1, 9)), "outside the 4 x 6 grid"),
        (lambda: GridWorld.from_text(PICTURE).with_(goal=(1, 1)), "column 1, where the start is"),
        (lambda: GridWorld.from_text(PICTURE).with_(key=None), "there is a door but no key"),
        (lambda: GridWorld.from_text(["####", "#A#", "####"]), "has rows of [3, 4] cells"),
        (lambda: GridWorld.from_text(["####", "#A?#", "####"]), "has '?' at row 1, column 2"),
        (lambda: GridWorld.from_text(["####", "#A_#", "####"]), "has 0 cells G, expected one"),
        (
            lambda: GridWorld.from_text(["######", "#AGKN#", "######"]),
            "there is a neutral object and a key or a door, expected one thing to pick up",
        ),
    ],
)
def test_errors(make: Callable[[], GridWorld], message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        make()
    assert message in str(caught.value)
