"""No influence, decided by structure: Proposition 3.3 is claimed where it holds exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.instances import generic_world

from goalmeter._errors import InvalidUtilityError
from goalmeter.meg import from_trajectories, known_utility
from goalmeter.meg.known import has_no_influence
from goalmeter.tabular import TabularMDP, sample_trajectories

# From 0 one action leads to 1 and the other to 2; 3 is never reached.
FORK = np.zeros((4, 2, 4))
FORK[0, [0, 1], [1, 2]] = 1.0
FORK[[1, 2, 3], :, [1, 2, 3]] = 1.0


@pytest.mark.parametrize(
    ("utility", "horizon", "nothing"),
    [
        ([0.0, 1.0, 1.0, 0.0], 3, True),  # both ways pay alike
        ([0.0, 1.0, 1.0 + 1e-15, 0.0], 3, False),  # they do not, by however little
        ([5.0, 5.0, 5.0, 7.0], 3, True),  # what differs is out of reach
        ([0.0, 1.0, 2.0, 0.0], 1, True),  # and here it comes after the last decision
        ([0.0, 1.0, 2.0, 0.0], 2, False),
        ([[0.0, 1.0]] + [[0.0, 0.0]] * 3, 1, False),  # the action itself is paid
        ([0.0, 1.0, 1.0, 0.0], None, True),
        ([0.0, 1.0, 2.0, 0.0], None, False),
    ],
)
def test_influence_by_hand(utility: Any, horizon: int | None, nothing: bool) -> None:
    mdp = TabularMDP(FORK, utility, horizon=horizon, discount=0.5 if horizon is None else 1.0)
    values = np.asarray(utility, dtype=float)
    array = values.T[None] if values.ndim == 2 else values[None, None]
    assert has_no_influence(mdp, array) is nothing
    result = known_utility(mdp, np.full((4, 2), 0.5))
    is_told = any("no choice influences this utility" in note for note in result.notes)
    assert is_told is nothing
    if nothing:
        assert (result.value, result.upper_bound) == (0.0, pytest.approx(0.0, abs=1e-12))
        assert result.certified


def test_a_utility_whose_rationality_is_beyond_a_double() -> None:
    world = generic_world(0)
    small = known_utility(world.mdp(), world.policy, utility=world.R * 1e-280)
    assert np.isfinite(small.rationality) and abs(small.rationality) > 1e270
    words = "utility varies by .* only, expected 0 or at least 1e-290.*multiply it by a constant"
    for scale in (1e-300, 1e-320):
        with pytest.raises(InvalidUtilityError, match=words):
            known_utility(world.mdp(), world.policy, utility=world.R * scale)
    log = sample_trajectories(world.mdp(), world.policy, 5, rng=np.random.default_rng(0))
    with pytest.raises(InvalidUtilityError, match=words):
        from_trajectories(world.mdp(), log, utility=world.R * 1e-320)
