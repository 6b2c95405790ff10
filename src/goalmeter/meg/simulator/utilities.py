"""Utilities of a step: the environment's reward, functions of a step, and learnt utilities.

Learnt utilities are fitted to episodes by the dual of maximum causal entropy and are then fixed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
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
# Tolerance of bounds for rounding: of one decision, and of sums.
_SLACK, _ROUNDING = 1e-9, 1e-6


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

    def in_words(self) -> str:
        """Return the assumption as a note."""
        span = "" if math.isinf(self.most) else " in an episode"
        return (
            f"no bounds were given: the interval assumes that the utility stays in its observed "
            f"range, {self.low:.6g} to {self.high:.6g}{span}; give bounds= to assume less"
        )

    def of_episode(self, horizon: int) -> tuple[float, float]:
        """Return the minimum and maximum return of an episode of up to `horizon` decisions."""
        low = max(min(self.low, 0.0) * horizon, self.least)
        return low, min(max(self.high, 0.0) * horizon, self.most)

    def check(self, name: str, paid: float) -> None:
        """Require that a payoff is in the range; NaN is not."""
        if not self.low - _SLACK <= paid <= self.high + _SLACK:
            raise InvalidUtilityError(
                f"the utility {name!r} is {paid:g} in a step, expected a finite number from "
                f"{self.low:g} to {self.high:g}; fix it, or widen bounds="
            )


class Utilities:
    """Functions of U utilities by name (None for the reward), with the ranges of their payoffs."""

    def __init__(
        self, functions: Mapping[str, UtilityFunction | None], bounds: Mapping[str, Range]
    ) -> None:
        self.functions, self.bounds, self.names = functions, bounds, tuple(functions)
        self._ranges = [(name, bounds.get(name, Range())) for name in self.names]
        # Smallest and largest payoffs so far.
        self.extremes = [(math.inf, -math.inf)] * len(self.names)

    def pay(self, reward: Any, observation: Any, info: Any) -> tuple[float, ...]:
        """Return the payoff of one step for each utility, [U]."""
        paid = tuple(
            float(reward if function is None else function(observation, info))
            for function in self.functions.values()
        )
        for i, number in enumerate(paid):
            least, most = self.extremes[i]
            if not least <= number <= most:  # a new extreme, or NaN
                name, known = self._ranges[i]
                known.check(name, number)
                self.extremes[i] = min(least, number), max(most, number)
        return paid

    def check_total(self, total: list[float]) -> None:
        """Require that the totals of an episode, [U], are within their bounds."""
        for (name, known), paid in zip(self._ranges, total, strict=True):
            if not known.least - _ROUNDING <= paid <= known.most + _ROUNDING:
                raise InvalidUtilityError(
                    f"the utility {name!r} has the total {paid:g} in an episode, outside "
                    f"{known.least:g} to {known.most:g} of bounds=; widen bounds="
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


def named_utilities(several: Mapping[str, Utility], bounds: Any = None) -> Utilities:
    """Validate utilities and their bounds."""
    functions: dict[str, UtilityFunction | None] = {}
    for name, given in several.items():
        is_reward = isinstance(given, str) and given == REWARD
        if not (isinstance(name, str) and (is_reward or callable(given))):
            raise InvalidParameterError(
                f"the utility {name!r} is {given!r}, expected 'reward' or a function of "
                f"(observation, info) that returns a number"
            )
        functions[name] = given if callable(given) else None
    learnt = {name: f.range for name, f in functions.items() if isinstance(f, FrozenUtility)}
    return Utilities(functions, {**ranges_of(functions, bounds), **learnt})


def ranges_of(names: Iterable[str], bounds: Any) -> dict[str, Range]:
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
    # Maximum number of Adam steps; a quarter of the episodes is used for early stopping.
    iterations: int = 300
    learning_rate: float = 0.02  # learning rate of Adam
    weight_decay: float = 1e-3  # weight decay of Adam

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
    scale: AnyArray  # of the features
    factor: float
    range: Range  # range of the payoffs, which holds by construction
    episodes: tuple[int, int]  # number of episodes of the agent and of the reference in the fit
    steps: int  # number of their steps

    def __call__(self, observation: Any, info: Any = None) -> float:
        """Return the payoff of a step with this observation and info."""
        features = self.scale * self.options.features_of(observation, info, self.space)
        value = self.factor * float(_outputs(self.module, features[None])[0])
        # NaN stays, and is refused like that of any utility.
        return float(np.clip(value, self.range.low, self.range.high))


# --- Fit ----------------------------------------------------------------------------------------
# MEG towards u is at least E_agent[sum u] - log E_reference[exp sum u]. Adam maximises this minus
# the later deductions of a bound (the error of the mean, and unobserved episodes of the reference):
# without these terms the fit separates single episodes and does not generalise.
# Share of the budget if a utility has no number of steps; maximum steps; minimum episodes.
_SHARE, _MOST, _LEAST_EPISODES = 0.3, 20_000, 8
# First episode numbers of the agent and of the reference, disjoint from those used for bounds.
_AGENT, _REFERENCE = 2**41, 2**42
_ERRORS = 2.5  # standard errors by which a limit lowers the agent's mean
# Every fourth episode is used for validation; iterations without improvement before stopping.
_ASIDE, _PATIENCE = 4, 60


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

    simulator = simulator_of(Utilities({"learnt": record}, {}))
    space = simulator.environment.observation_space
    lengths: tuple[list[int], list[int]] = [], []
    players = (actor, _AGENT), (simulator.reference.agent(), _REFERENCE)
    for (player, first), decided in zip(players, lengths, strict=True):
        while sum(decided) < limit / 2 or len(decided) < _LEAST_EPISODES:
            decided += simulator.play(player, horizon, first + len(decided)).decisions.tolist()
    episodes, steps = (len(lengths[0]), len(lengths[1])), sum(map(sum, lengths))
    frozen = {}
    for name, each in learnt.items():
        features, scale = np.stack(rows[name]), np.ones(1, dtype=np.float32)
        # The user's module and all global generators stay unchanged.
        with borrowed_generators():
            torch.manual_seed(0)
            module = copy.deepcopy(each.module)
            if module is None:
                # Features are scaled by their maximum, so that one learning rate suits all.
                scale = 1 / np.maximum(np.abs(features).max(axis=0), 1e-6)
                linear = torch.nn.Linear(scale.size, 1)
                for parameter in linear.parameters():
                    torch.nn.init.zeros_(parameter)
                module = torch.nn.Sequential(torch.nn.Flatten(), linear)
            # Without a return to states the bound adds up the largest payoffs of all decisions.
            known = None if simulator.returns_to_states else horizon
            _fit(each, module.eval(), scale * features, lengths, known)
        values = _outputs(module, scale * features)
        factor = 1.0 / max(float(np.abs(values).max()), 1e-12)
        limits = Range(float(values.min()), float(values.max())).scaled(factor)
        frozen[name] = FrozenUtility(each, space, module, scale, factor, limits, episodes, steps)
    return frozen


def _outputs(module: Any, features: AnyArray) -> AnyArray:
    import torch

    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(features)).reshape(-1).numpy(), np.float64)


def _fit(
    options: LearntUtility,
    module: Any,
    features: AnyArray,
    lengths: tuple[list[int], list[int]],
    horizon: int | None,
) -> None:
    """Fit a module to the features of all steps of episodes of these lengths, in order."""
    import torch

    aside = torch.tensor([i % _ASIDE == 0 for part in lengths for i in range(len(part))])
    of_agent = torch.arange(len(aside)) < len(lengths[0])
    episode = torch.from_numpy(np.repeat(np.arange(len(aside)), lengths[0] + lengths[1]))
    steps = torch.from_numpy(features)

    def bound(paid: Any, collected: Any, chosen: Any) -> Any:
        """Approximate the bound on other episodes, in nats, from those chosen."""
        mine, others = collected[chosen & of_agent], collected[chosen & ~of_agent]
        # One pseudo-episode of the reference with the maximum return.
        most = collected[chosen].max()
        if horizon is not None:
            most = horizon * paid[chosen[episode]].max()
        others = torch.cat([others, most.clamp(min=0.0).reshape(1)])
        soft = torch.logsumexp(others, 0) - math.log(len(others))
        noise = mine.std() / math.sqrt(len(mine)) if len(mine) > 1 else 0.0
        return mine.mean() - _ERRORS * noise - soft

    optimiser = torch.optim.Adam(
        module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )
    best, best_weights, worse = -math.inf, copy.deepcopy(module.state_dict()), 0
    for _ in range(options.iterations):
        paid = module(steps).reshape(-1)
        collected = torch.zeros(len(aside)).index_add(0, episode, paid)
        loss, current = -bound(paid, collected, ~aside), bound(paid, collected, aside).item()
        if not math.isfinite(loss.item()):
            raise InvalidParameterError(
                f"the fit of a learnt utility diverged; use a smaller learning_rate than "
                f"{options.learning_rate:g}, or finite features of moderate size"
            )
        if current > best + 1e-4:
            best, best_weights, worse = current, copy.deepcopy(module.state_dict()), 0
        elif (worse := worse + 1) > _PATIENCE:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    module.load_state_dict(best_weights)
