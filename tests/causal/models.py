"""The oracles' plain models as the library's, and small random networks to try it on."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from oracles.causal_model import Array, Model
from oracles.random_diagrams import random_cpd

from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram

several = settings(max_examples=20, deadline=None, derandomize=True)
many = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)

SIDE = ["left", "right"]
# The paper's Example 1: the mouse goes for the cheese with probability 0.8.
DOMAINS = {"S": SIDE, "D": SIDE, "T": ["cheese", "none"]}
PARENTS = {"D": ["S"], "T": ["S", "D"]}
CPDS: dict[str, Any] = {
    "S": [0.5, 0.5],
    "D": [[0.8, 0.2], [0.2, 0.8]],
    "T": lambda s, d: "cheese" if s == d else "none",
}


def mouse(**cpds: Any) -> CausalBayesianNetwork:
    return CausalBayesianNetwork(DOMAINS, PARENTS, {**CPDS, **cpds}, name="mouse")


def network_of(model: Model) -> CausalBayesianNetwork:
    """The model with its policy; states are their own indices."""
    domains = {x: range(size) for x, size in model.sizes.items()}
    return CausalBayesianNetwork(domains, model.parents, model.cpds)


def diagram_of(model: Model) -> InfluenceDiagram:
    """The model as a diagram, with a utility node for each factor."""
    return InfluenceDiagram.of(
        network_of(model),
        decisions=model.decisions,
        utilities={f"utility {k}": factor for k, factor in enumerate(model.factors)},
    )


def random_model(seed: int, most: int = 6) -> Model:
    """A random network listed in any order: domains of 1 to 3 states, zeros, certain rows, and
    variables that nothing is connected with."""
    rng = np.random.default_rng(seed)
    causal = [f"X{i}" for i in range(int(rng.integers(1, most + 1)))]
    density = rng.choice([0.0, 0.3, 0.6, 0.9])
    drawn = {
        x: tuple(str(p) for p in rng.permutation(causal[:i])[:3] if rng.random() < density)
        for i, x in enumerate(causal)
    }
    listed = [str(x) for x in rng.permutation(causal)]
    sizes = {x: int(rng.choice([1, 2, 2, 3])) for x in listed}
    parents = {x: drawn[x] for x in listed}
    cpds: dict[str, Array] = {
        x: random_cpd(rng, [*(sizes[p] for p in parents[x]), sizes[x]], 0.4) for x in listed
    }
    return Model(sizes, parents, cpds)


def random_team(seed: int, most: int = 6) -> Model:
    """A random network with one to three decisions anywhere and a utility of one or two factors."""
    rng = np.random.default_rng(seed)
    plain = random_model(seed, most)
    names = list(plain.sizes)
    decisions = [str(d) for d in rng.permutation(names)[: int(rng.integers(1, 4))]]
    factors = []
    for _ in range(int(rng.integers(1, 3))):
        scope = tuple(str(x) for x in rng.permutation(names)[: int(rng.integers(1, 3))])
        factors.append((scope, rng.normal(size=[plain.sizes[x] for x in scope])))
    return plain._replace(decisions=tuple(decisions), factors=tuple(factors))
