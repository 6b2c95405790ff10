"""MEG in simulators: `from_simulator` and its records."""

from goalmeter.agents.environment_agents import GaussianAnswer
from goalmeter.meg.simulator.measure import from_simulator
from goalmeter.meg.simulator.result import SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.utilities import LearntUtility

__all__ = [
    "GaussianAnswer",
    "LearntUtility",
    "SimulatorProgress",
    "SimulatorResult",
    "from_simulator",
]
