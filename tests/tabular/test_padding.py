"""Logs padded without `length`: found out by what the dynamics can do, and honest logs let pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.tabular import TabularMDP, Trajectories, sample_trajectories
from goalmeter.tabular.trajectories import check_trajectories

# A corridor 0 - 1 - 2: action 0 steps back (and bumps at 0), action 1 forth; 2 is the end.
CORRIDOR = TabularMDP(
    [[[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]], [0, 0, 1], horizon=6
)
SEEN = "length=\\[N\\] \\(in a file the array 'length'\\)"


def sticky(stay: float) -> TabularMDP:
    """Two states that are left with probability 1 - stay, whatever is done."""
    row = [[stay, 1 - stay], [1 - stay, stay]]
    return TabularMDP(np.stack([row, row], axis=1), [0, 1], horizon=12, initial=[0.5, 0.5])


@pytest.mark.parametrize(
    ("states", "actions", "words"),
    [
        # 0 -> 1 -> 2, then padding with -1, or with zeros, which state 2 cannot move to.
        ([[0, 1, 2, -1, -1, -1]], [[1, 1, 0, -1, -1, -1]], "ends, from decision 3 on, with state"),
        ([[0, 1, 2, 0, 0, 0]], [[1, 1, 1, 0, 0, 0]], "cannot move from state 2 by action 1 to sta"),
        ([[0, 1, 2, 3, 3, 3]], [[1, 1, 0, 0, 0, 0]], "expected states 0..2 and actions 0..1"),
        # 1 does not stay where it is under action 1, so this is the last entry repeated.
        ([[0, 1, 1, 1, 1, 1]], [[1, 1, 1, 1, 1, 1]], "stays with probability 0"),
    ],
)
def test_padding_that_no_move_explains(states: Any, actions: Any, words: str) -> None:
    with pytest.raises(InvalidTrajectoryError, match=f"{words}.*it looks padded; give .*{SEEN}"):
        check_trajectories(CORRIDOR, Trajectories(states, actions))
    length = 3 if states[0][1:3] == [1, 2] else 2
    check_trajectories(CORRIDOR, Trajectories(states, actions, [length]))


def test_zeros_that_a_world_could_move_to_but_would_not_stay_at() -> None:
    # Every move is possible here, and each of 20 ends repeats (0, 0) five times: 0.3^100.
    rng = np.random.default_rng(0)
    mdp = sticky(0.3)
    log = sample_trajectories(mdp, np.full((2, 2), 0.5), 20, rng=rng)
    states, actions = log.states.copy(), log.actions.copy()
    check_trajectories(mdp, Trajectories(states, actions))
    states[:, 6:], actions[:, 6:] = 0, 0
    with pytest.raises(InvalidTrajectoryError, match=f"stays with probability 0.3.*{SEEN}"):
        check_trajectories(mdp, Trajectories(states, actions))
    check_trajectories(mdp, Trajectories(states, actions, np.full(20, 6)))


def test_an_agent_may_stay_where_it_is() -> None:
    # Waiting at the end, or bumping into the wall: nothing but `length` could tell it from padding.
    states, actions = [[0, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]], [[1, 1, 0, 0, 0, 0], [0] * 6]
    check_trajectories(CORRIDOR, Trajectories(states, actions))
