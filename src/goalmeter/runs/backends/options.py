"""How a place is asked for: name=value,name=value behind its colon, and a limit of time."""

from __future__ import annotations

import re
from collections.abc import Collection

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._text import shown

# Commas inside of square brackets belong to a value: exclude=node[1,2].
_PART = re.compile(r"(?:\[[^\]]*\]|[^,\[])+")


def options_of(
    argument: str, place: str, known: Collection[str], *, first: str = ""
) -> dict[str, str]:
    """The options that a spelling of a place has behind its colon.

    Args:
        argument: what stands there.
        place: name of the place, for errors.
        known: names that an option may have.
        first: the option that the first part is, if it has no name; "" for none.

    >>> options_of("10.0.0.5:6379,cpus=8", "ray", ["address", "cpus"], first="address")
    {'address': '10.0.0.5:6379', 'cpus': '8'}
    """
    options: dict[str, str] = {}
    for number, part in enumerate(_PART.findall(argument)):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and first and number == 0:
            name, value = first, name
        if name in known and not value:
            raise InvalidParameterError(
                f"{place}:{argument} has {name} without a value, expected {name}=VALUE"
            )
        if name not in known:
            raise InvalidParameterError(
                f"{place}:{argument} has {shown(part)}"
                f"{did_you_mean(name, known) or ';'} expected NAME=VALUE with commas between them, "
                f"of {', '.join(known)}"
            )
        if name in options:
            raise InvalidParameterError(f"{place}:{argument} has {name} twice; leave one out")
        options[name] = value
    return options


def check_timeout(timeout: float | None) -> None:
    """Raise if a limit of time for a batch is none."""
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(
            f"timeout is {timeout}, expected a number of seconds above 0, or None"
        )
