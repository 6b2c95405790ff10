"""Spans of an answer by its words, and changes that hold for a span or while it is written."""

from __future__ import annotations

import re
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.world import Cell

pytest.importorskip("transformers")

import torch
from representation.tiny import CORRIDOR, ROOM, sample
from representation.use.test_causal_use import decisions

from goalmeter.representation.replay import Located
from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.interventions import (
    Behind,
    Intervention,
    Span,
    Steps,
    Token,
    Written,
    ablate,
    always,
    applied,
    knock_out,
    never,
    patch,
    write,
)
from goalmeter.representation.use.look_ups import (
    SPANS,
    span_at,
    span_candidates,
    span_of,
    spans_met,
    steps_of,
)

ARCHITECTURES = ["llama", "gpt-oss", "gpt2", "qwen"]
CELL = Cell(2, 3)


# --- Words ----------------------------------------------------------------------------------------


class Words:
    """A tokenizer whose tokens are words of a list."""

    def __init__(self, text: str, by: str | None = None) -> None:
        self.words = text.split() if by is None else re.findall(r"</think>|.", text, re.DOTALL)
        self._blank = " " if by is None else ""
        self.ids = list(range(len(self.words)))

    def decode(self, ids: Any) -> str:
        return self._blank.join(self.words[token] for token in ids)


SEARCH = (
    "<think> target 1,3 1,3: RD 1,3> 1,4 2,3 1,4: L 2,3: UD 2,3> 3,3 1,1: U 3,3: UD 4,1 4,1: U "
    "plan 4,1 UP 1,1 LEFT </think> answer"
)


def test_the_spans_of_a_search_by_hand() -> None:
    """The cell 2,3 is named in the turn of its neighbour 1,3; 3,3 is another neighbour."""
    words = Words(SEARCH)
    written, read = Written(words), []
    for token in words.ids:
        written.append(token)
        read.append(span_at(written.text, CELL))
    by_hand = ["neighbours"] * 8  # the target is a neighbour, and so is the first to have its turn
    by_hand[:2] = ["before"] * 2
    by_hand += ["behind"] * 2 + ["own"] * 4 + ["behind"] * 2 + ["neighbours"] * 3 + ["behind"] * 2
    by_hand += ["plan"] * 5 + ["answer"] * 2
    assert read == by_hand
    assert spans_met(words.ids, words, CELL) == {"prompt", "answering", *by_hand}
    assert spans_met(words.ids[:2], words, CELL) == {"prompt", "answering", "before"}
    steps = steps_of(words.ids, words)
    assert [" ".join(words.words[s.first : s.last]) for s in steps] == [
        "<think> target 1,3",
        "1,3: RD 1,3> 1,4 2,3",
        "1,4: L",
        "2,3: UD 2,3> 3,3",
        "1,1: U",
        "3,3: UD 4,1",
        "4,1: U",
        "plan 4,1 UP 1,1 LEFT",
        "</think> answer",
    ]
    assert [s.name for s in steps] == [*(f"step {k}" for k in range(1, 8)), "plan", "answer"]


def test_sentences_in_letters() -> None:
    """The same of prose whose tokens are letters; a cell is the first that its sentence names."""
    text = (
        'I plan well. From (2, 3) go up.\nAt (1, 3) is a wall.\nPlan: UP, UP</think>{"action": 1}'
    )
    words = Words(text, by="letters")
    steps = [
        (s.name, "".join(words.words[s.first : s.last]).strip()) for s in steps_of(words.ids, words)
    ]
    assert steps == [
        ("step 1", "I plan well."),
        ("step 2", "From (2, 3) go up."),
        ("step 3", "At (1, 3) is a wall."),
        ("step 4", "Pla"),
        ("plan", "n: UP, UP"),
        ("answer", '</think>{"action": 1}'),
    ]
    assert span_at(text[:20], CELL) == "before"
    assert span_at(text[:28], CELL) == "own"
    assert span_at(text[:44], CELL) == "neighbours"
    assert span_at("At (12, 3) and 2,31 nothing", CELL) == "before"


def test_reasoning_without_marks_has_equal_shares() -> None:
    words = Words("one two three four five six seven eight nine </think> UP")
    found = [(s.name, s.first, s.last) for s in steps_of(words.ids, words)]
    assert found == [
        ("step 1", 0, 3),
        ("step 2", 3, 6),
        ("step 3", 6, 9),
        ("answer", 9, 11),
    ]


def test_conditions_by_hand() -> None:
    """A text may end inside a token, and is completed once; what is cut is forgotten."""
    words = Words("ab c abc ab")
    written = Written(words)
    asked = [Behind("ab"), Behind("b a"), Steps(1, 3), Token(2), always, never]
    met: list[list[bool]] = []
    for token in words.ids:
        written.append(token)
        met.append([condition(written) for condition in asked])
    assert [[int(hit) for hit in row] for row in zip(*met, strict=True)] == [
        [1, 0, 1, 1],
        [0, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 0],
        [1, 1, 1, 1],
        [0, 0, 0, 0],
    ]
    assert written.text == "ab c abc ab"
    written.cut(1)
    written.append(3)
    assert written.text == "ab ab" and Behind("b a")(written)


# --- Against whole passes -------------------------------------------------------------------------


def allowed(length: int, closed: list[tuple[int, int]], width: int = 10_000) -> Any:
    """A causal mask of a width without some pairs of (looking, seen), [1, 1, T, T]."""
    seen = torch.ones(length, length, dtype=torch.bool).tril().triu(1 - width)
    for looking, place in closed:
        seen[looking, place] = False
    return torch.zeros(length, length).masked_fill(~seen, torch.finfo(torch.float32).min)[
        None, None
    ]


def literal_logits(network: Any, ids: list[int], closed: list[tuple[int, int]]) -> Any:
    """Of the last token, by one pass without a cache under an explicit mask in every block."""
    mask = allowed(len(ids), closed)
    if "sliding_attention" in (getattr(network.local.model.config, "layer_types", None) or []):
        width = network.local.model.config.sliding_window
        near = allowed(len(ids), closed, width)
        mask = {"full_attention": mask, "sliding_attention": near}
    kernels = network.local.model.config._attn_implementation
    network.local.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return network.local.model(
                torch.tensor([ids]), attention_mask=mask, use_cache=False
            ).logits[0, -1]
    finally:
        network.local.model.set_attn_implementation(kernels)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_span_is_masked_and_nothing_else(networks: dict[str, Any], name: str) -> None:
    """A batch of two lengths and five spans, token by token, against masks that are spelled out."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    taken = [sample(network, ROOM), sample(network, CORRIDOR)] * 2 + [sample(network, ROOM)]
    ends = [len(each.prompt) for each in taken]
    keys = [[ends[0] - 9, 40], [ends[1] - 3], [40], [ends[3] - 5, ends[3] - 6], [ends[4] - 1]]
    spans = [Span(True, never), Span(False), Span(True, Steps(2, 4)), Span(False, Steps(1)), Span()]
    looks = [
        lambda step: step < 0,
        lambda step: step >= 0,
        lambda step: step < 0 or 2 <= step < 4,
        lambda step: step >= 1,
        lambda step: True,
    ]
    changes = [knock_out(k, layers, span) for k, span in zip(keys, spans, strict=True)]
    answers = answer_all(network, taken, changes, tokens=6)
    for each, places, look, answer in zip(taken, keys, looks, answers, strict=True):
        ids = list(each.prompt)
        for token in answer.tokens:
            closed = [
                (query, key)
                for key in places
                for query in range(key + 1, len(ids))
                if look(query - len(each.prompt))
            ]
            assert int(literal_logits(network, ids, closed).argmax()) == token
            ids.append(token)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tokens_are_changed_while_they_are_written(networks: dict[str, Any], name: str) -> None:
    """With a cache as in whole passes in which the same places are changed by hand."""
    network = networks[name]
    generator = torch.Generator().manual_seed(2)
    vector, other = 20 * torch.randn(2, network.width, generator=generator)
    taken = [sample(network, ROOM), sample(network, CORRIDOR), sample(network, ROOM)]
    changes = [
        write(vector, Steps(1, 2), [1]).joined(ablate(other, Steps(1, 3), [1])),
        patch({0: other, 2: vector}, Steps(2)),
        Intervention(),
    ]
    along = other / other.norm()

    def removed(stream: Any) -> Any:
        return stream - (stream @ along) * along

    by_hand: list[dict[int, Any]] = [
        {1: lambda step, x: removed(x + vector) if step == 1 else removed(x) if step == 2 else x},
        {
            0: lambda step, x: other if step >= 2 else x,
            2: lambda step, x: vector if step >= 2 else x,
        },
        {},
    ]
    answers = answer_all(network, taken, changes, tokens=5)
    for each, edits, answer in zip(taken, by_hand, answers, strict=True):
        ids, length = list(each.prompt), len(each.prompt)
        for token in answer.tokens:

            def changed(edit: Any, size: int = length) -> Any:
                def change(stream: Any) -> Any:
                    rows = [
                        edit(place - size, row) if place >= size else row
                        for place, row in enumerate(stream[0])
                    ]
                    return torch.stack(rows)[None]

                return change

            with (
                network.changed({layer: changed(edit) for layer, edit in edits.items()}),
                torch.inference_mode(),
            ):
                logits = network.local.model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            assert int(logits.argmax()) == token
            ids.append(token)
    assert answers[0] != answers[2]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_whole_passes_know_what_was_written(networks: dict[str, Any], name: str) -> None:
    """A prompt that is read together with the beginning of its answer is changed alike."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    vector = 20 * torch.randn(network.width, generator=torch.Generator().manual_seed(3))
    taken = [sample(network, ROOM), sample(network, CORRIDOR)]
    changes = [
        knock_out([50], layers, Span(False, Steps(1, 3))),
        write(vector, Steps(2), [1]).joined(knock_out([60], layers)),
    ]
    answers = answer_all(network, taken, changes, tokens=5)
    for each, change, answer in zip(taken, changes, answers, strict=True):
        ids = [*each.prompt, *answer.tokens]
        with (
            applied(network, [change], [len(each.prompt)], [len(answer.tokens)]),
            torch.inference_mode(),
        ):
            logits = network.local.model(torch.tensor([ids]), use_cache=False).logits[0]
        read = logits[len(each.prompt) - 1 : -1].argmax(dim=1)
        assert tuple(read.tolist()) == answer.tokens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: knock_out([0], [3], Span(False)), "layer 3 is to be masked, expected 1 to 2"),
        (lambda v: knock_out([9], [1], Span(False)), "token 9 of the prompt is to be masked"),
        (lambda v: write(v, Steps(1), [3]), "layer 3 is to be edited, expected 0 to 2"),
    ],
)
def test_what_is_refused(networks: dict[str, Any], change: Any, message: str) -> None:
    network = networks["llama"]
    with (
        pytest.raises(InvalidParameterError, match=message),
        applied(network, [change(torch.ones(network.width))], [4]),
    ):
        raise AssertionError("it was applied")


# --- The mouse ------------------------------------------------------------------------------------


def test_the_mouse_looks_a_cell_up_when_its_neighbours_have_their_turn(mouse: Any) -> None:
    """The way to a cell is found from a neighbour; neither the prompt nor its own turn needs it."""
    from goalmeter.representation.use.directions import target_cells

    changes, taken, without = [], [], []
    for each in decisions(mouse, 8):
        located = Located(each, mouse.local.tokenizer)
        for target in target_cells(each.world, each.state):
            if target.needed and target.cell.row % 2 != target.cell.column % 2:
                changes.append(
                    {c.name: c.make(located, target.cell) for c in span_candidates(mouse)}
                )
                taken.append(each)
                without.append(target.changed)
                break
    assert len(taken) >= 4
    assert set(changes[0]) == {f"knock-out, {name}" for name in (*SPANS, "answering")}
    hits = {}
    for name in ("prompt", "neighbours", "own", "plan"):
        answers = answer_all(mouse, taken, [each[f"knock-out, {name}"] for each in changes])
        moves = zip(answers, without, strict=True)
        hits[name] = sum(answer.action in set(moves) for answer, moves in moves)
    assert hits["prompt"] == hits["own"] == hits["plan"] == 0
    assert hits["neighbours"] >= len(taken) - 1


def test_spans_of_a_cell_are_all_of_the_answer(mouse: Any) -> None:
    """Knocked out for the prompt and for all spans of the answer, a cell is knocked out."""
    (each,) = decisions(mouse, 1)
    located = Located(each, mouse.local.tokenizer)
    cell = each.world.open_cells[3]
    layers = range(1, len(mouse.blocks) + 1)
    tokens = located.cell(cell)
    parts = Intervention()
    for name in SPANS:
        parts = parts.joined(knock_out(tokens, layers, span_of(name, cell)))
    whole = knock_out(tokens, layers)
    assert answer_all(mouse, [each], [parts]) == answer_all(mouse, [each], [whole])
