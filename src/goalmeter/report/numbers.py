"""Numbers as text: the one place that decides how a number reads.

A text never claims more than the number: below 1 is not 100%, above 0 is not 0%, and rounding does
not close an interval. A number that rounds to 0 has no sign, and NaN is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, SupportsFloat

# Of the maximum. What explains less is not shown as a wish: an agent without fault reaches well
# over half of it (several moves may be right), and aimless ones stay within a few hundredths.
LEAST_SHARE = 0.1
DASH = "–"
# A share this near to 0 or 1 differs from it by rounding of the computation only.
_NO_SHARE, _WHOLE = 1e-12, 1e-9
# Ends of an interval that would read the same are given more digits, but not more than these.
_MOST_DIGITS = 6
# Nats below this are rounding of a solver.
_ROUNDING = 1e-9


class EstimateLike(Protocol):
    """What an estimate has to say: a number, its interval, and why it has none."""

    @property
    def value(self) -> float:
        """The number, NaN where it is not known."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its lower and its upper end, None where unknown."""

    @property
    def reason(self) -> str | None:
        """Why there is no interval; None where there is one, and where nothing was drawn."""


def percent(value: float | EstimateLike, digits: int = 1) -> str:
    """Format a share in percent; only 1 itself is 100%, and only 0 is 0%."""
    if isinstance(value, SupportsFloat):
        return DASH if math.isnan(value) else f"{_share(float(value), digits)}%"
    return _with_interval(value, digits, _share, "%")


def points(value: float | EstimateLike, digits: int = 1) -> str:
    """Format a difference of shares in percentage points, with its sign."""
    if isinstance(value, SupportsFloat):
        return plus(100 * float(value), digits)
    return _with_interval(value, digits, lambda share, places: plus(100 * share, places))


def number(value: float | EstimateLike, digits: int) -> str:
    """Format a number with a fixed number of decimals."""
    if not isinstance(value, SupportsFloat):
        return _with_interval(value, digits, number)
    if math.isnan(value):
        return DASH
    text = f"{value:.{digits}f}"
    # "-0.0" is what rounding leaves of a small negative number; its sign says nothing.
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def hundredths(value: float | EstimateLike) -> str:
    """Format a number with two decimals, such as an area under a curve."""
    return number(value, 2)


def plus(value: float, digits: int) -> str:
    """Format a number with its sign; one that rounds to 0 has none."""
    text = number(value, digits)
    return text if text.startswith(("−", DASH)) or float(text) == 0 else f"+{text}"


def general(value: float, digits: int = 6) -> str:
    """A number to so many significant digits, infinities as ±∞."""
    if math.isnan(value):
        return DASH
    text = "∞" if math.isinf(value) else f"{abs(value):.{digits}g}"
    return f"−{text}" if value < 0 and text != "0" else text


def between(ends: tuple[float, float], digits: int, *, sign: bool = False) -> str:
    """Both ends of an interval in words, "0.1 to 0.3"; a dash where they are NaN."""
    if math.isnan(ends[0]):
        return DASH
    shown = plus if sign else number
    return " to ".join(shown(end, digits) for end in ends)


def storage(size: int) -> str:
    """Bytes to three digits, in a unit in which they are below 1000."""
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    # To three digits 999.5 is 1000.
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.3g} {units[0]}"


def nats(value: float) -> str:
    """Format nats with four decimals; a small positive value does not become 0.0000."""
    if math.isnan(value) or math.isinf(value):
        return general(value)
    if abs(value) < _NO_SHARE:
        return "0"
    text = f"{abs(value):.4f}" if abs(value) >= 5e-5 else f"{abs(value):.0e}"
    return f"−{text}" if value < 0 else text


def nats_of_search(value: float) -> str:
    """Nats that a solver found: what is below 1e-9 is rounding of the solver, and reads 0."""
    return nats(value) if abs(value) >= _ROUNDING else "0"


def gap(value: float) -> str:
    """Format the gap between value and proven bound, to one digit; 0 if negative by rounding."""
    return f"{value:.0e}" if value > 0 else "0"


def rationality(value: float) -> str:
    """β to three digits; NaN, for no single β, is a dash."""
    return general(value, 3)


def utility(value: float) -> str:
    """An entry of a utility whose largest has size 1: +1, −0.25, 0."""
    text = general(value, 3)
    return f"+{text}" if value > 0 else text


def p_value(value: float) -> str:
    """Format a p-value; a small one does not become 0."""
    return "<0.001" if value < 0.001 else number(value, 3)


def _share(value: float, digits: int) -> str:
    """A share in percent, without the sign of percent."""
    # Rounding decides what is shown, and only then whether that would claim too much.
    rounded, step = float(f"{100 * value:.{digits}f}"), 10.0**-digits
    if rounded == 100 and value < 1 - _WHOLE:
        return f">{100 - step:.{digits}f}"
    if rounded == 0 and value > _NO_SHARE:
        return f"<{step:.{digits}f}"
    return number(100 * value, digits)


def _with_interval(
    estimate: EstimateLike, digits: int, shown: Callable[[float, int], str], unit: str = ""
) -> str:
    """A number with its interval in brackets, and a dash in them where it should have one."""
    if math.isnan(estimate.value):
        return DASH
    text = f"{shown(estimate.value, digits)}{unit}"
    if estimate.interval is None:
        # A number of nothing random, such as a published one, has no interval to lack.
        return text if estimate.reason is None else f"{text} [{DASH}]"
    # An interval is not to close because it is rounded: its ends get the digits that tell them
    # from each other.
    (low, high), places = estimate.interval, digits
    while shown(low, places) == shown(high, places) and places < _MOST_DIGITS and low < high:
        places += 1
    return f"{text} [{shown(low, places)}, {shown(high, places)}]"
