"""Self-reflection: the performance of an agent in environments that simulate it."""

from goalmeter.agents.history import FunctionAgent, History, Percept, RealityCheck
from goalmeter.reflection.measure import load, measure
from goalmeter.reflection.result import Comparison, Reflection, compare
from goalmeter.reflection.trial import Trial, run_trial

__all__ = [
    "Comparison",
    "FunctionAgent",
    "History",
    "Percept",
    "RealityCheck",
    "Reflection",
    "Trial",
    "compare",
    "load",
    "measure",
    "run_trial",
]
