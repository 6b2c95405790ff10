"""Contents of grids: the same in every frame, different otherwise, and one in four held out."""

from __future__ import annotations

import pytest
from oracles.grid_contents import content as literal_content

from goalmeter.gridworld.generators import key_door, maze
from goalmeter.gridworld.world import (
    REFLECT,
    ROTATE,
    SWAP,
    TRANSPOSE,
    GridWorld,
    content,
    has_few_contents,
)


def literal(world: GridWorld) -> tuple[object, ...]:
    named = (world.goal, world.start) if has_few_contents(world) else (world.goal,)
    return literal_content(world.size, world.open_cells, *named)


def test_by_hand() -> None:
    maze_of_five = GridWorld.from_text(["#####", "#A__#", "###_#", "#G__#", "#####"])
    assert has_few_contents(maze_of_five)  # so its start counts
    mirrored = GridWorld.from_text(["#####", "#G__#", "###_#", "#A__#", "#####"])
    assert content(mirrored) == content(maze_of_five)  # upside down, and start and goal stay apart
    exchanged = SWAP(maze_of_five)
    assert content(exchanged) == content(maze_of_five)  # here the mirror image exchanges them too
    nearer = maze_of_five.with_(start=(1, 2))
    assert content(nearer) != content(maze_of_five)
    empty = GridWorld.from_text(["#######", *["#_____#"] * 3, "#A___G#", "#_____#", "#######"])
    assert has_few_contents(empty)
    assert content(empty.with_(start=(1, 1))) != content(empty)


@pytest.mark.parametrize("seed", range(6))
def test_a_turned_grid_has_the_same_content_whatever_lies_in_it(seed: int) -> None:
    for world in (maze(9, 0.6, seed).world, maze(7, 0, seed).world, key_door(seed)):
        for frame in (REFLECT, ROTATE, TRANSPOSE):
            assert content(frame(world)) == content(world)
    world = key_door(seed)
    assert content(world.with_(door=None)) == content(world)
    assert content(world.with_(key=None, door=None)) == content(world)
    elsewhere = next(cell for cell in world.open_cells if cell not in (world.goal, world.key))
    assert content(world.with_(door=None, start=elsewhere)) == content(world)
    assert content(world.with_(door=None, start=world.goal, goal=elsewhere)) != content(world)


def test_contents_are_equal_exactly_where_a_literal_comparison_finds_them_so() -> None:
    worlds = [
        maze(size, complexity, seed).world
        for size in (5, 7, 9)
        for complexity in (0, 0.4, 1)
        for seed in range(60)
    ]
    pairs = {(content(world), literal(world)) for world in worlds}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert len(pairs) < len(worlds)  # some were drawn twice, so the equality was tried
