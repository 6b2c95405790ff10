"""Whether choices can change what a utility pays, decided by structure and not by numbers.

Proposition 3.3 of the MEG paper (a utility that no decision influences has MEG 0) needs more than
a difference that rounding hides: a tiny difference is told apart by a large enough rationality.
Here nothing is compared but numbers that were given: two states are alike if they pay exactly the
same and lead with exactly the same probabilities to states that are alike, and no choice has an
influence if, in every state that can be reached, all actions are alike.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.tabular.mdp import TabularMDP

# Reachable states are kept for each decision up to this many entries [H, S], else as one set.
_KEPT_ENTRIES = 10_000_000


def has_no_influence(mdp: TabularMDP, utility: FloatArray) -> bool:
    """Whether no decision can influence a utility, exactly.

    The utility is action-major [T, A or 1, S], as it was given. True only where it is certain;
    False may also mean that sums of probabilities that ought to be equal differ by rounding.
    """
    same = ~mdp.transition.actions_differ(by_more_than=0.0)
    if mdp.horizon is None:
        return _stationary(mdp, utility[0], same, _closure(mdp))
    labels = np.zeros(mdp.n_states, dtype=np.int64)
    reached = _reached(mdp)
    for t in reversed(range(mdp.horizon)):
        # The labels of what cannot be reached at this decision are never looked up.
        labels, alike = _labels(mdp, utility[min(t, len(utility) - 1)], same, labels)
        if not alike[reached[min(t, len(reached) - 1)]].all():
            return False
    return True


def _stationary(mdp: TabularMDP, utility: FloatArray, same: BoolArray, reached: BoolArray) -> bool:
    # Of the infinite problem: the coarsest partition of states that is its own refinement.
    labels = np.zeros(mdp.n_states, dtype=np.int64)
    count = 1
    while True:
        labels, alike = _labels(mdp, utility, same, labels)
        if int(labels.max()) + 1 == count:
            return bool(alike[reached].all())
        count = int(labels.max()) + 1


def _labels(
    mdp: TabularMDP, utility: FloatArray, same: BoolArray, after: IntArray
) -> tuple[IntArray, BoolArray]:
    """Labels of states by what their first action pays and leads to, and whether all agree, [S].

    `utility` is that of the decision, [A or 1, S]; `same` are the states whose actions lead to one
    distribution, [S]; `after` the labels of the states one decision later.
    """
    kinds = np.eye(int(after.max()) + 1)[after]
    leads = mdp.transition.expect_all(kinds)  # [A, S, kinds]
    # What leads to one kind alone does so with probability 1, however its row adds up.
    leads = np.where((leads > 0).sum(axis=-1, keepdims=True) == 1, leads > 0, leads)
    pays = np.broadcast_to(utility, leads.shape[:2])
    alike = (pays == pays[0]).all(axis=0) & (same | (leads == leads[0]).all(axis=(0, 2)))
    signature = np.column_stack([after, pays[0], leads[0]])
    # A state keeps its kind from one refinement to the next, so that the partition only gets finer.
    _, labels = np.unique(signature, axis=0, return_inverse=True)
    return np.asarray(labels, dtype=np.int64).reshape(-1), alike


def _reached(mdp: TabularMDP) -> list[BoolArray]:
    """States that some policy can be in at each decision; one set for all in a large world."""
    assert mdp.horizon is not None
    if mdp.horizon * mdp.n_states > _KEPT_ENTRIES:
        return [_closure(mdp)]
    out = [mdp.initial > 0]
    for _ in range(mdp.horizon - 1):
        out.append(_next(mdp, out[-1]))
    return out


def _closure(mdp: TabularMDP) -> BoolArray:
    """States that some policy can ever be in."""
    reached = mdp.initial > 0
    while True:
        more = reached | _next(mdp, reached)
        if (more == reached).all():
            return reached
        reached = more


def _next(mdp: TabularMDP, states: BoolArray) -> BoolArray:
    mass = np.broadcast_to(states.astype(np.float64), (mdp.n_actions, mdp.n_states))
    return np.asarray(mdp.transition.push(np.ascontiguousarray(mass)) > 0)
