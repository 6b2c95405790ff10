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
from oracles.causal_model import Array, Model, joint

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg import CausalMeg, TableMeg

few = settings(max_examples=4, deadline=None, derandomize=True)
several = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)

SIDE = ["left", "right"]
MEG_08 = 0.19274475702175753  # log 2 + 0.8 log 0.8 + 0.2 log 0.2


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


# The mouse seen ten times, eight of them on its way to the cheese.
TEN = {"S": ["left"] * 5 + ["right"] * 5, "D": ["left"] * 4 + ["right"] * 5 + ["left"]}
# The policies of these tests are small, and need neither many resamples nor many starts.
QUICK = {"resamples": 100, "folds": 2, "restarts": 8}


def quick(model: Any, decisions: Any, data: Any, **options: Any) -> TableMeg:
    return meg.from_table(model, decisions, data, **{**QUICK, **options})


def quartered(model: Model, seed: int) -> Model:
    """The same diagram with probabilities that are quarters, so that counts can be exact."""
    rng = np.random.default_rng(seed)
    cpds: dict[str, Array] = {
        x: rng.multinomial(4, np.full(cpd.shape[-1], 1 / cpd.shape[-1]), size=cpd.shape[:-1]) / 4
        for x, cpd in model.cpds.items()
    }
    return model._replace(cpds=cpds)


def blank(model: Model) -> CausalBayesianNetwork:
    """The model with uniform decisions: what a table says does not come from its policy."""
    network = network_of(model)
    return network.with_mechanisms(
        {d: np.full(network.cpd(d).shape, 1 / network.size(d)) for d in model.decisions}
    )


def every_outcome(model: Model) -> dict[str, list[int]]:
    """All joint outcomes, each as often as its probability says."""
    counts = joint(model) * 4 ** len(model.sizes)
    assert (counts == counts.round()).all()
    smallest = int(np.gcd.reduce(counts.astype(int).ravel()))
    rows = np.repeat(np.argwhere(counts > 0), (counts[counts > 0] / smallest).astype(int), axis=0)
    return {x: rows[:, i].tolist() for i, x in enumerate(model.sizes)}
