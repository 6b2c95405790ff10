"""What Gymnasium's spaces number."""

from __future__ import annotations

from typing import Any


def numbered(space: Any) -> int | None:
    """How many actions or observations a space numbers; None where it is not Discrete.

    MultiBinary has an `n` too, of switches, and an array of them at every step.
    """
    count = getattr(space, "n", None)
    return int(count) if count is not None and getattr(space, "shape", ()) == () else None
