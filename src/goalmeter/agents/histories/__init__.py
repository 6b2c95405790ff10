"""Agents as functions of their history: the scripted ones, and the reality check of any."""

from goalmeter.agents.histories.adapters import FunctionAgent as FunctionAgent
from goalmeter.agents.histories.naive import NaiveLearner as NaiveLearner
from goalmeter.agents.histories.q_learner import QLearner as QLearner
from goalmeter.agents.histories.reality_check import RealityCheck as RealityCheck
from goalmeter.agents.histories.simple import ConstantAgent as ConstantAgent
from goalmeter.agents.histories.simple import RandomAgent as RandomAgent
