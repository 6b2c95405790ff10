"""Positions by meaning: in words of organisms by hand, and in byte-level prompts by spelling."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

from representation.tiny import ANSWER, ARCHITECTURES, CORRIDOR, ROOM, sample

from goalmeter.gridworld.world import Cell
from goalmeter.representation.replay import Located, position

TAUGHT = (
    "<think> target 1,3 1,3: L 1,3> 1,2 1,2: LR 1,2> 1,1 plan 1,1 RIGHT 1,2 RIGHT </think> "
    '{"action": "RIGHT"} <|end|>'
)


def words_at(located: Located, places: tuple[int, ...]) -> list[str]:
    """What the tokens at some places read."""
    decode = located.tokenizer.decode
    return [decode([located.sample.ids[place]]) for place in places]


def test_an_answer_by_hand(mouse: Any) -> None:
    """The prompt is <|user|>, 18 words, <|assistant|>; the answer has 22 words and its end.

    Rows: 3 Columns: 5 Open: 1,1 R 1,2 LR 1,3 L Goal: 1,3 Agent: 1,1 Key carried: no
    """
    taken = sample(mouse, CORRIDOR, prompt="compact/2", answer=TAUGHT)
    located = Located(taken, mouse.local.tokenizer)

    def read(name: str) -> list[str]:
        return words_at(located, position(name)(located))

    assert len(taken.prompt) == 20
    assert position("pre/end")(located) == (17, 18, 19)
    assert read("pre/end") == ["carried:", "no", "<|assistant|>"]
    assert read("pre/goal") == ["1,3"] and position("pre/goal")(located) == (13,)
    assert read("pre/agent") == ["1,1"] and position("pre/agent")(located) == (15,)
    # The last of the reasoning, the marker of its end, and the token behind.
    assert read("post/end") == ["RIGHT", "</think>", '{"action":']
    assert read("post/0") == ["<think>"] and read("post/1") == ["RIGHT"]
    assert read("post/step-1") == ["RIGHT"] and read("post/step-2") == ["RIGHT"]
    assert position("post/step-2")(located) == (position("post/step-1")(located)[0] + 2,)
    assert position("post/step-3")(located) == ()
    assert read("post/answer") == ['{"action":']
    assert located.stated_plan() == (1, 1)
    # A cell is its own word and the ways from it; a wall is not mentioned.
    assert words_at(located, located.cell(Cell(1, 2))) == ["1,2", "LR"]
    assert located.cell(Cell(0, 2)) == ()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_prompts_that_draw_the_grid(networks: dict[str, Any], name: str) -> None:
    located = Located(sample(networks[name]), networks[name].local.tokenizer)
    picture = [*map(list, ROOM)]
    for row, symbols in enumerate(picture):
        for column, symbol in enumerate(symbols):
            shown = "".join(words_at(located, located.cell(Cell(row, column))))
            assert symbol in shown and len(shown.replace(" ", "")) <= 3, (row, column, shown)
    assert "G" in "".join(words_at(located, position("pre/goal")(located)))
    assert "A" in "".join(words_at(located, position("pre/agent")(located)))
    last, marker, behind = words_at(located, position("post/end")(located))
    assert last.endswith("DOWN") and marker.endswith(">") and behind.startswith('{"action"')
    assert located.stated_plan() == (1, 1, 3)
    answer = position("post/answer")(located)
    assert words_at(located, (answer[0] + 1,)) == ["RIGHT"]
    assert len(position("post/0.5")(located)) == 1


def test_answers_that_lack_positions(mouse: Any) -> None:
    """An answer without reasoning has none of its positions; one that was cut has no end."""
    tokenizer = mouse.local.tokenizer
    plain = Located(sample(mouse, CORRIDOR, prompt="compact/2", answer=ANSWER), tokenizer)
    for name in ("post/end", "post/0.5", "post/step-1"):
        assert position(name)(plain) == ()
    assert words_at(plain, position("post/answer")(plain)) == ['{"action":']
    cut = Located(
        sample(mouse, CORRIDOR, prompt="compact/2", answer="<think> plan 1,1 RIGHT"), tokenizer
    )
    for name in ("post/end", "post/answer", "post/1"):
        assert position(name)(cut) == ()
    assert cut.stated_plan() == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("post/ends", r"did you mean post/end\? Expected one of pre/end"),
        ("post/1.5", "a share of the reasoning"),
        ("post/step-0", "post/step-1"),
        ("-16", "expected one of pre/end"),
    ],
)
def test_positions_that_do_not_exist(name: str, hint: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"unknown position '{name}'.*{hint}"):
        position(name)
