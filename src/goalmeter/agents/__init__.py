"""Who is measured: agents of every kind by one grammar of names, and what can be asked of them."""

from goalmeter.agents.abilities import Ability, AgentFactory, MissingAbilityError, NamedAgent
from goalmeter.agents.grid_agents import Decision, Episode, play
from goalmeter.agents.registry import agent, listed_names, register

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
