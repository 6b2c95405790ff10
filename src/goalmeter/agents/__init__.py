"""Who is measured: agents of every kind by one grammar of names, and what can be asked of them."""

from goalmeter.agents.abilities import Ability, AgentFactory, MissingAbilityError, NamedAgent
from goalmeter.agents.grid_agents import Decision, Episode, play
from goalmeter.agents.local_models import LocalModel, Reply, Sampling, is_model
from goalmeter.agents.recurrent_dqn import RecurrentDQN
from goalmeter.agents.registry import agent, listed_names, register
from goalmeter.agents.stable_baselines import borrowed_generators

__all__ = [
    "Ability",
    "AgentFactory",
    "Decision",
    "Episode",
    "LocalModel",
    "MissingAbilityError",
    "NamedAgent",
    "RecurrentDQN",
    "Reply",
    "Sampling",
    "agent",
    "borrowed_generators",
    "is_model",
    "listed_names",
    "play",
    "register",
]
