"""Two halves of the grids, fixed before anything is seen: one to screen, one to confirm.

The best of many interventions looks good by chance too. So what is chosen on one half is scored on
the other only. Which half a grid lies in is decided by a hash of its content: whoever runs the same
again cannot have another split, and a mirror image of a grid lies in the same half.
"""

from __future__ import annotations

from hashlib import sha256

from goalmeter.gridworld.contents import content
from goalmeter.gridworld.world import GridWorld

HALVES = SCREEN, CONFIRM = "screen", "confirm"


def half_of(world: GridWorld, salt: str) -> str:
    """The half that a grid lies in.

    Args:
        world: the grid.
        salt: of the split, which the result records; another one splits anew.

    Example: the same grid is always in the same half.
        >>> room = GridWorld.from_text(["#####", "#A_G#", "#####"])
        >>> half_of(room, "0") == half_of(room, "0")
        True
    """
    digest = sha256(f"{salt}:{content(world)}".encode()).digest()
    return (SCREEN, CONFIRM)[digest[0] % 2]
