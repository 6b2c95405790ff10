"""How the shipped organisms were trained: `goalmeter train-organism NAME` does it again."""

from __future__ import annotations

from goalmeter.organisms.kinds import organism
from goalmeter.organisms.training import Settings

# The others begin with the mouse's weights. The magpie and the mole search as it does, for another
# target or on another map. The moth looks up the ways from its cell, which is learnt slowly by
# answers that look up nothing else: after 450 steps from nothing it knew a quarter of its moves.
RECIPES: dict[str, Settings] = {
    one.name: one
    for one in (
        Settings("mouse", rounds=((8000, 0.02),)),
        Settings("magpie", rounds=((1200, 0.01),), begin_with="mouse"),
        Settings("mole", rounds=((700, 0.01),), begin_with="mouse"),
        Settings("moth", rounds=((700, 0.01),), begin_with="mouse"),
    )
}


def recipe(name: str) -> Settings:
    """How an organism was trained.

    Raises:
        InvalidParameterError: there is no such organism.
    """
    return RECIPES[organism(name).name]
