"""Settings that an environment asks an agent to assume, and the agent does not know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from goalmeter._errors import InvalidParameterError


def refuse_unknown(agent: object, options: dict[str, Any], known: Iterable[str] = ()) -> None:
    """Refuse settings that an agent does not know, rather than ignore them.

    Raises:
        InvalidParameterError: one is not among the known.
    """
    known = sorted(known)
    for option in options:
        if option not in known:
            raise InvalidParameterError(
                f"{agent!r} cannot assume {option}={options[option]!r}: it knows "
                f"{', '.join(known) or 'no settings'}; ask Source.takes({option!r}) first"
            )
