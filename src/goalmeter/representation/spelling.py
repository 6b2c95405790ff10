"""Which token of a sequence a character belongs to.

Tokenizers differ in what they do with blanks: one that cuts at blanks gives them back as single
ones, whatever they were, and one of bytes keeps them. So characters are counted without blanks,
which every tokenizer keeps as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from goalmeter._errors import InvalidFileError

# Tokens that are decoded together to see what the last of them adds. A character of several bytes
# may be cut into as many tokens, and is only shown with the last of them.
_WINDOW = 8


@dataclass(frozen=True)
class Spelling:
    """A sequence of tokens and what it reads.

    Attributes:
        text: of all tokens, without any blanks.
        ends: for each token, how many characters of the text end with it, [tokens].
    """

    text: str
    ends: tuple[int, ...]

    @classmethod
    def of(cls, ids: Sequence[int], tokenizer: Any) -> Spelling:
        """The spelling of token ids, special tokens included.

        Args:
            ids: of the tokens.
            tokenizer: of transformers.
        """
        known = range(len(tokenizer))
        if unknown := [token for token in ids if token not in known]:
            raise InvalidFileError(
                f"there is a token {unknown[0]} in the record, and the tokenizer knows 0 to "
                f"{len(known) - 1}; it is not the tokenizer of the model that walked"
            )
        return cls._of_pieces(ids, tokenizer) or cls._of_windows(ids, tokenizer)

    @classmethod
    def _of_pieces(cls, ids: Sequence[int], tokenizer: Any) -> Spelling | None:
        """From what each token reads alone; None where that does not add up to the text."""
        pieces = {token: _packed(tokenizer.decode([token])) for token in set(ids)}
        text = "".join(pieces[token] for token in ids)
        # A part of a character reads as a mark of its own, and some tokenizers join what they cut.
        if text != _packed(tokenizer.decode(list(ids))):
            return None
        return cls(text, tuple(accumulate(len(pieces[token]) for token in ids)))

    @classmethod
    def _of_windows(cls, ids: Sequence[int], tokenizer: Any) -> Spelling:
        """From what each token adds to those before it."""
        text = ""
        ends: list[int] = []
        for place in range(len(ids)):
            begin = max(0, place + 1 - _WINDOW)
            before = _packed(tokenizer.decode(list(ids[begin:place])))
            after = _packed(tokenizer.decode(list(ids[begin : place + 1])))
            # Half a character reads as a mark of its own until its other half has come.
            agreed = len(text) - len(before) + _common(before, after)
            # A character that came whole only now belongs to this token, not to its first bytes'.
            ends[-_WINDOW:] = [min(end, agreed) for end in ends[-_WINDOW:]]
            text = text[:agreed] + after[_common(before, after) :]
            ends.append(len(text))
        return cls(text, tuple(ends))

    def tokens(self, begin: int, end: int) -> tuple[int, ...]:
        """The places of all tokens that have one of the characters begin to end - 1 of the text."""
        first, last = (bisect_right(self.ends, at) for at in (begin, end - 1))
        return tuple(range(first, last + 1))

    def find(self, part: str, *, after: int = 0) -> int:
        """Where a part of the text begins, counted without blanks; -1 where it is not there."""
        return self.text.find(_packed(part), after)


def packed_length(text: str) -> int:
    """How many characters a text has besides blanks."""
    return len(_packed(text))


def _packed(text: str) -> str:
    return "".join(text.split())


def _common(left: str, right: str) -> int:
    length = min(len(left), len(right))
    return next((n for n in range(length) if left[n] != right[n]), length)
