"""When the mouse looks a cell up: hidden from one span at a time, beside another cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

from representation.use.test_causal_use import decisions

from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located
from goalmeter.representation.use.look_ups import (
    ANSWERING,
    SPANS,
    LookUp,
    _where_met,
    look_ups,
    span_candidates,
)
from goalmeter.representation.use.trials import CONFIRM, half_of


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "spans"


@pytest.fixture(scope="module")
def of_the_mouse(mouse: Network, kept: Path) -> dict[str, LookUp]:
    return {each.span: each for each in look_ups(decisions(mouse, 14), mouse, keep=kept)}


def test_it_looks_cells_up_at_the_turns_of_their_neighbours(
    of_the_mouse: dict[str, LookUp],
) -> None:
    """And nowhere else; hiding another cell from the same tokens changes no move."""
    assert set(of_the_mouse) == {*SPANS, ANSWERING}
    flips = {span: each.row.needed.flips for span, each in of_the_mouse.items()}
    assert flips["neighbours"].n >= 4
    assert flips["neighbours"].value == flips["answering"].value > 0.75
    for span in ("prompt", "own", "plan", "answer"):
        assert flips[span].value == 0
    for each in of_the_mouse.values():
        assert each.other.needed.flips.value < 0.25
        assert each.other.needed.flips.n == each.row.needed.flips.n


def test_a_kept_answer_is_not_asked_for_again(
    mouse: Network, of_the_mouse: dict[str, LookUp], kept: Path, monkeypatch: Any
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the model was asked")

    monkeypatch.setattr("goalmeter.representation.use.answers.answer_all", refuse)
    monkeypatch.setattr("goalmeter.representation.use.answers.Sweep", refuse)
    for each in look_ups(decisions(mouse, 14), mouse, keep=kept):
        before = of_the_mouse[each.span]
        # As text: no cell here is unneeded, and NaN is not NaN.
        assert str(each.row.to_json()) == str(before.row.to_json())
        assert str(each.other.to_json()) == str(before.other.to_json())


def test_a_span_that_an_answer_lacks_is_not_tried_on_it(mouse: Network) -> None:
    """Nothing would change, which says nothing of when the cell is looked up."""
    sample = decisions(mouse, 1)[0]
    located, cell = Located(sample, mouse.local.tokenizer), sample.world.open_cells[3]
    met = {(sample.digest, cell): frozenset({"prompt", "own"})}
    for candidate in span_candidates(mouse):
        span = candidate.name.removeprefix("knock-out, ")
        change = _where_met(candidate, span, met).make(located, cell)
        assert (change is not None) == (span in {"prompt", "own"})


def test_the_null_hides_another_cell_from_the_same_tokens(mouse: Network) -> None:
    sample = decisions(mouse, 1)[0]
    located, cell = Located(sample, mouse.local.tokenizer), sample.world.open_cells[3]
    for candidate in span_candidates(mouse, seed=2):
        (null,) = candidate.nulls
        ours, other = candidate.make(located, cell), null.make(located, cell)
        assert ours is not None and other is not None and null.is_null
        (hidden,), (shown) = ours.for_spans, other.for_spans[0]
        assert hidden.span == shown.span
        assert set(hidden.masked[1]).isdisjoint(shown.masked[1])


def test_without_a_needed_cell_it_is_refused(mouse: Network) -> None:
    rooms = decisions(mouse, 4, complexity=0.0)
    assert any(half_of(each.world, "0") == CONFIRM for each in rooms)
    with pytest.raises(InvalidParameterError, match="the confirm half has an uncertain cell"):
        look_ups(rooms, mouse)
