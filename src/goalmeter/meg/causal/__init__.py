"""Goal-directedness in causal models: one file a measure."""

from goalmeter.meg.causal.classes import causal_class as causal_class
from goalmeter.meg.causal.intervention_table import InterventionRow as InterventionRow
from goalmeter.meg.causal.intervention_table import Interventions as Interventions
from goalmeter.meg.causal.interventions import under_interventions as under_interventions
from goalmeter.meg.causal.known import causal_utility as causal_utility
from goalmeter.meg.causal.result import CausalMeg as CausalMeg
from goalmeter.meg.causal.result import Goal as Goal
from goalmeter.meg.causal.sensitivity import Sensitivity as Sensitivity
from goalmeter.meg.causal.sensitivity import SensitivityRow as SensitivityRow
from goalmeter.meg.causal.sensitivity import sensitivity as sensitivity
from goalmeter.meg.causal.table import from_table as from_table
from goalmeter.meg.causal.table_result import TableMeg as TableMeg
from goalmeter.meg.causal.targets import targets as targets
