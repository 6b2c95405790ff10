"""MEG in worlds that can only be run: what `from_simulator` is made of (see its README)."""

from goalmeter.meg.simulator.continuous_worlds import GaussianAnswer
from goalmeter.meg.simulator.measure import from_simulator
from goalmeter.meg.simulator.result import (
    SimulatorInterrupted,
    SimulatorProgress,
    SimulatorResult,
)
from goalmeter.meg.simulator.utilities import LearntUtility

__all__ = [
    "GaussianAnswer",
    "LearntUtility",
    "SimulatorInterrupted",
    "SimulatorProgress",
    "SimulatorResult",
    "from_simulator",
]
