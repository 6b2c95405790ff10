"""Reference agents by name, as they are spelled on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from goalmeter._errors import InvalidParameterError
from goalmeter._names import nearest
from goalmeter.agents.navigators import memoryless
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.navigators.protocol import Navigator
from goalmeter.agents.navigators.wall_follower import WallFollower
from goalmeter.organisms import organism_names

DEFAULT_EPSILON = 0.1


class Entry(NamedTuple):
    """A kind of agent: how it is made of the number in its name, if any, and what it does."""

    make: Callable[[float | None], Navigator]
    about: str
    number: str = ""


@lru_cache(maxsize=64)
def navigator(name: str) -> Navigator:
    """The reference agent that a name stands for.

    Args:
        name: one of `navigator_names`; `epsilon-optimal(0.2)` takes a random move that often,
            `boltzmann(1.5)` has that inverse temperature.

    Raises:
        InvalidParameterError: no agent has that name, or its number is missing or out of range.

    Example: what it is called.
        >>> navigator("epsilon-optimal( 0.20 )").name
        'epsilon-optimal(0.2)'
    """
    parts = re.fullmatch(r"([^()]*)(?:\(([^()]*)\)\s*)?", name)
    kind = parts[1].strip() if parts else name
    if parts is None or kind not in _ENTRIES:
        raise InvalidParameterError(_unknown(kind, name))
    entry, given = _ENTRIES[kind], parts[2]
    if given is None:
        return entry.make(None)
    if not entry.number:
        raise InvalidParameterError(f"{kind} takes no number, but the agent is {name!r}")
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidParameterError(
            f"the agent is {name!r}, expected {kind}({entry.number}) with a number"
        )
    return entry.make(number)


def navigator_names() -> dict[str, str]:
    """Every name that `navigator` knows, with a line about the agent."""
    return {
        f"{name}({entry.number})" if name == "boltzmann" else name: entry.about
        for name, entry in _ENTRIES.items()
    }


def _epsilon_optimal(epsilon: float | None) -> Navigator:
    share = DEFAULT_EPSILON if epsilon is None else epsilon
    if not 0 <= share <= 1:
        raise InvalidParameterError(f"epsilon is {share:g}, expected a probability, 0 to 1")
    name = "epsilon-optimal" if epsilon is None else f"epsilon-optimal({_spelled(share)})"
    return Memoryless(name, partial(memoryless.epsilon_optimal, epsilon=share))


def _boltzmann(beta: float | None) -> Navigator:
    if beta is None:
        raise InvalidParameterError(
            "boltzmann needs its inverse temperature: boltzmann(BETA), such as boltzmann(2)"
        )
    return Memoryless(f"boltzmann({_spelled(beta)})", partial(memoryless.boltzmann, beta=beta))


def _spelled(number: float) -> str:
    """The shortest spelling that reads back as the same number."""
    return repr(number).removesuffix(".0")


def _plain(name: str, policy_of: memoryless.PolicyOf, about: str) -> tuple[str, Entry]:
    return name, Entry(lambda number: Memoryless(name, policy_of), about)


_ENTRIES: dict[str, Entry] = dict(
    [
        _plain("optimal", memoryless.optimal, "any shortest way, ties broken at random"),
        _plain("greedy", memoryless.greedy, "by the compass: nearer to the goal if it can"),
        _plain("random", memoryless.random, "any move into an open cell"),
        (
            "epsilon-optimal",
            Entry(
                _epsilon_optimal,
                f"optimal, but a random move with probability EPSILON ({DEFAULT_EPSILON:g})",
                "EPSILON",
            ),
        ),
        ("wall-follower", Entry(lambda number: WallFollower(), "the right-hand rule")),
        _plain("key-seeker", memoryless.key_seeker, "to the key first, then to the goal"),
        (
            "boltzmann",
            Entry(_boltzmann, "softmax of -BETA times the steps that an action costs", "BETA"),
        ),
    ]
)


def _unknown(kind: str, name: str) -> str:
    # Somebody who leaves out "goalmeter/" means an organism as often as a reference agent.
    meant = nearest(kind, [*_ENTRIES, *organism_names()])
    meant = f"goalmeter/{meant}" if meant in organism_names() else meant
    hint = f"did you mean {meant!r}? Known" if meant is not None else "known"
    names = ", ".join(navigator_names())
    return f"there is no reference agent {name!r}; {hint} are {names}"
