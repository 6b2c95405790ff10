"""The global random generators, which Stable-Baselines3 seeds and draws from, lent and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from goalmeter._errors import require


def generators() -> tuple[Any, Any, Any]:
    """The states of the global random generators: Python's, NumPy's and torch's."""
    import torch

    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def set_generators(states: tuple[Any, Any, Any]) -> None:
    """Put the global random generators into these states."""
    import torch

    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])


@contextmanager
def borrowed_generators() -> Iterator[None]:
    """Leave the global random generators as they were found; and compute in one thread meanwhile.

    With more threads sums are taken in another order, and their last bits may differ.
    """
    torch = require("torch", extra="sb3", feature="An agent of Stable-Baselines3")
    before, threads = generators(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        set_generators(before)
