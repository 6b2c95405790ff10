"""CliffWorld against the same world written square by square in exact fractions."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import cliff_world as oracle

from goalmeter.tabular import cliff_world, expected_return, optimal_policy


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_world_is_the_oracles(k: int) -> None:
    mdp = cliff_world(k)
    dense = mdp.transition.to_dense()
    np.testing.assert_allclose(dense, oracle.transition().astype(float), atol=1e-15)
    np.testing.assert_array_equal(mdp.reward, oracle.utility(k).astype(float))
    np.testing.assert_array_equal(mdp.initial, oracle.start())
    assert (mdp.horizon, mdp.discount) == (oracle.HORIZON, 1.0)


@pytest.mark.parametrize("k", [1, 4])
def test_optimal_policies_agree(k: int) -> None:
    mdp = cliff_world(k)
    ours, theirs = optimal_policy(mdp), oracle.optimal_policy(k)
    np.testing.assert_array_equal(ours, theirs)  # ties go to the lowest action in both
    assert expected_return(mdp, ours).mean > 0
