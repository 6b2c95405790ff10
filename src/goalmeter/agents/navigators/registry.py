"""The table of reference agents of grid worlds, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.agents.abilities import Ability, AgentFactory, NamedAgent
from goalmeter.agents.navigators import memoryless
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.navigators.protocol import Navigator
from goalmeter.agents.navigators.wall_follower import WallFollower
from goalmeter.agents.spelling import call_of

DEFAULT_EPSILON = 0.1


@lru_cache(maxsize=64)
def navigator(name: str) -> Navigator:
    """A reference agent of grid worlds; `agents.agent` knows all other agents too.

    Args:
        name: one of `navigator_names`; `epsilon-optimal(0.2)` takes a random move that often,
            `boltzmann(1.5)` has that inverse temperature.

    Example: what it is called.
        >>> navigator("epsilon-optimal( 0.20 )").name
        'epsilon-optimal(0.2)'
    """
    call = call_of(name)
    if not call.closed or call.kind not in NAVIGATORS:
        meant = did_you_mean(call.kind, NAVIGATORS, quoted=True)
        raise InvalidParameterError(
            f"there is no reference agent {name!r}{meant + ' Known' if meant else '; known'} are "
            f"{', '.join(navigator_names())}"
        )
    return NAVIGATORS[call.kind].make(call.kind, call.argument).in_grids()


def navigator_names() -> dict[str, str]:
    """Every name that `navigator` knows, with a line about the agent."""
    return {factory.spelled(name): factory.about for name, factory in NAVIGATORS.items()}


def walker(
    make: Callable[[float | None], Navigator],
    about: str,
    argument: str = "",
    *,
    needs: bool = False,
) -> AgentFactory:
    """The entry of a reference agent, which may take a number in brackets.

    Args:
        make: makes it of the number, or of None.
        about: what it is, in a line.
        argument: what the number is called; "" if there is none.
        needs: whether the number cannot be left out.
    """

    def named(name: str, text: str | None) -> NamedAgent:
        if text is not None and not argument:
            raise InvalidParameterError(
                f"{name} takes no number, but the agent is '{name}({text})'"
            )
        number = None if text is None else _number(text)
        if number is not None and not math.isfinite(number):
            raise InvalidParameterError(
                f"the agent is '{name}({text})', expected {name}({argument}) with a number"
            )
        # Made at once, for the error if the number is out of range; it costs nothing.
        agent = make(number)
        return NamedAgent(agent.name, about, {Ability.GRID: lambda: agent})

    return AgentFactory(about, frozenset({Ability.GRID}), named, argument, needs)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


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


def _plain(name: str, policy_of: memoryless.PolicyOf, about: str) -> tuple[str, AgentFactory]:
    return name, walker(lambda number: Memoryless(name, policy_of), about)


NAVIGATORS: dict[str, AgentFactory] = dict(
    [
        _plain("optimal", memoryless.optimal, "any shortest way, ties broken at random"),
        _plain("greedy", memoryless.greedy, "by the compass: nearer to the goal if it can"),
        _plain("random", memoryless.random, "any move into an open cell"),
        (
            "epsilon-optimal",
            walker(
                _epsilon_optimal,
                f"optimal, but a random move with probability EPSILON ({DEFAULT_EPSILON:g})",
                "EPSILON",
            ),
        ),
        ("wall-follower", walker(lambda number: WallFollower(), "the right-hand rule")),
        _plain("key-seeker", memoryless.key_seeker, "to the key first, then to the goal"),
        (
            "boltzmann",
            walker(
                _boltzmann,
                "softmax of -BETA times the steps that an action costs",
                "BETA",
                needs=True,
            ),
        ),
    ]
)
