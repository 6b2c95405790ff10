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
    """What an agent with continuous actions may answer: independent normals, one a dimension.

    The action is drawn from them and clipped to the environment's box.
    """

    mean: ArrayLike  # of the shape of an action, in the environment's units
    std: ArrayLike  # standard deviations, positive; of the same shape, or one for all dimensions
    # What no answer of this agent goes below, the same in all of its answers. The upper end rests
    # on it: without it nothing bounds how predictable the agent may be in a state that was not
    # seen, and there is no upper end
    least_std: ArrayLike | None = None

    def checked(self, shape: tuple[int, ...], name: str) -> tuple[FloatArray, ...]:
        """Mean, std and least std (NaN for none) in the shape of an action."""
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
        # A least std that is not known is NaN, which no comparison holds for.
        if (least <= 0).any() or (std < least).any():
            raise InvalidPolicyError(
                f"{name} answered std {std.tolist()} with least_std {least.tolist()}, expected "
                f"0 < least_std <= std: the upper end rests on it"
            )
        return mean, std, least


def _sampled_actor(model: Any, name: str) -> SimulatorAgent:
    """Return the actor of a Stable-Baselines3 model that draws from torch's seeded generator."""
    policy = model.policy

    def begin(generator: np.random.Generator) -> Answer:
        def answer(observation: Any, decision: int) -> Any:
            import torch

            with borrowed_generators():
                torch.manual_seed(int(generator.integers(_SEEDS)))
                # State-dependent exploration keeps its noise; each decision draws it anew here.
                if getattr(model, "use_sde", False):
                    holder = policy if hasattr(policy, "reset_noise") else policy.actor
                    holder.reset_noise()
                return model.predict(observation, deterministic=False)[0]

        return answer

    return SimulatorAgent(name, begin)


def continuous_actor(agent: Any) -> SimulatorAgent:
    """An agent of any kind in an environment with continuous actions."""
    if agents.is_stable_baselines(agent):
        return _stable_baselines(agent)
    if (actor := agents.function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected for continuous actions a model of Stable-Baselines3 itself "
        f"(as PPO.load or SAC.load gives it), a function of the observation that gives an action "
        f"or a GaussianAnswer, or an object with begin(generator)"
    )


def _stable_baselines(model: Any) -> SimulatorAgent:
    name, policy = type(model).__name__, model.policy
    if hasattr(model.action_space, "n"):
        raise InvalidParameterError(
            f"the model acts in {model.action_space}, but the environment takes continuous "
            f"actions; give a model that was trained in it"
        )
    normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"
    if not (normal and hasattr(policy, "get_distribution")):
        return _sampled_actor(model, name)

    def answer(seen: Any) -> GaussianAnswer:
        import torch

        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(seen)
            normals = policy.get_distribution(tensor).distribution
            # One parameter for all states, so no answer goes below it.
            least = policy.log_std.exp().numpy()
        shape = model.action_space.shape
        mean, std = (part[0].numpy().reshape(shape) for part in (normals.mean, normals.stddev))
        return GaussianAnswer(mean, std, least.reshape(shape))

    policy.set_training_mode(False)
    return agents.actor_of_function(answer, name)


# --- Clipped normal distributions ---------------------------------------------------------------
# What a clip leaves of a normal has a density inside and an atom at each end. Clipping both sides
# of a relative entropy never makes it larger, and it makes it bounded: the reference's atoms
# catch what goes far out, however far. With least standard deviation s the density ratio inside
# is at most that of the tallest normal, at the place of the box where the reference is thinnest.

_ROOT = math.sqrt(2 * math.pi)


def relative_entropy(
    mean: FloatArray,
    std: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> float:
    """KL(clipped N(mean, std) || clipped N(centre, scale)) of D dimensions in a box, nats."""
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
    """Most that `relative_entropy` can be at any mean; infinite where the box has no end."""
    from scipy.special import log_ndtr

    far = np.maximum(np.abs(low - centre), np.abs(high - centre))
    if not np.isfinite(far).all():
        return math.inf
    density = np.log(scale / least_std) + far**2 / (2 * scale**2)
    below, above = -log_ndtr((low - centre) / scale), -log_ndtr((centre - high) / scale)
    return float(np.maximum(density, np.maximum(below, above)).sum())


def _mass(start: FloatArray, end: FloatArray) -> FloatArray:
    """The standard normal's mass between two points, precise on both of its tails."""
    from scipy.special import ndtr

    right = start > 0
    return np.asarray(np.where(right, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start)))


def _height(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * np.minimum(np.abs(x), 1e3) ** 2) / _ROOT)


def _atom(mass: FloatArray, log_mass: FloatArray, log_reference: FloatArray) -> FloatArray:
    """What an atom adds: nothing where there is none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(mass > 0, mass * (log_mass - log_reference), 0.0))


# --- Reference densities ------------------------------------------------------------------------
# Of discrete actions each may be taken with the same probability, and that is free choice.
# Continuous actions have no such thing by themselves: which density stands for an agent without a
# goal has to be said, and goal-directedness is relative to it.

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
    """Every action of a bounded box alike."""

    low: FloatArray
    high: FloatArray
    name: str = UNIFORM

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Uniform between the ends."""
        return np.asarray(generator.uniform(self.low, self.high))


@dataclass(frozen=True, eq=False)
class GaussianReference:
    """Independent normals, before the box clips them."""

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
    """The reference that a caller asks for over a box of actions."""
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


# --- Simulator ----------------------------------------------------------------------------------
# Nothing is tried state by state there: a state has more actions than can be tried. Episodes of the
# reference take the place of those of free choice, and the bound from the start is the same.

_ONLY_ACTIONS = "the agent gives continuous actions and not the density that they are drawn from"


class BoxSimulator(GymnasiumSimulator):
    """One environment whose actions are arrays of real numbers."""

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

    def free_choice(self) -> SimulatorAgent:
        """The reference as an agent."""

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
