"""The policies, utilities and features of a chunk's worlds: arrays, or the sentence of an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidUtilityError, MissingExtraError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.sweeps.choices import (
    EPSILON_GREEDY,
    OPTIMAL,
    REWARD,
    SOFT_OPTIMAL,
    UNIFORM,
    UNKNOWN,
    UTILITY,
    Choice,
)
from goalmeter.meg.sweeps.users import called, function_of
from goalmeter.tabular import (
    TabularMDP,
    epsilon_greedy,
    load_features,
    load_policy,
    load_utility,
    uniform_policy,
)
from goalmeter.tabular._validation import as_floats
from goalmeter.tabular.many_plans import optimal_policies, soft_optimal_policies
from goalmeter.tabular.policies import check_policy

# What is measured where there is an array, and said where there is none.
ArrayOrError = FloatArray | None | str


class Arrays:
    """What is chosen, for the worlds of a chunk.

    Args:
        worlds: those that could be made.
        fields: what {names} in the path of a file stand for, one for each world.
    """

    def __init__(self, worlds: Sequence[TabularMDP], fields: Sequence[Mapping[str, Any]]) -> None:
        self._worlds = worlds
        self._fields = fields

    @cached_property
    def _optimal(self) -> list[FloatArray]:
        # Every epsilon departs from the same one.
        return optimal_policies(self._worlds)

    def policies(self, choice: Choice) -> list[FloatArray | str]:
        """The policy in each world, or what is wrong with it."""
        match choice.name:
            case name if name == OPTIMAL:
                return list(self._optimal)
            case name if name == UNIFORM:
                return [uniform_policy(world) for world in self._worlds]
            case name if name == EPSILON_GREEDY:
                epsilon = choice.arguments["epsilon"]
                return [epsilon_greedy(policy, epsilon) for policy in self._optimal]
            case name if name == SOFT_OPTIMAL:
                return list(soft_optimal_policies(self._worlds, choice.arguments["rationality"]))

        def checked(world: TabularMDP, policy: Any) -> FloatArray:
            check_policy(world, policy)
            return np.asarray(policy, dtype=np.float64)

        return self._each(choice, load_policy, checked)

    def utilities(self, choice: Choice) -> list[ArrayOrError]:
        """The known utility of each world, None for its own reward, or what is wrong with it."""
        if choice.role == UTILITY and choice.name == REWARD:
            return [None] * len(self._worlds)
        return list(self._each(choice, load_utility, _as_array))

    def features(self, choice: Choice) -> list[ArrayOrError]:
        """The features of each world, None for a class by name, or what is wrong with them."""
        if choice.role == UNKNOWN and choice.is_word:
            return [None] * len(self._worlds)
        return list(self._each(choice, load_features, _as_array))

    def _each(
        self,
        choice: Choice,
        read: Callable[[str], FloatArray],
        checked: Callable[[TabularMDP, Any], FloatArray],
    ) -> list[FloatArray | str]:
        """What a file or a user's function has for each world."""
        function = function_of(choice.name, choice.role) if choice.is_users else None
        once: dict[str, FloatArray] = {}

        def made(world: TabularMDP, fields: Mapping[str, Any]) -> FloatArray:
            if function is not None:
                return checked(world, called(function, choice.label, (world,), choice.arguments))
            path = choice.path(fields)
            if path not in once:
                once[path] = read(path)
            try:
                return checked(world, once[path])
            except GoalmeterError as cause:
                raise type(cause)(f"{path}: {cause}") from cause

        out: list[FloatArray | str] = []
        for world, fields in zip(self._worlds, self._fields, strict=True):
            try:
                out.append(made(world, fields))
            except (GoalmeterError, MissingExtraError) as error:
                out.append(str(error))
        return out


def _as_array(world: TabularMDP, value: ArrayLike) -> FloatArray:
    # Whether it fits the world is checked where it is measured.
    return as_floats(value, "the array", InvalidUtilityError)
