"""Goal-directedness in causal models: one file a measure."""

from goalmeter.meg.causal.classes import causal_class
from goalmeter.meg.causal.intervention_table import InterventionRow, Interventions
from goalmeter.meg.causal.interventions import under_interventions
from goalmeter.meg.causal.known import causal_utility
from goalmeter.meg.causal.result import CausalMeg, Goal, TableMeg
from goalmeter.meg.causal.sensitivity import Sensitivity, SensitivityRow, sensitivity
from goalmeter.meg.causal.table import from_table
from goalmeter.meg.causal.targets import targets

__all__ = [
    "CausalMeg",
    "Goal",
    "InterventionRow",
    "Interventions",
    "Sensitivity",
    "SensitivityRow",
    "TableMeg",
    "causal_class",
    "causal_utility",
    "from_table",
    "sensitivity",
    "targets",
    "under_interventions",
]
