"""Features as counts: what lets a class of features be fitted like the visits of states.

A constant added to a feature changes no policy, so every feature is counted from its least value:
expectations are then positive, as visits are, and changes of their logarithms make sense. The
weights mean what they meant. A class with a feature for every state is that of all utilities over
states, in other words.

What a behaviour never does is a face of its own (`goalmeter.meg.confinement`): where it only ever
meets the least value of a feature, or only ever the largest, a utility may make that feature ever
less, or more, attractive. All policies that surely meet nothing else are equally good for it, all
others are worse.

Source: generalised iterative scaling (Darroch and Ratcliff 1972) for changes of logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular.mdp import TabularMDP

# With so small a share of entries that are not 0, products are quicker compressed.
_SPARSE = 0.1


def tabular(utilities: LinearClass) -> LinearClass:
    """The class without features where it has a feature for each entry of a utility."""
    if utilities.matrix is None or utilities.matrix.shape[0] != utilities.n_weights:
        return utilities
    # One weight an entry: each feature and each entry is told apart from the rest exactly once.
    apart = utilities.matrix != np.median(utilities.matrix, axis=0)
    if not ((apart.sum(axis=0) == 1).all() and (apart.sum(axis=1) == 1).all()):
        return utilities
    return replace(utilities, matrix=None)


def counted(model: SoftModel) -> SoftModel:
    """The same model, its features counted from their least values; itself without features."""
    matrix: Any = model.utilities.matrix
    if matrix is None or sp.issparse(matrix):
        return model
    matrix = matrix - matrix.min(axis=0)
    if np.count_nonzero(matrix) <= _SPARSE * matrix.size:
        matrix = sp.csr_matrix(matrix)
    return model.restated(replace(model.utilities, matrix=matrix))


def met(utilities: LinearClass, visits: FloatArray) -> tuple[BoolArray, FloatArray]:
    """What entries a behaviour may meet, as far as single features tell, and the direction.

    Args:
        utilities: the class.
        visits: of a behaviour, in the entries of a utility, [T, A or 1, S, 1].

    Returns:
        The entries that are not ruled out, [T, A or 1, S]; and the weights [D] of a utility that
        is at its largest there, and nowhere else.
    """
    if utilities.matrix is None:
        return visits[..., 0] > 0, np.where(visits.ravel() > 0, 0.0, -1.0)
    matrix: Any = utilities.matrix
    matrix = matrix.toarray() if sp.issparse(matrix) else matrix
    seen = matrix[visits.ravel() > 0]
    least, most = matrix.min(axis=0), matrix.max(axis=0)
    lowest, highest = (seen == least).all(axis=0), (seen == most).all(axis=0)
    direction = np.where(least < most, 1.0 * highest - 1.0 * lowest, 0.0)
    inside = (~lowest | (matrix == least)).all(axis=1) & (~highest | (matrix == most)).all(axis=1)
    return inside.reshape(utilities.shape), direction


def features_moved(model: SoftModel, change: FloatArray) -> FloatArray:
    """How much a model's features [D] change where their logarithms are to change by `change` [D].

    Only what policies can change may be asked for, or no weights bring it about. So the changes are
    made in the visits, each of which takes the average of what its features ask for, and the sum of
    all visits is held.
    """
    matrix: Any = model.utilities.matrix
    visits = model_entries(model).ravel()
    total = np.asarray(matrix.sum(axis=1)).ravel()
    moved = np.asarray(matrix @ change) / np.where(total > 0, total, 1.0)
    moved -= float(visits @ moved) / float(visits.sum())
    return np.asarray(matrix.T @ (visits * moved))


def entry_visits(
    utilities: LinearClass, mdp: TabularMDP, mass: Callable[[int], FloatArray]
) -> FloatArray:
    """Visits in the entries of a class's utilities, of a mass [A, S, 1] at each decision.

    As a tally, [T, A or 1, S, 1].
    """
    visits = utilities.visits(1)
    for t in range(mdp.steps):
        utilities.tally(visits, t, mass(t))
    return visits


def model_entries(model: SoftModel) -> FloatArray:
    """What a model is expected to visit, as `entry_visits`."""
    policy, states = model.policy, model.states
    return entry_visits(model.utilities, model.mdp, lambda t: (policy(t) * states[t])[..., None])


def behaviour_entries(utilities: LinearClass, behaviour: Behaviour) -> FloatArray:
    """What a behaviour is expected to visit, as `entry_visits`."""
    return entry_visits(utilities, behaviour.mdp, lambda t: behaviour.weights(t, ALL))


def model_visits(model: SoftModel) -> FloatArray:
    """What a model is expected to visit, in the weights of its class: [D]."""
    return model.utilities.collect(model_entries(model))[:, 0]


def expected_visits(utilities: LinearClass, behaviour: Behaviour) -> FloatArray:
    """What a behaviour is expected to visit, in the weights of a class: [D]."""
    return utilities.collect(behaviour_entries(utilities, behaviour))[:, 0]
