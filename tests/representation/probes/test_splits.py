"""Splits by grid: no grid in two parts, every shape in every part, all scenes scored by folds."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter import GoalmeterError
from goalmeter.gridworld import State, maze
from goalmeter.representation.scenes import Scenes, Split, folds, split


def scenes(sizes: dict[int, int], each: int = 2) -> Scenes:
    worlds = [
        maze(size, 1.0, seed=seed).world
        for size, count in sizes.items()
        for seed in range(count)
        for _ in range(each)
    ]
    return Scenes.of(worlds, [State(world.start) for world in worlds], [0] * len(worlds))


MADE = scenes({7: 20, 9: 9})


def check(made: Scenes, parts: Split) -> None:
    """Every scene in one part, every grid in one part, every shape in every part."""
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(made)))
    grids = [set(made.grids[part].tolist()) for part in parts]
    assert not (grids[0] & grids[1] or grids[0] & grids[2] or grids[1] & grids[2])
    for part in parts:
        assert {tuple(shape) for shape in made.shapes[part].tolist()} == {(7, 7), (9, 9)}


def test_no_grid_is_in_two_parts_and_every_shape_is_in_each() -> None:
    for seed in range(3):
        check(MADE, split(MADE, seed=seed))
    sizes = [len(part) for part in split(MADE, validation=0.2, test=0.3)]
    n = len(np.unique(MADE.grids)) * 2
    assert abs(sizes[1] - 0.2 * n) <= 4 and abs(sizes[2] - 0.3 * n) <= 4


def test_folds_score_every_scene_once() -> None:
    parts = folds(MADE, 3, seed=0)
    for part in parts:
        check(MADE, part)
    assert sorted(np.concatenate([p.test for p in parts]).tolist()) == list(range(len(MADE)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split(scenes({7: 2})), "a shape has 2 grids, expected at least 3"),
        (lambda: folds(MADE, 30), "expected at least 30 .*; choose fewer parts"),
        (lambda: folds(scenes({7: 3}), 2), "expected at least 4 for"),
    ],
)
def test_impossible_divisions_are_refused(call: object, message: str) -> None:
    with pytest.raises(GoalmeterError, match=message):
        call()  # type: ignore[operator]
