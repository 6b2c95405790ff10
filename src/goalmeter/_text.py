r"""Text that others wrote: kept as it is in records, and spelled out wherever it is shown.

Names of files, messages of a user's code and answers of language models may hold anything: half a
character (a lone surrogate, which no encoding takes, and with which Python stands for the bytes of
a file name that is not UTF-8), codes that steer a terminal, or marks that turn a line around. So

    records   keep every character: `json_text` writes what no encoding takes as JSON's \udXXX,
              which is read back as the same text
    shown     in pages, tables and messages: `visible` spells such characters out
    messages  are besides one line of bounded length: `message`
"""

from __future__ import annotations

import json
import re
import reprlib
import unicodedata
from typing import Any

# Characters of a message: several lines of a terminal, and enough for every list of names in one.
LONGEST_MESSAGE = 1200
# And of what a library says, as part of a message.
_LONGEST_CAUSE = 300
# What stands behind the middle of a message that is cut, since the end says how to mend it.
_KEPT_BEHIND = 400
# Controls; formats, which the marks that turn a line around are; half characters; private ones;
# those that no Unicode of this Python knows; and what ends a line or a paragraph.
_SPELLED_OUT = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_WIDEST = 4096  # bits of an integer that is spelled out; Python refuses to spell out large ones
_HALF = re.compile("[\ud800-\udfff]")
# Made once: runs write a line of JSON for each trial.
_PLAIN = json.JSONEncoder(ensure_ascii=False)


def visible(text: str, *, lines: bool = False) -> str:
    r"""Text with all that cannot be seen spelled out as Python does; with `lines`, but their ends.

    >>> print(visible("a\x1b[31m\u202eb\nc"))
    a\x1b[31m\u202eb\nc
    """
    # Most text is of this kind, and pages show a great deal of it.
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else _spelled_out(c) for c in text)


def _spelled_out(character: str) -> str:
    if unicodedata.category(character) not in _SPELLED_OUT:
        return character  # such as a narrow space
    return character.encode("unicode_escape").decode("ascii")


def message(text: str) -> str:
    """A message as it is shown: one line, spelled out, and of bounded length.

    The middle is what is left out: what is wrong stands first, and how to mend it last.
    """
    line = visible(text)
    if len(line) <= LONGEST_MESSAGE:
        return line
    before = LONGEST_MESSAGE - _KEPT_BEHIND
    left_out = len(line) - LONGEST_MESSAGE
    return f"{line[:before]} … ({left_out} characters) … {line[-_KEPT_BEHIND:]}"


def encodable(text: str) -> str:
    r"""Text with each half character spelled out, so that every encoding of Unicode takes it.

    >>> encodable("caf\udce9")
    'caf\\udce9'
    """
    if text.isascii():  # which Python knows without looking
        return text
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def json_text(value: Any, *, indent: int | None = None, allow_nan: bool = True) -> str:
    """A value as JSON that every encoding of Unicode takes, and that is read back as the same."""
    if indent is None and allow_nan:
        return encodable(_PLAIN.encode(value))
    # Inside of JSON, half a character can only be part of a string, where \\udXXX stands for it.
    return encodable(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=allow_nan))


def shown(value: object) -> str:
    """A value in a few characters, whatever it is.

    >>> shown("naive"), shown(10**5000)
    ("'naive'", 'an integer of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"an integer of {value.bit_length()} bits"
    try:
        return visible(reprlib.repr(value))
    except Exception:  # it is of a class of the user's, or holds such an integer
        return f"an object of {type(value).__name__} that cannot be printed"


def in_a_line(error: BaseException, longest: int = _LONGEST_CAUSE) -> str:
    r"""An error in one line of bounded length; its class, if it says nothing.

    >>> in_a_line(ValueError("2 validation errors:\n  id\n  epoch"))
    '2 validation errors: id epoch'
    >>> in_a_line(RecursionError())
    'RecursionError'
    """
    # A KeyError says nothing but the key, which alone is no sentence, and sys.exit a number.
    unsaid = LookupError | TypeError | AttributeError | AssertionError | SystemExit
    named = isinstance(error, unsaid)
    try:
        words = " ".join(str(error).split())
    except Exception:  # it is of a class of the user's
        words = ""
    if named or not words:
        words = f"{type(error).__name__}: {words}".removesuffix(": ")
    return shortened(words, longest)


def shortened(text: str, longest: int = _LONGEST_CAUSE) -> str:
    """Text of at most so many characters, with a mark where it was cut.

    >>> shortened("a" * 7, 5)
    'aaaaa …'
    """
    return text if len(text) <= longest else f"{text[:longest]} …"
