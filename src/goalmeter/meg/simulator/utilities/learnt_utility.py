"""Unknown utilities that are learnt from episodes: what is asked for, and what it is frozen to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._arguments import finite, whole
from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._types import AnyArray
from goalmeter.meg.simulator.agents.numbered_spaces import count_of, first_of
from goalmeter.meg.simulator.utilities.named_utilities import Range

Features = Callable[[Any, Any], Any]
# Numbered observations are shown as one 1 among zeros up to so many.
_ONE_HOT = 4_096


@dataclass(frozen=True, eq=False, kw_only=True)
class LearntUtility:
    """An unknown utility that is fitted to some episodes and bounded with others.

    It is linear in features of what a step shows, with an intercept, or what a torch module makes
    of them. The best one for the first episodes is frozen, its values clipped to those that these
    episodes showed, and measured like any utility, on episodes that the fit never saw.

    Attributes:
        module: a `torch.nn.Module` from features [N, ...] to N numbers; None for a linear function.
            A copy of it is trained, in evaluation mode, beginning with its present weights.
        features: a function of (observation, info) that gives an array of a fixed shape; None for
            the observation itself: a number as one 1 among zeros, whatever else is not one array
            as a flat one.
        steps: of the simulator for the fit, half for the agent and half for its reference; None
            for 30% of the budget, at most 20,000.
        iterations: of Adam, at most; it stops early where fitting no longer helps on the quarter
            of these episodes that is set aside.
        learning_rate: of Adam.
        weight_decay: of Adam.

    Raises:
        InvalidParameterError: a number outside of its range, or what is no function.
    """

    module: Any = None
    features: Features | None = None
    steps: int | None = None
    iterations: int = 300
    learning_rate: float = 0.02
    weight_decay: float = 1e-3

    def __post_init__(self) -> None:
        if self.steps is not None:
            whole(self.steps, "steps", least=10, most=10**8)
        whole(self.iterations, "iterations", least=1, most=10**6)
        finite(self.learning_rate, "learning_rate", least=1e-12, most=1e3)
        finite(self.weight_decay, "weight_decay", least=0.0, most=1e3)
        if self.features is not None and not callable(self.features):
            raise InvalidParameterError(
                f"features is {self.features!r}, expected a function or None"
            )
        if self.module is not None and not hasattr(self.module, "parameters"):
            raise InvalidParameterError(
                f"module is {self.module!r}, expected a torch.nn.Module or None; a fixed function "
                f"of what is observed can be given as features="
            )

    def seen(self, observation: Any, info: Any, space: Any, where: str) -> AnyArray:
        """The features of a step as single precision numbers.

        Args:
            observation: what was observed after the action.
            info: what came with it.
            space: of the observations, which says how many there are of numbered ones.
            where: what to name in an error.

        Raises:
            InvalidUtilityError: they are no finite numbers.
        """
        if self.features is not None:
            observation = self.features(observation, info)
        elif (count := count_of(space)) is not None and count <= _ONE_HOT:
            place = int(observation) - first_of(space)
            return np.asarray(np.eye(1, count, place, dtype=np.float32)[0])
        try:
            array = np.array(_array(observation), dtype=np.float32)
        except (TypeError, ValueError) as cause:
            raise InvalidUtilityError(
                f"the features of {where} are {type(observation).__name__}, expected an array of "
                f"numbers; give features= a function of (observation, info)"
            ) from cause
        if not np.isfinite(array).all():
            raise InvalidUtilityError(
                f"the features of {where} are not all finite; give features= a function of "
                f"(observation, info) that is"
            )
        return np.atleast_1d(array)


@dataclass(frozen=True, eq=False)
class FrozenUtility:
    """A utility that was learnt, as a function of (observation, info), in [-1, 1].

    Attributes:
        asked: what it was learnt as.
        module: with the weights that were learnt.
        factor: of its output.
        low: the least that it pays; smaller outputs are clipped to it.
        high: the most.
        space: of the observations.
        name: of the utility.
    """

    asked: LearntUtility
    module: Any
    factor: float
    low: float
    high: float
    space: Any
    name: str

    @property
    def range(self) -> Range:
        """What it pays, which needs nobody to vouch for it."""
        return Range(self.low, self.high)

    def __call__(self, observation: Any, info: Any = None) -> float:
        """What a step pays that showed this."""
        import torch

        features = self.asked.seen(observation, info, self.space, f"the utility {self.name!r}")
        with torch.no_grad():
            made = float(self.module(torch.from_numpy(features[None])).reshape(()))
        if math.isnan(made):
            raise InvalidUtilityError(
                f"the learnt utility {self.name!r} is no number at {features}"
            )
        return min(max(self.factor * made, self.low), self.high)


def _array(observation: Any) -> Any:
    """The observation, flat where it has several parts."""
    if isinstance(observation, Mapping):
        return _array([observation[key] for key in sorted(observation)])
    if isinstance(observation, (tuple, list)):
        parts = [np.ravel(_array(part)) for part in observation]
        return np.concatenate(parts) if parts else np.zeros(0)
    return observation
