"""Gymnasium environments with continuous actions: agents, reference densities, simulator.

Relative entropies of normal distributions clipped to a box have a closed form.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, finite
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.meg.simulator import agents
from goalmeter.meg.simulator.agents import Answer, SimulatorAgent
from goalmeter.meg.simulator.gymnasium_worlds import GymnasiumSimulator
from goalmeter.meg.simulator.states import UNDECLARED
from goalmeter.meg.simulator.utilities import NamedUtilities

# --- Agents --------------------------------------------------------------------------------------
_SEEDS = 2**31


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """Answer of an agent with continuous actions: independent normals, one per dimension.

    The action is drawn from them and clipped to the environment's box.
    """

    mean: ArrayLike  # in the shape of an action, in the environment's units
    std: ArrayLike  # positive standard deviations, in the same shape or one for all dimensions
    # Lower bound of all standard deviations of this agent, the same in all answers. The upper bound
    # of MEG needs it: without it, nothing limits the predictability of the agent in unobserved
    # states.
    least_std: ArrayLike | None = None

    def checked(self, shape: tuple[int, ...], name: str) -> tuple[FloatArray, ...]:
        """Return mean, std and least std (NaN if not given) in the shape of an action."""
        parts = (self.mean, self.std, np.nan if self.least_std is None else self.least_std)
        try:
            mean, std, least = (
                np.broadcast_to(np.asarray(part, dtype=np.float64), shape) for part in parts
            )
        except (ValueError, TypeError) as cause:
            raise InvalidPolicyError(
                f"{name} answered {self!r}, expected a mean of shape {list(shape)}, with a std and "
                f"a least_std of that shape or one number each"
            ) from cause
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise InvalidPolicyError(
                f"{name} answered {self!r}, expected a finite mean and a positive, finite std"
            )
        # A missing least std is NaN, for which all comparisons are false.
        if (least <= 0).any() or (std < least).any():
            raise InvalidPolicyError(
                f"{name} answered std {std.tolist()} with least_std {least.tolist()}, expected "
                f"0 < least_std <= std; the upper bound depends on it"
            )
        return mean, std, least


def _sampled_actor(model: Any, name: str) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model that draws from torch's seeded generator."""
    policy = model.policy

    def begin(generator: np.random.Generator) -> Answer:
        def answer(observation: Any, decision: int) -> Any:
            import torch

            with borrowed_generators():
                torch.manual_seed(int(generator.integers(_SEEDS)))
                # State-dependent exploration reuses its noise; here each decision draws new noise.
                if getattr(model, "use_sde", False):
                    holder = policy if hasattr(policy, "reset_noise") else policy.actor
                    holder.reset_noise()
                return model.predict(observation, deterministic=False)[0]

        return answer

    return SimulatorAgent(name, begin)


def continuous_actor(agent: Any) -> SimulatorAgent:
    """Return an agent of any kind in an environment with continuous actions."""
    if agents.is_stable_baselines(agent):
        return _stable_baselines(agent)
    if (actor := agents.function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected for continuous actions a Stable-Baselines3 model (the "
        f"result of PPO.load or SAC.load), a function of the observation that returns an action or "
        f"a GaussianAnswer, or an object with begin(generator)"
    )


def _stable_baselines(model: Any) -> SimulatorAgent:
    name, policy = type(model).__name__, model.policy
    if hasattr(model.action_space, "n"):
        raise InvalidParameterError(
            f"the model has action space {model.action_space}, but the environment has continuous "
            f"actions; use a model trained in it"
        )
    normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"
    if not (normal and hasattr(policy, "get_distribution")):
        return _sampled_actor(model, name)

    def answer(observation: Any) -> GaussianAnswer:
        import torch

        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(observation)
            normals = policy.get_distribution(tensor).distribution
            # One parameter for all states is the bound of all answers.
            least = policy.log_std.exp().numpy()
        shape = model.action_space.shape
        mean, std = (part[0].numpy().reshape(shape) for part in (normals.mean, normals.stddev))
        return GaussianAnswer(mean, std, least.reshape(shape))

    policy.set_training_mode(False)
    return agents.actor_of_function(answer, name)


# --- Clipped normal distributions ---------------------------------------------------------------
# A clipped normal has a density inside the box and an atom at each end. Clipping both arguments of
# a relative entropy never increases it and makes it bounded: the reference's atoms cover means at
# any distance. With least standard deviation s, the density ratio inside is at most that of the
# tallest normal at the point of the box where the reference density is lowest.

_ROOT = math.sqrt(2 * math.pi)


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

    start, end = (low - mean) / std, (high - mean) / std
    inside = _mass(start, end)
    with np.errstate(invalid="ignore"):
        at_start = np.where(np.isfinite(start), start * _height(start), 0.0)
        at_end = np.where(np.isfinite(end), end * _height(end), 0.0)
    # Moments of the standard normal between the ends of the box.
    first = _height(start) - _height(end)
    second = inside + at_start - at_end
    away = mean - centre
    square = away**2 * inside + 2 * away * std * first + std**2 * second
    density = inside * np.log(scale / std) - second / 2 + square / (2 * scale**2)
    below = _atom(ndtr(start), log_ndtr(start), log_ndtr((low - centre) / scale))
    above = _atom(ndtr(-end), log_ndtr(-end), log_ndtr((centre - high) / scale))
    return float(np.maximum(density + below + above, 0.0).sum())


def largest_relative_entropy(
    least_std: FloatArray, centre: FloatArray, scale: FloatArray, low: FloatArray, high: FloatArray
) -> float:
    """Return the maximum of `relative_entropy` over means; infinite if the box is unbounded."""
    from scipy.special import log_ndtr

    far = np.maximum(np.abs(low - centre), np.abs(high - centre))
    if not np.isfinite(far).all():
        return math.inf
    density = np.log(scale / least_std) + far**2 / (2 * scale**2)
    below, above = -log_ndtr((low - centre) / scale), -log_ndtr((centre - high) / scale)
    return float(np.maximum(density, np.maximum(below, above)).sum())


def _mass(start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the standard normal's mass between two points, accurate in both tails."""
    from scipy.special import ndtr

    right = start > 0
    return np.asarray(np.where(right, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start)))


def _height(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * np.minimum(np.abs(x), 1e3) ** 2) / _ROOT)


def _atom(mass: FloatArray, log_mass: FloatArray, log_reference: FloatArray) -> FloatArray:
    """Return the contribution of an atom to the relative entropy; 0 if it has no mass."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(mass > 0, mass * (log_mass - log_reference), 0.0))


# --- Reference densities ------------------------------------------------------------------------
# Free choice takes all discrete actions with the same probability. Continuous actions have no such
# default: the density of an agent without a goal must be specified, and goal-directedness is
# relative to it.

UNIFORM = "uniform"
_GAUSSIAN = re.compile(r"gaussian\(\s*([^,()\s]+)\s*(?:,\s*([^,()\s]+)\s*)?\)")
_LARGEST = 1e12
_WHICH = (
    "'uniform' (over the box), 'gaussian(SCALE)' or 'gaussian(SCALE,CENTRE)' (independent normals, "
    "clipped to the box), or an object with draw(generator) and a name"
)


@runtime_checkable
class ReferenceDensity(Protocol):
    """Distribution of actions without a goal, the same at every decision."""

    @property
    def name(self) -> str:
        """Name in results."""

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Draw one action in the shape of the action space; it is clipped to the box."""


@dataclass(frozen=True, eq=False)
class UniformReference:
    """Uniform distribution over a bounded box."""

    low: FloatArray
    high: FloatArray
    name: str = UNIFORM

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Draw uniformly between the bounds."""
        return np.asarray(generator.uniform(self.low, self.high))


@dataclass(frozen=True, eq=False)
class GaussianReference:
    """Independent normals, before clipping to the box."""

    centre: FloatArray
    scale: FloatArray
    name: str

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Draw a normal in each dimension."""
        return np.asarray(generator.normal(self.centre, self.scale))


def is_box(space: Any) -> bool:
    """Return whether actions are arrays of real numbers between bounds."""
    ends = hasattr(space, "low") and hasattr(space, "high")
    return ends and np.issubdtype(space.dtype, np.floating)


def reference_density(given: Any, space: Any) -> ReferenceDensity:
    """Return the requested reference over a box of actions."""
    low, high = (np.asarray(end, dtype=np.float64) for end in (space.low, space.high))
    if given is None:
        raise InvalidParameterError(
            f"the environment has continuous actions, {space}, which need a reference for "
            f"comparison; give reference= {_WHICH}"
        )
    if isinstance(given, str) and given == UNIFORM:
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise InvalidParameterError(
                f"reference is 'uniform', but {space} is unbounded and has no uniform density; use "
                f"'gaussian(SCALE)'"
            )
        return UniformReference(low, high)
    if isinstance(given, str) and (match := _GAUSSIAN.fullmatch(given.strip())):
        scale = _number(match[1], given, least=1 / _LARGEST)
        centre = _number(match[2] or "0", given, least=-_LARGEST)
        return GaussianReference(np.full(low.shape, centre), np.full(low.shape, scale), given)
    if not isinstance(given, str) and isinstance(given, ReferenceDensity):
        return given
    raise InvalidParameterError(f"reference is {given!r}, expected {_WHICH}")


def _number(text: str, reference: str, *, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidParameterError(
            f"reference is {reference!r}, but {text!r} is not a number; expected {_WHICH}"
        ) from None
    return finite(value, f"a number of reference {reference!r}", least=least, most=_LARGEST)


# --- Simulator ----------------------------------------------------------------------------------
# States have too many actions for a measurement by states. Episodes of the reference replace those
# of free choice, and the bound from the start is the same.

_ONLY_ACTIONS = "the agent returns continuous actions but not their density"


class BoxSimulator(GymnasiumSimulator):
    """Simulator of one environment whose actions are arrays of real numbers."""

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
        self.why_not = "actions are continuous, so not all actions of a state can be sampled"
        self._low, self._high = (
            np.asarray(end, dtype=np.float64)
            for end in (env.action_space.low, env.action_space.high)
        )
        self._dtype = env.action_space.dtype
        # The agent's answers determine these bounds.
        self._least_std: FloatArray | None = None
        self.why_unbounded = ""

    @property
    def most_information(self) -> float:
        """Maximum relative entropy of a decision to the reference in nats; inf without a bound."""
        if self.why_unbounded or self._least_std is None:
            return math.inf
        return self._largest(self._least_std)

    def free_choice(self) -> SimulatorAgent:
        """Return the reference as an agent."""

        def begin(generator: np.random.Generator) -> Answer:
            def answer(observation: Any, decision: int) -> Any:
                return _Drawn(self._reference.draw(generator))

            return answer

        return SimulatorAgent(self.reference, begin, is_function=True)

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
        """Return the relative entropy of the clipped normals to the reference in nats."""
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
                f"expected the same in every answer: the lower bound of all standard deviations"
            )
        assert isinstance(self._reference, GaussianReference), "other references have no bound"
        reference = (self._reference.centre, self._reference.scale, self._low, self._high)
        # Rounding may push it slightly above its maximum.
        return min(relative_entropy(mean, std, *reference), self._largest(least))

    def _why(self, least: FloatArray) -> str:
        if isinstance(self._reference, UniformReference):
            return (
                "a normal clipped to the box has atoms at the ends, which the uniform reference "
                "lacks; use reference='gaussian(SCALE)'"
            )
        if not isinstance(self._reference, GaussianReference):
            return "the relative entropy to a custom reference has no known bound"
        if np.isnan(least).any():
            return "the agent does not give a lower bound of its std (least_std)"
        if not math.isfinite(self._largest(least)):
            return "the box of actions is unbounded, so the distance of a mean is unlimited"
        return ""

    def _largest(self, least: FloatArray) -> float:
        assert isinstance(self._reference, GaussianReference), "other references have no bound"
        reference = (self._reference.centre, self._reference.scale)
        return largest_relative_entropy(least, *reference, self._low, self._high)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Action drawn from the reference itself, which has relative entropy 0."""

    action: Any
