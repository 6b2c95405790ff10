"""Who is measured: agents of every kind by one grammar of names, and what can be asked of them."""

from goalmeter.agents.abilities import Ability as Ability
from goalmeter.agents.abilities import AgentFactory as AgentFactory
from goalmeter.agents.abilities import MissingAbilityError as MissingAbilityError
from goalmeter.agents.abilities import NamedAgent as NamedAgent
from goalmeter.agents.navigators.episodes import Episode as Episode
from goalmeter.agents.navigators.episodes import play as play
from goalmeter.agents.navigators.protocol import Decision as Decision
from goalmeter.agents.registry import agent as agent
from goalmeter.agents.registry import listed_names as listed_names
from goalmeter.agents.registry import register as register

__all__ = [
    "Ability",
    "AgentFactory",
    "Decision",
    "Episode",
    "MissingAbilityError",
    "NamedAgent",
    "agent",
    "listed_names",
    "play",
    "register",
]
