"""Causal Bayesian networks and influence diagrams, and what can be computed exactly in them."""

from goalmeter.causal.diagram import InfluenceDiagram, Utility, unroll, utility_of
from goalmeter.causal.network import CausalBayesianNetwork

__all__ = ["CausalBayesianNetwork", "InfluenceDiagram", "Utility", "unroll", "utility_of"]
