"""Self-reflection: how an agent does in environments that simulate it."""

from goalmeter.agents.histories import FunctionAgent, RealityCheck, agent
from goalmeter.agents.histories.protocol import History, Percept
from goalmeter.reflection.measure import Comparison, Reflection, compare, load, measure
from goalmeter.reflection.trial import Trial, run_trial

__all__ = [
    "Comparison",
    "FunctionAgent",
    "History",
    "Percept",
    "RealityCheck",
    "Reflection",
    "Trial",
    "agent",
    "compare",
    "load",
    "measure",
    "run_trial",
]
