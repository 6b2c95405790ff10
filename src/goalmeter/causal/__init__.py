"""Causal Bayesian networks and influence diagrams, and what can be computed exactly in them."""

from goalmeter.causal.diagram import InfluenceDiagram
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.unroll import unroll
from goalmeter.causal.utility import Utility, utility_of

__all__ = [
    "CausalBayesianNetwork",
    "InfluenceDiagram",
    "Utility",
    "unroll",
    "utility_of",
]
