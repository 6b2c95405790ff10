"""Spaces of whole numbers, which need not begin at 0: Gymnasium's `Discrete`."""

from __future__ import annotations

from typing import Any


def count_of(space: Any) -> int | None:
    """How many numbers a space has; None for a space of anything else."""
    # The n of a `MultiBinary` counts bits, and what it shows is an array.
    is_numbered = hasattr(space, "n") and not getattr(space, "shape", ())
    return int(space.n) if is_numbered else None


def first_of(space: Any) -> int:
    """What the first number of a space is."""
    return int(getattr(space, "start", 0))
