"""The best utility of a class for some episodes: the dual of maximum causal entropy, from samples.

MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u], with equality where nothing
is left to chance. That is climbed by Adam, with what a bound will take off later: what the mean of
so few episodes may be off by, and episodes of the reference that were not seen and may have
collected the most. Without these two terms the best fit tells single episodes apart, and nothing
of it holds up on others.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require
from goalmeter._text import in_a_line
from goalmeter._types import AnyArray, IntArray
from goalmeter.agents.learners.global_generators import borrowed_generators
from goalmeter.meg.simulator.utilities.learnt_utility import LearntUtility

# Episodes that are added to those of the reference, as if they had collected the most.
_UNSEEN = 1.0
# Standard errors that a limit takes off the agent's mean.
_ERRORS = 2.5
# Every so many episodes are set aside, and how many iterations may pass without a gain on them.
_ASIDE, _PATIENCE = 4, 60


@dataclass(frozen=True)
class Recorded:
    """Episodes as the fit sees them.

    Attributes:
        features: of all steps, one after the other.
        lengths: of the episodes, in steps.
    """

    features: AnyArray
    lengths: IntArray


def fitted_module(
    asked: LearntUtility, agent: Recorded, reference: Recorded, *, horizon: int | None, name: str
) -> Any:
    """A module with the weights that explain the agent best, in evaluation mode.

    Args:
        asked: the class.
        agent: its episodes.
        reference: those of its reference.
        horizon: H, where each decision may pay the most that any did; None where what an episode
            collects at most was seen.
        name: of the utility.
    """
    torch = require("torch", extra="neural", feature="A learnt utility")
    # The user's module stays as it is, and so do everybody else's draws.
    with borrowed_generators():
        torch.manual_seed(0)
        module = _module(asked, np.concatenate([agent.features, reference.features]))
        parts = [(_part(agent, aside), _part(reference, aside)) for aside in (False, True)]
        optimiser = torch.optim.Adam(
            module.parameters(), lr=asked.learning_rate, weight_decay=asked.weight_decay
        )
        best, best_weights, since = -math.inf, copy.deepcopy(module.state_dict()), 0
        for _ in range(asked.iterations):
            with torch.no_grad():
                now = float(_bound(module, *parts[1], horizon, name))
            if now > best + 1e-4:
                best, best_weights, since = now, copy.deepcopy(module.state_dict()), 0
            elif (since := since + 1) > _PATIENCE:
                break
            optimiser.zero_grad()
            loss = -_bound(module, *parts[0], horizon, name)
            if not math.isfinite(loss.item()):
                raise InvalidParameterError(
                    f"the fit of the learnt utility {name!r} diverged; give a smaller "
                    f"learning_rate than {asked.learning_rate:g}, or features of moderate size"
                )
            loss.backward()
            optimiser.step()
        module.load_state_dict(best_weights)
    return module


def outputs(module: Any, features: AnyArray) -> AnyArray:
    """What a module makes of the features of some steps, [N]."""
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _module(asked: LearntUtility, features: AnyArray) -> Any:
    import torch

    if asked.module is not None:
        if not any(each.requires_grad for each in asked.module.parameters()):
            raise InvalidParameterError(
                f"the module {type(asked.module).__name__} has no weights that can be learnt; give "
                f"one that has, or what it makes as features="
            )
        try:
            return copy.deepcopy(asked.module).eval()
        except RuntimeError as cause:
            raise InvalidParameterError(
                f"no copy of the module {type(asked.module).__name__} can be made: "
                f"{in_a_line(cause)[:300]}"
            ) from cause
    flat = features.reshape(len(features), -1)
    linear = torch.nn.Linear(flat.shape[1], 1)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
    # In units of what was seen, so that one learning rate suits all features.
    size = np.maximum(np.abs(flat).max(axis=0), 1e-6)
    return torch.nn.Sequential(torch.nn.Flatten(), _Scale(torch.from_numpy(1 / size)), linear)


def _Scale(factors: Any) -> Any:
    import torch

    layer = torch.nn.Linear(len(factors), len(factors), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.diag(factors))
    return layer.requires_grad_(False)


def _part(episodes: Recorded, aside: bool) -> tuple[Any, Any, int]:
    """Features of the steps of some episodes, the episode of each step, and how many they are."""
    import torch

    number = np.arange(len(episodes.lengths))
    chosen = (number % _ASIDE == 0) == aside
    of_step = np.repeat(number, episodes.lengths)
    kept = chosen[of_step]
    _, again = np.unique(of_step[kept], return_inverse=True)
    features = torch.from_numpy(episodes.features[kept])
    return features, torch.from_numpy(again), int(chosen.sum())


def _bound(module: Any, agent: Any, reference: Any, horizon: int | None, name: str) -> Any:
    """What about will be proven of the utility, nats."""
    import torch

    returns, most = [], torch.zeros(())
    for features, episode, count in (agent, reference):
        try:
            paid = module(features).reshape(-1)
            collected = torch.zeros(count).index_add(0, episode, paid)
        except Exception as cause:
            raise InvalidUtilityError(
                f"the module of the learnt utility {name!r} does not make {len(features)} numbers "
                f"of features of shape {list(features.shape)}: {in_a_line(cause)[:300]}"
            ) from cause
        returns.append(collected)
        most = torch.maximum(most, collected.max() if horizon is None else horizon * paid.max())
    mine, others = returns
    unseen = (most + math.log(_UNSEEN)).reshape(1)
    soft = torch.logsumexp(torch.cat([others, unseen]), 0) - math.log(len(others) + _UNSEEN)
    noise = mine.std() / math.sqrt(len(mine)) if len(mine) > 1 else torch.zeros(())
    return mine.mean() - _ERRORS * noise - soft
