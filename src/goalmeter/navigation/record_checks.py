"""Whether a value read from a file is what it should be; each error says what was found."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.gridworld.world import MOVES


def entries(
    value: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The entries of an object that has what it must and nothing that it must not."""
    if not isinstance(value, Mapping):
        raise InvalidTrajectoryError(f"{value!r} is not {what}, expected an object")
    if missing := [name for name in required if name not in value]:
        raise InvalidTrajectoryError(f"{what} lacks {', '.join(missing)}")
    if unknown := [str(name) for name in value if name not in required + optional]:
        raise InvalidTrajectoryError(
            f"{what} has {', '.join(unknown)}, expected only {', '.join(required + optional)}"
        )
    return dict(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; true and false are none."""
    return type(value) is int


def check_kind(value: Any, name: str, kinds: tuple[type, ...]) -> None:
    """Refuse a value that is of none of some types, or text that is none."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(_KINDS[kind] for kind in kinds)
        raise InvalidTrajectoryError(f"{name} is {value!r}, expected {expected}")
    try:
        _ = isinstance(value, str) and value.encode()
    except UnicodeEncodeError as cause:
        raise InvalidTrajectoryError(
            f"{name} has half a character, {cause.object[cause.start]!r}, which no page can show"
        ) from cause


_KINDS: dict[type, str] = {
    str: "text",
    list: "a list",
    Real: "a number",
    type(None): "null",
    Mapping: "an object",
}


def whole_numbers(value: Any, name: str, length: int | None = None) -> tuple[int, ...]:
    """A list of whole numbers, of a length if one is given."""
    fine = isinstance(value, list | tuple) and all(is_whole(v) for v in value)
    if not fine or length not in (None, len(value)):
        count = "" if length is None else f"{length} "
        raise InvalidTrajectoryError(f"{name} is {value!r}, expected {count}whole numbers")
    return tuple(value)


def probabilities_of(value: Any) -> tuple[float, ...] | None:
    """The probabilities of four actions, or None."""
    if value is None:
        return None
    fine = isinstance(value, list | tuple) and len(value) == len(MOVES)
    # A NaN is between no two numbers, so it is refused as well.
    fine = fine and all(isinstance(v, int | float) and 0 <= v <= 1 for v in value)
    if not fine or sum(value) > 1 + 1e-6:
        raise InvalidTrajectoryError(
            f"probabilities are {value!r}, expected {len(MOVES)} numbers from 0 to 1 that add up "
            f"to at most 1"
        )
    return tuple(float(v) for v in value)


def tokens_of(value: Any) -> int | tuple[int, ...] | None:
    """Ids of tokens, or how many there are, or None."""
    if value is None or (is_whole(value) and value >= 0):
        return None if value is None else int(value)
    return whole_numbers(value, "prompt_tokens")
