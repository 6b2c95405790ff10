"""Isometries keep every distance and, with their actions relabelled, every optimal action."""

from __future__ import annotations

import pytest

from goalmeter.gridworld.generators import key_door, maze, two_paths
from goalmeter.gridworld.planner import State, layers_of, plan
from goalmeter.gridworld.world import REFLECT, ROTATE, SWAP, TRANSPOSE, GridWorld, Transform

WORLDS = [
    *(maze(9, 0.6, seed).world for seed in range(4)),
    *(key_door(seed) for seed in range(4)),
    two_paths(3).world,
    two_paths(3).world.with_(key=None, neutral=two_paths(3).world.key),
    GridWorld.from_text(["#####", "#A_G#", "#_###", "#####"]),  # not square
]
ISOMETRIES = [REFLECT, ROTATE, TRANSPOSE]


def test_by_hand() -> None:
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
