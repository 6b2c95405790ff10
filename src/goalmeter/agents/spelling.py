"""How a name of an agent is taken apart: KIND, KIND(ARGUMENT), and rc(...) around any of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from goalmeter._errors import InvalidParameterError

# Reality checks around one agent: each calls the next one inside.
MOST_CHECKS = 20
_CALL = re.compile(r"([^()]*)(?:\(([^()]*)\)\s*)?")


class Call(NamedTuple):
    """A name taken apart: what stands before the brackets and in them, None where there are none.

    `closed` is False where brackets do not match.
    """

    kind: str
    argument: str | None
    closed: bool = True


def call_of(name: str) -> Call:
    """A name taken apart at its brackets.

    >>> call_of("boltzmann( 2 )")
    Call(kind='boltzmann', argument='2', closed=True)
    """
    parts = _CALL.fullmatch(name)
    if parts is None:
        return Call(name.partition("(")[0].strip(), None, closed=False)
    return Call(parts[1].strip(), None if parts[2] is None else parts[2].strip())


def without_checks(name: str) -> tuple[str, int]:
    """An agent's name without the reality checks around it, and how many these are.

    >>> without_checks("rc( rc(naive))")
    ('naive', 2)
    """
    checks = 0
    name = name.strip()
    while name.startswith("rc(") and name.endswith(")") and len(name) > len("rc()"):
        name, checks = name[len("rc(") : -1].strip(), checks + 1
        if checks > MOST_CHECKS:
            raise InvalidParameterError(
                f"rc(...) stands around an agent more than {MOST_CHECKS} times, expected at most "
                f"so many"
            )
    return name, checks


def with_checks(name: str, checks: int) -> str:
    """The name of the reality check, so many times over, of an agent.

    >>> with_checks("naive", 2)
    'rc(rc(naive))'
    """
    return "rc(" * checks + name + ")" * checks
