"""Faces at infinity: the support that the literal program has, and optima that need them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.against_the_program import instance
from oracles import unknown_utility as oracle

from goalmeter.meg import unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.faces import recession_faces
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP, optimal_policy


def nothing() -> None:
    """No time limit."""


def start_of(mdp: TabularMDP, over: Any = "state") -> SoftModel:
    utilities = linear_class(mdp, over=over)
    return SoftModel(mdp, utilities, np.zeros(utilities.n_weights), None)


def random_world(n: int, horizon: int) -> TabularMDP:
    """Four successors anywhere for each of four actions; start first, reward last."""
    rng = np.random.default_rng(0)
    next_state = rng.integers(n, size=(n, 4, 4))
    probability = rng.dirichlet(np.ones(4), size=(n, 4))
    reward, start = np.eye(n)[-1], np.eye(n)[0]
    return TabularMDP((next_state, probability), reward, horizon=horizon, initial=start)


def test_a_mouse_and_its_cheese() -> None:
    # One decision that is paid: to go to state 1 or 2. Whoever surely goes to 1 wants 1.
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    mdp = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], np.zeros(3), horizon=2)
    (face,) = recession_faces(start_of(mdp), behaviour_of(mdp, [[[1, 0]] * 3]), nothing)
    assert face.direction[1] - face.direction[2] > 0.5
    np.testing.assert_allclose(face.model.policy(0)[:, 0], [1.0, 0.0])


@pytest.mark.parametrize("seed", range(20))
def test_the_last_face_is_the_support_of_the_program(seed: int) -> None:
    made = instance(seed)
    mdp, phi = made.mdp(), made.phi
    behaviour = behaviour_of(mdp, [made.policy])
    model = start_of(mdp, made.over)
    for face in recession_faces(model, behaviour, nothing):
        for t in range(mdp.steps):
            # What the behaviour does is optimal for every direction, in the face before it.
            used = behaviour.weights(t, slice(None))[..., 0] > 0
            assert model.regrets(face.direction)[t][used].max(initial=0.0) <= 1e-12
        model = face.model
    arguments = (made.P, made.mu, made.horizon, made.discount)
    flow, flow_right = oracle.flow_constraints(*arguments)
    d = oracle.behaviour(made.P, made.policy, made.mu, made.horizon, made.discount)
    match = oracle.weighted(phi, made.horizon, made.discount).reshape(d.size, -1).T
    right = np.concatenate([flow_right, match @ d.ravel()])
    try:
        support, _ = oracle.relative_interior(
            np.vstack([flow, match]), right, np.zeros(d.size, dtype=bool)
        )
    except RuntimeError:  # SciPy's linear program failed
        return
    some = np.zeros(d.size)
    some[support] = 1.0
    possible = some.reshape(d.shape).transpose(0, 2, 1) > 0
    left = np.stack([model.policy(t) * model.states[t] for t in range(mdp.steps)]) > 0
    np.testing.assert_array_equal(left, possible)


@pytest.mark.slow
def test_the_optimum_of_a_world_with_chance_closes() -> None:
    mdp = random_world(120, 12)
    result = unknown_utility(mdp, optimal_policy(mdp))
    assert result.certified and result.rationality == np.inf


def test_without_the_reward_a_linear_program_finds_the_face() -> None:
    mdp = random_world(40, 8)
    policy = optimal_policy(mdp)
    blank = mdp.replace(reward=np.zeros(40))
    faces = [
        list(recession_faces(start_of(world), behaviour_of(world, [policy]), nothing))
        for world in (mdp, blank)
    ]
    closed = [(last[-1].model.policy(0) == 0).sum() for last in faces]
    assert closed[0] == closed[1] > 0
