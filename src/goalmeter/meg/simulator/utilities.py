"""Utilities of a step: the environment's reward, functions of a step, and learnt utilities.

Learnt utilities are fitted to episodes by the dual of maximum causal entropy and are then fixed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, finite, require
from goalmeter._types import AnyArray
from goalmeter.agents.environment_agents import Actor
from goalmeter.agents.stable_baselines import borrowed_generators

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import GymnasiumSimulator

# --- Named utilities -----------------------------------------------------------------------------
# Each utility pays once per decision, from the results of `step`. Bounds of MEG need its range; if
# it is not given, the observed range is assumed, and a note of the result states this.
REWARD = "reward"
UtilityFunction = Callable[[Any, Mapping[str, Any]], float]
Utility = str | UtilityFunction
_LARGEST = 1e12
_ROUNDING = 1e-6  # tolerance of bounds


@dataclass(frozen=True)
class Range:
    """Range of a utility's payoffs: of one decision, and of all from a state on."""

    low: float = -_LARGEST
    high: float = _LARGEST
    least: float = -math.inf
    most: float = math.inf
    assumed: bool = field(default=False, kw_only=True)

    def scaled(self, factor: float) -> Range:
        """Return the range of a multiple."""
        ends = (self.low * factor, self.high * factor)
        sums = (self.least * factor, self.most * factor)
        return Range(min(ends), max(ends), min(sums), max(sums), assumed=self.assumed)

    def of_episode(self, horizon: int) -> tuple[float, float]:
        """Return the minimum and maximum return of an episode of up to `horizon` decisions."""
        low = max(min(self.low, 0.0) * horizon, self.least)
        return low, min(max(self.high, 0.0) * horizon, self.most)


class Utilities:
    """Functions of U utilities by name (None for the reward), with the ranges of their payoffs."""

    def __init__(self, several: Mapping[str, Utility | None], bounds: Any = None) -> None:
        self.functions: dict[str, UtilityFunction | None] = {}
        for name, given in several.items():
            is_reward = given is None or (isinstance(given, str) and given == REWARD)
            if not (isinstance(name, str) and (is_reward or callable(given))):
                raise InvalidParameterError(
                    f"the utility {name!r} is {given!r}, expected 'reward' or a function of "
                    f"(observation, info) that returns a number"
                )
            self.functions[name] = given if callable(given) else None
        self.names, self.bounds = tuple(several), _ranges(several, bounds)
        for name, function in self.functions.items():
            if isinstance(function, FrozenUtility):
                self.bounds[name] = function.range
        # Smallest and largest payoffs so far.
        self.extremes = [(math.inf, -math.inf)] * len(self.names)

    def pay(self, reward: Any, observation: Any, info: Any) -> tuple[float, ...]:
        """Return the payoff of one step for each utility, [U]."""
        payoffs = [
            reward if function is None else function(observation, info)
            for function in self.functions.values()
        ]
        try:
            paid = tuple(map(float, payoffs))
        except (TypeError, ValueError) as cause:
            returned = ", ".join(map(repr, payoffs))
            raise InvalidUtilityError(
                f"the utilities {', '.join(map(repr, self.names))} returned {returned} in a step, "
                f"expected a number of each"
            ) from cause
        self.check(paid)
        return paid

    def check(self, paid: Sequence[float]) -> None:
        """Require that payoffs of a step, [U], are in their ranges."""
        for i, number in enumerate(paid):
            least, most = self.extremes[i]
            if not least <= number <= most:  # a new extreme, or NaN
                known = self.bounds.get(self.names[i], Range())
                self._require(i, number, known.low, known.high, "a step")
                self.extremes[i] = min(least, number), max(most, number)

    def check_total(self, total: Sequence[float]) -> None:
        """Require that the totals of an episode, [U], are in their ranges."""
        for i, number in enumerate(total):
            known = self.bounds.get(self.names[i], Range())
            self._require(i, number, known.least, known.most, "an episode")

    def _require(self, which: int, paid: float, low: float, high: float, where: str) -> None:
        if not low - _ROUNDING <= paid <= high + _ROUNDING:
            raise InvalidUtilityError(
                f"the utility {self.names[which]!r} is {paid:g} in {where}, expected a finite "
                f"number from {low:g} to {high:g}; fix it, or widen bounds="
            )


def utilities_by_name(utility: Any) -> dict[str, Any]:
    """Return the requested utilities by name."""
    if utility == {}:
        raise InvalidParameterError("utility is empty, expected at least one utility")
    if isinstance(utility, Mapping):
        return dict(utility)
    plain = "learnt" if isinstance(utility, LearntUtility) else "utility"
    name = utility if isinstance(utility, str) else getattr(utility, "__name__", plain)
    return {"utility" if name == "<lambda>" else str(name): utility}


def _ranges(names: Iterable[str], bounds: Any) -> dict[str, Range]:
    """Validate the given ranges and return them by name."""
    known, out = list(names), {}
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(known, bounds)
    for name, value in given.items():
        if name not in known:
            raise InvalidParameterError(
                f"bounds are given for {name!r}, expected one of {', '.join(known)}"
            )
        if value is None:
            continue
        ends, what = tuple(value) if isinstance(value, (tuple, list)) else (), f"bounds of {name!r}"
        numbers = [finite(end, what, least=-_LARGEST, most=_LARGEST) for end in ends]
        out[name] = each = Range(*numbers[:4])
        if len(numbers) not in (2, 4) or each.low > each.high or not each.least <= 0 <= each.most:
            raise InvalidParameterError(
                f"{what} are {value!r}, expected (low, high) of one decision with low <= high, or "
                f"(low, high, least, most) with the bounds of the total from any state on, "
                f"least <= 0 <= most"
            )
    return out


# --- Learnt utilities ---------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True)
class LearntUtility:
    """Unknown utility that is fitted to some episodes and bounded on others.

    It is a linear function with an intercept, or a torch module, of features of a step. The best
    fit to the first episodes is frozen, clipped to its range on them, and measured like any utility
    on episodes that were not used for the fit.
    """

    # `torch.nn.Module` from features [N, ...] to N numbers; a copy is trained from its current
    # weights. None for a linear function.
    module: Any = None
    # Function of (observation, info) that returns an array of fixed shape. None for the
    # observation: one-hot if discrete, otherwise flattened.
    features: Callable[[Any, Any], Any] | None = None
    # Number of steps, half of them of the reference; None for 30% of the budget, at most 20,000.
    steps: int | None = None

    def features_of(self, observation: Any, info: Any, space: Any) -> AnyArray:
        """Return the features of a step in single precision; `space` is that of observations."""
        if self.features is not None:
            observation = self.features(observation, info)
        elif not getattr(space, "shape", None):
            from gymnasium.spaces import flatten

            observation = flatten(space, observation)
        return np.atleast_1d(np.array(observation, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class FrozenUtility:
    """Fitted utility as a function of (observation, info), with values in [-1, 1]."""

    options: LearntUtility
    space: Any  # of observations
    module: Any
    factor: float
    range: Range  # range of the payoffs, which holds by construction
    episodes: tuple[int, int]  # number of episodes of the agent and of the reference in the fit
    steps: int  # number of their steps

    def __call__(self, observation: Any, info: Any = None) -> float:
        """Return the payoff of a step with this observation and info."""
        features = self.options.features_of(observation, info, self.space)
        value = self.factor * float(_outputs(self.module, features[None])[0])
        # NaN stays, and is refused like that of any utility.
        return float(np.clip(value, self.range.low, self.range.high))


# MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u]. L-BFGS maximises this with
# one more episode of the reference and a penalty on large payoffs. Without these terms the fit
# separates single episodes and does not generalise.
# Share of the budget if a utility has no number of steps; maximum steps; minimum episodes.
_SHARE, _MOST, _LEAST_EPISODES = 0.3, 20_000, 8
# First episode numbers of the agent and of the reference, disjoint from those used for bounds.
_AGENT, _REFERENCE = 2**46, 2**47
_PENALTY = 5.0  # of the sum of squares of payoffs in an episode, by the number of episodes


def fitted_utilities(
    several: Mapping[str, Any],
    simulator_of: Callable[[Utilities], GymnasiumSimulator],
    actor: Actor,
    horizon: int,
    budget: int,
) -> dict[str, FrozenUtility]:
    """Fit learnt utilities to episodes of the agent and of its reference."""
    learnt = {name: each for name, each in several.items() if isinstance(each, LearntUtility)}
    if not learnt:
        return {}
    torch = require("torch", extra="neural", feature="A learnt utility")
    requested = [each.steps for each in learnt.values() if each.steps is not None]
    limit = max(requested, default=min(int(_SHARE * budget), _MOST))
    if limit > budget / 2:
        raise InvalidParameterError(
            f"steps of a learnt utility are {limit:,}, expected at most half of the budget, "
            f"{budget // 2:,}; the other half is needed for the bounds"
        )
    rows: dict[str, list[AnyArray]] = {name: [] for name in learnt}

    def record(observation: Any, info: Any) -> float:
        for name, each in learnt.items():
            rows[name].append(each.features_of(observation, info, space))
        return 0.0

    simulator = simulator_of(Utilities({"learnt": record}))
    space = simulator.environment.observation_space
    lengths: tuple[list[int], list[int]] = [], []
    players = (actor, _AGENT), (simulator.reference.agent(), _REFERENCE)
    for (player, first), decided in zip(players, lengths, strict=True):
        while sum(decided) < limit / 2 or len(decided) < _LEAST_EPISODES:
            decided += simulator.play(player, horizon, first + len(decided)).decisions.tolist()
    episodes = len(lengths[0]), len(lengths[1])
    frozen = {}
    for name, each in learnt.items():
        features, module = np.stack(rows[name]), copy.deepcopy(each.module)
        with borrowed_generators():
            if module is None:
                # Features are divided by their maximum during the fit.
                size = np.maximum(np.abs(features).max(axis=0), 1e-6)
                linear = torch.nn.Linear(size.size, 1)
                for parameter in linear.parameters():
                    torch.nn.init.zeros_(parameter)
                module = torch.nn.Sequential(torch.nn.Flatten(), linear)
                _fit(module, features / size, lengths)
                linear.weight.data /= torch.from_numpy(size.ravel())
            else:
                _fit(module.eval(), features, lengths)
        values = _outputs(module, features)
        if not np.isfinite(values).all():
            raise InvalidParameterError(
                f"the fit of {name!r} diverged; use finite features of moderate size"
            )
        factor = 1.0 / max(float(np.abs(values).max()), 1e-12)
        limits = Range(float(values.min()), float(values.max())).scaled(factor)
        steps = len(features)
        frozen[name] = FrozenUtility(each, space, module, factor, limits, episodes, steps)
    return frozen


def _outputs(module: Any, features: AnyArray) -> AnyArray:
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _fit(module: Any, features: AnyArray, lengths: tuple[list[int], list[int]]) -> None:
    """Fit a module to the features of all steps of episodes of these lengths, in order."""
    import torch

    decisions, n_agent = np.concatenate(lengths), len(lengths[0])
    episode = torch.from_numpy(np.repeat(np.arange(len(decisions)), decisions))
    steps = torch.from_numpy(features)
    parameters = module.parameters()
    optimiser: Any = torch.optim.LBFGS(parameters, max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimiser.zero_grad()
        paid = module(steps).reshape(-1)
        returns = torch.zeros(len(decisions)).index_add(0, episode, paid)
        mine, others = returns[:n_agent], returns[n_agent:]
        # One more episode of the reference with the maximum return.
        others = torch.cat([others, returns.max().clamp(min=0.0).reshape(1)])
        soft = torch.logsumexp(others, 0) - math.log(len(others))
        squares = paid.square().sum() / len(returns)
        out: Any = soft - mine.mean() + _PENALTY * squares / n_agent
        out.backward()
        return out

    optimiser.step(loss)
