"""Causal Bayesian networks and influence diagrams with exact inference."""

from goalmeter.causal.diagram import InfluenceDiagram, Utility, unroll, utility_of
from goalmeter.causal.network import CausalBayesianNetwork

__all__ = ["CausalBayesianNetwork", "InfluenceDiagram", "Utility", "unroll", "utility_of"]
