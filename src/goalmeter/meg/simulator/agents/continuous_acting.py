"""Agents with continuous actions: an action, or the normal that it is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.learners.global_generators import borrowed_generators
from goalmeter.meg.simulator.agents.acting import (
    Actor,
    Answer,
    FunctionActor,
    function_actor,
    is_stable_baselines,
)

_SEEDS = 2**31


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """What an agent with continuous actions may answer: independent normals, one a dimension.

    The action is drawn from them and clipped to the environment's box.

    Attributes:
        mean: of the shape of an action, in the environment's units.
        std: standard deviations, positive; of the same shape, or one for all dimensions.
        least_std: what no answer of this agent goes below, the same in all of its answers. The
            upper end rests on it: without it nothing bounds how predictable the agent may be in a
            state that was not seen, and there is no upper end.
    """

    mean: ArrayLike
    std: ArrayLike
    least_std: ArrayLike | None = None

    def checked(self, shape: tuple[int, ...], name: str) -> tuple[FloatArray, ...]:
        """Mean, std and least std (NaN for none) in the shape of an action.

        Raises:
            InvalidPolicyError: they are no normals over actions of this shape.
        """
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


@dataclass(frozen=True, eq=False)
class SampledActor:
    """A model of Stable-Baselines3 that is asked for an action, drawn from its own distribution.

    Its draws come from torch's global generator, which is seeded for each and put back.
    """

    model: Any
    name: str
    remembers: bool = False
    timed: bool = False
    is_function: bool = False

    def begin(self, generator: np.random.Generator) -> Answer:
        """Actions of one episode, in the units of the environment."""
        policy = self.model.policy

        def answer(observation: Any, decision: int) -> Any:
            import torch

            with borrowed_generators():
                torch.manual_seed(int(generator.integers(_SEEDS)))
                # State-dependent exploration keeps its noise; each decision draws it anew here.
                if getattr(self.model, "use_sde", False):
                    holder = policy if hasattr(policy, "reset_noise") else policy.actor
                    holder.reset_noise()
                return self.model.predict(observation, deterministic=False)[0]

        return answer


def continuous_actor(agent: Any) -> Actor:
    """An agent of any kind in an environment with continuous actions.

    Args:
        agent: a model of Stable-Baselines3, a function of the observation that gives an action or
            a `GaussianAnswer`, or an object whose `begin(generator)` gives such a function for an
            episode.
    """
    if is_stable_baselines(agent):
        return _stable_baselines(agent)
    if (actor := function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected for continuous actions a model of Stable-Baselines3 itself "
        f"(as PPO.load or SAC.load gives it), a function of the observation that gives an action "
        f"or a GaussianAnswer, or an object with begin(generator)"
    )


def _stable_baselines(model: Any) -> Actor:
    name, policy = type(model).__name__, model.policy
    if hasattr(model.action_space, "n"):
        raise InvalidParameterError(
            f"the model acts in {model.action_space}, but the environment takes continuous "
            f"actions; give a model that was trained in it"
        )
    normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"
    if not (normal and hasattr(policy, "get_distribution")):
        return SampledActor(model, name)

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
    return FunctionActor(answer, name)
