"""Agents of the reflection battery: the scripted ones, the reality check, and agents by name."""

from goalmeter.agents.histories.adapters import FunctionAgent as FunctionAgent
from goalmeter.agents.histories.constant import ConstantAgent as ConstantAgent
from goalmeter.agents.histories.naive import NaiveLearner as NaiveLearner
from goalmeter.agents.histories.q_learner import QLearner as QLearner
from goalmeter.agents.histories.random_agent import RandomAgent as RandomAgent
from goalmeter.agents.histories.reality_check import RealityCheck as RealityCheck
from goalmeter.agents.histories.registry import agent as agent
from goalmeter.agents.histories.registry import agent_names as agent_names
from goalmeter.agents.histories.registry import register as register
