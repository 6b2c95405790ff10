"""Goal-directedness in causal models: one file a measure."""

from goalmeter.meg.causal.interventions import InterventionRow, Interventions, under_interventions
from goalmeter.meg.causal.result import CausalMeg, Goal, TableMeg
from goalmeter.meg.causal.sensitivity import Sensitivity, SensitivityRow, sensitivity
from goalmeter.meg.causal.table import from_table
from goalmeter.meg.causal.utilities import causal_class, causal_utility, targets

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
