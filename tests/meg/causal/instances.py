"""Diagrams for the tests of this folder: the paper's, and random ones of every kind of recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from causal.models import network_of
from hypothesis import settings
from hypothesis import strategies as st
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Array, Model

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg import CausalMeg

few = settings(max_examples=8, deadline=None, derandomize=True)
several = settings(max_examples=15, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)

SIDE = ["left", "right"]


def mouse(to_cheese: float = 0.8, position: bool = False) -> CausalBayesianNetwork:
    """Example 1: S where the cheese is, D where the mouse goes (and M where it is then), T."""
    end = "M" if position else "D"
    domains = {"S": SIDE, "D": SIDE, **({"M": SIDE} if position else {}), "T": ["cheese", "none"]}
    cpds: dict[str, Any] = {
        "S": [0.5, 0.5],
        "D": [[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]],
        "T": lambda s, d: "cheese" if s == d else "none",
    }
    parents = {"D": ["S"], "T": ["S", end]}
    if position:
        parents["M"], cpds["M"] = ["D"], lambda d: d
    return CausalBayesianNetwork(domains, parents, cpds)


CHEESE = {"T": {"cheese": 1, "none": -1}}


def built(family: Any, seed: int, policy: str) -> Model:
    model: Model = family(np.random.default_rng(seed), policy)
    return model


# Diagrams with one decision or sufficient recall, with every kind of policy.
solvable = st.builds(
    built,
    family=st.sampled_from(diagrams.SUFFICIENT),
    seed=seeds,
    policy=st.sampled_from(diagrams.POLICIES),
)


def done(model: Model, settings: Mapping[str, int]) -> Model:
    """The oracle's model under do(X = x)."""
    return model._replace(
        parents={x: () if x in settings else p for x, p in model.parents.items()},
        cpds={
            x: np.eye(model.sizes[x])[settings[x]] if x in settings else cpd
            for x, cpd in model.cpds.items()
        },
    )


def known(model: Model, **options: Any) -> CausalMeg:
    """The known utility of an oracle's model."""
    return meg.causal_utility(network_of(model), model.decisions, list(model.factors), **options)


def goal_weights(result: CausalMeg) -> Array:
    """The goal times its rationality, 0 where the decisions have no say: [*sizes of targets]."""
    assert result.goal is not None
    return result.rationality * np.nan_to_num(result.goal.values)


def evidence_of(model: Model, targets: tuple[str, ...], weights: Array) -> float:
    """The literal evidence of a utility over targets, its rationality included."""
    policy = oracle.soft_optimal_policy(model, 1.0, [(targets, weights)])
    return oracle.evidence(model, policy)
