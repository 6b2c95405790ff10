"""What libraries say, as part of a message of one line."""

from __future__ import annotations

_LONGEST = 300


def in_a_line(error: BaseException, longest: int = _LONGEST) -> str:
    r"""An error in one line of bounded length; its class, if it says nothing.

    >>> in_a_line(ValueError("2 validation errors:\n  id\n  epoch"))
    '2 validation errors: id epoch'
    >>> in_a_line(RecursionError())
    'RecursionError'
    """
    # A KeyError says nothing but the key, which alone is no sentence.
    named = isinstance(error, LookupError | TypeError | AttributeError | AssertionError)
    words = " ".join(str(error).split())
    if named or not words:
        words = f"{type(error).__name__}: {words}".removesuffix(": ")
    return shortened(words, longest)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Text of at most so many characters, with a mark where it was cut.

    >>> shortened("a" * 7, 5)
    'aaaaa …'
    """
    return text if len(text) <= longest else f"{text[:longest]} …"
