"""What an agent is, what an environment may ask of it, and the history that both see.

An agent is a function of the history (Definition 1 of the paper): percepts x_1 ... x_n and the
actions y_1 ... y_{n-1} between them give the action y_n. An extended environment may ask what the
agent would do at *any* history (Definition 2).

For speed a function of the history takes the form of a *mind*: it is told percepts and actions as
they come, can be asked at any point, and can be forked there. The two forms are adapters of each
other (`agents.histories.adapters`), and a mind must give what the function gives, whatever the
history: actions in it need not be its own. Asking never changes a mind, and a fork knows nothing
of what its original does afterwards.

An environment is handed a `Source`: it can begin minds of the agent, and has no way to the one that
it is played by.

Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from goalmeter._errors import InvalidParameterError


class NoActionError(InvalidParameterError):
    """An agent was asked what it does, and did not answer with an integer."""


class Percept(NamedTuple):
    """A reward and an observation."""

    reward: float
    observation: int


class History(NamedTuple):
    """Percepts x_1 ... x_n and the actions y_1 ... y_{n-1} between them."""

    percepts: tuple[Percept, ...]
    actions: tuple[int, ...]


class Mind(Protocol):
    """An agent at a point of a history; percepts and actions alternate, a percept first."""

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""
        ...

    def act(self) -> int:
        """What the agent does here, after a percept. Asking changes nothing."""
        ...

    def take(self, action: int) -> None:
        """Go on by an action: the one that was taken, whether or not the agent chose it."""
        ...

    def fork(self) -> Mind:
        """Another mind at the same point."""
        ...


class Agent(Protocol):
    """Begins minds. Two minds that are told the same do the same.

    Attributes:
        options: names of settings that an environment may ask it to assume, such as
            "learning_rate"; an agent without this attribute has none.
    """

    @property
    def options(self) -> frozenset[str]:
        """Names of the settings that `begin` takes."""
        ...

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history, told how many actions and observations are legal."""
        ...


class Source:
    """What an environment knows of the agent: how to begin one like it.

    Args:
        agent: the agent that the environment is played by.
        n_actions: legal actions in this environment.
        n_observations: possible observations in it.
    """

    __slots__ = ("_agent", "_n_actions", "_n_observations")

    def __init__(self, agent: Agent, n_actions: int, n_observations: int) -> None:
        self._agent = agent
        self._n_actions = n_actions
        self._n_observations = n_observations

    def begin(self, *, n_actions: int | None = None, **options: Any) -> Mind:
        """A fresh mind of the agent; with other legal actions or settings if they are given."""
        count = self._n_actions if n_actions is None else n_actions
        return self._agent.begin(count, self._n_observations, **options)

    def takes(self, option: str) -> bool:
        """Whether the agent can be asked to assume a setting."""
        return option in options_of(self._agent)


def options_of(agent: Agent) -> frozenset[str]:
    """The settings that an agent can assume; none, if it does not say."""
    return getattr(agent, "options", frozenset())


def refuse_unknown(agent: object, options: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Refuse settings that an agent does not know, rather than ignore them."""
    known = sorted(known)
    for option in options:
        if option not in known:
            raise InvalidParameterError(
                f"{agent!r} cannot assume {option}={options[option]!r}: it knows "
                f"{', '.join(known) or 'no settings'}; ask Source.takes({option!r}) first"
            )
