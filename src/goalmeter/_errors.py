"""Exceptions of goalmeter, safe display of foreign text, and validation of numeric arguments.

Text from users, files and language models may contain control characters or lone surrogates.
Records keep every character; pages, tables and messages escape the invisible ones.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import reprlib
import unicodedata
from collections.abc import Mapping
from numbers import Real
from operator import index
from os import PathLike
from types import ModuleType
from typing import Any

# --- Text -----------------------------------------------------------------------------------------
LONGEST_MESSAGE = 1200  # characters
_LONGEST_CAUSE = 300  # characters of a library's message in one of ours
_KEPT_BEHIND = 400  # characters at the end of a message that is cut, which say how to fix it
# Controls, formats, surrogates, private and unknown characters, and ends of lines and paragraphs.
_SPELLED_OUT = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_WIDEST = 4096  # bits of an integer that is spelled out; Python refuses to spell out large ones
_HALF = re.compile("[\ud800-\udfff]")


def visible(text: str, *, lines: bool = False) -> str:
    """Return text with invisible characters as Python's escapes; `lines` keeps ends of lines."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if unicodedata.category(c) in _SPELLED_OUT and not (lines and c == "\n")
        else c
        for c in text
    )


def message(text: str) -> str:
    """Return a message in one line of bounded length; what is left out is its middle."""
    line, before = visible(text), LONGEST_MESSAGE - _KEPT_BEHIND
    if (left_out := len(line) - LONGEST_MESSAGE) <= 0:
        return line
    return f"{line[:before]} … ({left_out} characters) … {line[-_KEPT_BEHIND:]}"


def encodable(text: str) -> str:
    """Return text with each half character as its escape, which every encoding of Unicode takes."""
    return text if text.isascii() else _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def json_text(value: Any, *, indent: int | None = None, allow_nan: bool = True) -> str:
    """Return JSON that every encoding of Unicode takes, and that is read back as the same value."""
    # Inside of JSON, half a character can only be part of a string, where \\udXXX stands for it.
    return encodable(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=allow_nan))


def shown(value: object) -> str:
    """Return a value in a few characters, whatever it is."""
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"an integer of {value.bit_length()} bits"
    try:
        return visible(reprlib.repr(value))
    except Exception:  # it is of a class of the user's, or holds such an integer
        return f"an object of {type(value).__name__} that cannot be printed"


def in_a_line(error: BaseException) -> str:
    """Return an error in one line of bounded length, with its class where it says little."""
    # A KeyError says nothing but the key, which alone is no sentence, and sys.exit a number.
    unsaid = LookupError | TypeError | AttributeError | AssertionError | SystemExit
    try:
        words = " ".join(str(error).split())
    except Exception:  # it is of a class of the user's
        words = ""
    if isinstance(error, unsaid) or not words:
        words = f"{type(error).__name__}: {words}".removesuffix(": ")
    return shortened(words)


def shortened(text: str, longest: int = _LONGEST_CAUSE) -> str:
    """Return text of at most so many characters, with a mark where it was cut."""
    return text if len(text) <= longest else f"{text[:longest]} …"


# --- Errors ---------------------------------------------------------------------------------------
class _Message:
    # Here and not where it is raised: what a message quotes may be anybody's text.
    def __str__(self) -> str:
        return message(super().__str__())


class GoalmeterError(_Message, ValueError):
    """Invalid input; the message says how to fix it."""


class InvalidModelError(GoalmeterError):
    """A world (transition, reward, initial distribution, horizon) is not well formed."""


class InvalidPolicyError(GoalmeterError):
    """A policy is not a distribution over the actions of the world it is used in."""


class InvalidUtilityError(GoalmeterError):
    """A utility, or a feature matrix that spans utilities, does not fit the world."""


class InvalidTrajectoryError(GoalmeterError):
    """Logged trajectories do not fit the world they are said to come from."""


class InvalidParameterError(GoalmeterError):
    """An argument or option has an invalid value."""


class InvalidFileError(GoalmeterError):
    """A file is missing, unreadable, or lacks what its format requires."""


class IncompleteRunError(InvalidFileError):
    """A run directory lacks some of its trials; `what` is its identity, from run.json."""

    def __init__(self, folder: str | PathLike[str], what: Mapping[str, Any], lacks: str) -> None:
        self.folder, self.what = str(folder), what
        # A sentence without a remedy: the command line knows another one than Python.
        self.shortage = message(f"{self.folder} lacks {lacks}")
        super().__init__(
            f"{self.shortage}; measure the same again with out={self.folder!r}, which makes them"
        )


class MissingExtraError(_Message, ImportError):
    """An optional dependency is needed and not installed."""


def how_to_install(extra: str) -> str:
    """Return the command that brings an extra, for an installed package and for a checkout."""
    return (
        f"install it with: pip install 'goalmeter[{extra}]' "
        f"(in a checkout: pip install -c constraints.txt -e '.[{extra}]')"
    )


def require(module: str, *, extra: str = "", feature: str) -> ModuleType:
    """Import a module, of an extra if any; `feature`, the subject of a sentence, needs it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        remedy = how_to_install(extra) if extra else f"install it with: pip install {package}"
        raise MissingExtraError(
            f"{feature} needs the package {package!r}, which is not installed; {remedy}"
        ) from error


# --- Arguments ------------------------------------------------------------------------------------
# Numbers have upper bounds, so that a mistyped one does not end in an endless run.
MOST_SEED = 2**63 - 1  # Torch takes seeds of 64 bits
MOST_WORKERS = 512  # each takes some 50 MB before it does anything
MOST_SECONDS = 31 * 86_400  # a month


def whole(value: object, name: str, *, least: int, most: int) -> int:
    """Return an integer of any kind, NumPy's too, as Python's."""
    # `index` takes integers of any library and no float, not even a whole one.
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameterError(
            f"{name} is {shown(value)}, expected an integer, {least} or more"
        ) from None
    if not least <= number <= most:
        bound = f"at least {least}" if number < least else f"at most {most}"
        raise InvalidParameterError(f"{name} is {shown(number)}, expected {bound}")
    return number


def finite(value: object, name: str, *, least: float, most: float) -> float:
    """Return a finite number of any kind as Python's."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            number = math.inf
        if math.isfinite(number) and least <= number <= most:
            return number
    raise InvalidParameterError(
        f"{name} is {shown(value)}, expected a number from {least:g} to {most:g}"
    )


def whole_in_text(text: str, name: str, *, least: int, most: int) -> int:
    """Return an integer that is written in an option or a name."""
    # Python refuses to read thousands of digits, with an error of its own.
    if len(text.strip()) > len(str(most)) + 1:
        raise InvalidParameterError(f"{name} is {shown(text)}, expected at most {most}")
    try:
        number = int(text)
    except ValueError:
        raise InvalidParameterError(f"{name} is {shown(text)}, expected a whole number") from None
    return whole(number, name, least=least, most=most)
