"""Estimates as tables of behaviour show them: a number, and its interval in brackets."""

from __future__ import annotations

import json
import math

from goalmeter.report.numbers import signed
from goalmeter.statistics.clustered import Estimate

INTERVALS = (
    "In brackets: 95% intervals over grids, which allow for a grid of a kind that was not seen; a "
    "dash where there are too few."
)
# Ends that would read the same are given more digits, but not more than that.
_MOST_DIGITS = 6


def percent(found: Estimate) -> str:
    """A share with its interval."""
    return _with_interval(found, 100.0, 1, "%")


def points(found: Estimate) -> str:
    """A difference of shares in percentage points, with its interval."""
    return _with_interval(found, 100.0, 1, "", sign=True)


def number(found: Estimate, digits: int) -> str:
    """A number with its interval."""
    return _with_interval(found, 1.0, digits, "")


def plain(found: Estimate) -> str:
    """A share alone, where its interval stands elsewhere."""
    return "–" if math.isnan(found.value) else f"{found.value:.1%}"


def condition_in_words(condition: str) -> str:
    """What to add to a name: "", ", with key", ", neutral object", ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        elif name == "object":
            words.append(f"{value} object")
        else:
            words.append(f"{name} {value}")
    return "".join(f", {word}" for word in words)


def p_value(value: float) -> str:
    """A p-value; what is small does not read 0."""
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _with_interval(
    found: Estimate, scale: float, digits: int, unit: str, *, sign: bool = False
) -> str:
    if math.isnan(found.value):
        return "–"

    def shown(value: float, digits: int) -> str:
        text = signed(scale * value, digits)
        text = text.removeprefix("−") if float(text.replace("−", "-")) == 0 else text
        return f"+{text}" if sign and scale * value > 0.5 * 10**-digits else text

    value = f"{shown(found.value, digits)}{unit}"
    if found.interval is None:
        # A number of nothing random, such as a published one, has none to lack.
        return value if found.reason is None else f"{value} [–]"
    # An interval is not to close because it is rounded: its ends get the digits that tell them
    # from each other and from the value.
    places = digits
    low, high = (shown(end, places) for end in found.interval)
    while low == high and places < _MOST_DIGITS and found.interval[0] < found.interval[1]:
        places += 1
        low, high = (shown(end, places) for end in found.interval)
    return f"{value} [{low}, {high}]"
