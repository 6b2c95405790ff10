"""A Gymnasium environment with continuous actions as a simulator.

Nothing is tried state by state there: a state has more actions than can be tried. Episodes of the
reference take the place of those of free choice, and the bound from the start is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidPolicyError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.acting import Actor, Answer
from goalmeter.meg.simulator.agents.continuous_acting import GaussianAnswer
from goalmeter.meg.simulator.states.chance import UNDECLARED
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities
from goalmeter.meg.simulator.worlds.clipped_gaussians import (
    largest_relative_entropy,
    relative_entropy,
)
from goalmeter.meg.simulator.worlds.gymnasium_simulator import GymnasiumSimulator
from goalmeter.meg.simulator.worlds.reference_densities import (
    GaussianReference,
    ReferenceDensity,
    UniformReference,
)

_ONLY_ACTIONS = "the agent gives continuous actions and not the density that they are drawn from"


class BoxSimulator(GymnasiumSimulator):
    """One environment whose actions are arrays of real numbers.

    Args:
        env: the environment; it is used and left in any state.
        utilities: what its steps are worth.
        seed: of all that is drawn.
        reference: what actions are compared with.
        chance: where the environment's chance comes from; see `from_simulator`.
    """

    def __init__(
        self,
        env: Any,
        utilities: NamedUtilities,
        *,
        seed: int,
        reference: ReferenceDensity,
        chance: str = UNDECLARED,
    ) -> None:
        super().__init__(env, utilities, seed=seed, chance=chance)
        self._reference = reference
        self.reference = f"reference {reference.name}"
        self.why_not = "actions are continuous, so no state has all of its actions tried"
        self._low, self._high = (
            np.asarray(end, dtype=np.float64)
            for end in (env.action_space.low, env.action_space.high)
        )
        self._dtype = env.action_space.dtype
        # The agent's answers say what bounds them, and whether anything does.
        self._least_std: FloatArray | None = None
        self.why_unbounded = ""

    @property
    def most_information(self) -> float:
        """Nats by which a decision may differ from the reference at most; inf for no bound."""
        if self.why_unbounded or self._least_std is None:
            return math.inf
        return self._largest(self._least_std)

    def free_choice(self) -> Actor:
        """The reference as an agent."""
        return _ReferenceActor(self._reference, self.reference)

    def _count_actions(self, space: Any) -> int:
        return 0

    def _decide(
        self, answer: Any, generator: np.random.Generator, name: str
    ) -> tuple[Any, float, None]:
        if isinstance(answer, _Drawn):
            return self._executed(answer.action, name), 0.0, None
        if not isinstance(answer, GaussianAnswer):
            self.why_unbounded = _ONLY_ACTIONS
            return self._executed(answer, name), math.nan, None
        mean, std, least = answer.checked(self._low.shape, name)
        action = self._executed(generator.normal(mean, std), name)
        return action, self._information(mean, std, least, name), None

    def _executed(self, action: Any, name: str) -> Any:
        """The action as the environment takes it: clipped to its box."""
        try:
            array = np.asarray(action, dtype=np.float64)
        except (ValueError, TypeError):
            array = np.full(1, np.nan)
        if array.shape != self._low.shape or not np.isfinite(array).all():
            raise InvalidPolicyError(
                f"{name} answered {action!r}, expected a finite action of shape "
                f"{list(self._low.shape)} or a GaussianAnswer"
            )
        return np.clip(array, self._low, self._high).astype(self._dtype)

    def _information(
        self, mean: FloatArray, std: FloatArray, least: FloatArray, name: str
    ) -> float:
        """Nats by which what is executed of the normals differs from the reference."""
        if self.why_unbounded:
            return math.nan
        if self._least_std is None:
            self.why_unbounded = self._why(least)
            self._least_std = least
        if self.why_unbounded:
            return math.nan
        if not np.array_equal(least, self._least_std):
            raise InvalidPolicyError(
                f"{name} answered least_std {least.tolist()} after {self._least_std.tolist()}, "
                f"expected the same in every answer: it is what none of them goes below"
            )
        assert isinstance(self._reference, GaussianReference), "only of these is it bounded"
        reference = (self._reference.centre, self._reference.scale, self._low, self._high)
        # Rounding may lift it a little above what it cannot exceed.
        return min(relative_entropy(mean, std, *reference), self._largest(least))

    def _why(self, least: FloatArray) -> str:
        if isinstance(self._reference, UniformReference):
            return (
                "a normal that is clipped to the box has atoms at its ends, and the uniform "
                "reference has none; reference='gaussian(SCALE)' has"
            )
        if not isinstance(self._reference, GaussianReference):
            return "nothing is known of how far actions may differ from a reference of one's own"
        if np.isnan(least).any():
            return "the agent does not say what its std never goes below (least_std)"
        if not math.isfinite(self._largest(least)):
            return "the box of actions has no ends, so a mean may be as far out as it likes"
        return ""

    def _largest(self, least: FloatArray) -> float:
        assert isinstance(self._reference, GaussianReference), "only of these is it bounded"
        reference = (self._reference.centre, self._reference.scale)
        return largest_relative_entropy(least, *reference, self._low, self._high)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """An action that was drawn from the reference itself, and so tells nothing."""

    action: Any


@dataclass(frozen=True, eq=False)
class _ReferenceActor:
    reference: ReferenceDensity
    name: str
    remembers: bool = False
    timed: bool = False
    is_function: bool = True

    def begin(self, generator: np.random.Generator) -> Answer:
        def answer(observation: Any, decision: int) -> Any:
            return _Drawn(self.reference.draw(generator))

        return answer
