"""Agents of the reflection battery: the scripted ones, the reality check, and agents by name."""

from goalmeter.reflection.adapters import FunctionAgent as FunctionAgent
from goalmeter.reflection.agents.constant import ConstantAgent as ConstantAgent
from goalmeter.reflection.agents.naive import NaiveLearner as NaiveLearner
from goalmeter.reflection.agents.q_learner import QLearner as QLearner
from goalmeter.reflection.agents.random_agent import RandomAgent as RandomAgent
from goalmeter.reflection.agents.reality_check import RealityCheck as RealityCheck
from goalmeter.reflection.agents.registry import agent as agent
from goalmeter.reflection.agents.registry import agent_names as agent_names
from goalmeter.reflection.agents.registry import register as register
