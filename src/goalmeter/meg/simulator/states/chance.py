"""Where the chance of an environment comes from: declared by the caller, not guessed from runs."""

from __future__ import annotations

from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.meg.simulator.states.wrappers import layers

FROM_GENERATOR, NO_CHANCE, UNDECLARED = CHANCES = "generator", "none", "unknown"
# What an interval assumes of each.
ASSUMED = {
    FROM_GENERATOR: "all chance comes from the environment's generator (chance='generator')",
    NO_CHANCE: "nothing is left to chance (chance='none')",
    UNDECLARED: "episodes are independent of each other (chance='unknown')",
}
# Environments that are known to draw from their `np_random` alone. Gymnasium's functional ones
# (phys2d, tabular) keep a key of jax in their state.
_KNOWN = (
    *("gymnasium.envs.toy_text", "gymnasium.envs.classic_control", "gymnasium.envs.box2d"),
    *("gymnasium.envs.mujoco", "goalmeter.gridworld"),
)
# These call what a user gives them, which may draw whatever it likes.
_CALLING = frozenset({"TransformObservation", "TransformAction", "TransformReward"})


def chance_of(env: Any, declared: str | None) -> str:
    """Where an environment's chance comes from, as declared or by default."""
    if declared is not None:
        if declared not in CHANCES:
            raise InvalidParameterError(
                f"chance is {declared!r}, expected one of {', '.join(CHANCES)}"
            )
        return declared
    *outer, bare = map(type, layers(env))
    plain = all(
        each.__module__.startswith("gymnasium.") and each.__name__ not in _CALLING for each in outer
    )
    return FROM_GENERATOR if plain and bare.__module__.startswith(_KNOWN) else UNDECLARED
