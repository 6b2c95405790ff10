"""The process of contexts: its kernels, chances and payoffs are those of the joint distribution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from causal.models import many, network_of, random_team, seeds
from hypothesis import given
from oracles import causal_model as oracle
from oracles import random_diagrams as diagrams

from goalmeter._types import FloatArray
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.contexts import DecisionProcess, decision_process, neutral_network, recall_of

SOLVABLE = [
    (family, seed, policy)
    for family in diagrams.SUFFICIENT
    for seed in range(3)
    for policy in ("random", "mixed", "deterministic")
]


def process_of(model: oracle.Model) -> DecisionProcess:
    return solved(network_of(model), model.decisions, diagrams.groups_of(model))


def solved(network: CausalBayesianNetwork, decisions: Any, scopes: Any) -> DecisionProcess:
    recall = recall_of(network, decisions, scopes)
    return decision_process(network, recall, scopes, neutral_network(network, decisions))


def mass_of(process: DecisionProcess, policy: FloatArray) -> FloatArray:
    """The chance of each context and action, [S, A], step by step along the branches."""
    moves = process.mdp.transition.to_dense()
    reached = process.mdp.initial.copy()
    out = np.zeros(policy.shape)
    for d in process.decisions:
        out[d.states] = reached[d.states, None] * policy[d.states]
        reached += np.einsum("sa,saz->z", out[d.states], moves[d.states])
    return out


def chances(model: oracle.Model, x: str) -> FloatArray:
    """P(context, choice) of one decision, [contexts, actions]."""
    family = (*model.parents[x], x)
    table = oracle.sum_to(model, family, oracle.probability_table(model))
    return table.reshape(-1, model.sizes[x])


# --- By hand --------------------------------------------------------------------------------------


def two_steps() -> CausalBayesianNetwork:
    """See a bit, choose one; the next bit is the sum; choose among three and be paid for it."""
    return CausalBayesianNetwork(
        {"S": [0, 1], "D": [0, 1], "X": [0, 1], "E": [0, 1, 2], "T": [0, 1, 2, 3]},
        {"D": ["S"], "X": ["S", "D"], "E": ["X"], "T": ["E", "X"]},
        {
            "S": [0.25, 0.75],
            "D": [[0.5, 0.5], [0.1, 0.9]],
            "X": lambda s, d: (s + d) % 2,
            "E": [[0.2, 0.3, 0.5], [1, 0, 0]],
            "T": lambda e, x: e + x,
        },
    )


def test_two_steps_by_hand() -> None:
    process = solved(two_steps(), ["D", "E"], [["T"]])
    first, second = process.decisions
    assert (first.name, first.observed, first.states) == ("D", ("S",), slice(0, 2))
    assert (second.name, second.observed, second.states) == ("E", ("X",), slice(2, 4))
    assert (first.previous, second.previous) == (None, "D")
    assert (first.level, second.level) == (0, 1)
    assert (process.mdp.n_states, process.mdp.n_actions, process.mdp.horizon) == (4, 3, 2)
    assert process.mdp.initial.tolist() == [0.25, 0.75, 0, 0]
    moves = process.mdp.transition.to_dense()
    # S = 0 and D = 1, or S = 1 and D = 0, lead to X = 1, which is state 3; D has no third action,
    # and what stands there repeats its first.
    assert moves[0, :, 2:].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert moves[1, :, 2:].tolist() == [[0, 1], [1, 0], [0, 1]]
    assert not moves[2:].any()
    assert process.policy().tolist() == [[0.5, 0.5, 0], [0.1, 0.9, 0], [0.2, 0.3, 0.5], [1, 0, 0]]
    np.testing.assert_allclose(np.exp(process.log_uniform[0, :, 0]), [0.5, 0.5, 0])
    np.testing.assert_allclose(np.exp(process.log_uniform[0, :, 3]), [1 / 3, 1 / 3, 1 / 3])
    # T = E + X is paid by E, the last decision that influences it.
    paid = process.payoff([np.array([0.0, 1.0, 10.0, 100.0])[:, None]])[..., 0]
    assert paid.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 10], [1, 10, 100]]
    assert process.indicators()[3].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


# --- The enumerated joint -------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "seed", "policy"), SOLVABLE)
def test_contexts_are_as_likely_as_in_the_joint(family: Any, seed: int, policy: str) -> None:
    model = family(np.random.default_rng(seed), policy)
    process = process_of(model)
    # ... under the policy of the model and under any other.
    renamed = {
        d: diagrams.random_policy(np.random.default_rng(seed + 1), model.cpds[d].shape, "mixed")
        for d in model.decisions
    }
    for policies in (model.cpds, renamed):
        changed = oracle.with_policy(model, policies)
        mass = mass_of(process, replace(process, network=network_of(changed)).policy())
        for d in process.decisions:
            expected = chances(changed, d.name)
            np.testing.assert_allclose(
                mass[d.states, : d.n_actions], expected, atol=1e-13, err_msg=d.name
            )


@given(seed=seeds)
@many
def test_what_is_paid_is_the_expected_utility(seed: int) -> None:
    model = random_team(seed)
    scopes = diagrams.groups_of(model)
    network = network_of(model)
    if not oracle.has_sufficient_recall(model.parents, model.decisions, scopes):
        return
    acting = [f for f in model.factors if set(f[0]) & network.descendants(*model.decisions)]
    acting += [f for f in model.factors if set(f[0]) & set(model.decisions) and f not in acting]
    if not acting:
        return
    process = process_of(model)
    mass = mass_of(process, process.policy())
    paid = process.payoff([values[..., None] for _, values in model.factors])[..., 0]
    out_of_reach = [f for f in model.factors if all(f is not g for g in acting)]
    total = oracle.expected_utility(model._replace(factors=tuple(out_of_reach)))
    total += float((mass * paid).sum())
    assert total == pytest.approx(oracle.expected_utility(model), abs=1e-12)
