"""Maximum entropy goal-directedness (MEG) of policies, causal models, simulators and logs."""

import typing

from goalmeter._names import lazy_front as _lazy_front

if typing.TYPE_CHECKING:
    from goalmeter.meg.behaviour import mce_plug_in
    from goalmeter.meg.causal.interventions import under_interventions
    from goalmeter.meg.causal.result import CausalMeg, TableMeg
    from goalmeter.meg.causal.sensitivity import sensitivity
    from goalmeter.meg.causal.table import from_table
    from goalmeter.meg.causal.utilities import causal_class, causal_utility, targets
    from goalmeter.meg.interventions import InterventionResult, ScoredChange, under_changes
    from goalmeter.meg.known import known_utility, known_utility_many
    from goalmeter.meg.neural import neural_utility, neural_values
    from goalmeter.meg.result import FitInterrupted, MegResult, Progress, TrajectoryMeg
    from goalmeter.meg.simulator import (
        GaussianAnswer,
        LearntUtility,
        SimulatorProgress,
        SimulatorResult,
        from_simulator,
    )
    from goalmeter.meg.sweeps.sweep import Sweep, SweepRow, sweep
    from goalmeter.meg.trajectories import from_trajectories
    from goalmeter.meg.unknown import (
        SimplestUtility,
        simplest_utility,
        unknown_utility,
        unknown_utility_many,
    )

__getattr__, __dir__ = _lazy_front(__name__, __file__)

__all__ = [
    "CausalMeg",
    "FitInterrupted",
    "GaussianAnswer",
    "InterventionResult",
    "LearntUtility",
    "MegResult",
    "Progress",
    "ScoredChange",
    "SimplestUtility",
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
    "under_changes",
    "under_interventions",
    "unknown_utility",
    "unknown_utility_many",
]
