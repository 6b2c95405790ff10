"""Seeds of all that a measurement draws, each from what it is for and its number.

Nothing is drawn from a generator that another draw shares, so the numbers do not depend on the
order or the process in which they are made.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

# What draws are for.
EPISODES, CHOICES, SUCCESSORS, FREE, FREE_CHOICES, GLOBAL_GENERATORS, AGAIN = range(7)


def seeded(seed: int, purpose: int, *number: int) -> np.random.SeedSequence:
    """The seed of the draws of one purpose with one number."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(purpose, *number))


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch meanwhile, and put them back."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()  # noqa: NPY002
    word = int(seeded(seed, GLOBAL_GENERATORS).generate_state(1)[0])
    random.seed(word)
    np.random.seed(word)  # noqa: NPY002
    if torch:
        torch.default_generator.manual_seed(word)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch:
            torch.set_rng_state(before[2])
