"""Seeds of all that a measurement draws, each from what it is for and its number.

Nothing is drawn from a generator that another draw shares, so the numbers do not depend on the
order or the process in which they are made.
"""

from __future__ import annotations

import numpy as np

# What draws are for.
EPISODES, CHOICES, SUCCESSORS, FREE, FREE_CHOICES, OTHER_GENERATORS, AGAIN = range(7)


def seeded(seed: int, purpose: int, *number: int) -> np.random.SeedSequence:
    """The seed of the draws of one purpose with one number."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(purpose, *number))
