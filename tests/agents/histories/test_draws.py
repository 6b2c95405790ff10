"""Draws: functions of (seed, history), the same on every machine, uniform and independent."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from random import Random

import numpy as np
import pytest
from scipy import stats

from goalmeter.agents.history import hash_action, hash_percept, hash_start, uniform

N = 8_000
# A test of independence fails by bad luck once in a million runs, and seeds are fixed.
TOO_UNLIKELY = 1e-6


def state_after(*turns: tuple[float, int, int], seed: int = 0) -> int:
    """The hash after turns (reward, observation, action) and one more percept (0, 0)."""
    state = hash_start(seed, 2, 2)
    for reward, observation, action in turns:
        state = hash_action(hash_percept(state, reward, observation), action)
    return hash_percept(state, 0, 0)


@cache
def random_states() -> list[int]:
    """Hashes of N short histories in which rewards and actions are random."""
    rng = Random(0)
    return [
        state_after(*((rng.choice((-1, 1)), 0, rng.randrange(2)) for _ in range(15)))
        for _ in range(N)
    ]


def dependence(pairs: list[tuple[float, ...]], cells: int = 8) -> float:
    """p-value of the hypothesis that pairs are uniform on the square and independent."""
    table = np.zeros((cells, cells))
    for u, v in pairs:
        table[int(u * cells), int(v * cells)] += 1
    return float(stats.chisquare(table.ravel()).pvalue)


def test_draws_are_the_same_on_every_machine_and_stay_as_they_are() -> None:
    """Results on disk name seeds only, so these numbers are part of the format."""
    state = state_after((0, 0, 1), (1, 1, 0), (-1, 0, 1), (0.5, 1, 1), seed=3)
    assert state == 4599367315127417685
    assert [uniform(state, stream) for stream in range(3)] == [
        0.24933220175599835,
        0.9674720864606456,
        0.0597789178179331,
    ]


def test_equal_numbers_are_equal_rewards() -> None:
    ones = [1, 1.0, True, Fraction(1), np.int64(1), np.int8(1), np.float32(1), np.float64(1)]
    assert len({hash_percept(12345, reward, 0) for reward in ones}) == 1
    half = [0.5, Fraction(1, 2), np.float32(0.5)]
    assert len({hash_percept(2**64 - 5, reward, 1) for reward in half}) == 1
    assert hash_percept(12345, -0.0, 0) == hash_percept(12345, 0, 0)
    assert hash_percept(12345, 1e300, 0) == hash_percept(12345, int(1e300), 0)


def test_short_histories_do_not_collide() -> None:
    """All of up to three turns with three rewards, two observations and three actions."""
    turns = list(product((-1, 0, 1), (0, 1), (0, 1, 2)))
    states = [state_after(*played) for n in range(4) for played in product(turns, repeat=n)]
    assert len(set(states)) == len(states) == 1 + 18 + 18**2 + 18**3


def test_draws_along_one_history_are_uniform_and_independent() -> None:
    """As an agent draws: at every step of a history in which little happens."""
    state, draws = hash_start(0, 2, 1), []
    for _ in range(N):
        state = hash_percept(state, 0, 0)
        draws.append(uniform(state))
        state = hash_action(state, 0)
    assert stats.kstest(draws, "uniform").pvalue > TOO_UNLIKELY
    for lag in (1, 2, 3):
        assert dependence(list(zip(draws, draws[lag:], strict=False))) > TOO_UNLIKELY


# From a hash before a percept and one after it, two draws that should not know of each other.
NEIGHBOURS: dict[str, Callable[[int, int], tuple[float, ...]]] = {
    "another stream": lambda before, state: (uniform(state), uniform(state, 1)),
    "another reward": lambda before, state: tuple(
        uniform(hash_percept(before, reward, 0)) for reward in (-1, 1)
    ),
    "no reward": lambda before, state: tuple(
        uniform(hash_percept(before, reward, 0)) for reward in (0, 1)
    ),
    "a fraction": lambda before, state: tuple(
        uniform(hash_percept(before, reward, 0)) for reward in (0.5, 0.25)
    ),
    "another observation": lambda before, state: tuple(
        uniform(hash_percept(before, 0, observation)) for observation in (0, 1)
    ),
    "another last action": lambda before, state: tuple(
        uniform(hash_percept(hash_action(state, action), 0, 0)) for action in (0, 1)
    ),
    "another action long ago": lambda before, state: tuple(
        uniform(_on(hash_action(state, action), 20)) for action in (0, 1)
    ),
    "a turn less": lambda before, state: (uniform(state), uniform(_on(state, 1))),
}


def _on(state: int, turns: int) -> int:
    for _ in range(turns):
        state = hash_percept(hash_action(state, 0), 0, 0)
    return state


@pytest.mark.parametrize("difference", NEIGHBOURS)
def test_draws_at_neighbouring_histories_are_independent(difference: str) -> None:
    pairs = []
    for state in random_states():
        before = hash_action(state, state >> 40 & 1)
        pairs.append(NEIGHBOURS[difference](before, state))
    for cells in (2, 8):
        assert dependence(pairs, cells) > TOO_UNLIKELY
