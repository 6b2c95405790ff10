"""How episodes begin: what their resets draw, and whether all of them begin in one state."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from goalmeter.meg.simulator.states.generators import other_states
from goalmeter.meg.simulator.states.met_states import MetStates
from goalmeter.meg.simulator.states.own_code import start_ignores_seed, start_seed_is_fixed
from goalmeter.meg.simulator.worlds.guarded_calls import at_reset, reset_of


class Starts:
    """The starts of one environment.

    Args:
        env: the environment, whose code is read; copies of it may be what is reset.
        states: those that were met.
    """

    def __init__(self, env: Any, states: MetStates) -> None:
        self._env, self._states = env, states
        self._drew = False
        self._met: set[int] = set()

    def reset(self, env: Any, seed: int, episode: int, watch: bool) -> tuple[Any, Any]:
        """Begin an episode with a seed; note whether anything was drawn for it.

        Args:
            env: the environment.
            seed: as Gymnasium takes it.
            episode: its number.
            watch: whether generators besides Gymnasium's are compared as well.

        Returns:
            The observation and the info.

        Raises:
            InvalidParameterError: the environment raised an error, or gave something else.
        """
        watched = watch and not self._drew and not self._states.is_sealed
        before = other_states(env) if watched else None
        out = reset_of(env, seed, partial(at_reset, episode))
        if not self._drew:
            drew = not self._seed_is_fixed and _drew(env, seed)
            self._drew = drew or (before is not None and before != other_states(env))
        if self._seed_is_fixed:
            # One seed for every start, or all episodes would meet the same chance on their way.
            env.unwrapped.np_random = np.random.default_rng(seed)
        return out

    def note(self, state: int) -> None:
        """Note the state in which an episode began."""
        self._met.add(state)

    @property
    def are_one(self) -> bool:
        """Whether every episode begins in the same state, with certainty.

        Where the kind of environment does not know it: if no reset drew from any generator, and
        `reset` is seen to make nothing of its seed but Gymnasium's generator; or if a wrapper
        resets with one and the same seed. However many resets gave the same start, a rarer one
        could stand beside it; this excludes it.
        """
        known = self._states.one_start()
        if known is not None:
            return known
        if self._drew or len(self._met) > 1:
            return False
        return self._states.is_sealed or self._seed_is_fixed or self._ignores_seed

    @cached_property
    def _seed_is_fixed(self) -> bool:
        return not self._states.is_sealed and start_seed_is_fixed(self._env)

    @cached_property
    def _ignores_seed(self) -> bool:
        return start_ignores_seed(self._env)

    def remarks(self) -> list[str]:
        """What a reader has to know of the starts."""
        if self._states.why_not or len(self._met) != 1 or self.are_one:
            return []
        return [
            "all episodes began in one state, but others may be drawn, so starts count as "
            "drawn, which costs width"
        ]


def _drew(env: Any, seed: int) -> bool:
    """Whether a reset with this seed has drawn from the environment's generator."""
    if not isinstance(getattr(env.unwrapped, "np_random", None), np.random.Generator):
        return True
    fresh = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return bool(env.unwrapped.np_random.bit_generator.state != fresh.bit_generator.state)
