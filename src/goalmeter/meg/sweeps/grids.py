"""Arguments as grids: a list stands for each of its members, a range for each of its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from sys import float_info
from typing import Any

from goalmeter._arguments import MOST_SEED, whole
from goalmeter._errors import InvalidParameterError
from goalmeter._text import json_text, shown

# Worlds of a sweep; their rows are what a table, and a person, can still hold.
MOST_WORLDS = 10_000_000
FROM, COUNT = "from", "count"
SEED = "seed"


@dataclass(frozen=True)
class Grid:
    """Every combination of some arguments, the last one fastest; `seed` always is the last.

    Attributes:
        axes: name -> the values that the argument takes, all different.
    """

    axes: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def at(self, number: int) -> dict[str, Any]:
        """The arguments of one combination, counted from 0."""
        out: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            number, place = divmod(number, len(values))
            out[name] = values[place]
        return {name: out[name] for name in self.axes}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.at, range(len(self)))

    def to_json(self) -> dict[str, Any]:
        """Lists as they are, ranges as {"from": ..., "count": ...}."""
        return {
            name: {FROM: values.start, COUNT: len(values)}
            if isinstance(values, range)
            else list(values)
            for name, values in self.axes.items()
        }


def grid_of(arguments: Mapping[str, Any], where: str) -> Grid:
    """The grid that some arguments stand for, as a file or a call spells them.

    Args:
        arguments: name -> a list of values, {"from": ..., "count": ...}, or a single value.
        where: for the message.
    """
    axes = {name: _axis(value, f"{where}: {name}") for name, value in arguments.items()}
    if SEED in axes:
        axes[SEED] = axes.pop(SEED)
    grid = Grid(axes)
    size = prod(map(len, axes.values()))
    if size > MOST_WORLDS:
        raise InvalidParameterError(
            f"{where}: the arguments have {size} combinations, expected at most {MOST_WORLDS}"
        )
    return grid


def label(name: str, arguments: Mapping[str, Any]) -> str:
    """A name with its arguments, as tables show it.

    >>> print(label("maze", {"size": 7, "utility": "goal"}), label("optimal", {}))
    maze(size=7, utility=goal) optimal
    """
    if not arguments:
        return name
    return f"{name}({', '.join(f'{key}={spelled(value)}' for key, value in arguments.items())})"


def spelled(value: Any) -> str:
    """A value in a label and in a cell of a table: text as it is, all else as JSON."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value if isinstance(value, str) else json_text(value)


def is_number(value: object) -> bool:
    """Whether a value is a number that a float can hold."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= float_info.max
    return isinstance(value, float)


def _axis(value: Any, where: str) -> Sequence[Any]:
    if isinstance(value, range):
        value = {FROM: value.start, COUNT: len(value)} if value.step == 1 else list(value)
    if isinstance(value, Mapping):
        if set(value) != {FROM, COUNT}:
            raise InvalidParameterError(
                f"{where} is {shown(dict(value))}, expected a value, a list of values, or a range "
                f"of whole numbers such as {{ from = 0, count = 100 }}"
            )
        first = whole(value[FROM], f"{where}, {FROM}", least=-MOST_SEED, most=MOST_SEED)
        count = whole(value[COUNT], f"{where}, {COUNT}", least=1, most=MOST_WORLDS)
        return range(first, first + count)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise InvalidParameterError(f"{where} is an empty list, expected at least one value")
    texts = [_checked(item, where) for item in values]
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise InvalidParameterError(f"{where} has {text} twice; name each value once")
    return values


def _checked(value: Any, where: str) -> str:
    """The value as JSON, which is how it reaches other processes."""
    try:
        text = json_text(value)
    except (TypeError, ValueError):
        text = "NaN"
    if text == "NaN":
        raise InvalidParameterError(
            f"{where} is {shown(value)}, expected numbers, text, true or false, or lists of these"
        )
    return text
