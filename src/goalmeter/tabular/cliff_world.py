"""CliffWorld, the world of the MEG paper's experiments."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.transition import Transition

HEIGHT, WIDTH = 4, 10
# The diagonal moves (row, column), in the order of the action indices.
MOVES = tuple(itertools.product((-1, 1), (-1, 1)))
WIND = 0.3


def cliff_world(goal_length: int = 1, *, horizon: int = 30) -> TabularMDP:
    """The 4 x 10 CliffWorld of the MEG paper, with a goal region of some length.

    State 10 * row + column; row 0 is the top. The four actions are the diagonal moves (up-left,
    up-right, down-left, down-right); with probability 0.3 the wind carries the agent one more row
    up; the sum of both is clamped to the grid. The agent starts in state 0, the top left corner.
    Being in a goal square pays +10, in the cliff (the top row between start and goal) -10,
    anywhere else -1. The goal region of length k is the last k squares of the top row and the
    first k of the right-hand column.

    Args:
        goal_length: k, from 1 (the corner alone) to 4.
        horizon: number of decisions; the paper's tables fit 30.

    Raises:
        InvalidParameterError: goal_length outside 1..4.

    Source: MEG paper (NeurIPS 2024), section 6 and appendix D; dynamics of the `seals` suite.
    Horizon and goal region are not in the paper and were recovered from its tables.
    """
    # True is an integer to Python, and no length.
    whole = isinstance(goal_length, (int, np.integer)) and not isinstance(goal_length, bool)
    if not whole or not 1 <= goal_length <= HEIGHT:
        raise InvalidParameterError(
            f"goal_length is {goal_length!r}, expected a whole number from 1 to {HEIGHT}"
        )
    return TabularMDP(_transition(), _reward(goal_length), horizon=horizon, initial=0)


# The same for every goal region, and a sweep asks for thousands.
@cache
def _transition() -> Transition:
    n_states = HEIGHT * WIDTH
    transition = np.zeros((n_states, len(MOVES), n_states))
    for (row, column), (action, move) in itertools.product(
        itertools.product(range(HEIGHT), range(WIDTH)), enumerate(MOVES)
    ):
        to_column = min(max(column + move[1], 0), WIDTH - 1)
        for lift, probability in ((0, 1.0 - WIND), (1, WIND)):
            to_row = min(max(row + move[0] - lift, 0), HEIGHT - 1)
            transition[row * WIDTH + column, action, to_row * WIDTH + to_column] += probability
    return Transition.from_dense(transition)


def _reward(goal_length: int) -> FloatArray:
    grid = np.full((HEIGHT, WIDTH), -1.0)
    grid[0, 1:-1] = -10.0
    grid[0, WIDTH - goal_length :] = 10.0
    grid[:goal_length, -1] = 10.0
    return grid.ravel()
