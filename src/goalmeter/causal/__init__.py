"""Causal Bayesian networks and influence diagrams, and what can be computed exactly in them."""

from goalmeter.causal.diagram import InfluenceDiagram as InfluenceDiagram
from goalmeter.causal.network import CausalBayesianNetwork as CausalBayesianNetwork
from goalmeter.causal.unroll import unroll as unroll
from goalmeter.causal.utility import Utility as Utility
from goalmeter.causal.utility import utility_of as utility_of
