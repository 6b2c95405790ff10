from __future__ import annotations

import re

import numpy as np
from report.drawn import texts

from goalmeter.report.maps import Move, walk_map

WALLS = np.array([[c in "#" for c in row] for row in ("#####", "#___#", "#####")])
MOVES = [
    Move((1, 1), (1, 2), good=True),
    Move((1, 2), (1, 2), good=False),  # a bump
    Move((1, 2), (1, 2), good=False, made=False),  # an answer that was no action
    Move((1, 2), (1, 1), good=False),
]


def test_places_and_steps_are_written_into_their_cells() -> None:
    svg = walk_map("w", WALLS, {(1, 1): "S", (1, 3): "G"}, MOVES)
    shown = texts(svg)
    assert {"S", "G", "1", "2,3…"} <= set(shown)  # three steps in one cell, two of them named
    assert svg == walk_map("w", WALLS, {(1, 1): "S", (1, 3): "G"}, MOVES)
    assert re.search(r'id="w-figure_1"', svg)


def test_what_is_wrong_looks_different() -> None:
    def strokes(*moves: Move) -> int:
        return walk_map("w", WALLS, {}, moves).count("#d55e00")

    good, bump, none, wrong = MOVES
    assert strokes(good) == 0
    assert all(strokes(move) > 0 for move in (bump, none, wrong))
    dashed = [walk_map("w", WALLS, {}, [move]).count("stroke-dasharray") for move in (good, wrong)]
    assert dashed[0] == 0 < dashed[1]
    # There and back are two lines, not one on top of the other.
    back = Move((1, 2), (1, 1), good=True)
    svg = walk_map("w", WALLS, {}, [good, back])
    assert len(set(re.findall(r'<path d="M [\d.]+ ([\d.]+) \nQ', svg))) == 2
