"""Finite Markov decision processes: worlds, policies, soft planning, occupancy, files."""

from goalmeter.tabular.cliff_world import cliff_world as cliff_world
from goalmeter.tabular.files import load_features as load_features
from goalmeter.tabular.files import load_policy as load_policy
from goalmeter.tabular.files import load_trajectories as load_trajectories
from goalmeter.tabular.files import save_features as save_features
from goalmeter.tabular.files import save_policy as save_policy
from goalmeter.tabular.files import save_trajectories as save_trajectories
from goalmeter.tabular.mdp import TabularMDP as TabularMDP
from goalmeter.tabular.occupancy import occupancy as occupancy
from goalmeter.tabular.optimal import optimal_policy as optimal_policy
from goalmeter.tabular.planning import SoftPlan as SoftPlan
from goalmeter.tabular.planning import soft_plan as soft_plan
from goalmeter.tabular.policies import epsilon_greedy as epsilon_greedy
from goalmeter.tabular.policies import uniform_policy as uniform_policy
from goalmeter.tabular.returns import Return as Return
from goalmeter.tabular.returns import expected_return as expected_return
from goalmeter.tabular.trajectories import Trajectories as Trajectories
from goalmeter.tabular.trajectories import sample_trajectories as sample_trajectories
