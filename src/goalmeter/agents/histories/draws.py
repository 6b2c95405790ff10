"""Randomness that is a function of (seed, history), with no memory of what was drawn.

A stochastic agent of the paper is made deterministic by remembering its choices; remembering takes
memory that grows without bound, and ties the choices to the order in which they were asked for.
Here the choice at a history is computed from a seed and a rolling hash of the history, so that
identical histories give identical actions in any process, in any order and on any machine.

Each turn is one step of mixing modulo 2^64: what happened is added, every part times an odd
constant of its own; the high half is folded onto the low one, and the sum is multiplied. The hash
after a percept is then a draw already. That is half of what SplitMix64 does for each number, since
every operation on such integers costs Python some 30 ns; the tests hold the draws at neighbouring
histories, seeds and streams to independence. The arithmetic is on whole numbers only, since
Python's own hashes are not promised to stay as they are. A reward counts as the number it is: 1 and
1.0 are the same, -1 and -2 (which share a hash in Python) are not. Actions and observations are
Python's ints; whoever gets NumPy's from an agent converts them.

Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014), for the
mixing and its constants.
"""

from __future__ import annotations

from struct import pack
from typing import Any

_MASK = (1 << 64) - 1
_UNIT = 2.0**-53
_LARGE = 1 << 63
# Odd, with their bits well spread, so that small numbers times them do not meet by accident.
_ACTION = 0x9E3779B97F4A7C15
_OBSERVATION = 0xD1B54A32D192ED03
_REWARD = 0xABC98388FB8FAC03
_STREAM = 0x8CB92BA72F3D8DD7
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def hash_start(seed: int, n_actions: int, n_observations: int) -> int:
    """The hash of the empty history of an agent with this seed, in a world of these counts."""
    return _mixed(seed * _SECOND + n_actions * _ACTION + n_observations * _OBSERVATION)


def hash_percept(state: int, reward: Any, observation: int) -> int:
    """The hash after one more percept; the reward may be any real number."""
    # A float, a fraction, a NumPy number; or one that arithmetic modulo 2^64 would not tell apart.
    if type(reward) is not int or not -_LARGE < reward < _LARGE:
        reward = _whole(reward)
    told: int = (state + reward * _REWARD + observation * _OBSERVATION) & _MASK
    return (told ^ (told >> 32)) * _FIRST & _MASK


def hash_action(state: int, action: int) -> int:
    """The hash after one more action: to be mixed by a percept, not drawn from."""
    return (state + action * _ACTION) & _MASK


def uniform(state: int, stream: int = 0) -> float:
    """A number in [0, 1) from the hash after a percept; its streams are independent."""
    if stream:
        state = (state + stream * _STREAM) & _MASK
        state = (state ^ (state >> 32)) * _SECOND & _MASK
    return (state >> 11) * _UNIT


def below(state: int, n: int, stream: int = 0) -> int:
    """A whole number in 0 .. n-1: floor(n * uniform(state, stream))."""
    return int(uniform(state, stream) * n)


def _whole(reward: Any) -> int:
    """A real number as an int: itself where it is whole, its words mixed if they are many.

    What is not whole is the bits of its double, mixed.
    """
    if not isinstance(reward, int):
        number = float(reward)
        if not number.is_integer():
            return _mixed(int.from_bytes(pack(">d", number), "big"))
    whole = int(reward)
    if -_LARGE < whole < _LARGE:
        return whole
    mixed, words = int(whole < 0), abs(whole)
    while words:
        mixed = _mixed(mixed * _SECOND + (words & _MASK) + _FIRST)
        words >>= 64
    return mixed


def _mixed(z: int) -> int:
    z &= _MASK
    z = ((z ^ (z >> 30)) * _FIRST) & _MASK
    z = ((z ^ (z >> 27)) * _SECOND) & _MASK
    return z ^ (z >> 31)
