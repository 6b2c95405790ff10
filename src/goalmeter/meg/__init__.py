"""Maximum entropy goal-directedness (MEG): one file a measure."""

from goalmeter.meg.causal import (
    CausalMeg,
    TableMeg,
    causal_class,
    causal_utility,
    from_table,
    sensitivity,
    targets,
    under_interventions,
)
from goalmeter.meg.known import known_utility, known_utility_many
from goalmeter.meg.neural import neural_utility, neural_values
from goalmeter.meg.plug_in import mce_plug_in
from goalmeter.meg.result import MegResult, TrajectoryMeg
from goalmeter.meg.simplest import SimplestUtility, simplest_utility
from goalmeter.meg.simulator import (
    GaussianAnswer,
    LearntUtility,
    SimulatorInterrupted,
    SimulatorProgress,
    SimulatorResult,
    from_simulator,
)
from goalmeter.meg.sweeps.measure import sweep
from goalmeter.meg.sweeps.result import Sweep, SweepRow
from goalmeter.meg.trajectories import from_trajectories
from goalmeter.meg.unknown import unknown_utility
from goalmeter.meg.unknown_worlds import unknown_utility_many
from goalmeter.meg.watch import FitInterrupted, Progress

__all__ = [
    "CausalMeg",
    "FitInterrupted",
    "GaussianAnswer",
    "LearntUtility",
    "MegResult",
    "Progress",
    "SimplestUtility",
    "SimulatorInterrupted",
    "SimulatorProgress",
    "SimulatorResult",
    "Sweep",
    "SweepRow",
    "TableMeg",
    "TrajectoryMeg",
    "causal_class",
    "causal_utility",
    "from_simulator",
    "from_table",
    "from_trajectories",
    "known_utility",
    "known_utility_many",
    "mce_plug_in",
    "neural_utility",
    "neural_values",
    "sensitivity",
    "simplest_utility",
    "sweep",
    "targets",
    "under_interventions",
    "unknown_utility",
    "unknown_utility_many",
]
