"""Self-reflection: how an agent does in environments that simulate it."""

from goalmeter.agents.histories import FunctionAgent as FunctionAgent
from goalmeter.agents.histories import RealityCheck as RealityCheck
from goalmeter.agents.histories.protocol import History as History
from goalmeter.agents.histories.protocol import Percept as Percept
from goalmeter.reflection.measure import Comparison as Comparison
from goalmeter.reflection.measure import Reflection as Reflection
from goalmeter.reflection.measure import compare as compare
from goalmeter.reflection.measure import load as load
from goalmeter.reflection.measure import measure as measure
from goalmeter.reflection.trial import Trial as Trial
from goalmeter.reflection.trial import run_trial as run_trial
