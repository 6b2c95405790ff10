"""Several layers at once: the first half of all, the second half, and all."""

from __future__ import annotations

from collections.abc import Sequence

ALL = "all"


def windows_of(layers: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    """The windows and what they are called.

    Args:
        layers: in their order.

    Returns:
        Windows of at least two layers.

    Example:
        >>> windows_of([0, 1, 2, 3, 4])
        [('0-1', (0, 1)), ('2-4', (2, 3, 4)), ('all', (0, 1, 2, 3, 4))]
    """
    half = len(layers) // 2
    parts = [tuple(part) for part in (layers[:half], layers[half:])]
    halves = [(f"{part[0]}-{part[-1]}", part) for part in parts if len(part) > 1]
    return [*halves, (ALL, tuple(layers))]
