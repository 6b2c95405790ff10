"""How episodes begin: what their resets draw, and whether all of them begin in one state."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.meg.simulator.states.chance import FROM_GENERATOR, NO_CHANCE
from goalmeter.meg.simulator.states.met_states import MetStates
from goalmeter.meg.simulator.worlds.guarded_calls import at_reset, reset_of


class Starts:
    """The starts of one environment.

    Args:
        states: those that were met.
        chance: where the environment's chance comes from; see `from_simulator`.
    """

    def __init__(self, states: MetStates, chance: str) -> None:
        self._states, self._chance = states, chance
        self._drew = False
        # The generator's state after each reset, while it is the same after all of them.
        self._after: Any = None
        self._resets, self._alike = 0, True
        self._met: set[int] = set()

    def reset(self, env: Any, seed: int, episode: int) -> tuple[Any, Any]:
        """Begin an episode with a seed; note whether anything was drawn for it.

        Args:
            env: the environment.
            seed: as Gymnasium takes it.
            episode: its number.

        Returns:
            The observation and the info.
        """
        out = reset_of(env, seed, partial(at_reset, episode))
        if self._chance == FROM_GENERATOR:
            self._look(bit_generator(env), seed)
        return out

    def _look(self, generator: Any, seed: int) -> None:
        after, fresh = generator.state, np.random.PCG64(seed).state
        self._drew |= after != fresh
        self._alike &= self._resets == 0 or after == self._after
        self._after = after
        self._resets += 1
        if self._drew and self._alike and self._resets > 1:
            # A wrapper resets with one seed, and all episodes would meet the same chance.
            generator.state = fresh

    def note(self, state: int) -> None:
        """Note the state in which an episode began."""
        self._met.add(state)
        if self._chance == NO_CHANCE and len(self._met) > 1:
            raise InvalidParameterError(
                "episodes begin in different states, but chance='none' says that nothing is left "
                "to chance; declare chance='generator' or chance='unknown'"
            )

    @property
    def are_one(self) -> bool:
        """Whether every episode begins in the same state, as far as the declared chance says.

        Where the kind of environment does not know it: if there is no chance, if no reset drew from
        the generator, or if all resets left it in one state whatever their seed.
        """
        known = self._states.one_start()
        if known is not None:
            return known
        fixed = not self._drew or (self._alike and self._resets > 1)
        return len(self._met) == 1 and (self._chance == NO_CHANCE or fixed)

    def remarks(self) -> list[str]:
        """What a reader has to know of the starts."""
        if self._states.why_not or len(self._met) != 1 or self.are_one:
            return []
        return [
            "all episodes began in one state, but others may be drawn, so starts count as "
            "drawn, which costs width"
        ]


def bit_generator(env: Any) -> Any:
    """What Gymnasium's generator of an environment draws from."""
    out = getattr(env.unwrapped.np_random, "bit_generator", None)
    if not isinstance(out, np.random.PCG64):
        raise InvalidParameterError(
            f"the environment's np_random is {shown(env.unwrapped.np_random)}, expected the "
            f"numpy.random.Generator that Gymnasium's reset makes; declare chance='unknown'"
        )
    return out
