"""What has been written so far, and conditions on it.

What a model is about to do while it reasons is told by what it has written: a search has come to a
cell when the cell's name stands there with a colon. So a condition is asked of the tokens up to and
with the one that is being read; that one is then changed, or not. It cannot be asked by a number:
an answer that has been changed has other words, or as many words elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# Tokens that are decoded together to see what the last of them adds.
_WINDOW = 8


class Written:
    """The tokens of an answer up to now.

    Attributes:
        ids: of the tokens; the last of them is being read.

    Args:
        tokenizer: of transformers, for the text.
        ids: to begin with.
    """

    def __init__(self, tokenizer: Any, ids: Iterable[int] = ()) -> None:
        self.ids: list[int] = list(ids)
        self._tokenizer = tokenizer
        self._text = ""
        self._ends: list[int] = []

    @property
    def text(self) -> str:
        """What the tokens read, special tokens included."""
        # Grown by a window at a time: an answer is asked for at each of its tokens.
        for place in range(len(self._ends), len(self.ids)):
            begin = max(0, place + 1 - _WINDOW)
            before = self._tokenizer.decode(self.ids[begin:place])
            after = self._tokenizer.decode(self.ids[begin : place + 1])
            # Half a character reads as a mark of its own until its other half has come.
            common = _common(before, after)
            self._text = self._text[: len(self._text) - len(before) + common] + after[common:]
            self._ends.append(len(self._text))
        return self._text

    @property
    def last(self) -> int:
        """How many characters of the text were there before the last token."""
        text = self.text
        return min(self._ends[-2], len(text)) if len(self._ends) > 1 else 0

    def append(self, token: int) -> None:
        """Write another token."""
        self.ids.append(token)

    def cut(self, length: int) -> None:
        """Keep only so many tokens; all if there are no more."""
        if length < len(self.ids):
            del self.ids[length:]
            self._text, self._ends = "", []


When = Callable[[Written], bool]


def always(written: Written) -> bool:
    """Every token."""
    return True


def never(written: Written) -> bool:
    """No token."""
    return False


@dataclass(frozen=True)
class Steps:
    """The tokens first to last - 1 of an answer, counted from 0; to its end without a last."""

    first: int = 0
    last: int | None = None

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read is one of them."""
        number = len(written.ids) - 1
        return self.first <= number and (self.last is None or number < self.last)


@dataclass(frozen=True)
class Behind:
    """The token that completes a text, each time that the answer comes to it.

    Where a token reads beyond the text, the text was completed in it all the same.

    Attributes:
        text: as the tokenizer decodes it, blanks included.
    """

    text: str

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read completes the text."""
        text = written.text
        return text.find(self.text, max(0, written.last - len(self.text) + 1)) >= 0


@dataclass(frozen=True)
class Token:
    """Every token of an id, such as the word that says that a cell has its turn.

    Attributes:
        token: its id.
    """

    token: int

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read is this one."""
        return written.ids[-1] == self.token


def _common(left: str, right: str) -> int:
    length = min(len(left), len(right))
    return next((n for n in range(length) if left[n] != right[n]), length)
