"""Agents as users hand them over: functions, objects, classes of objects."""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.adapters import as_agent
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.histories.reality_check import RealityCheck
from goalmeter.agents.learners.stable_baselines import StableBaselinesAgent

_MIND = ("perceive", "act", "take", "fork")


def made(given: object, seed: int, name: str) -> Agent:
    """The agent that something stands for: a class of agents is called with the seed.

    Args:
        given: a function of the history, an object with the method `begin`, or a class of such.
        seed: of the trial.
        name: what it is called in an error.

    Raises:
        InvalidParameterError: it is none of these, or the class cannot be called.
    """
    if isinstance(given, type) and hasattr(given, "begin"):
        try:
            given = given(seed)
        except (Exception, SystemExit) as cause:
            raise InvalidParameterError(
                f"{name}({seed}) fails: {type(cause).__name__}: {cause}; a class of agents is "
                f"called with the seed alone"
            ) from cause
    return as_agent(given, name)


def check_installed(agent: Agent) -> None:
    """Import what an agent will need, once and before its first trial.

    Raises:
        MissingExtraError: the agent needs a package that is not installed.
    """
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    if isinstance(agent, StableBaselinesAgent):
        agent.check_installed()


def check_mind(agent: Agent, name: str) -> None:
    """Refuse an agent whose minds lack a method; one that fails to begin is left to its trials.

    Raises:
        InvalidParameterError: a method is lacking.
    """
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    try:
        mind = agent.begin(2, 1)
    except (Exception, SystemExit):
        return
    if lacks := [method for method in _MIND if not callable(getattr(mind, method, None))]:
        raise InvalidParameterError(
            f"the method 'begin' of {name} gives {shown(mind)}, which lacks {', '.join(lacks)}; "
            f"expected a mind, an object with the methods {', '.join(_MIND)}"
        )
