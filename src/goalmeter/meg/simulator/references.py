"""References with which an agent's decisions are compared: free choice, and densities over a box.

Free choice takes all discrete actions with the same probability. Continuous actions have no such
default: the density of an agent without a goal must be specified.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, finite
from goalmeter._types import FloatArray
from goalmeter.meg.simulator import agents
from goalmeter.meg.simulator.agents import (
    Distribution,
    GaussianAnswer,
    SimulatorAgent,
    checked_rows,
)
from goalmeter.meg.simulator.protocol import FREE_CHOICE


class ChosenAction(NamedTuple):
    """Action chosen by an agent, and what is known of the choice."""

    action: Any  # as the environment takes it
    number: int  # from 0; -1 if actions are continuous
    information: float  # relative entropy to the reference in nats; NaN if unknown
    row: FloatArray | None = None  # distribution over discrete actions, [A], if known


# --- Free choice ----------------------------------------------------------------------------------
_MOST_ACTIONS = 10**6  # each decision of free choice has a row of this length


class FreeChoice:
    """The same probability for each of A discrete actions."""

    name = FREE_CHOICE
    why_unbounded = ""
    quantile = None

    def __init__(self, n_actions: int, first: int) -> None:
        self.n_actions, self._first = n_actions, first
        self.most_information = math.log(n_actions)  # of a decision, in nats

    def agent(self) -> SimulatorAgent:
        """Return the reference as an agent."""
        row = Distribution.of(np.full(self.n_actions, 1.0 / self.n_actions))
        answer: agents.Answer = lambda observation, decision: row  # noqa: E731
        return SimulatorAgent(FREE_CHOICE, lambda generator: answer, is_function=True)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer; draw it if necessary."""
        first, count = self._first, self.n_actions
        if not isinstance(answer, Distribution):
            array = np.asarray(answer)
            # An array of one integer is an action too: the answer of a model to one observation.
            if array.size == 1 and array.dtype.kind in "iu":
                taken = int(array.flat[0]) - first
                if 0 <= taken < count:
                    return self.decision(taken)
            if array.shape != (count,) or array.dtype.kind != "f":
                raise InvalidPolicyError(
                    f"{name} answered {answer!r}, expected an action {first}..{first + count - 1} "
                    f"or an array [{count}] of probabilities"
                )
            row = checked_rows(array.astype(np.float64), f"the answer of {name}")
            answer = Distribution.of(row)
        action = answer.action
        if action is None:
            action = min(bisect_right(answer.cumulative, generator.random()), count - 1)
        return ChosenAction(action + first, action, answer.information, answer.row)

    def decision(self, action: int) -> ChosenAction:
        """Return the decision for an action, from 0."""
        action = int(action)
        return ChosenAction(action + self._first, action, math.nan)


# --- Densities over a box -------------------------------------------------------------------------
_REAL = r"\s*([-+.\de]+)\s*"
_GAUSSIAN = re.compile(rf"\s*gaussian\({_REAL}(?:,{_REAL})?\)\s*")
# Upper bounds of MEG need the largest relative entropy of a decision.
_UNBOUNDED = (
    "the relative entropy of the agent's decisions to the reference has no known bound; it has one "
    "if the agent answers normals with the same least_std (GaussianAnswer), the reference is "
    "'gaussian(SCALE)' and the box of actions is bounded"
)


class BoxReference:
    """Density of continuous actions without a goal, the same at every decision."""

    n_actions = 0

    def __init__(
        self,
        space: Any,
        draw: Callable[[np.random.Generator], FloatArray],
        name: str,
        normal: tuple[FloatArray, FloatArray] | None = None,
        quantile: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        # `normal` has the centre and scale of independent normals, before clipping to the box;
        # `quantile` maps the unit cube to actions with this density, [..., k] to [..., k].
        self.draw, self._normal = draw, normal
        self.name = f"reference {name}"
        self.why_unbounded = "" if normal else _UNBOUNDED
        self._low, self._high = (np.asarray(end, np.float64) for end in (space.low, space.high))
        self._dtype, self.shape = space.dtype, space.shape
        self.quantile = quantile
        # Lower bound of the agent's standard deviations, and maximum relative entropy of a decision
        # to the reference in nats, which depends on it.
        self._least: FloatArray | None = None
        self.most_information = math.inf

    def agent(self) -> SimulatorAgent:
        """Return the reference as an agent."""

        def begin(generator: np.random.Generator) -> agents.Answer:
            return lambda observation, decision: ChosenAction(self.draw(generator), -1, 0.0)

        return SimulatorAgent(self.name, begin, is_function=True)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer, clipped to the box; draw it if necessary."""
        information, action = math.nan, answer
        if isinstance(answer, ChosenAction):  # of the reference, or of a policy relative to it
            information, action = answer.information, answer.action
        elif isinstance(answer, GaussianAnswer):
            least_std = np.nan if answer.least_std is None else answer.least_std
            mean, std, least = (
                np.broadcast_to(np.asarray(part, np.float64), self._low.shape)
                for part in (answer.mean, answer.std, least_std)
            )
            # A missing least std is NaN, for which all comparisons are false.
            if not (std > 0).all() or (least <= 0).any() or (std < least).any():
                raise InvalidPolicyError(
                    f"{name} answered {answer!r}, expected positive std, and 0 < least_std <= std; "
                    f"the upper bound depends on it"
                )
            action = generator.normal(mean, std)
            information = self._information(mean, std, least)
        else:
            self.why_unbounded = _UNBOUNDED
        array = np.asarray(action, dtype=np.float64)
        if array.shape != self._low.shape or not np.isfinite(array).all():
            raise InvalidPolicyError(
                f"{name} answered {answer!r}, expected a finite action of shape "
                f"{list(self._low.shape)} or a GaussianAnswer"
            )
        clipped = np.clip(array, self._low, self._high).astype(self._dtype)
        return ChosenAction(clipped, -1, information)

    def decision(self, action: FloatArray) -> ChosenAction:
        """Return the decision for an action of the box, [k], in the order of its entries."""
        return ChosenAction(action.reshape(self.shape).astype(self._dtype), -1, math.nan)

    def _information(self, mean: FloatArray, std: FloatArray, least: FloatArray) -> float:
        """Return the relative entropy of the clipped normals to the reference in nats."""
        if self._normal is None or self.why_unbounded:
            return math.nan
        against = (*self._normal, self._low, self._high)
        if self._least is None:
            self._least = least
            self.most_information = largest_relative_entropy(least, *against)
        if not np.isfinite(self.most_information) or not np.array_equal(least, self._least):
            self.why_unbounded, self.most_information = _UNBOUNDED, math.inf
            return math.nan
        # Rounding may push it slightly above its maximum.
        return min(relative_entropy(mean, std, *against), self.most_information)


Reference = FreeChoice | BoxReference


def reference_of(given: Any, space: Any) -> Reference:
    """Return the requested reference over a space of actions."""
    if not agents.is_box(space):
        n_actions = agents.count_of(space)
        if n_actions is None or n_actions > _MOST_ACTIONS:
            raise InvalidParameterError(
                f"the environment has action space {space}, expected Discrete(n) with up to "
                f"{_MOST_ACTIONS:,} actions, or a Box of real numbers; wrap it to have one of them "
                f"(gymnasium.wrappers.TransformAction)"
            )
        if given is not None:
            raise InvalidParameterError(
                f"reference is {given!r}, but discrete actions are always compared with free "
                f"choice; omit reference="
            )
        return FreeChoice(n_actions, agents.first_of(space))
    low, high = (np.asarray(end, dtype=np.float64) for end in (space.low, space.high))
    bounded = np.isfinite(low).all() and np.isfinite(high).all()
    if isinstance(given, str) and given == "uniform" and bounded:
        # A normal clipped to the box has atoms at the ends, which the uniform reference lacks.
        return BoxReference(
            space,
            lambda rng: rng.uniform(low, high),
            given,
            quantile=lambda share: low.ravel() + (high - low).ravel() * share,
        )
    if isinstance(given, str) and (match := _GAUSSIAN.fullmatch(given)):
        scale = finite(float(match[1]), "SCALE of the reference", least=1e-12, most=1e12)
        centre = finite(float(match[2] or 0), "CENTRE of the reference", least=-1e12, most=1e12)
        normal = np.full(low.shape, centre), np.full(low.shape, scale)

        def quantile(share: FloatArray) -> FloatArray:
            from scipy.special import ndtri

            return np.asarray(np.clip(centre + scale * ndtri(share), low.ravel(), high.ravel()))

        return BoxReference(space, lambda rng: rng.normal(*normal), given, normal, quantile)
    if not isinstance(given, str) and hasattr(given, "draw") and hasattr(given, "name"):
        return BoxReference(
            space, given.draw, given.name, quantile=getattr(given, "quantile", None)
        )
    raise InvalidParameterError(
        f"reference is {given!r}, but the environment has continuous actions, {space}, which need "
        f"a reference for comparison: 'uniform' (over the box), 'gaussian(SCALE)' or "
        f"'gaussian(SCALE,CENTRE)' (independent normals, clipped to the box), or an object with "
        f"draw(generator) and a name; an unbounded box has no uniform density"
    )


# --- Clipped normal distributions -----------------------------------------------------------------
# A clipped normal has a density inside the box and an atom at each end. Clipping both arguments of
# a relative entropy never increases it and makes it bounded: the reference's atoms cover means at
# any distance. With least standard deviation s, the density ratio inside is at most that of the
# tallest normal at the point of the box where the reference density is lowest.


def relative_entropy(
    mean: FloatArray,
    std: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> float:
    """Return KL(clipped N(mean, std) || clipped N(centre, scale)) over D dimensions in nats."""
    from scipy.special import log_ndtr, ndtr

    def height(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * np.minimum(np.abs(x), 1e3) ** 2) / math.sqrt(2 * math.pi))

    def atom(end: FloatArray, reference_end: FloatArray) -> FloatArray:
        mass = ndtr(end)
        with np.errstate(invalid="ignore"):
            parts = mass * (log_ndtr(end) - log_ndtr(reference_end))
        return np.asarray(np.where(mass > 0, parts, 0.0))

    start, end = (low - mean) / std, (high - mean) / std
    # The difference of the smaller tails is accurate in both.
    inside = np.where(start > 0, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start))
    with np.errstate(invalid="ignore"):
        at_start = np.where(np.isfinite(start), start * height(start), 0.0)
        at_end = np.where(np.isfinite(end), end * height(end), 0.0)
    # Moments of the standard normal between the ends of the box.
    first = height(start) - height(end)
    second = inside + at_start - at_end
    away = mean - centre
    square = away**2 * inside + 2 * away * std * first + std**2 * second
    density = inside * np.log(scale / std) - second / 2 + square / (2 * scale**2)
    atoms = atom(start, (low - centre) / scale) + atom(-end, (centre - high) / scale)
    return float(np.maximum(density + atoms, 0.0).sum())


def largest_relative_entropy(
    least_std: FloatArray, centre: FloatArray, scale: FloatArray, low: FloatArray, high: FloatArray
) -> float:
    """Return the maximum of `relative_entropy` over means; infinite if the box is unbounded."""
    from scipy.special import log_ndtr

    far = np.maximum(np.abs(low - centre), np.abs(high - centre))
    if not np.isfinite(far).all():
        return math.inf  # even without a least std
    density = np.log(scale / least_std) + far**2 / (2 * scale**2)
    below, above = -log_ndtr((low - centre) / scale), -log_ndtr((centre - high) / scale)
    return float(np.maximum(density, np.maximum(below, above)).sum())
