"""Agents: one grammar of names for agents of every kind, and the abilities of each."""

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
