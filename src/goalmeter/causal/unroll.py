"""A small MDP as the influence diagram that it is: one state, decision and utility node a step."""

from __future__ import annotations

from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.causal.diagram import InfluenceDiagram
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy, uniform_policy
from goalmeter.tabular.rewards import rewards_of

# Entries of the transition tables, of which the diagram holds one a step.
MAX_ENTRIES = 2**24


def unroll(mdp: TabularMDP, policy: ArrayLike | None = None) -> InfluenceDiagram:
    """The influence diagram of an MDP with a finite horizon.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A]; default uniform.

    Returns:
        A diagram with variables S1, D1, S2, ..., DH, whose states are numbers from 0, and a
        utility node Ut for each decision: the reward, discounted to the first.

    Raises:
        InvalidParameterError: no horizon, or a world too large to be written out.
        InvalidPolicyError: the policy does not fit.

    Source: MEG paper (NeurIPS 2024), Definition 5.1.

    Example:
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=2)
        >>> unroll(mdp)
        InfluenceDiagram(4 variables, decisions D1, D2, utilities U1, U2)
    """
    if mdp.horizon is None:
        raise InvalidParameterError(
            "the MDP has no horizon, expected a finite one: an infinite process has no diagram; "
            "use mdp.replace(horizon=H)"
        )
    s, a = mdp.n_states, mdp.n_actions
    if s * a * s * mdp.horizon > MAX_ENTRIES:
        raise InvalidParameterError(
            f"{mdp.horizon} steps of {s} states and {a} actions take "
            f"{s * a * s * mdp.horizon:.3g} probabilities when written out, expected at most "
            f"{MAX_ENTRIES:.3g}; measure the MDP itself, which gives the same"
        )
    # Action-major [T, A, S], as it is used below.
    chosen = check_policy(mdp, uniform_policy(mdp) if policy is None else policy)
    moves, rewards = mdp.transition.to_dense(), rewards_of(mdp)
    domains: dict[str, Any] = {}
    parents: dict[str, list[str]] = {}
    cpds: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    utilities: dict[str, Any] = {}
    for t in range(mdp.horizon):
        state, decision = f"S{t + 1}", f"D{t + 1}"
        domains |= {state: range(s), decision: range(a)}
        parents[state] = [f"S{t}", f"D{t}"] if t else []
        parents[decision] = [state]
        cpds[state] = moves if t else mdp.initial
        # A policy that is the same at every step comes as one step.
        policies[decision] = chosen[min(t, len(chosen) - 1)].T
        paid = mdp.discount**t * rewards.at(t, slice(None))[..., 0]
        paid_at = ([state], paid[0]) if len(paid) == 1 else ([state, decision], paid.T)
        utilities[f"U{t + 1}"] = paid_at
    return InfluenceDiagram(
        domains, parents, cpds, decisions=list(policies), utilities=utilities, policy=policies
    )
