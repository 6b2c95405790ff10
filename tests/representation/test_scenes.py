"""Scenes: labels of cells, grids by content, which cells are uncertain."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import representation as oracle
from representation.scenery import PICTURES, scenes_of

from goalmeter.gridworld import Cell, GridWorld, State, key_door, maze
from goalmeter.gridworld.planner import plan
from goalmeter.representation.scenes import DOOR, EMPTY, KEY, Scenes, cells_in, uncertain_cells


def test_a_key_that_was_taken_and_an_open_door_are_empty() -> None:
    world = key_door(0)
    assert world.key is not None and world.door is not None
    kept = [world.start] * 3
    labels = Scenes.of([world] * 3, [State(c, layer) for layer, c in enumerate(kept)], [0] * 3)
    assert [labels.labels[i][world.key] for i in range(3)] == [KEY, EMPTY, EMPTY]
    assert [labels.labels[i][world.door] for i in range(3)] == [DOOR, DOOR, EMPTY]


def test_grids_are_numbered_by_content() -> None:
    base = maze(7, 1.0, seed=3).world
    turned = GridWorld(np.rot90(base.walls), *(_turned(c) for c in (base.start, base.goal)))
    other = maze(7, 1.0, seed=4).world
    scenes = Scenes.of(
        [base, other, turned], [State(w.start) for w in (base, other, turned)], [0, None, 1]
    )
    assert scenes.grids.tolist() == [0, 1, 0]
    assert scenes.where(np.array([2, 1])).grids.tolist() == [0, 1]
    assert scenes.where(np.array([False, True, False])).actions == (None,)


def _turned(cell: Cell) -> Cell:
    return Cell(6 - cell.column, cell.row)


def test_optimal_actions_and_detours_are_the_planner_s() -> None:
    scenes = scenes_of(*PICTURES)
    for number, world in enumerate(scenes.worlds):
        planned = plan(world)
        actions = np.flatnonzero(scenes.optimal[number]).tolist()
        assert actions == list(planned.optimal_actions(planned.start))
    # In the first the compass has only the way down; in the second and third it has both or one.
    assert scenes.compass.tolist() == [
        [False, False, False, True],
        [False, True, False, True],
        [False, False, False, True],
    ]
    assert scenes.detour.tolist() == [False, True, False]


@pytest.mark.parametrize("least", [0.05, 0.3, 0.5])
def test_uncertain_cells_agree_with_counting(least: float) -> None:
    # The first grid has two scenes, and still one vote.
    worlds = [maze(7, 0.6, seed=seed).world for seed in (0, 0, 1, 2, 3)]
    scenes = Scenes.of(worlds, [State(world.start) for world in worlds], [0] * 5)
    (cells,) = uncertain_cells(scenes, least=least).values()
    by_grid = [[w.walls.tolist() for w in worlds[:2]], *([w.walls.tolist()] for w in worlds[2:])]
    expected = oracle.uncertain(by_grid, least)
    assert {(int(r), int(c)) for r, c in np.argwhere(cells)} == expected
    spread = cells_in(scenes, {(7, 7): cells})
    assert (spread == cells).all() and not cells_in(scenes, {}).any()
