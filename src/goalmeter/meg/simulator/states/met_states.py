"""The states that were met so far, numbered from 0, each with a way back to it."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

from goalmeter.meg.simulator.states.chance import UNDECLARED
from goalmeter.meg.simulator.states.copies import can_be_copied, copier
from goalmeter.meg.simulator.states.naming import StateOf, name_of, state_namer
from goalmeter.meg.simulator.states.saver import Saver
from goalmeter.meg.simulator.states.saving import saver_of
from goalmeter.meg.simulator.states.wrappers import why_no_return

# A state and the action that was taken in it; None for a start.
Came = tuple[int, int] | None
_WHY_UNDECLARED = (
    "where chance comes from is not declared, and a state that is put back could repeat it; give "
    "chance='generator' if all of it comes from Gymnasium's generator (np_random), or "
    "chance='none' if there is none"
)


class MetStates:
    """States of one environment, in the order in which they were met.

    Args:
        env: the environment.
        state: which states are the same; see `from_simulator`.
        chance: where the environment's chance comes from; see `from_simulator`.

    Attributes:
        why_not: why there is no way back to a state, as words; "" where there is one.
        observations: what each state showed when it was met.
        observations_differ: whether a state was seen to show something else later.
        met_again: copies that were made when a state was met after another decision, by its number.
    """

    def __init__(self, env: Any, state: str | StateOf | None, chance: str) -> None:
        self._saver, self.why_not = _way_back(env, state)
        if chance == UNDECLARED:
            self.why_not = f"{_WHY_UNDECLARED}; {self.why_not}".removesuffix("; ")
        self._state_of = state_namer(state)
        self._numbers: dict[Hashable, int] = {}
        self._saved: list[Any] = []
        # Out of which decision each state was first met.
        self._came: list[Came] = []
        self.met_again: dict[int, Any] = {}
        self.observations: list[Any] = []
        self.observations_differ = False

    def __len__(self) -> int:
        return len(self._saved)

    def number(self, env: Any, observation: Any, info: Any, came: Came) -> int:
        """The number of the present state; it is saved when it is met for the first time.

        Args:
            env: the environment, in that state.
            observation: what is observed in it.
            info: what came with it.
            came: the state and the action that led here; None at a start or where it was cut off.
        """
        if self._state_of is not None:
            key = self._state_of(observation, info)
        else:
            assert self.saver.key is not None, "a copy has no key, and then a state is asked for"
            key = self.saver.key()
        number = self._numbers.get(key, len(self._saved))
        if number == len(self._saved):
            # Environments may change in place what they show.
            saved, shown = self.saver.save(env), copy.deepcopy(observation)
            self._saved.append(saved)
            self.observations.append(shown)
            self._came.append(came)
            self._numbers[key] = number
            return number
        if not self.observations_differ:
            self.observations_differ = name_of(observation) != name_of(self.observations[number])
        another = came is not None and came != self._came[number]
        if another and self.saver.copies and number not in self.met_again:
            self.met_again[number] = self.saver.save(env)
        return number

    def renewed(self, number: int, env: Any, *, again: bool) -> Any:
        """The environment in a state: `env` itself or a copy.

        Args:
            number: of the state.
            env: the environment.
            again: as it was met after another decision than the first time.
        """
        saved = self.met_again[number] if again else self._saved[number]
        # A copy takes the place of the environment; other savers change it and give nothing.
        return self.saver.restore(saved) or env

    def put_back(self, number: int) -> None:
        """Put the environment into a state, for agents that look at it; no copy is made."""
        if not self.saver.copies:
            self.saver.restore(self._saved[number])

    def chance(self, action: int) -> bool | None:
        """Whether the present state leaves the outcome of an action to chance; None: not known."""
        return self.saver.chance(action) if self.saver.chance else None

    def one_start(self) -> bool | None:
        """Whether every episode begins in one state; None where the kind does not know it."""
        if self._saver is None or self._saver.one_start is None:
            return None
        return self._saver.one_start()

    @property
    def saver(self) -> Saver:
        """The way back."""
        assert self._saver is not None, "only asked of simulators that return to states"
        return self._saver


def _way_back(env: Any, state: str | StateOf | None) -> tuple[Saver | None, str]:
    """The way back to a state, or why there is none."""
    if saver := saver_of(env):
        return saver, ""
    if why := why_no_return(env):
        return None, why
    if not can_be_copied(env):
        return None, "the simulator cannot be put back into a state: no copy of it can be made"
    if state is None:
        return None, (
            "which of its states are the same is not known; give state='observation' if what is "
            "observed determines what can follow, or a function that names the state"
        )
    return copier(), ""
