"""Shortest paths on open cells, for many sources at once."""

from __future__ import annotations

import numpy as np

from goalmeter._types import ArrayLike, BoolArray, IntArray


def distances_from(walls: BoolArray, sources: ArrayLike) -> IntArray:
    """Steps from each source to every cell, [sources, rows, columns]; -1 where none leads.

    Args:
        walls: [rows, columns].
        sources: rows and columns, [sources, 2].
    """
    places = np.asarray(sources).reshape(-1, 2)
    n = len(places)
    open_ = ~walls
    steps = np.full((n, *walls.shape), -1, dtype=np.int64)
    front = np.zeros((n, *walls.shape), dtype=bool)
    front[np.arange(n), places[:, 0], places[:, 1]] = True
    front &= open_
    # A breadth-first search from all sources at once: `front` holds the cells at distance `step`.
    step = 0
    while front.any():
        steps[front] = step
        step += 1
        # The border is wall, so a shift by one never wraps around.
        spread = np.zeros_like(front)
        spread[:, 1:] |= front[:, :-1]
        spread[:, :-1] |= front[:, 1:]
        spread[:, :, 1:] |= front[:, :, :-1]
        spread[:, :, :-1] |= front[:, :, 1:]
        front = spread & open_ & (steps < 0)
    return steps
