"""The CliffWorld of the paper's section 6, square by square, in exact fractions.

Width 10, height 4; the state of square (row, col) is ``10 row + col``; row 0 is the top, the start
is state 0.  Four diagonal moves; with probability 3/10 the wind adds one row *upwards*.  Move and
wind are added first and clamped to the grid *once* (clamping twice is another world: k = 2 gives
21.3891 instead of 21.3672).  Utility at each decision: +10 in the goal, -10 in the top row between
start and goal, -1 elsewhere.  The goal of length k is the last k squares of the top row and the
first k squares of the right-hand column.  Horizon 30, no discount.  Epsilon rows have k = 1.

Action 0 is up-left and 3 is down-right.  The order only matters through ties, which go to the
lowest index: not for the rows k = 1..4 (log pi_inf telescopes), but for the epsilon rows, in the
third digit; this order gives the known values.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .paths import Array

WIDTH, HEIGHT, HORIZON = 10, 4, 30
WIND = Fraction(3, 10)
MOVES: tuple[tuple[int, int], ...] = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def clamp(x: int, size: int) -> int:
    """The nearest row or column that exists."""
    return min(max(x, 0), size - 1)


def state_of(row: int, col: int) -> int:
    """The number of a square."""
    return row * WIDTH + col


def transition(moves: tuple[tuple[int, int], ...] = MOVES) -> NDArray[Any]:
    """``P [40, 4, 40]`` as an object array of fractions."""
    n = WIDTH * HEIGHT
    P = np.full((n, len(moves), n), Fraction(0), dtype=object)
    for row in range(HEIGHT):
        for col in range(WIDTH):
            for a, (drow, dcol) in enumerate(moves):
                new_col = clamp(col + dcol, WIDTH)
                calm_row = clamp(row + drow, HEIGHT)
                windy_row = clamp(row + drow - 1, HEIGHT)  # one clamp, after move and wind
                P[state_of(row, col), a, state_of(calm_row, new_col)] += 1 - WIND
                P[state_of(row, col), a, state_of(windy_row, new_col)] += WIND
    return P


def goal_states(k: int) -> set[int]:
    """The last k squares of the top row and the first k of the right-hand column."""
    top = {state_of(0, col) for col in range(WIDTH - k, WIDTH)}
    right = {state_of(row, WIDTH - 1) for row in range(k)}
    return top | right


def utility(k: int) -> NDArray[Any]:
    """``R [40]`` as whole fractions."""
    R = np.full(WIDTH * HEIGHT, Fraction(-1), dtype=object)
    for col in range(1, WIDTH):
        R[state_of(0, col)] = Fraction(-10)
    for s in goal_states(k):
        R[s] = Fraction(10)
    return R


def start() -> Array:
    """``mu [40]``: all of it in state 0."""
    mu = np.zeros(WIDTH * HEIGHT)
    mu[0] = 1.0
    return mu


def optimal_policy(
    k: int, horizon: int = HORIZON, moves: tuple[tuple[int, int], ...] = MOVES
) -> Array:
    """Hard backward induction in fractions, ties to the lowest action index; ``[H, 40, 4]``."""
    P, R = transition(moves), utility(k)
    n_states, n_actions, _ = P.shape
    policy = np.zeros((horizon, n_states, n_actions))
    V = [Fraction(0)] * n_states
    for t in reversed(range(horizon)):
        new_V = []
        for s in range(n_states):
            value = [
                R[s] + sum(P[s, a, s2] * V[s2] for s2 in range(n_states) if P[s, a, s2] != 0)
                for a in range(n_actions)
            ]
            policy[t, s, value.index(max(value))] = 1.0
            new_V.append(max(value))
        V = new_V
    return policy


def epsilon_greedy(policy: Array, epsilon: float) -> Array:
    """With probability epsilon one of the *other* actions, uniformly (not any of the four)."""
    n_actions = policy.shape[-1]
    mixed = np.empty_like(policy)
    for index in np.ndindex(policy.shape):
        chosen = policy[index] == 1.0
        mixed[index] = 1.0 - epsilon if chosen else epsilon / (n_actions - 1)
    return mixed
