"""Maximum entropy goal-directedness (MEG): one file a measure."""

from goalmeter.meg.causal import CausalMeg as CausalMeg
from goalmeter.meg.causal import TableMeg as TableMeg
from goalmeter.meg.causal import causal_class as causal_class
from goalmeter.meg.causal import causal_utility as causal_utility
from goalmeter.meg.causal import from_table as from_table
from goalmeter.meg.causal import sensitivity as sensitivity
from goalmeter.meg.causal import targets as targets
from goalmeter.meg.causal import under_interventions as under_interventions
from goalmeter.meg.known import known_utility as known_utility
from goalmeter.meg.known import known_utility_many as known_utility_many
from goalmeter.meg.neural import neural_utility as neural_utility
from goalmeter.meg.neural import neural_values as neural_values
from goalmeter.meg.plug_in import mce_plug_in as mce_plug_in
from goalmeter.meg.result import MegResult as MegResult
from goalmeter.meg.simplest import SimplestUtility as SimplestUtility
from goalmeter.meg.simplest import simplest_utility as simplest_utility
from goalmeter.meg.trajectories import from_trajectories as from_trajectories
from goalmeter.meg.trajectory_result import TrajectoryMeg as TrajectoryMeg
from goalmeter.meg.unknown import unknown_utility as unknown_utility
from goalmeter.meg.watch import FitInterrupted as FitInterrupted
from goalmeter.meg.watch import Progress as Progress
