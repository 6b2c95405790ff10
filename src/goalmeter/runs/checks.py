"""Whether a record of a run folder is what it should be: anybody may have edited it.

A record is an object of JSON. Its format is said once, field by field; the error of a field that
is none names the file, the line where there is one, the field, what is expected and what is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._names import did_you_mean
from goalmeter._text import shown


@dataclass(frozen=True)
class Field:
    """What a field of a record holds.

    Attributes:
        expected: in words.
        accepts: whether a value is that.
        required: whether the field has to be there.
    """

    expected: str
    accepts: Callable[[Any], bool]
    required: bool = True


def check_record(
    value: Any, fields: Mapping[str, Field], where: str, *, others: bool = False
) -> dict[str, Any]:
    """A record with all its fields.

    Args:
        value: what stands at `where`, the file and the line if there is one.
        fields: the format.
        where: for the message.
        others: whether it may have fields that the format does not name.
    """
    if not isinstance(value, Mapping):
        raise InvalidFileError(f"{where}: got {shown(value)}, expected an object of JSON")
    for name, field in fields.items():
        if name not in value:
            if field.required:
                raise InvalidFileError(f"{where}: {name} is missing, expected {field.expected}")
        elif not field.accepts(value[name]):
            raise InvalidFileError(
                f"{where}: {name} is {shown(value[name])}, expected {field.expected}"
            )
    if not others and (unknown := [name for name in value if name not in fields]):
        hint = did_you_mean(unknown[0], fields, quoted=True) or ";"
        raise InvalidFileError(
            f"{where}: there is no field {shown(unknown[0])}{hint} expected {', '.join(fields)}"
        )
    return dict(value)


# --- What fields hold -----------------------------------------------------------------------------
def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether a value is an integer in a range; true and false are none."""
    # By its type, since Python counts true and false as integers.
    return type(value) is int and least <= value <= most


def is_number(value: Any, most: float) -> bool:
    """Whether a value is a finite number of at most some size."""
    if type(value) not in (int, float):
        return False
    return abs(value) <= most and (type(value) is int or math.isfinite(value))


def whole(least: int, most: int, *, or_null: bool = False, required: bool = True) -> Field:
    """An integer in a range."""
    words = f"a whole number from {least} to {most}" + " or null" * or_null
    return Field(
        words, lambda v: (or_null and v is None) or is_whole(v, least, most), required=required
    )


def text(*, required: bool = True, empty: bool = True) -> Field:
    """Text."""
    words = "text" if empty else "text that is not empty"
    return Field(words, lambda v: isinstance(v, str) and (empty or bool(v)), required=required)


def word(*known: str, required: bool = True) -> Field:
    """One of some words."""
    listed = ", ".join(map(repr, known))
    return Field(f"one of {listed}", lambda v: isinstance(v, str) and v in known, required=required)


def true_or_false() -> Field:
    """A truth value."""
    return Field("true or false", lambda v: isinstance(v, bool))


def listed(
    what: str,
    accepts: Callable[[Any], bool],
    *,
    least: int = 0,
    most: int,
    required: bool = True,
) -> Field:
    """A list of different values that can be hashed; `what` names them in words."""

    def fits(value: Any) -> bool:
        return (
            isinstance(value, list)
            and least <= len(value) <= most
            and all(map(accepts, value))
            and len(set(value)) == len(value)
        )

    return Field(f"a list of {least} to {most} different {what}", fits, required=required)
