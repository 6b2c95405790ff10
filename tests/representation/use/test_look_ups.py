"""When the mouse looks a cell up: hidden from one span at a time, beside another cell."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter.gridworld.world import Cell

pytest.importorskip("transformers")

from representation.use.test_causal_use import decisions

from goalmeter.representation.network import Network
from goalmeter.representation.result_rows import SpanRow
from goalmeter.representation.use.causal_use import ANSWERING, SPANS, look_ups, span_at, spans_of
from goalmeter.representation.use.interventions import WrittenText

CELL = Cell(2, 3)


class Words:
    """A tokenizer whose tokens are words of a list."""

    def __init__(self, text: str) -> None:
        self.words = text.split()
        self.ids = list(range(len(self.words)))

    def decode(self, ids: Any) -> str:
        return " ".join(self.words[token] for token in ids)


SEARCH = (
    "<think> target 1,3 1,3: RD 1,3> 1,4 2,3 1,4: L 2,3: UD 2,3> 3,3 1,1: U 3,3: UD 4,1 4,1: U "
    "plan 4,1 UP 1,1 LEFT </think> answer"
)


def test_the_spans_of_a_search_by_hand() -> None:
    """The cell 2,3 is named in the turn of its neighbour 1,3; 3,3 is another neighbour."""
    words = Words(SEARCH)
    written, read = WrittenText(words), []
    for token in words.ids:
        written.ids.append(token)
        read.append(span_at(written.text, CELL))
    by_hand = ["neighbours"] * 8  # the target is a neighbour, and so is the first to have its turn
    by_hand[:2] = ["before"] * 2
    by_hand += ["behind"] * 2 + ["own"] * 4 + ["behind"] * 2 + ["neighbours"] * 3 + ["behind"] * 2
    by_hand += ["plan"] * 5 + ["answer"] * 2
    assert read == by_hand
    assert spans_of(words.ids, words, CELL) == {"prompt", "answering", *by_hand}
    assert spans_of(words.ids[:2], words, CELL) == {"prompt", "answering", "before"}


def test_the_spans_of_prose_by_hand() -> None:
    """A step is about the first cell that its sentence names."""
    text = "I plan well. From (2, 3) go up.\nAt (1, 3) is a wall.\nPlan: UP, UP"
    assert span_at(text[:20], CELL) == "before"
    assert span_at(text[:28], CELL) == "own"
    assert span_at(text[:44], CELL) == "neighbours"
    assert span_at(text, CELL) == "plan"
    assert span_at(f'{text}</think>{{"action": 1}}', CELL) == "answer"
    assert span_at("At (12, 3) and 2,31 nothing", CELL) == "before"


@pytest.fixture(scope="module")
def of_the_mouse(mouse: Network) -> dict[str, SpanRow]:
    return {each.span: each for each in look_ups(decisions(mouse, 14), mouse)}


@pytest.mark.slow
def test_it_looks_cells_up_at_the_turns_of_their_neighbours(
    of_the_mouse: dict[str, SpanRow],
) -> None:
    """And nowhere else; hiding another cell from the same tokens changes no move."""
    assert set(of_the_mouse) == {*SPANS, ANSWERING}
    flips = {span: each.flips for span, each in of_the_mouse.items()}
    assert flips["neighbours"].n >= 4
    assert flips["neighbours"].value == flips["answering"].value > 0.75
    for span in ("prompt", "own", "plan", "answer"):
        assert flips[span].value == 0
    for each in of_the_mouse.values():
        assert each.other_flips.value < 0.25
        assert each.other_flips.n == each.cells
