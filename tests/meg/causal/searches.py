"""Teams and other diagrams without sufficient recall, searched with a few restarts."""

from __future__ import annotations

from typing import Any

import numpy as np
from causal.models import network_of
from hypothesis import settings
from hypothesis import strategies as st
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter._types import FloatArray
from goalmeter.causal import CausalBayesianNetwork, utility_of
from goalmeter.meg.causal.insufficient_recall import search
from goalmeter.meg.causal.outcomes import JointOutcomes, joint_outcomes
from goalmeter.meg.causal.search import SearchResult

LOG2 = float(np.log(2))
several = settings(max_examples=3, deadline=None, derandomize=True)
many = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)
forgetful = st.builds(
    lambda make, seed, policy: make(np.random.default_rng(seed), policy),
    st.sampled_from(diagrams.INSUFFICIENT),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)


def entropy(p: float) -> float:
    return -p * float(np.log(p)) - (1 - p) * float(np.log(1 - p))


def team(*policies: list[float]) -> CausalBayesianNetwork:
    """Members who choose among the same without seeing each other, and whether all match."""
    names = [f"D{i}" for i in range(len(policies))]
    domains = {**dict.fromkeys(names, range(len(policies[0]))), "X": [0, 1]}
    cpds: dict[str, Any] = dict(zip(names, policies, strict=True))
    cpds["X"] = lambda *chosen: int(len(set(chosen)) == 1)
    return CausalBayesianNetwork(domains, {"X": names}, cpds)


def known(
    network: CausalBayesianNetwork, goal: Any = (("X",), [0.0, 1.0]), **changes: Any
) -> SearchResult:
    decisions = [x for x in network.order if x.startswith("D")]
    table = joint_outcomes(network, decisions, utility_of(network, goal))
    options: dict[str, Any] = {"rng": np.random.default_rng(0), "restarts": 6} | changes
    return search(table, table.policies(network), **options)


def table_of(model: Model) -> tuple[JointOutcomes, FloatArray]:
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, utility_of(network, list(model.factors)))
    return table, table.policies(network)


def searched(model: Model, seed: int = 0, restarts: int = 4) -> SearchResult:
    table, measured = table_of(model)
    rng = np.random.default_rng(seed)
    return search(table, measured, restarts=restarts, rng=rng)


def grid_entropy(u: float, n: int = 100) -> float:
    """The most entropy of two members with three choices whose chance to match is u, on a grid of
    the first member's policies and of one probability of the second's; the others follow from u."""
    p = np.array([(i, j, n - i - j) for i in range(1, n) for j in range(1, n - i)]) / n
    q0 = np.arange(1, n)[:, None] / n
    # p0 q0 + p1 q1 + p2 (1 - q0 - q1) = u
    slope = np.where(p[:, 1] == p[:, 2], np.nan, p[:, 1] - p[:, 2])
    q1 = (u - p[:, 0] * q0 - p[:, 2] * (1 - q0)) / slope
    q = np.stack([np.broadcast_to(q0, q1.shape), q1, 1 - q0 - q1])
    total = -(p * np.log(p)).sum(axis=1) - (q * np.log(np.where(q > 0, q, np.nan))).sum(axis=0)
    return float(np.nanmax(total))
