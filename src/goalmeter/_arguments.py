"""Numbers that somebody asks for, made plain or refused before anything is made of them.

Every number that a command or a function takes has an upper end as well as a lower one: what lies
beyond is a slip of the hand or no request that any machine could meet, and would be found out only
by an endless run or by a machine without memory.
"""

from __future__ import annotations

import math
from numbers import Real
from operator import index

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown

# Torch takes seeds of 64 bits, and JSON of other languages reads no larger integers.
MOST_SEED = 2**63 - 1
# Processes at once; each takes some 50 MB before it does anything.
MOST_WORKERS = 512
# Seconds: a month.
MOST_SECONDS = 31 * 86_400


def whole(value: object, name: str, *, least: int, most: int) -> int:
    """An integer of any kind, NumPy's too, as Python's.

    >>> whole(3, "seeds", least=1, most=10)
    3
    """
    # `index` takes integers of any library and no float, not even a whole one.
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameterError(
            f"{name} is {shown(value)}, expected an integer, {least} or more"
        ) from None
    if number < least:
        raise InvalidParameterError(f"{name} is {shown(number)}, expected at least {least}")
    if number > most:
        raise InvalidParameterError(f"{name} is {shown(number)}, expected at most {most}")
    return number


def finite(value: object, name: str, *, least: float, most: float) -> float:
    """A number of any kind as Python's; NaN and the infinities are outside of every range."""
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
    """An integer as it is written in an option or a name."""
    # Python refuses to read thousands of digits, with an error of its own.
    if len(text.strip()) > len(str(most)) + 1:
        raise InvalidParameterError(f"{name} is {shown(text)}, expected at most {most}")
    try:
        number = int(text)
    except ValueError:
        raise InvalidParameterError(f"{name} is {shown(text)}, expected a whole number") from None
    return whole(number, name, least=least, most=most)
