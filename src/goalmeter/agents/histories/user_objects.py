"""Agents as users hand them over: functions, objects, classes of objects."""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.adapters import as_agent
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.histories.reality_check import RealityCheck

_MIND = ("perceive", "act", "take", "fork")


def agent_of(thing: object, seed: int, name: str) -> Agent:
    """The agent that a user's object stands for: a class of agents is called with the seed.

    Args:
        thing: a function of the history, an object with the method `begin`, or a class of such.
        seed: of the trial.
        name: what it is called in an error.

    Raises:
        InvalidParameterError: it is none of these, or the class cannot be called.
    """
    if isinstance(thing, type) and hasattr(thing, "begin"):
        try:
            thing = thing(seed)
        except (Exception, SystemExit) as cause:
            raise InvalidParameterError(
                f"{name}({seed}) fails: {type(cause).__name__}: {cause}; a class of agents is "
                f"called with the seed alone"
            ) from cause
    return as_agent(thing, name)


def check_installed(agent: Agent) -> None:
    """Import what an agent will need, once and before its first trial.

    Raises:
        MissingExtraError: the agent needs a package that is not installed.
    """
    check = getattr(_inside(agent), "check_installed", None)
    if callable(check):
        check()


def check_counts(agent: Agent, n_actions: int, n_observations: int) -> None:
    """See that an agent which knows only so many observations fits an environment.

    Raises:
        InvalidParameterError: it was trained with other numbers of actions or observations.
    """
    check = getattr(_inside(agent), "check_counts", None)
    if callable(check):
        check(n_actions, n_observations)


def check_mind(agent: Agent, name: str) -> None:
    """Refuse an agent whose minds lack a method; one that fails to begin is left to its trials.

    Raises:
        InvalidParameterError: a method is lacking.
    """
    try:
        mind = _inside(agent).begin(2, 1)
    except (Exception, SystemExit):
        return
    if lacks := [method for method in _MIND if not callable(getattr(mind, method, None))]:
        raise InvalidParameterError(
            f"the method 'begin' of {name} gives {shown(mind)}, which lacks {', '.join(lacks)}; "
            f"expected a mind, an object with the methods {', '.join(_MIND)}"
        )


def _inside(agent: Agent) -> Agent:
    """The agent without the reality checks around it."""
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    return agent
