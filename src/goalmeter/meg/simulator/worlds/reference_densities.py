"""What continuous actions are compared with: densities over a box of actions, by name.

Of discrete actions each may be taken with the same probability, and that is free choice. Continuous
actions have no such thing by themselves: which density stands for an agent without a goal has to
be said, and goal-directedness is relative to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from goalmeter._arguments import finite
from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray

UNIFORM = "uniform"
_GAUSSIAN = re.compile(r"gaussian\(\s*([^,()\s]+)\s*(?:,\s*([^,()\s]+)\s*)?\)")
_LARGEST = 1e12
_WHICH = (
    "'uniform' (over the box), 'gaussian(SCALE)' or 'gaussian(SCALE,CENTRE)' (independent normals, "
    "clipped to the box), or an object with draw(generator) and a name"
)


@runtime_checkable
class ReferenceDensity(Protocol):
    """Draws of actions that no goal is behind, the same at every decision."""

    @property
    def name(self) -> str:
        """In words."""

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """One action, of the shape of the action space; the box clips what lies outside."""


@dataclass(frozen=True, eq=False)
class UniformReference:
    """Every action of a bounded box alike.

    Attributes:
        low: ends of the box, of the shape of an action.
        high: likewise.
        name: in words.
    """

    low: FloatArray
    high: FloatArray
    name: str = UNIFORM

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Uniform between the ends."""
        return np.asarray(generator.uniform(self.low, self.high))


@dataclass(frozen=True, eq=False)
class GaussianReference:
    """Independent normals, before the box clips them.

    Attributes:
        centre: of the shape of an action, in the environment's units.
        scale: standard deviations, likewise.
        name: as it was asked for.
    """

    centre: FloatArray
    scale: FloatArray
    name: str

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Normal in each dimension."""
        return np.asarray(generator.normal(self.centre, self.scale))


def is_box(space: Any) -> bool:
    """Whether actions are arrays of real numbers between bounds."""
    ends = hasattr(space, "low") and hasattr(space, "high")
    return ends and np.issubdtype(space.dtype, np.floating)


def reference_density(asked: Any, space: Any) -> ReferenceDensity:
    """The reference that a caller asks for over a box of actions.

    Args:
        asked: a name, or an object with `draw(generator)` and `name`.
        space: a Gymnasium `Box` of real numbers.
    """
    low, high = (np.asarray(end, dtype=np.float64) for end in (space.low, space.high))
    if asked is None:
        raise InvalidParameterError(
            f"the environment takes continuous actions from {space}, and no reference says what "
            f"they are compared with; give reference= {_WHICH}"
        )
    if isinstance(asked, str) and asked == UNIFORM:
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise InvalidParameterError(
                f"reference is 'uniform', but {space} is not bounded, so it has no uniform "
                f"density; give 'gaussian(SCALE)'"
            )
        return UniformReference(low, high)
    if isinstance(asked, str) and (match := _GAUSSIAN.fullmatch(asked.strip())):
        scale = _number(match[1], asked, least=1 / _LARGEST)
        centre = _number(match[2] or "0", asked, least=-_LARGEST)
        return GaussianReference(np.full(low.shape, centre), np.full(low.shape, scale), asked)
    if not isinstance(asked, str) and isinstance(asked, ReferenceDensity):
        return asked
    raise InvalidParameterError(f"reference is {asked!r}, expected {_WHICH}")


def _number(text: str, asked: str, *, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidParameterError(
            f"reference is {asked!r}, where {text!r} is no number; expected {_WHICH}"
        ) from None
    return finite(value, f"a number of reference {asked!r}", least=least, most=_LARGEST)
