"""Characters of a text, counted without blanks, and the tokens that they belong to."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from lm.tiny_models import tokenizer

from goalmeter.organisms.lessons import tokenizer as organism_tokenizer
from goalmeter.representation.replay import Spelling


def spelled(text: str, words: Any) -> tuple[Spelling, list[int]]:
    ids = words(text)["input_ids"]
    return Spelling.of(ids, words), ids


def test_a_text_by_hand() -> None:
    """Characters p l a n (0 to 3), 1 , 1 (4 to 6), R I G H T (7 to 11); blanks are not counted."""
    spelling, ids = spelled("plan 1,1\n  RIGHT", organism_tokenizer())
    assert len(ids) == 3
    assert spelling == Spelling("plan1,1RIGHT", (4, 7, 12))
    assert spelling.tokens(0, 4) == (0,)
    assert spelling.tokens(6, 8) == (1, 2)


@pytest.mark.parametrize("text", ["plain words, twice", "naïve — «ø» 🐭 mice", "日本 RIGHT 日本"])
def test_every_character_lies_in_its_token(text: str) -> None:
    """Bytes of one character may lie in several tokens: it is found where it is complete."""
    words = tokenizer()
    spelling, ids = spelled(text, words)
    assert spelling.text == "".join(text.split())
    assert spelling.ends[-1] == len(spelling.text) and len(spelling.ends) == len(ids)
    assert list(spelling.ends) == sorted(spelling.ends)
    for at in range(len(spelling.text)):
        places = spelling.tokens(at, at + 1)
        shown = "".join(words.decode(ids[: places[-1] + 1]).split())
        earlier = "".join(words.decode(ids[: places[0]]).split())
        assert shown[: at + 1] == spelling.text[: at + 1]
        assert earlier[: at + 1] != spelling.text[: at + 1]
