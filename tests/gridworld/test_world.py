"""A grid world: checked once, compared by content, its text, its frames and its content."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from oracles.grid_contents import content as literal_content

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.conversions import rendered
from goalmeter.gridworld.generators import key_door, maze, two_paths
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, State, layers_of, plan
from goalmeter.gridworld.world import (
    REFLECT,
    ROTATE,
    SWAP,
    TRANSPOSE,
    Cell,
    GridWorld,
    Transform,
    content,
    has_few_contents,
)

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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GridWorld([[1, 1], [1, 1]], (0, 0), (1, 1)), "walls have shape (2, 2)"),
        (lambda: GridWorld.from_text(["####", "#AG_", "####"]), "expected walls along the border"),
        (lambda: GridWorld.from_text(PICTURE).with_(key=(1, 3)), "column 3, where the wall is"),
        (lambda: GridWorld.from_text(PICTURE).with_(goal=(1, 9)), "outside the 4 x 6 grid"),
        (lambda: GridWorld.from_text(PICTURE).with_(goal=(1, 1)), "column 1, where the start is"),
        (lambda: GridWorld.from_text(PICTURE).with_(key=None), "there is a door but no key"),
        (lambda: GridWorld.from_text(["####", "#A#", "####"]), "has rows of [3, 4] cells"),
        (lambda: GridWorld.from_text(["####", "#A?#", "####"]), "has '?' at row 1, column 2"),
        (lambda: GridWorld.from_text(["####", "#A_#", "####"]), "has 0 cells G, expected one"),
        (
            lambda: GridWorld.from_text(["######", "#AGKN#", "######"]),
            "there is a neutral object and a key or a door, expected one object to pick up",
        ),
    ],
)
def test_errors(make: Callable[[], GridWorld], message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        make()
    assert message in str(caught.value)


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


WORLDS = [
    *(maze(9, 0.6, seed).world for seed in range(2)),
    *(key_door(seed) for seed in range(2)),
    two_paths(3).world,
    two_paths(3).world.with_(key=None, neutral=two_paths(3).world.key),
    GridWorld.from_text(["#####", "#A_G#", "#_###", "#####"]),  # not square
]
ISOMETRIES = [REFLECT, ROTATE, TRANSPOSE]


def test_frames_by_hand() -> None:
    world = GridWorld.from_text(["#####", "#A_G#", "#_###", "#####"])
    assert str(REFLECT(world)).splitlines() == ["#####", "#G_A#", "###_#", "#####"]
    assert str(ROTATE(world)).splitlines() == ["####", "#G##", "#_##", "#A_#", "####"]
    assert str(TRANSPOSE(world)).splitlines() == ["####", "#A_#", "#_##", "#G##", "####"]
    assert str(SWAP(world)).splitlines() == ["#####", "#G_A#", "#_###", "#####"]
    left, right, up, down = range(4)
    assert REFLECT.actions == (right, left, up, down)
    assert ROTATE.actions == (down, up, left, right)
    assert TRANSPOSE.actions == (up, down, left, right)


@pytest.mark.parametrize("transform", ISOMETRIES, ids=lambda t: t.name)
@pytest.mark.parametrize("world", WORLDS)
def test_nothing_but_the_labels_changes(transform: Transform, world: GridWorld) -> None:
    before, after = plan(world), plan(transform(world))
    assert (transform(world).neutral is None) == (world.neutral is None)
    layers = layers_of(world)
    for cell in world.open_cells:
        for layer in range(layers):
            at = State(cell, layer)
            there = State(transform.cell(cell, world.shape), layer)
            assert after.distance_from(there) == before.distance_from(at)
            assert set(after.optimal_actions(there)) == {
                transform.action(a) for a in before.optimal_actions(at)
            }
            for action in range(4):
                moved = before.step(at, action)
                assert after.step(there, transform.action(action)) == State(
                    transform.cell(moved.cell, world.shape), moved.layer
                )


def literal(world: GridWorld) -> tuple[object, ...]:
    named = (world.goal, world.start) if has_few_contents(world) else (world.goal,)
    return literal_content(world.size, world.open_cells, *named)


def test_contents_by_hand() -> None:
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
        for seed in range(25)
    ]
    pairs = {(content(world), literal(world)) for world in worlds}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert len(pairs) < len(worlds)  # some were drawn twice, so the equality was tried
