from __future__ import annotations

import math
import re

import numpy as np
from report.drawn import texts

from goalmeter.report.canvas import BLUE, GREEN, MUTED, VERMILION
from goalmeter.report.maps import Marked, belief_map

SHARES = [[1.0, 1.0, 1.0], [1.0, 0.03, 0.62], [1.0, 0.97, 1.0]]
RIGHT, LEFT = (0, 1), (0, -1)


def test_letters_and_the_probabilities_that_a_shade_does_not_tell() -> None:
    marked = Marked(letters={(1, 1): "A"})
    shown = texts(belief_map("b", SHARES, marked, label="probability"))
    assert {"A", ".62", "probability"} <= set(shown)
    assert ".03" not in shown and ".97" not in shown
    # A letter takes the place of its cell's number.
    assert ".62" not in texts(belief_map("b", SHARES, Marked(letters={(1, 2): "G"}), label="p"))
    # Without a scale cells are walls or not.
    assert texts(belief_map("b", np.rint(SHARES), marked)) == ["A"]


def test_the_same_picture_has_the_same_bytes_and_its_name_in_its_ids() -> None:
    first, second = (belief_map("b", SHARES, Marked(), label="p") for _ in range(2))
    assert first == second and re.search(r'id="b-figure_1"', first)


def test_a_move_looks_as_it_is_judged() -> None:
    def drawn(taken: tuple[int, int] | None) -> str:
        return belief_map("b", SHARES, Marked(start=(1, 1), moves=[RIGHT], taken=taken))

    assert VERMILION in drawn(LEFT) and VERMILION not in drawn(RIGHT)
    # The triangle of the right move is there whatever was done; the arrow adds to it.
    assert 0 < drawn(None).count(BLUE) < drawn(RIGHT).count(BLUE)
    assert drawn(LEFT).count(BLUE) == drawn(None).count(BLUE)
    # Of an agent that stands nowhere no move is drawn.
    nowhere = belief_map("b", SHARES, Marked(moves=[RIGHT], taken=RIGHT))
    assert BLUE not in nowhere


def test_frames_and_crosses_are_told_apart_by_more_than_colour() -> None:
    def drawn(**marks: frozenset[tuple[int, int]]) -> str:
        return belief_map("b", SHARES, Marked(**marks), label="p")  # type: ignore[arg-type]

    place = frozenset({(1, 2)})
    assert GREEN in drawn(framed=place) and "dasharray" not in drawn(framed=place)
    dotted = drawn(dotted=place)
    assert MUTED in dotted and "dasharray" in dotted and GREEN not in dotted
    assert VERMILION in drawn(crossed=place) and VERMILION not in drawn()


def test_what_nobody_knows_is_hatched_and_has_no_shade() -> None:
    known = belief_map("b", SHARES, Marked(), label="p")
    shares = [[math.nan] * 3, *SHARES[1:]]
    unknown = belief_map("b", shares, Marked(), label="p")
    assert "pattern" in unknown and "pattern" not in known
    assert "nan" not in "".join(texts(unknown))
    # Nothing at all is known of a state without a posterior.
    assert "nan" not in "".join(
        texts(belief_map("b", np.full((3, 3), math.nan), Marked(), label="p"))
    )


def test_cells_are_as_large_with_a_scale_as_without() -> None:
    def side(svg: str) -> float:
        boxes = re.findall(r'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [\d.]+ \nL', svg)
        return max(abs(float(b) - float(a)) for a, b in boxes if float(a) < 100)

    def width(svg: str) -> str:
        match = re.search(r'viewBox="0 0 ([\d.]+)', svg)
        assert match
        return match[1]

    plain, scaled = belief_map("b", SHARES, Marked()), belief_map("b", SHARES, Marked(), label="p")
    assert width(plain) == width(scaled)
    assert side(plain) > 0
