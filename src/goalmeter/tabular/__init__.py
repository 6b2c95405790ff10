"""Finite Markov decision processes: models, policies, soft planning, occupancy, files."""

from goalmeter.tabular.arrays import (
    load_features,
    load_policy,
    load_utility,
    save_features,
    save_policy,
)
from goalmeter.tabular.mdp import TabularMDP, cliff_world
from goalmeter.tabular.planning import (
    Return,
    SoftPlan,
    expected_return,
    occupancy,
    optimal_policy,
    soft_plan,
)
from goalmeter.tabular.policies import epsilon_greedy, uniform_policy
from goalmeter.tabular.trajectories import (
    Trajectories,
    load_trajectories,
    sample_trajectories,
    save_trajectories,
)

__all__ = [
    "Return",
    "SoftPlan",
    "TabularMDP",
    "Trajectories",
    "cliff_world",
    "epsilon_greedy",
    "expected_return",
    "load_features",
    "load_policy",
    "load_trajectories",
    "load_utility",
    "occupancy",
    "optimal_policy",
    "sample_trajectories",
    "save_features",
    "save_policy",
    "save_trajectories",
    "soft_plan",
    "uniform_policy",
]
