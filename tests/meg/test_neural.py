"""MEG towards utilities that a network computes."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import example_one

from goalmeter.meg import known_utility, neural_utility, neural_values, unknown_utility
from goalmeter.tabular import TabularMDP

torch = pytest.importorskip("torch")

MOUSE = TabularMDP(example_one.P, example_one.U, horizon=2, initial=example_one.MU)
POLICY = example_one.mouse(0.8)
# Features of the mouse's states: whether there is cheese, and something constant.
INPUTS = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])


def test_the_mouse_of_example_one() -> None:
    # A network over one-hot states can be the utility that explains the mouse.
    result = neural_utility(MOUSE, POLICY, seeds=range(2))
    assert result.value == pytest.approx(example_one.MEG_08, abs=1e-6)
    assert result.value <= result.upper_bound
    assert result.upper_bound == pytest.approx(example_one.MEG_08, abs=1e-6)
    assert result.utility is not None
    assert (result.utility.min(), result.utility.max()) == (0.0, 1.0)
    assert result.utility[2] > result.utility[3]


def test_a_linear_module_is_a_linear_class() -> None:
    linear = torch.nn.Linear(2, 1, bias=False)
    before = linear.weight.detach().clone()
    result = neural_utility(MOUSE, POLICY, module=linear, inputs=INPUTS, seeds=[1])
    known = known_utility(MOUSE, POLICY)
    assert result.value == pytest.approx(known.value, abs=1e-7)
    assert result.target == "some utility over states computed by a torch module"
    # The caller's module is not trained, nor moved to doubles.
    assert torch.equal(linear.weight, before)
    assert linear.weight.dtype == torch.float32


@pytest.mark.slow
def test_same_seed_same_value_and_a_best_of_all() -> None:
    rng = np.random.default_rng(0)
    mdp = TabularMDP(rng.dirichlet(np.ones(5), size=(5, 3)), np.zeros(5), horizon=4)
    policy = rng.dirichlet(np.ones(3), size=(4, 5))
    values = neural_values(mdp, policy, seeds=[0, 1, 2], iterations=15)
    assert values.shape == (3,)
    np.testing.assert_array_equal(neural_values(mdp, policy, seeds=[2], iterations=15), values[2:])
    best = neural_utility(mdp, policy, seeds=[0, 1, 2], iterations=15)
    assert best.value == values.max()
    certified = unknown_utility(mdp, policy)
    assert best.value <= certified.upper_bound
    assert best.upper_bound == pytest.approx(certified.upper_bound, abs=1e-6)
    longer = neural_values(mdp, policy, seeds=[0], iterations=40)
    assert longer[0] >= values[0] - 1e-9
